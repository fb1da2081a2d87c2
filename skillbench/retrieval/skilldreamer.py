"""SkillDreamer's hierarchical skill retrieval (HSR): search by imagined skills, rerank each list, interleave.

"Imagine Before Retrieval", arXiv:2609.01642; the formulas are those of DESIGN.md, section 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatModel, Retriever
from skillbench.planning.skilldreamer import EXPLICIT_ONLY, MADE_BY, WITHOUT_CI
from skillbench.records import Hits, Plan, Probe, Query, Ranked, Ranking, Role, Text, Trace
from skillbench.retrieval.fusion import Reranked, Weights, best_scores, hsr_rerank, round_robin
from skillbench.retrieval.method_parts import Job, check_choice, check_positive, rank_plans

_TRACED = ("capability", "skill_id", "d", "r_q", "r_p", "r_a", "n_q", "n_p", "n_a", "h", "list_rank", "rank")


class Planner(Protocol):
    """What imagines: :class:`skillbench.planning.skilldreamer.SkillDreamerPlanner`."""

    max_capabilities: int

    def plan(self, queries: Sequence[Query], llm: ChatModel) -> Iterator[Plan]: ...

    def prompt_hashes(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates R_j of one proxy, best first by d, with raw scores: float64 arrays of shape (candidates,)."""

    skill_ids: tuple[str, ...]
    d: np.ndarray
    query: np.ndarray
    proxy: np.ndarray
    anchors: np.ndarray


class SkillDreamer:
    """CI, PSG and HSR.

    Args:
        name: what reports call it.
        planner: makes the plans; not called when a run replays a plans file.
        capabilities: false: the plan is one pseudo skill written from the query alone (no CI, hence no anchors).
        implicit: false: CI names stated capabilities only.
        pseudo_skills: false: the capability text itself is the proxy (no PSG).
        alpha_retrieval: weight of the query in d, which picks the candidates.
        alpha_rerank: weight of the query in h, which orders them.
        beta: weight of the proxy in both. gamma: weight of the anchors in h.
        k_c: candidates of each proxy. k_r: how many of them stay after reranking.
        merge: ``round_robin``, or ``single``: one list, each skill at its best h.
        proxy_role: ``document`` (f of a pseudo skill is f of a skill) or ``query``.
        on_failure: ``zero`` or ``direct``; see :func:`skillbench.retrieval.method_parts.rank_plans`.

    """

    needs_plans = True
    needs_llm = False

    def __init__(
        self,
        name: str,
        planner: Planner,
        capabilities: bool,
        implicit: bool,
        pseudo_skills: bool,
        alpha_retrieval: float,
        alpha_rerank: float,
        beta: float,
        gamma: float,
        k_c: int,
        k_r: int,
        merge: str,
        proxy_role: str,
        on_failure: str,
    ) -> None:
        self.name = name
        self._planner = planner
        self._capabilities, self._implicit, self._pseudo_skills = capabilities, implicit, pseudo_skills
        self._first, self._second = Weights(alpha_retrieval, beta, 0.0), Weights(alpha_rerank, beta, gamma)
        if not (alpha_retrieval or beta):
            raise SkillbenchError("alpha_retrieval=0 and beta=0 leave nothing to search with")
        self._k_c, self._k_r = check_positive("k_c", k_c), check_positive("k_r", k_r)
        self._merge = check_choice("merge", merge, ("round_robin", "single"))
        self._role: Role = "query" if check_choice("proxy_role", proxy_role, ("document", "query")) == "query" else "document"
        self._on_failure = check_choice("on_failure", on_failure, ("zero", "direct"))

    def plan(self, queries: Sequence[Query], llm: ChatModel) -> Iterator[Plan]:
        """CI and PSG; see :class:`skillbench.planning.skilldreamer.SkillDreamerPlanner`."""
        return self._planner.plan(queries, llm)

    def prompt_hashes(self) -> dict[str, str]:
        """``{name: SHA-256}`` of the prompts that the planner uses."""
        return self._planner.prompt_hashes()

    def rank(self, queries: Sequence[Query], plans: Mapping[str, Plan], retriever: Retriever, k: int) -> Iterator[Ranked]:
        """See :class:`skillbench.interfaces.Method`. Each ranking comes with its trace, one row a candidate of each proxy.

        Raises SkillbenchError if a plan was made under other switches than this method's, since the result would be mislabelled.
        """
        for query in queries:
            if query.id in plans:
                self._check(plans[query.id])
        yield from rank_plans(queries, plans, retriever, k, self._on_failure, lambda jobs: self._hsr(jobs, retriever, k))

    def _check(self, plan: Plan) -> None:
        if plan.failure is not None:
            return
        most = self._planner.max_capabilities
        is_other = plan.made_by not in ("", MADE_BY)
        wrong = [
            (is_other, "name=skilldreamer", f"was made by {plan.made_by}"),
            (
                not self._capabilities and bool(plan.made_by) and WITHOUT_CI not in plan.notes,
                "capabilities=false",
                "was made otherwise",
            ),
            (len(plan.capabilities) > most, f"planner.max_capabilities={most}", f"has {len(plan.capabilities)} capabilities"),
            (self._capabilities and not plan.capabilities, "capabilities=true", "has no capabilities"),
            (not self._capabilities and bool(plan.capabilities), "capabilities=false", "has capabilities"),
            (self._pseudo_skills and not plan.pseudo_skills, "pseudo_skills=true", "has no pseudo skills"),
            (
                self._capabilities and self._implicit == (EXPLICIT_ONLY in plan.notes),
                f"implicit={self._implicit}",
                "was made otherwise",
            ),
        ]
        for is_wrong, switch, what in wrong:
            if is_wrong:
                raise SkillbenchError(
                    f"method.{switch.lower()}, but the plan of query {plan.query_id} {what}; leave plans= out or set the switch"
                )

    def _hsr(self, jobs: Sequence[Job], retriever: Retriever, k: int) -> list[Ranked]:
        proxies = [self._proxies(plan) for _, plan in jobs]
        probes = [self._probe(query, proxy) for (query, _), own in zip(jobs, proxies, strict=True) for proxy in own]
        hits = iter(retriever.index.search(probes, self._k_c))
        found = [[next(hits) for _ in own] for own in proxies]
        scored = self._score(jobs, proxies, found, retriever)
        return [self._merged(query, lists, k) for (query, _), lists in zip(jobs, scored, strict=True)]

    def _proxies(self, plan: Plan) -> list[Text]:
        return [Text(t, self._role) for t in (plan.pseudo_skills if self._pseudo_skills else plan.capabilities)]

    def _probe(self, query: Query, proxy: Text) -> Probe:
        """The probe whose score is d, one inner product a skill. A part with weight 0 is left out, for it changes nothing."""
        parts = ((self._first.alpha, Text(query.text)), (self._first.beta, proxy))
        return Probe(tuple(part for part in parts if part[0]))

    def _score(
        self, jobs: Sequence[Job], proxies: Sequence[Sequence[Text]], found: Sequence[Sequence[Hits]], retriever: Retriever
    ) -> list[list[Candidates]]:
        """The three components of every candidate: one call of the index, and one of BM25 where anchors count."""
        pools = [tuple(dict.fromkeys(s for hits in own for s in hits.skill_ids)) for own in found]
        texts = [Text(query.text) for query, _ in jobs] + [proxy for own in proxies for proxy in own]
        ids = [*pools, *(hits.skill_ids for own in found for hits in own)]
        scores = iter(retriever.index.score(texts, ids))
        by_query = [dict(zip(pool, next(scores), strict=True)) for pool in pools]
        by_anchor = self._anchor_scores(jobs, pools, retriever)
        return [
            [_candidates(hits, by_query[i], next(scores), by_anchor[i]) for hits in own]
            for i, own in enumerate(found)
        ]  # fmt: skip

    def _anchor_scores(self, jobs: Sequence[Job], pools: Sequence[tuple[str, ...]], retriever: Retriever) -> list[dict[str, float]]:
        """BM25 of all anchors, joined, for each candidate; 0 without anchors. BM25 is not asked for when nothing would use it."""
        wanted = [i for i, (_, plan) in enumerate(jobs) if self._second.gamma and plan.anchors and pools[i]]
        scores: list[dict[str, float]] = [dict.fromkeys(pool, 0.0) for pool in pools]
        if wanted:
            texts = [Text(" ".join(jobs[i][1].anchors)) for i in wanted]
            for i, values in zip(wanted, retriever.lexical().score(texts, [pools[i] for i in wanted]), strict=True):
                scores[i] = dict(zip(pools[i], values, strict=True))
        return scores

    def _merged(self, query: Query, lists: Sequence[Candidates], k: int) -> Ranked:
        reranked = [hsr_rerank(c.skill_ids, c.query, c.proxy, c.anchors, self._second, self._k_r) for c in lists]
        if self._merge == "single":
            kept = [{c.skill_ids[p]: float(r.h[p]) for p in r.kept} for c, r in zip(lists, reranked, strict=True)]
            ranking = Ranking.from_scores(query.id, best_scores(kept), k)
        else:
            columns = [[c.skill_ids[p] for p in r.kept] for c, r in zip(lists, reranked, strict=True)]
            ranking = Ranking.from_order(query.id, round_robin(columns, k), k)
        return Ranked(ranking, _trace(ranking, lists, reranked))


def _candidates(hits: Hits, by_query: Mapping[str, float], proxy: np.ndarray, by_anchor: Mapping[str, float]) -> Candidates:
    query = np.array([by_query[s] for s in hits.skill_ids], dtype=np.float64)
    anchors = np.array([by_anchor[s] for s in hits.skill_ids], dtype=np.float64)
    return Candidates(hits.skill_ids, np.array(hits.scores, dtype=np.float64), query, np.asarray(proxy, np.float64), anchors)


def _trace(ranking: Ranking, lists: Sequence[Candidates], reranked: Sequence[Reranked]) -> Trace:
    """One row a candidate of each list: raw scores, normalised scores, h, rank in its list and in the result (from 1, or null)."""
    final = {skill_id: rank for rank, skill_id in enumerate(ranking.skill_ids, 1)}
    columns: dict[str, list[Any]] = {name: [] for name in _TRACED}
    for j, (c, r) in enumerate(zip(lists, reranked, strict=True)):
        places = {p: rank for rank, p in enumerate(r.kept, 1)}
        numbers = (x.tolist() for x in (c.d, c.query, c.proxy, c.anchors, r.query, r.proxy, r.anchors, r.h))
        ranks = (map(places.get, range(len(c.skill_ids))), map(final.get, c.skill_ids))
        for column, values in zip(columns.values(), ([j] * len(c.skill_ids), c.skill_ids, *numbers, *ranks), strict=True):
            column.extend(values)
    return Trace(columns)
