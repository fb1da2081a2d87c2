"""What methods share: failed plans, choices, and a plan step for those that have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from skillbench.errors import SkillbenchError
from skillbench.interfaces import Retriever
from skillbench.planning.asking import batches
from skillbench.records import Failure, Plan, Probe, Query, Ranked, Ranking

QUERIES_AT_ONCE = 256
"""Queries that share one call of the index: enough to be quick, few enough that rows reach the disk as they come."""

Job = tuple[Query, Plan]


def check_choice(key: str, value: str, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``; else raise a SkillbenchError that names them."""
    if value not in choices:
        raise SkillbenchError(f"method.{key}={value!r} must be {' or '.join(choices)}")
    return value


def check_positive(key: str, value: int) -> int:
    """Return ``value`` if it is an integer of 1 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SkillbenchError(f"{key}={value!r} must be an integer of 1 or more")
    return value


def search_texts(queries: Sequence[Query], retriever: Retriever, k: int) -> list[Ranking]:
    """Rankings by the plain query: what ``direct`` gives, and what ``on_failure=direct`` falls back to."""
    hits = retriever.index.search([Probe.of(q.text) for q in queries], k) if queries else []
    return [h.ranking(q.id) for q, h in zip(queries, hits, strict=True)]


def check_plans(
    queries: Sequence[Query], plans: Mapping[str, Plan], method: str, *, capabilities: bool, pseudo_skills: bool, made_by: str
) -> None:
    """Refuse plans that another method made: those that say so, and those with or without capabilities and pseudo skills against
    what is asked.

    Raises SkillbenchError that names the first such query; a plan with a failure passes.
    """
    for query in queries:
        plan = plans.get(query.id)
        if plan is None or plan.failure is not None:
            continue
        if plan.made_by not in ("", made_by):
            raise SkillbenchError(f"method {method}: the plan of query {query.id} was made by {plan.made_by}, not by {made_by}")
        for has, wanted, what in (
            (plan.capabilities, capabilities, "capabilities"),
            (plan.pseudo_skills, pseudo_skills, "pseudo skills"),
        ):
            if bool(has) != wanted:
                state = "lacks" if wanted else "has"
                raise SkillbenchError(
                    f"method {method}: the plan of query {query.id} {state} {what}; it was made by another method or switch"
                )


def rank_plans(
    queries: Sequence[Query],
    plans: Mapping[str, Plan],
    retriever: Retriever,
    k: int,
    on_failure: str,
    rank: Callable[[Sequence[Job]], Sequence[Ranked]],
) -> Iterator[Ranked]:
    """Rank queries whose plan can be used with ``rank``, the others by ``on_failure``; in the order of ``queries``.

    ``on_failure=zero`` gives a failed query an empty ranking; ``direct`` gives it the ranking of its plain text. Both carry the
    failure, so that it is counted either way.
    """
    for part in batches(queries, QUERIES_AT_ONCE):
        jobs = [(q, plans.get(q.id) or Plan(q.id, failure=Failure("plans", "no plan"))) for q in part]
        good = [job for job in jobs if job[1].failure is None]
        ranked = {r.ranking.query_id: r for r in rank(good)} if good else {}
        ranked |= {r.query_id: Ranked(r) for r in _failed([j for j in jobs if j[1].failure], retriever, k, on_failure)}
        yield from (ranked[q.id] for q in part)


def _failed(jobs: Sequence[Job], retriever: Retriever, k: int, on_failure: str) -> list[Ranking]:
    failures = [plan.failure or Failure("plans", "") for _, plan in jobs]
    if on_failure == "zero":
        return [Ranking.failed(query.id, failure) for (query, _), failure in zip(jobs, failures, strict=True)]
    plain = search_texts([query for query, _ in jobs], retriever, k)
    return [Ranking(r.query_id, r.skill_ids, r.scores, f) for r, f in zip(plain, failures, strict=True)]
