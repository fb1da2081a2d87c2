"""The order of work of a run, top to bottom: data, plans, rankings; then, models released, gold, judge, report."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillbench import reporting
from skillbench.clock import Clock
from skillbench.config import Settings
from skillbench.interfaces import ChatModel, Method, Retriever, Tracker
from skillbench.parts import GalleryIndexes, Parts
from skillbench.planning.asking import is_transport
from skillbench.planning.plan_rows import load_plans, plan_from_row, plan_to_row
from skillbench.progress import track
from skillbench.records import Plan, PublicData, Query, Ranked
from skillbench.run_dir import BASELINE, PLANS, PREDICTION, RANKINGS, TRACES, TREC, RunDir, append_row, ranking_row, trec_lines
from skillbench.tracking import NO_TRACKER

log = logging.getLogger(__name__)

_CHUNK = 256  # queries that are ranked, and then written, at a time


def run_retrieval(parts: Parts, run: RunDir, settings: Settings, tracker: Tracker) -> Mapping[str, Any]:
    """Predict and judge; returns the metrics document. Every row is on disk as soon as it is known."""
    clock = Clock()
    with clock("data_seconds"):
        data = parts.data()
    reporting.log_data(data)
    run.begin_with(parts.inputs(data))
    with clock("plan_seconds"):
        plans = make_plans(parts, data.public.queries, run, tracker)
    indexes = parts.indexes(data)
    with clock("index_seconds"):
        retriever = indexes.retriever(parts.llm)
    with clock("rank_seconds"):
        rank(parts.method, data.public, plans, retriever, run, RANKINGS, settings.k, tracker)
    if parts.baseline is not None:
        with clock("baseline_seconds"):
            rank_baseline(parts, parts.baseline, data.public, retriever, run, settings.k)
    finish_prediction(parts, indexes, run, clock, plans)
    parts.release()
    return reporting.judge_run(run, parts.dataset, data, settings, clock, run.config())


def make_plans(parts: Parts, queries: Sequence[Query], run: RunDir, tracker: Tracker) -> dict[str, Plan]:
    """Plans by query id: from ``plans=``, from an earlier part of this run, or from the method and its LLM.

    A plan that failed in transport (no model answered) is asked for again on resume; one that failed in content is not.
    """
    if not parts.method.needs_plans:
        return {}
    if parts.plans:
        plans = load_plans(parts.plans, queries)
    else:
        done = {row["query_id"]: plan_from_row(row, f"{run.path / PLANS}") for row in run.rows(PLANS)}
        plans = {query_id: plan for query_id, plan in done.items() if not is_transport(plan.failure)}
        _ask_for_plans(parts.method, parts.llm, [q for q in queries if q.id not in plans], plans, run, tracker)
    run.write_rows(PLANS, (plan_to_row(plans[q.id]) for q in queries))
    return plans


def _ask_for_plans(
    method: Method, llm: ChatModel, queries: Sequence[Query], plans: dict[str, Plan], run: RunDir, tracker: Tracker
) -> None:
    failed = sum(plan.failure is not None for plan in plans.values())
    with run.appending(PLANS) as handle, track("imagining", len(queries)) as advance:
        for plan in method.plan(queries, llm):
            append_row(handle, plan_to_row(plan))
            plans[plan.query_id] = plan
            failed += plan.failure is not None
            advance(1)
            tracker.progress({"plans": len(plans), "failures": failed, **llm.stats()})


def rank(
    method: Method,
    public: PublicData,
    plans: Mapping[str, Plan],
    retriever: Retriever,
    run: RunDir,
    name: str,
    k: int,
    tracker: Tracker = NO_TRACKER,
) -> None:
    """Rank the queries that ``name`` does not hold yet, appending row by row; at the end the rows stand in the order of the data
    set.

    As with plans, what failed in transport is tried again.
    """
    earlier = run.rankings(name)
    done = {query_id for query_id, ranking in earlier.items() if not is_transport(ranking.failure)}
    left = [q for q in public.queries if q.id not in done]
    ended, failed = len(done), 0
    with run.appending(name) as rows, run.appending(TRACES) as traces, track(f"ranking ({method.name})", len(left)) as advance:
        for start in range(0, len(left), _CHUNK):
            for ranked in method.rank(left[start : start + _CHUNK], plans, retriever, k):
                if ranked.trace and name == RANKINGS:
                    append_row(traces, trace_row(ranked))
                append_row(rows, ranking_row(ranked.ranking))
                ended += 1
                failed += ranked.ranking.failure is not None
                advance(1)
                tracker.progress({"ranked": ended, "failures": failed, **retriever.llm.stats()})
    if earlier:
        rankings = run.rankings(name)
        run.write_rows(name, (ranking_row(rankings[q.id]) for q in public.queries))
        keep_last_traces(run, rankings)


def trace_row(ranked: Ranked) -> dict[str, Any]:
    """The row of a trace; below a reranker it also holds the first stage's, where that has one."""
    row: dict[str, Any] = {"query_id": ranked.ranking.query_id, "candidates": ranked.trace.columns}
    return row | ({"first": ranked.first.columns} if ranked.first else {})


def rank_baseline(parts: Parts, baseline: Method, public: PublicData, retriever: Retriever, run: RunDir, k: int) -> None:
    """The baseline's rankings, or those of an earlier job of this sweep that had the same data, backbone, baseline and k."""
    known = parts.baseline_rows()
    if known is not None:
        run.write_text(BASELINE, known)
        return
    rank(baseline, public, {}, retriever, run, BASELINE, k)
    if not any(ranking.failure for ranking in run.rankings(BASELINE).values()):
        parts.keep_baseline((run.path / BASELINE).read_text(encoding="utf-8"))


def finish_prediction(parts: Parts, indexes: GalleryIndexes, run: RunDir, clock: Clock, plans: Mapping[str, Plan]) -> None:
    """Write what stands beside the rankings: the TREC run, and what made them (models, prompts, counts, seconds)."""
    rankings = run.rankings()
    run.write_text(TREC, trec_lines(rankings.values(), f"{parts.backbone.name}-{parts.method.name}"))
    _drop_empty_traces(run)
    run.write_json(
        PREDICTION,
        {
            "dataset": parts.dataset.name,
            "backbone": dict(parts.backbone.describe()),
            "method": {**parts.describe_method(), "prompts": parts.prompts_used()},
            "llm": dict(parts.llm.describe()),
            "plans": plan_source(parts.plans, plans),
            "timing": {**clock.seconds(), **indexes.stats(), **{f"llm_{k}": v for k, v in parts.llm.stats().items()}},
        },
    )


def estimate(parts: Parts, settings: Settings) -> str:
    """What the LLM calls of a run would come to at most (``dry_run=true``); nothing is called and nothing is written."""
    from skillbench.models.dry_run import Estimate

    data = parts.data()
    plans = (
        {p.query_id: p for p in parts.method.plan(data.public.queries, parts.llm)}
        if parts.method.needs_plans and not parts.plans
        else {}
    )
    if parts.method.needs_llm:
        known = load_plans(parts.plans, data.public.queries) if parts.plans else plans
        for _ in parts.method.rank(data.public.queries, known, parts.indexes(data).retriever(parts.llm), settings.k):
            pass
    return Estimate.of(parts.llm.stats()).text()


def plan_source(path: str | None, plans: Mapping[str, Plan]) -> dict[str, Any]:
    """Where the plans came from and which models wrote them."""
    models = sorted({p.model for p in plans.values() if p.model})
    return {
        "file": Path(path).name if path else None,
        "models": models,
        "plans": len(plans),
        "failed": sum(p.failure is not None for p in plans.values()),
    }


def keep_last_traces(run: RunDir, query_ids: Iterable[str]) -> None:
    """One trace a query, in the order of the rankings: a run killed between a trace and its ranking wrote that trace twice."""
    traces = {row["query_id"]: row for row in run.rows(TRACES)}
    run.write_rows(TRACES, (traces[q] for q in query_ids if q in traces))
    _drop_empty_traces(run)


def _drop_empty_traces(run: RunDir) -> None:
    """A method that explains nothing leaves no file."""
    path = run.path / TRACES
    if path.exists() and not path.stat().st_size:
        path.unlink()
