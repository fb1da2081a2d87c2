"""The numbers of collected Harbor trials, out of their facts alone: rates with their own denominators, counts, and the report.

Every mean runs over trials. A job's planned trials are the denominator of the pass rate, so that one that could not be judged
counts 0 and is counted, as in the agent's own loop: it left no folder or no valid reward, its set-up failed, or its skills never
arrived. A reward of such a trial says nothing about the arm, so it is kept as ``reward`` and leaves the pass rates. Tasks that
were tried several times weigh as often. The rate over judged trials and the load rate leave out what the agent could not help; the
load rate keeps, as 0, a trial that retrieval left without skills. ``passed`` counts judged trials with the full reward.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from skillbench.agents.endings import Ending
from skillbench.agents.harbor_facts import ARRIVALS, Fact
from skillbench.agents.harbor_reward import OUTCOMES, is_full
from skillbench.judging import significance
from skillbench.judging.report import Column, Page, ReportTable, key_table, percent
from skillbench.records import Measurement

_NAMES = {
    "pass_rate": "Pass rate, all trials",
    "pass_rate_judged": "Pass rate, judged trials",
    "load_rate": "Load rate",
    "submission_rate": "Ended by the agent",
    "coverage": "Coverage",
}


def scores(facts: Sequence[Fact]) -> dict[str, dict[str, float]]:
    """By metric and id: ``pass`` (the reward of a judged trial, else 0) and ``judged`` for every trial; ``reward`` where it is
    valid; ``load`` and ``submitted`` where they say something about the agent.
    """
    return {
        "pass": {f.id: f.reward if f.judged and f.reward is not None else 0.0 for f in facts},
        "judged": {f.id: float(f.judged) for f in facts},
        "reward": {f.id: f.reward for f in facts if f.reward is not None},
        "load": {f.id: float(bool(f.loaded)) for f in facts if f.may_load},
        "submitted": {f.id: float(f.ending == Ending.SUBMITTED) for f in facts if not f.infrastructure},
    }


def measurements(facts: Sequence[Fact]) -> list[Measurement]:
    """One row a metric and trial; all rows of a trial stand together."""
    columns = scores(facts)
    return [Measurement(metric, f.id, column[f.id]) for f in facts for metric, column in columns.items() if f.id in column]


def summarise(
    facts: Sequence[Fact], jobs: Sequence[Mapping[str, Any]], arm: Mapping[str, Any], *, floor: float, resamples: int, seed: int
) -> dict[str, Any]:
    """The metrics document. ``jobs`` are the rows of :func:`skillbench.agents.harbor_collect.job_row`. A rate whose denominator is
    0 is absent.
    """
    columns = _columns(facts)
    return {
        "agent": {name: math.fsum(values) / len(values) for name, values in columns.items() if values},
        "agent_intervals": {name: _interval(values, resamples, seed) for name, values in columns.items() if values and resamples},
        "counts": _counts(facts, jobs),
        "by_job": {job["name"]: _job_numbers(job, [f for f in facts if f.job == job["name"]]) for job in jobs},
        "arm": dict(arm),
        "judging": {"coverage_floor": floor, "resamples": resamples, "seed": seed, "confidence": 0.95},
        "verdicts": {f.id: _verdict(f) for f in facts},
    }


def _verdict(fact: Fact) -> str:
    stated = f"reward {fact.reward:g}" if fact.reward is not None else f"reward {fact.outcome}"
    return stated if fact.judged or fact.reward is None else f"{stated}, not judged"


def _columns(facts: Sequence[Fact]) -> dict[str, list[float]]:
    made = scores(facts)
    return {
        "pass_rate": list(made["pass"].values()),
        "pass_rate_judged": [made["pass"][f.id] for f in facts if f.judged],
        "load_rate": list(made["load"].values()),
        "submission_rate": list(made["submitted"].values()),
        "coverage": list(made["judged"].values()),
    }


def _interval(values: Sequence[float], resamples: int, seed: int) -> list[float]:
    ends = significance.bootstrap_intervals(np.array(values)[:, None], resamples=resamples, seed=seed, confidence=0.95)
    return [float(end) for end in ends[0]]


def _job_numbers(job: Mapping[str, Any], facts: Sequence[Fact]) -> dict[str, Any]:
    rates = {name: math.fsum(values) / len(values) for name, values in _columns(facts).items() if values}
    return {
        "trials": len(facts),
        "skills_never_arrived": job["skills_never_arrived"],
        "mismatches": len(job["mismatches"]),
        **rates,
    }


def _counts(facts: Sequence[Fact], jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    outcomes = Counter(f.outcome for f in facts)
    return {
        "jobs": len(jobs),
        "expected": len(facts),
        "tasks": len({f.task for f in facts if f.task}),
        "judged": sum(f.judged for f in facts),
        "passed": sum(f.judged and is_full(f.reward or 0.0) for f in facts),
        "infrastructure": sum(f.infrastructure and not f.missing for f in facts),
        "missing": sum(f.missing for f in facts),
        "rewards": {outcome: outcomes[outcome] for outcome in OUTCOMES},
        "rewards_missing_or_invalid": len(facts) - outcomes["valid"],
        "rewards_of_trials_not_judged": sum(f.reward is not None and not f.judged for f in facts),
        "rewards_that_files_contradict": sum(f.disagrees for f in facts),
        "endings": _counted((f.ending for f in facts), map(str, Ending)),
        "exceptions": dict(sorted(Counter(f.exception for f in facts if f.exception).items())),
        "skills": _counted((f.arrival for f in facts if not f.missing), ARRIVALS),
        "jobs_whose_skills_never_arrived": sum(bool(job["skills_never_arrived"]) for job in jobs),
        "trials_with_skills_on_offer": sum(f.may_load and f.arrival != "empty" for f in facts),
        "trials_without_skills_found": sum(f.may_load and f.arrival == "empty" for f in facts),
        "trials_with_load": sum(f.may_load and bool(f.loaded) for f in facts),
        "loads": _load_counts(facts),
        "trials_without_a_log": sum(f.log == "none" for f in facts),
        "logs": dict(sorted(Counter(f.log for f in facts).items())),
        "mismatches": sum(len(job["mismatches"]) for job in jobs),
        "work": _work(facts),
    }


def _counted(values: Iterable[str], names: Iterable[str]) -> dict[str, int]:
    found = Counter(values)
    return {name: found[name] for name in names}


def _load_counts(facts: Sequence[Fact]) -> dict[str, Any]:
    loads = [load for f in facts for load in f.loads]
    failed = [load for load in loads if load["failure"]]
    return {
        "attempts": len(loads),
        "failed": len(failed),
        "by_skill_tool": sum(load["by"] == "skill tool" and not load["failure"] for load in loads),
        "by_read": sum(load["by"] == "read" and not load["failure"] for load in loads),
        "skills_loaded": sum(len(f.loaded) for f in facts),
        "failures": dict(sorted(Counter(load["failure"].partition(":")[0] for load in failed).items())),
    }


def _work(facts: Sequence[Fact]) -> dict[str, Any]:
    """Sums of what is known; a ``…_unknown`` above 0 means that they are "at least"."""
    ran = [f.usage for f in facts if not f.missing]
    work: dict[str, Any] = {
        "turns": sum(usage["calls"] for usage in ran),
        "seconds": round(math.fsum(usage["seconds"] for usage in ran), 3),
    }
    for key in ("prompt_tokens", "completion_tokens", "cost_usd"):
        known = [usage[key] for usage in ran if usage[key] is not None]
        work[key] = round(math.fsum(known), 6) if key == "cost_usd" else sum(known)
        work[f"trials_with_{key}_unknown"] = len(ran) - len(known)
    return work


def page(header: Mapping[str, Any], document: Mapping[str, Any]) -> Page:
    """The report's tables and notes, out of the plain content of ``metrics.json``."""
    counts = document["counts"]
    groups = {
        "Rewards": counts["rewards"],
        "Endings": counts["endings"],
        "Exceptions": counts["exceptions"],
        "Skills": _skill_rows(counts),
        "Work": counts["work"],
    }
    tables = [_rates(document), _jobs(document), *(key_table(title, rows) for title, rows in groups.items())]
    return Page(f"Harbor · {document['arm']['name']}", header, [table for table in tables if table.rows], notes(document))


def _skill_rows(counts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "arrival": counts["skills"],
        "trials with skills on offer": counts["trials_with_skills_on_offer"],
        "trials that retrieval left without": counts["trials_without_skills_found"],
        "trials with a load": counts["trials_with_load"],
        "loads": counts["loads"],
    }


def _rates(document: Mapping[str, Any]) -> ReportTable:
    counts, intervals = document["counts"], document["agent_intervals"]
    may_load = counts["trials_with_skills_on_offer"] + counts["trials_without_skills_found"]
    of = {
        "pass_rate": f"{counts['expected']} trials",
        "pass_rate_judged": f"{counts['judged']} judged trials",
        "load_rate": f"{counts['trials_with_load']} of {may_load} trials that were to have skills",
        "submission_rate": f"{counts['expected'] - counts['infrastructure'] - counts['missing']} trials that could work",
        "coverage": f"{counts['judged']} of {counts['expected']} trials",
    }
    rows = [
        (_NAMES[name], percent(value) + (" [{}, {}]".format(*map(percent, intervals[name])) if name in intervals else ""), of[name])
        for name, value in document["agent"].items()
    ]
    return ReportTable(
        "Agent", (Column("Metric", text=True), Column("% [95 %]" if intervals else "%"), Column("of", text=True)), tuple(rows)
    )


def _jobs(document: Mapping[str, Any]) -> ReportTable:
    rates = ("pass_rate", "pass_rate_judged", "load_rate", "coverage")
    rows = [
        (name, str(job["trials"]), *(percent(job[rate]) if rate in job else "" for rate in rates), str(job["mismatches"]))
        for name, job in document["by_job"].items()
    ]
    columns = (Column("Job", text=True), Column("Trials"), *(Column(_NAMES[rate]) for rate in rates), Column("Mismatches"))
    return ReportTable("Jobs", columns, tuple(rows))


def notes(document: Mapping[str, Any]) -> list[str]:
    """What a reader must know beside the numbers."""
    counts, found = document["counts"], []
    if document["arm"]["uses_gold"]:
        found.append("This arm uses gold: an upper bound, not a result of retrieval.")
    for name, job in document["by_job"].items():
        if job["skills_never_arrived"]:
            found.append(
                f"Error: the skills of job {name} never reached its agents. That is a fault of the set-up; it has no load rate."
            )
    invalid = counts["rewards_missing_or_invalid"]
    if invalid:
        found.append(
            f"{invalid} of {counts['expected']} rewards are missing or invalid; they count 0 in the pass rate over all trials."
        )
    if counts["rewards_of_trials_not_judged"]:
        found.append(
            f"{counts['rewards_of_trials_not_judged']} valid rewards are of trials whose set-up failed or whose skills never "
            "arrived; they count 0 in the pass rate over all trials."
        )
    if counts["trials_without_skills_found"]:
        found.append(
            f"Retrieval gave {counts['trials_without_skills_found']} trials no skill; they count as trials without a load."
        )
    if counts["rewards_that_files_contradict"]:
        found.append(
            f"The files in verifier/ of {counts['rewards_that_files_contradict']} trials state another reward than was taken."
        )
    if counts["mismatches"]:
        found.append(
            f"{counts['mismatches']} differences between the jobs' own statistics and their trials; harbor.json lists them."
        )
    unknown = [
        key.removeprefix("trials_with_").removesuffix("_unknown")
        for key, value in counts["work"].items()
        if key.endswith("_unknown") and value
    ]
    if unknown:
        found.append(f"Sums of {', '.join(unknown)} are at least, because some trials do not state them.")
    coverage, floor = document["agent"]["coverage"], document["judging"]["coverage_floor"]
    if coverage < floor:
        found.append(f"Warning: coverage {percent(coverage)} % is below {percent(floor)} %; compare judged rates with care.")
    return found
