"""The record of an episode while it runs: the messages that the model sees, and the trace of everything that happened."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from skillbench.agents.actions import Action, BadReply, example_action
from skillbench.agents.budget import Meter
from skillbench.agents.endings import Ended, Ending
from skillbench.interfaces import ChatMessage, ChatReply, ChatRequest
from skillbench.models.outcomes import TRANSPORT
from skillbench.models.sampling import Sampling
from skillbench.records import Usage

Asking = Generator[ChatRequest, ChatReply, ChatReply]

_UNUSABLE = {
    "length": "your reply was cut because it was too long; write less",
    "empty": "your reply was empty",
    "reasoning_only": "your reply was reasoning without an answer after it; keep the reasoning short and then answer",
    "declined": "your reply declined; the task is an exercise, so go on with it",
    "incomplete": "your reply never left its reasoning; keep the reasoning short and then answer",
}


@dataclass(slots=True)
class Transcript:
    """Messages only grow, so that a server can reuse what it has read. What is said is kept back until the next request and then
    sent as one user message, because chat templates want roles to take turns.
    """

    meter: Meter
    sampling: Sampling
    seed: int
    messages: list[ChatMessage] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    done: dict[tuple[str, str], str] = field(default_factory=dict)
    repeats: dict[tuple[str, str], int] = field(default_factory=dict)
    loaded: dict[str, str] = field(default_factory=dict)
    _unsent: list[str] = field(default_factory=list)

    def note(self, kind: str, **values: Any) -> None:
        """Add a row to the trace."""
        self.steps.append({"kind": kind, **values})

    def system(self, text: str) -> None:
        """The system message, first of all."""
        self.messages.append(ChatMessage("system", text))
        self.note("system", text=text)

    def say(self, text: str) -> None:
        """Add a paragraph to the next user message."""
        self._unsent.append(text)

    def ask(self, purpose: str, schema: str = "") -> Asking:
        """One generation, counted. Returns a reply that the model gave, good or bad.

        Raises Ended when a budget is spent, when the context is full, and when no model answered.
        """
        self.meter.check_call()
        if purpose == "action" and self.meter.nearly_spent:
            self.say(self._announcement())
        self._send()
        request = self.sampling.request(self.messages, self.seed, schema)
        reply = yield request
        self.meter.count_call(request, reply)
        self.usage += reply.usage
        self._keep(purpose, reply)
        if reply.outcome in TRANSPORT:
            raise Ended(Ending.INFRASTRUCTURE, f"{reply.outcome}: {reply.detail}".strip(": "))
        if reply.outcome == "overflow":
            raise Ended(Ending.CONTEXT_OVERFLOW, reply.detail)
        self.messages.append(ChatMessage("assistant", reply.text or "(no answer)"))
        return reply

    def _announcement(self) -> str:
        left = f"Only {_count(self.meter.actions_left, 'action')} and {_count(self.meter.calls_left, 'reply', 'replies')} left."
        return f"{left} Submit your answer now: {example_action('finish', '<your answer>', 'submit the answer')}"

    def _send(self) -> None:
        text = "\n\n".join(self._unsent)
        self._unsent.clear()
        self.messages.append(ChatMessage("user", text))
        self.note("prompt", text=text)

    def _keep(self, purpose: str, reply: ChatReply) -> None:
        # Not whether the reply came from the cache: an episode that was killed and played again is the same episode.
        usage = reply.usage
        self.note(
            "reply",
            purpose=purpose,
            outcome=reply.outcome,
            raw=reply.raw,
            detail=reply.detail,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            seconds=usage.seconds,
            cost_usd=usage.cost_usd,
        )

    @property
    def was_checked(self) -> bool:
        """Whether the model has been asked for an assessment before, so that its format stands in the context."""
        return any(step["kind"] == "reply" and step["purpose"] == "assessment" for step in self.steps)

    def violation(self, purpose: str, error: BadReply) -> None:
        """Record a reply in the wrong form."""
        self.note("violation", purpose=purpose, error=error.kind, message=str(error))

    def action(self, action: Action, status: str, observation: str, error: str = "") -> None:
        """Record an action. ``status`` is ok, error, repeated or unknown_tool; the first two ran and are counted."""
        if status in ("ok", "error"):
            self.meter.actions += 1
        self.note(
            "action",
            n=self.meter.actions,
            tool=action.tool,
            input=action.input,
            thought=action.thought,
            status=status,
            error=error,
            observation=observation,
        )


def usable(reply: ChatReply) -> str:
    """The text of a reply. Raises BadReply for one that is cut, empty or all reasoning."""
    if reply.outcome in _UNUSABLE:
        raise BadReply(reply.outcome, f"Error ({reply.outcome}): {_UNUSABLE[reply.outcome]}.")
    return reply.text


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
