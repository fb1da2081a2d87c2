"""The judge of agents: episodes and checks in, rewards, rates and counts out.

It walks over the tasks of the *gold*, so a task without an episode, or one that no model answered, cannot leave the mean. Two
pass rates stand side by side: ``pass_rate`` over all tasks, with a missing or infrastructure episode counting 0, and
``pass_rate_judged`` over the tasks that could be judged, with the share of those as ``coverage``. Nothing here reads or writes
a file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skillbench.agents.csi import Decision
from skillbench.agents.endings import NOT_JUDGED, Ending
from skillbench.errors import SkillbenchError
from skillbench.gold import Check
from skillbench.judging import significance
from skillbench.judging.graders import grade
from skillbench.records import Episode, Measurement

Interval = tuple[float, float]
Step = Mapping[str, Any]

RATES = ("pass_rate", "pass_rate_judged", "load_rate", "submission_rate", "coverage")


@dataclass(frozen=True, slots=True)
class AgentJudgement:
    """What the episodes of one arm and seed are worth.

    ``scores[metric][task_id]``: ``pass`` (1 or 0) and ``judged`` for every task of the gold; ``submitted`` and, for arms whose
    skills can be loaded, ``load`` for judged tasks. ``rates`` lie in [0, 1]; a rate whose denominator is 0 is absent.
    ``verdicts`` say why, for people. ``counts`` is JSON-ready.
    """

    scores: Mapping[str, Mapping[str, float]]
    rates: Mapping[str, float]
    intervals: Mapping[str, Interval]
    counts: Mapping[str, Any]
    verdicts: Mapping[str, str]
    settings: Mapping[str, Any]

    def measurements(self) -> list[Measurement]:
        """One row a metric and task; all rows of a task stand together, in the order of the gold."""
        tasks = list(self.scores["pass"])
        return [
            Measurement(m, task_id, column[task_id]) for task_id in tasks for m, column in self.scores.items() if task_id in column
        ]


def judge_episodes(
    episodes: Mapping[str, Episode],
    checks: Mapping[str, Check],
    *,
    can_load: bool,
    coverage_floor: float = 0.0,
    resamples: int = 10_000,
    seed: int = 42,
    confidence: float = 0.95,
) -> AgentJudgement:
    """Judge episodes, keyed by task id, against checks.

    ``can_load`` says whether the arm offers skills to be loaded; without it there is no load rate, rather than one of 0. A task
    that was offered nothing because retrieval failed counts as one without a load. ``resamples=0`` leaves the intervals out.

    Raises SkillbenchError for gold without a task, an episode filed under another task, and gold that its grader cannot read.
    """
    if not checks:
        raise SkillbenchError("the data set has no checks, so there is nothing to judge")
    for task_id, episode in episodes.items():
        if episode.task_id != task_id:
            raise SkillbenchError(f"the episode of task {episode.task_id} is filed under task {task_id}")
    verdicts = {task_id: _verdict(episodes.get(task_id), check) for task_id, check in checks.items()}
    judged = {t: e for t in checks if (e := episodes.get(t)) is not None and e.ending not in NOT_JUDGED}
    scores = _scores(verdicts, judged, can_load)
    columns = _columns(scores, judged)
    return AgentJudgement(
        scores=scores,
        rates={name: math.fsum(values) / len(values) for name, values in columns.items() if values},
        intervals={
            name: _interval(values, resamples, seed, confidence) for name, values in columns.items() if values and resamples
        },
        counts=_counts(episodes, checks, judged, scores),
        verdicts={task_id: reason for task_id, (_, reason) in verdicts.items()},
        settings={"coverage_floor": coverage_floor, "resamples": resamples, "seed": seed, "confidence": confidence},
    )


def _verdict(episode: Episode | None, check: Check) -> tuple[bool, str]:
    """Whether the task is passed, and why."""
    if episode is None:
        return False, "no episode"
    if episode.ending != Ending.SUBMITTED:
        return False, f"not submitted ({episode.ending})"
    verdict = grade(episode.answer, check)
    return verdict.correct, f"{verdict.reason}: {verdict.parsed}" if verdict.parsed else verdict.reason


def _scores(
    verdicts: Mapping[str, tuple[bool, str]], judged: Mapping[str, Episode], can_load: bool
) -> dict[str, Mapping[str, float]]:
    scores: dict[str, Mapping[str, float]] = {
        "pass": {task_id: float(passed) for task_id, (passed, _) in verdicts.items()},
        "judged": {task_id: float(task_id in judged) for task_id in verdicts},
        "submitted": {task_id: float(e.ending == Ending.SUBMITTED) for task_id, e in judged.items()},
    }
    if can_load:
        scores["load"] = {task_id: float(bool(e.loaded)) for task_id, e in judged.items()}
    return scores


def _columns(scores: Mapping[str, Mapping[str, float]], judged: Mapping[str, Episode]) -> dict[str, list[float]]:
    """The values that each rate is the mean of."""
    return {
        "pass_rate": list(scores["pass"].values()),
        "pass_rate_judged": [scores["pass"][task_id] for task_id in judged],
        "load_rate": list(scores.get("load", {}).values()),
        "submission_rate": list(scores["submitted"].values()),
        "coverage": list(scores["judged"].values()),
    }


def _interval(values: Sequence[float], resamples: int, seed: int, confidence: float) -> Interval:
    ends = significance.bootstrap_intervals(np.array(values)[:, None], resamples=resamples, seed=seed, confidence=confidence)
    return float(ends[0, 0]), float(ends[0, 1])


def _counts(
    episodes: Mapping[str, Episode],
    checks: Mapping[str, Check],
    judged: Mapping[str, Episode],
    scores: Mapping[str, Mapping[str, float]],
) -> dict[str, Any]:
    """Everything counted over the episodes of the gold's tasks: expected = judged + infrastructure + missing."""
    own = {task_id: episodes[task_id] for task_id in checks if task_id in episodes}
    steps = [step for episode in own.values() for step in episode.steps]
    endings = Counter(episode.ending for episode in own.values())
    return {
        "expected": len(checks),
        "judged": len(judged),
        "infrastructure": len(own) - len(judged),
        "missing": len(checks) - len(own),
        "unknown": sum(task_id not in checks for task_id in episodes),
        "passed": sum(map(int, scores["pass"].values())),
        "submissions": endings[Ending.SUBMITTED],
        "endings": {str(ending): endings[ending] for ending in Ending},
        "tasks_with_load": sum(bool(episode.loaded) for episode in judged.values()),
        **_skill_counts(own, steps),
        "csi": _csi_counts(steps),
        "violations": _violation_counts(steps),
        **_action_counts(steps),
        "work": _work(steps, len(own)),
    }


def _skill_counts(own: Mapping[str, Episode], steps: Sequence[Step]) -> dict[str, Any]:
    loads = Counter(step["status"] for step in steps if step["kind"] == "load")
    offers = [step for step in steps if step["kind"] == "offer"]
    return {
        "tasks_offered": sum(bool(episode.offered) for episode in own.values()),
        "skills_offered": sum(len(episode.offered) for episode in own.values()),
        "offer_failures": sum(step["failure"] is not None for step in offers),
        "skills_cut": sum(skill["text_cut"] > 0 or skill["description_cut"] > 0 for step in offers for skill in step["skills"]),
        "loads": {status: loads[status] for status in ("loaded", "again", "unknown")},
    }


def _csi_counts(steps: Sequence[Step]) -> dict[str, Any]:
    made = [step for step in steps if step["kind"] == "assessment"]
    decisions = Counter(step["decision"] for step in made)
    return {
        "assessments": len(made) - decisions[None],
        "decisions": {str(decision): decisions[str(decision)] for decision in Decision},
        "without_a_decision": decisions[None],
        "runtime_checks": sum(step["kind"] == "check" for step in steps),
    }


def _violation_counts(steps: Sequence[Step]) -> dict[str, Any]:
    found = [step for step in steps if step["kind"] == "violation"]
    return {
        **{f"in_{purpose}s": sum(step["purpose"] == purpose for step in found) for purpose in ("action", "assessment")},
        "by_kind": _sorted(Counter(step["error"] for step in found)),
    }


def _action_counts(steps: Sequence[Step]) -> dict[str, Any]:
    actions = [step for step in steps if step["kind"] == "action"]
    ran = [step for step in actions if step["status"] in ("ok", "error")]
    tools = sorted({step["tool"] for step in ran})
    repeated = [step for step in actions if step["status"] == "repeated"]
    return {
        "actions": len(ran),
        "tools": {tool: _tool_counts([step for step in ran if step["tool"] == tool]) for tool in tools},
        "unknown_tools": sum(step["status"] == "unknown_tool" for step in actions),
        "repeated_actions": len(repeated),
        "repeated_calculations": sum(step["tool"] == "calculator" for step in repeated),
    }


def _tool_counts(ran: Sequence[Step]) -> dict[str, Any]:
    errors = Counter(step["error"] for step in ran if step["error"])
    return {
        "attempts": len(ran),
        "successes": len(ran) - errors.total(),
        "errors": errors.total(),
        "errors_by_kind": _sorted(errors),
    }


def _work(steps: Sequence[Step], episodes: int) -> dict[str, Any]:
    """Sums hold what is known; a ``..._unknown`` above 0 means that they are "at least"."""
    replies = [step for step in steps if step["kind"] == "reply"]
    known = [step for step in replies if step["prompt_tokens"] is not None and step["completion_tokens"] is not None]
    seconds = math.fsum(step["seconds"] for step in replies)
    return {
        "calls": len(replies),
        "outcomes": _sorted(Counter(step["outcome"] for step in replies)),
        "prompt_tokens": sum(step["prompt_tokens"] or 0 for step in replies),
        "completion_tokens": sum(step["completion_tokens"] or 0 for step in replies),
        "calls_with_unknown_tokens": len(replies) - len(known),
        "cost_usd": round(math.fsum(step["cost_usd"] or 0.0 for step in replies), 9),
        "calls_with_unknown_cost": sum(step["cost_usd"] is None for step in replies),
        "seconds": round(seconds, 6),
        "seconds_per_call": round(seconds / len(replies), 6) if replies else 0.0,
        "seconds_per_call_p95": sorted(step["seconds"] for step in replies)[math.ceil(0.95 * len(replies)) - 1] if replies else 0.0,
        "calls_per_episode": round(len(replies) / episodes, 6) if episodes else 0.0,
    }


def _sorted(counter: Mapping[str, int] | Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(counter).items()))


def agent_document(judgement: AgentJudgement) -> dict[str, Any]:
    """The agent's part of ``metrics.json``: plain JSON types, rates in [0, 1], no NaN."""
    return {
        "agent": dict(judgement.rates),
        "agent_intervals": {name: list(ends) for name, ends in judgement.intervals.items()},
        "counts": dict(judgement.counts),
        "judging": dict(judgement.settings),
    }
