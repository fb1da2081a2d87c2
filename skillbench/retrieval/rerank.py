"""Reranking on top of any first stage: the frame that all rerankers share, and the rerankers with a model of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatModel, Method, Retriever
from skillbench.planning.asking import batches
from skillbench.records import Failure, Plan, Query, Ranked, Ranking, Skill, Trace
from skillbench.retrieval.fusion import order_by_score
from skillbench.retrieval.method_parts import QUERIES_AT_ONCE, check_choice, check_positive

Candidates = tuple[Query, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Reordered:
    """One query's candidates in their new order, all of them unless the method drops some; or the failure.

    ``facts`` are further columns of the trace, keyed by skill id. ``keep_tail`` lets the first stage's skills below the reranked
    ones follow.
    """

    skill_ids: tuple[str, ...]
    failure: Failure | None = None
    facts: Mapping[str, Mapping[str, Any]] | None = None
    keep_tail: bool = True


@dataclass(frozen=True, slots=True)
class Stage:
    """A first stage and how deep it is reranked.

    ``depth`` candidates are reranked whatever ``k`` is, so a deeper list never moves a number at a smaller K; where ``k`` is
    larger, the first stage's next skills follow in their order. A query whose reranking failed is ranked by ``on_failure``:
    ``zero`` (empty) or ``first`` (the first stage's order); both carry the failure and are counted.
    """

    first: Method
    depth: int
    on_failure: str
    queries_at_once: int = QUERIES_AT_ONCE

    def __post_init__(self) -> None:
        check_positive("method.depth", self.depth)
        check_positive("method.queries_at_once", self.queries_at_once)
        check_choice("on_failure", self.on_failure, ("zero", "first"))

    def rank(
        self,
        queries: Sequence[Query],
        plans: Mapping[str, Plan],
        retriever: Retriever,
        k: int,
        reorder: Callable[[Sequence[Candidates]], Sequence[Reordered]],
    ) -> Iterator[Ranked]:
        """Rank by the first stage, hand the heads to ``reorder``, and join them with the tails; in the order of ``queries``."""
        for part in batches(queries, self.queries_at_once):
            before = list(self.first.rank(part, plans, retriever, max(k, self.depth)))
            heads = [(q, r.ranking.skill_ids[: self.depth]) for q, r in zip(part, before, strict=True) if r.ranking.skill_ids]
            after = dict(zip((q.id for q, _ in heads), reorder(heads) if heads else (), strict=True))
            yield from (replace(self._joined(r.ranking, after.get(r.ranking.query_id), k), first=r.trace) for r in before)

    def _joined(self, before: Ranking, after: Reordered | None, k: int) -> Ranked:
        if after is None:
            return Ranked(before)
        if after.failure is not None and self.on_failure == "zero":
            return Ranked(Ranking.failed(before.query_id, after.failure))
        head = before.skill_ids[: self.depth] if after.failure is not None else after.skill_ids
        tail = before.skill_ids[self.depth :] if after.failure is not None or after.keep_tail else ()
        order = Ranking.from_order(before.query_id, (*head, *tail), k)
        ranking = Ranking(order.query_id, order.skill_ids, order.scores, after.failure or before.failure)
        return Ranked(ranking, _trace(before, ranking, after, self.depth))


def _trace(before: Ranking, ranking: Ranking, after: Reordered, depth: int) -> Trace:
    ranks = {skill_id: rank for rank, skill_id in enumerate(ranking.skill_ids, 1)}
    facts = after.facts or {}
    rows = [
        {"skill_id": s, "first_rank": n, **facts.get(s, {}), "rank": ranks.get(s)}
        for n, s in enumerate(before.skill_ids[:depth], 1)
    ]
    return Trace.of_rows(rows)


class PairScorer(Protocol):
    """A model that scores a query and a skill together. Building one loads nothing."""

    def score(self, pairs: Sequence[tuple[str, Skill]]) -> np.ndarray:
        """Relevance of each pair, higher is better: float64, shape (pairs,), finite; independent of the other pairs."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready: model, weights, instruction, templates, limits, device, dtype."""
        ...

    def release(self) -> None:
        """Free the weights; the scorer may be used again."""
        ...


class CrossRerank:
    """Rerank a first stage with a cross-encoder.

    Nogueira and Cho, "Passage Re-ranking with BERT", arXiv:1901.04085, for classifiers; Zhang et al., "Qwen3 Embedding: Advancing
    Text Embedding and Reranking Through Foundation Models", arXiv:2506.05176, for yes/no language models. Equal scores go by
    skill id.

    Args:
        name: what reports call it.
        first: the method that finds candidates.
        reranker: the model.
        depth: candidates that are scored.

    """

    def __init__(self, name: str, first: Method, reranker: PairScorer, depth: int) -> None:
        self.name = name
        self.needs_plans, self.needs_llm = first.needs_plans, first.needs_llm
        self._stage, self._reranker = Stage(first, depth, "zero"), reranker

    def plan(self, queries: Sequence[Query], llm: ChatModel) -> Iterator[Plan]:
        """The first stage's plans."""
        return self._stage.first.plan(queries, llm)

    def prompt_hashes(self) -> dict[str, str]:
        """The first stage's prompts."""
        return first_hashes(self._stage.first)

    def ranking_prompt_hashes(self) -> dict[str, str]:
        """Those that the first stage ranks with."""
        return first_hashes(self._stage.first, "ranking_prompt_hashes")

    def rank(self, queries: Sequence[Query], plans: Mapping[str, Plan], retriever: Retriever, k: int) -> Iterator[Ranked]:
        """See :class:`skillbench.interfaces.Method`; scores are 1/rank, the model's scores stand in the trace."""

        def reorder(heads: Sequence[Candidates]) -> list[Reordered]:
            pairs = [(query.text, retriever.skills[s]) for query, ids in heads for s in ids]
            scores = iter(self._reranker.score(pairs).tolist())
            return [_by_score(ids, [next(scores) for _ in ids]) for _, ids in heads]

        return self._stage.rank(queries, plans, retriever, k, reorder)

    def describe(self) -> Mapping[str, Any]:
        """What the reranker says of itself."""
        return self._reranker.describe()

    def release(self) -> None:
        """Free the reranker's weights."""
        self._reranker.release()


def _by_score(ids: Sequence[str], scores: Sequence[float]) -> Reordered:
    if not np.isfinite(scores).all():
        raise SkillbenchError("the reranker gave a score that is not a finite number; try dtype=float32")
    facts = {s: {"score": score} for s, score in zip(ids, scores, strict=True)}
    return Reordered(tuple(ids[i] for i in order_by_score(ids, scores)), facts=facts)


def first_hashes(first: Method, asks: str = "prompt_hashes") -> dict[str, str]:
    """Prompt hashes of a first stage, which may be any method, also one that knows of no prompts. ``asks`` may be
    ``ranking_prompt_hashes``: of the prompts that it ranks with, without those that plans are made with.
    """
    hashes: dict[str, str] = getattr(first, asks, dict)()
    return hashes
