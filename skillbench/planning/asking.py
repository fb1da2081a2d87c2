"""Asking a chat model: sampling settings as a value, one place that tells transport failures from failures of content."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatMessage, ChatModel, ChatReply, ChatRequest
from skillbench.models.outcomes import TRANSPORT
from skillbench.models.sampling import Sampling
from skillbench.records import Failure, Usage

log = logging.getLogger(__name__)

T = TypeVar("T")

CUT = frozenset({"ok", "length"})
"""Outcomes that hold text, whole or cut by max_tokens."""


@dataclass(frozen=True, slots=True)
class Generation:
    """How the replies of one step are drawn. None takes the LLM's own setting (``llm.sampling``).

    ``max_tokens`` >= 1 counts reasoning too, so a bound that suits a plain model starves one that thinks before it answers;
    ``temperature`` >= 0 (0 is greedy); ``top_p`` in (0, 1].
    """

    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    seed: int

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise SkillbenchError(f"max_tokens={self.max_tokens} must be 1 or more")
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise SkillbenchError(f"temperature={self.temperature} must be 0 or more")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise SkillbenchError(f"top_p={self.top_p} must lie in (0, 1]")

    def settled(self, llm: ChatModel) -> Sampling:
        """These settings, with the LLM's own in place of None."""
        own = llm.sampling
        return Sampling(
            own.temperature if self.temperature is None else self.temperature,
            own.top_p if self.top_p is None else self.top_p,
            own.max_tokens if self.max_tokens is None else self.max_tokens,
        )

    def request(self, llm: ChatModel, prompt: str, schema: str = "", sample: int = 0) -> ChatRequest:
        """One user message. ``schema`` is a JSON schema as canonical JSON text; ``sample`` numbers repeated draws of one prompt.

        Planners and rerankers take the outcomes of CUT, hence ``cut_ok``.
        """
        return self.settled(llm).request([ChatMessage("user", prompt)], self.seed, schema, sample, cut_ok=True)


def ask(llm: ChatModel, requests: Sequence[ChatRequest], what: str) -> list[ChatReply]:
    """Replies in the order of ``requests``; none asked, none called. Logs progress at most every 15 s."""
    return llm.complete(requests, _progress(len(requests), what)) if requests else []


def _progress(total: int, what: str) -> Callable[[int, ChatReply], None]:
    done, last = 0, time.monotonic()

    def on_reply(_index: int, _reply: ChatReply) -> None:
        nonlocal done, last
        done += 1
        if time.monotonic() - last >= 15:
            last = time.monotonic()
            log.info("%s: %d of %d replies", what, done, total)

    return on_reply


def reply_failure(reply: ChatReply, stage: str, accept: frozenset[str] = frozenset({"ok"})) -> Failure | None:
    """Why ``reply`` cannot be used at ``stage``, or None.

    A transport failure has the stage ``transport`` and names ``stage`` in its reason, so that a resume can ask again for those
    alone. ``accept`` are the outcomes that can be used.
    """
    if reply.outcome in accept:
        return None
    detail = f": {reply.detail}" if reply.detail else ""
    if reply.outcome in TRANSPORT:
        return Failure("transport", one_line(f"{stage}: {reply.outcome}{detail}"))
    return Failure(stage, one_line(f"{reply.outcome}{detail}{beginning(reply.raw)}"))


def is_transport(failure: Failure | None) -> bool:
    """Whether asking again may help because no model answered."""
    return failure is not None and failure.stage == "transport"


def beginning(text: str, length: int = 80) -> str:
    """``; reply began '…'`` with the first ``length`` characters, or nothing for an empty text."""
    text = text.strip()
    return f"; reply began {text[:length]!r}" if text else ""


def one_line(text: str) -> str:
    """``text`` with every run of white space as one space; unencodable characters replaced."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def total_usage(replies: Sequence[ChatReply]) -> Usage:
    """The sum over ``replies``; a count that one reply lacks is unknown in the sum."""
    return sum((reply.usage for reply in replies), Usage())


def model_name(replies: Sequence[ChatReply], llm: ChatModel) -> str:
    """The model that the replies name, or the configured name where none does."""
    return next((reply.model for reply in replies if reply.model), llm.name)


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Consecutive parts of ``items``, each of ``size`` but the last."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
