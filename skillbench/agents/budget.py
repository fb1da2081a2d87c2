"""What an episode may spend, and what it has spent."""

from __future__ import annotations

from dataclasses import dataclass

from skillbench.agents.endings import Ended, Ending
from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatReply, ChatRequest
from skillbench.models.budget import estimate_prompt_tokens


@dataclass(frozen=True, slots=True)
class Budget:
    """Caps of one episode, the same for every arm. ``max_tokens`` counts prompts and replies.

    ``max_seconds`` counts the seconds of the episode's own model calls, as their replies report them. Wall time, which was not
    chosen, would also charge an episode for those that run beside it, and a resumed one for less than an uninterrupted one.
    ``announce_at`` is how many actions or replies are left when the agent is told to submit; it is told, too, when tokens or
    seconds will not last for so many more calls like the last one.
    """

    max_actions: int
    max_calls: int
    max_tokens: int
    max_seconds: float
    announce_at: int

    def __post_init__(self) -> None:
        for name in ("max_actions", "max_calls", "max_tokens"):
            if getattr(self, name) < 1:
                raise SkillbenchError(f"agent.budget.{name}={getattr(self, name)} must be 1 or more")
        if not self.max_seconds > 0 or self.announce_at < 0:
            raise SkillbenchError("agent.budget.max_seconds must be above 0 and agent.budget.announce_at 0 or more")


@dataclass(slots=True)
class Meter:
    """Counts against a budget. An unknown token count is taken as an estimate for the cap (characters / 4), never as free."""

    budget: Budget
    actions: int = 0
    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    _last: tuple[int, float] = (0, 0.0)

    def check_call(self) -> None:
        """Raises Ended if no further call may be made."""
        spent = (
            (self.actions >= self.budget.max_actions, Ending.ACTIONS_SPENT, f"{self.actions} actions"),
            (self.calls >= self.budget.max_calls, Ending.CALLS_SPENT, f"{self.calls} calls"),
            (self.tokens >= self.budget.max_tokens, Ending.TOKENS_SPENT, f"{self.tokens} tokens"),
            (self.seconds >= self.budget.max_seconds, Ending.TIME_SPENT, f"{self.seconds:.0f} seconds"),
        )
        for reached, ending, detail in spent:
            if reached:
                raise Ended(ending, f"no submission after {detail}")

    def count_call(self, request: ChatRequest, reply: ChatReply) -> None:
        """Add a reply."""
        prompt, completion = reply.usage.prompt_tokens, reply.usage.completion_tokens
        tokens = estimate_prompt_tokens(request) if prompt is None else prompt
        tokens += -(-len(reply.raw) // 4) if completion is None else completion
        self._last = (tokens, reply.usage.seconds)
        self.calls += 1
        self.tokens += tokens
        self.seconds += reply.usage.seconds

    @property
    def calls_left(self) -> int:
        """Calls that the cap on calls still allows."""
        return self.budget.max_calls - self.calls

    @property
    def actions_left(self) -> int:
        """Actions that the cap on actions still allows."""
        return self.budget.max_actions - self.actions

    @property
    def nearly_spent(self) -> bool:
        """Whether the agent is to be told."""
        at, (tokens, seconds) = self.budget.announce_at, self._last
        return (
            min(self.calls_left, self.actions_left) <= at
            or self.budget.max_tokens - self.tokens <= at * tokens
            or self.budget.max_seconds - self.seconds <= at * seconds
        )
