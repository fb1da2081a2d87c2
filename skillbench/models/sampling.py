"""How replies are drawn: the sampling settings that stand in an ``llm`` config and travel in each request."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatMessage, ChatRequest


@dataclass(frozen=True, slots=True)
class Sampling:
    """Defaults of a chat model, read by those who write requests.

    ``temperature`` >= 0 (0 is greedy), ``top_p`` in (0, 1], ``max_tokens`` >= 1 counts generated tokens, reasoning included.
    Raises SkillbenchError for a value out of range.
    """

    temperature: float
    top_p: float
    max_tokens: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise SkillbenchError(f"llm.sampling.temperature is {self.temperature}; it must be 0 or more")
        if not 0 < self.top_p <= 1:
            raise SkillbenchError(f"llm.sampling.top_p is {self.top_p}; it must lie in (0, 1]")
        if self.max_tokens < 1:
            raise SkillbenchError(f"llm.sampling.max_tokens is {self.max_tokens}; it must be 1 or more")

    def request(
        self, messages: Sequence[ChatMessage], seed: int = 42, schema: str = "", sample: int = 0, cut_ok: bool = False
    ) -> ChatRequest:
        """A request with these settings; ``schema``, ``sample`` and ``cut_ok`` as in ChatRequest."""
        return ChatRequest(tuple(messages), self.max_tokens, self.temperature, self.top_p, seed, schema, (), sample, cut_ok)


def draw_seed(request: ChatRequest) -> int:
    """The seed given to the sampler, in [0, 2**31).

    It is ``request.seed`` for the first draw. A later draw gets a hash of seed and sample index, not their sum, because the
    second draw of seed 42 would else equal the first of seed 43.
    """
    if request.sample == 0:
        return request.seed % 2**31
    digest = hashlib.sha256(f"{request.seed}:{request.sample}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % 2**31
