"""What calls may cost, what they did cost, and what they would cost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatReply, ChatRequest
from skillbench.models.outcomes import OUTCOMES
from skillbench.records import Usage

CHARS_PER_TOKEN = 4
"""The estimate used before a call. English prose has about 4 characters a token in present tokenizers; code and other scripts
have fewer."""


@dataclass(frozen=True, slots=True)
class Pricing:
    """US dollars per million tokens; None is unknown, 0 is free. Discounts (cached prompts, batches) are not modelled."""

    price_in: float | None = None
    price_out: float | None = None

    def __post_init__(self) -> None:
        if any(price is not None and price < 0 for price in (self.price_in, self.price_out)):
            raise SkillbenchError("llm.price_in and llm.price_out must be 0 or more US dollars per million tokens, or null")

    def cost(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """US dollars for so many tokens, or None where a price or a count is unknown."""
        if None in (self.price_in, self.price_out, prompt_tokens, completion_tokens):
            return None
        return (self.price_in * prompt_tokens + self.price_out * completion_tokens) / 1e6  # type: ignore[operator]


def estimate_prompt_tokens(request: ChatRequest) -> int:
    """At least 1; see CHARS_PER_TOKEN."""
    return max(1, -(-sum(len(message.content) for message in request.messages) // CHARS_PER_TOKEN))


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on what one model object may spend; None is no cap. ``max_calls`` counts attempts, retries included."""

    max_calls: int | None = None
    max_tokens_total: int | None = None
    max_cost_usd: float | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_tokens_total", "max_cost_usd", "max_seconds"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise SkillbenchError(f"llm.{name} is {value}; it must be 0 or more, or null for no cap")


@dataclass(frozen=True, slots=True)
class Claim:
    """What a call in flight may use: tokens and US dollars."""

    tokens: int
    cost: float


WAIT = "wait"


@dataclass(slots=True)
class Budget:
    """Decides whether a call may start. Not thread-safe: used from one event loop.

    A call is expected to use as much as the largest one so far; before one has come back, its prompt estimate and its
    ``max_tokens``. It starts if that fits under the caps together with the calls in flight; if not, it waits for them, and alone
    it starts below any cap. So ``max_calls`` is never passed, and a cap on tokens or cost only by the last call and by what calls
    in flight use beyond the largest one before them. A call whose usage stays unknown counts as expected.
    """

    limits: Limits
    pricing: Pricing
    clock: Callable[[], float] = time.monotonic
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    _flying: list[Claim] = field(default_factory=list)
    _largest: Claim | None = None
    _began: float | None = None

    def __post_init__(self) -> None:
        if self.limits.max_cost_usd is not None and None in (self.pricing.price_in, self.pricing.price_out):
            raise SkillbenchError("llm.max_cost_usd needs llm.price_in and llm.price_out (US dollars per million tokens)")

    def ask(self, request: ChatRequest) -> Claim | str:
        """A claim: the call may start and must be settled. WAIT: ask again after a settlement. Other text: which cap ended it."""
        if self._began is None:
            self._began = self.clock()
        reached = self._reached()
        if reached:
            return reached
        claim = self._largest or self._worst_case(request)
        if self._flying and not self._fits(claim):
            return WAIT
        self.calls += 1
        self._flying.append(claim)
        return claim

    def settle(self, claim: Claim, usage: Usage) -> None:
        """Replace the claim of a call that ended by what it used."""
        self._flying.remove(claim)
        known = usage.prompt_tokens is not None and usage.completion_tokens is not None
        tokens = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0) if known else claim.tokens
        cost = claim.cost if usage.cost_usd is None else usage.cost_usd
        self.tokens += tokens
        self.cost += cost
        if known and tokens:
            seen = self._largest or Claim(0, 0.0)
            self._largest = Claim(max(seen.tokens, tokens), max(seen.cost, cost))

    def _reached(self) -> str:
        limits = self.limits
        used: dict[str, float] = {
            "max_calls": self.calls,
            "max_tokens_total": self.tokens,
            "max_cost_usd": self.cost,
            "max_seconds": self.clock() - (self._began or 0.0),
        }
        for name, value in used.items():
            cap = getattr(limits, name)
            if cap is not None and value >= cap:
                return f"llm.{name}={cap} is used up"
        return ""

    def _fits(self, claim: Claim) -> bool:
        limits = self.limits
        tokens = self.tokens + claim.tokens + sum(other.tokens for other in self._flying)
        cost = self.cost + claim.cost + sum(other.cost for other in self._flying)
        return (limits.max_tokens_total is None or tokens <= limits.max_tokens_total) and (
            limits.max_cost_usd is None or cost <= limits.max_cost_usd
        )

    def _worst_case(self, request: ChatRequest) -> Claim:
        prompt = estimate_prompt_tokens(request)
        return Claim(prompt + request.max_tokens, self.pricing.cost(prompt, request.max_tokens) or 0.0)


@dataclass(slots=True)
class Tally:
    """Counts over the replies of a model. Sums hold what is known; ``usage_unknown`` > 0 means that they are "at least"."""

    requests: int = 0
    retries: int = 0
    usage: Usage = field(default_factory=Usage)
    usage_unknown: int = 0
    cost_unknown: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, reply: ChatReply) -> None:
        """Count one reply that was asked for (not one from a cache). Several threads may."""
        usage = reply.usage
        known = Usage(usage.calls, usage.prompt_tokens or 0, usage.completion_tokens or 0, usage.seconds, usage.cost_usd or 0.0)
        with self._guard:
            self.requests += 1
            self.retries += max(0, usage.calls - 1)
            self.outcomes[reply.outcome] += 1
            self.usage_unknown += usage.prompt_tokens is None or usage.completion_tokens is None
            self.cost_unknown += usage.cost_usd is None
            self.usage = self.usage + known

    def as_stats(self) -> dict[str, float]:
        """For ``ChatModel.stats()``: requests, calls (attempts), tokens, seconds (summed over calls), US dollars, and a count for
        each outcome.
        """
        usage = self.usage
        return {
            "requests": self.requests,
            "calls": usage.calls,
            "retries": self.retries,
            "prompt_tokens": usage.prompt_tokens or 0,
            "completion_tokens": usage.completion_tokens or 0,
            "usage_unknown": self.usage_unknown,
            "seconds": usage.seconds,
            "cost_usd": usage.cost_usd or 0.0,
            "cost_unknown": self.cost_unknown,
            **{f"outcome_{name}": self.outcomes[name] for name in OUTCOMES},
        }
