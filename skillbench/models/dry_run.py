"""What a run would cost, without a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from skillbench.interfaces import ChatModel, ChatReply, ChatRequest
from skillbench.models.budget import CHARS_PER_TOKEN, Pricing, Tally, estimate_prompt_tokens
from skillbench.models.structured import load_schema
from skillbench.records import Usage


class DryRunChat:
    """Stands in for ``inner``: calls nothing, counts requests, and answers each with a placeholder.

    The placeholder for a request with a schema is the largest instance that the schema allows (arrays of ``maxItems``), so that
    later stages ask as often as they ever could and the count is an upper bound; for free text it is ``[1]``, which a listwise
    reranker takes for an order and goes on from. Prompt tokens are estimated as characters
    divided by 4; completion tokens are the bound ``max_tokens``. Placeholders must not be stored or judged.
    """

    def __init__(self, inner: ChatModel) -> None:
        self.inner = inner
        self.name, self.sampling = inner.name, inner.sampling
        described = inner.describe()
        self._pricing = Pricing(described.get("price_in"), described.get("price_out"))
        self._tally = Tally()
        self._numbers = count(1)

    def complete(
        self, requests: Sequence[ChatRequest], on_reply: Callable[[int, ChatReply], None] | None = None
    ) -> list[ChatReply]:
        """One placeholder a request, with the estimate as its usage."""
        replies = [self._placeholder(request) for request in requests]
        for index, reply in enumerate(replies):
            self._tally.add(reply)
            if on_reply is not None:
                on_reply(index, reply)
        return replies

    def _placeholder(self, request: ChatRequest) -> ChatReply:
        text = json.dumps(largest_instance(load_schema(request.schema), self._numbers)) if request.schema else "[1]"
        prompt = estimate_prompt_tokens(request)
        usage = Usage(1, prompt, request.max_tokens, 0.0, self._pricing.cost(prompt, request.max_tokens))
        return ChatReply("ok", text, text, "dry-run", usage, "placeholder of a dry run")

    def describe(self) -> Mapping[str, Any]:
        """The inner model's description, marked."""
        return {**self.inner.describe(), "dry_run": True}

    def stats(self) -> Mapping[str, float]:
        """The estimate, under the names of a real run's counts."""
        return self._tally.as_stats()

    def release(self) -> None:
        """Release the inner model."""
        self.inner.release()


@dataclass(frozen=True, slots=True)
class Estimate:
    """Upper bounds for a run: calls not answered by the cache, tokens, US dollars (None where no price is known)."""

    calls: int
    cached: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None

    @classmethod
    def of(cls, stats: Mapping[str, float]) -> Estimate:
        """Read the ``stats()`` of a dry run, with or without a cache around it."""
        whole = {name: int(stats.get(name, 0)) for name in ("calls", "cache_hits", "prompt_tokens", "completion_tokens")}
        cost = None if stats.get("cost_unknown", 0) else float(stats.get("cost_usd", 0.0))
        return cls(whole["calls"], whole["cache_hits"], whole["prompt_tokens"], whole["completion_tokens"], cost)

    def text(self) -> str:
        """One line for people, with the assumptions."""
        cost = "cost unknown (set llm.price_in and llm.price_out)" if self.cost_usd is None else f"at most ${self.cost_usd:,.4f}"
        return (
            f"dry run: at most {self.calls:,} calls ({self.cached:,} more are in the cache), about {self.prompt_tokens:,} prompt "
            f"tokens (characters / {CHARS_PER_TOKEN}), at most {self.completion_tokens:,} completion tokens (max_tokens), {cost}"
        )


def largest_instance(schema: Mapping[str, Any], numbers: Iterator[int] | None = None) -> Any:
    """A value that fits ``schema`` and has every property and ``maxItems`` elements (``minItems``, else 1, where there is none).

    Strings are numbered from ``numbers`` on, so that none is a repeat: two prompts made of equal placeholders would count once.
    Reads type, properties, items, enum, const, anyOf, oneOf, minimum; other
    keywords are passed over.
    """
    return _instance(schema, count(1) if numbers is None else numbers)


def _instance(schema: Mapping[str, Any], numbers: Iterator[int]) -> Any:
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return _instance(schema[choice][0], numbers)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: _instance(part, numbers) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        length = schema.get("maxItems", max(1, schema.get("minItems", 1)))
        return [_instance(schema.get("items", {}), numbers) for _ in range(length)]
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    return {"boolean": False, "null": None}.get(kind, f"placeholder {next(numbers)}")
