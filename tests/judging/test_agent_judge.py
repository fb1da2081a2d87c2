"""The judge of agents: strict and judged rates with their denominators, counts, and a report that says what they rest on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from skillbench.agents.endings import Ending
from skillbench.errors import SkillbenchError
from skillbench.gold import Check
from skillbench.judging.agent_judge import RATES, agent_document, judge_episodes
from skillbench.judging.agent_report import agent_notes, agent_page
from skillbench.judging.report import page_markdown
from skillbench.records import Episode, Usage


def check(task_id: str, answer: str = "42", percent: str = "hundredth") -> Check:
    return Check(task_id, "exact_number", answer, MappingProxyType({"percent": percent}))


def episode(
    task_id: str,
    answer: str | None,
    ending: str = "submitted",
    loaded: tuple[str, ...] = (),
    steps: tuple[Mapping[str, Any], ...] = (),
) -> Episode:
    return Episode(task_id, "direct", 42, ("s1", "s2"), loaded, steps, answer, ending, Usage(1))


def judged(*episodes: Episode, tasks: int | None = None, can_load: bool = True, **options: Any) -> Any:
    checks = {f"t{n}": check(f"t{n}") for n in range(tasks if tasks is not None else len(episodes))}
    return judge_episodes({e.task_id: e for e in episodes}, checks, can_load=can_load, **{"resamples": 0, **options})


def a01() -> tuple[Episode, ...]:
    """8 tasks: 2 pass, 4 fail, 2 end in 429s, 500s or time-outs."""
    right = [episode("t0", "42"), episode("t1", "$42.00")]
    wrong = [episode("t2", "41"), episode("t3", "4.2"), episode("t4", None, "calls_spent"), episode("t5", None, "context_overflow")]
    return (*right, *wrong, episode("t6", None, "infrastructure"), episode("t7", None, "crashed"))


def test_a01_strict_and_judged_rates_stand_with_their_denominators() -> None:
    found = judged(*a01())
    assert found.rates["pass_rate"] == 2 / 8
    assert found.rates["pass_rate_judged"] == 2 / 6
    assert found.rates["coverage"] == 6 / 8
    assert found.rates["submission_rate"] == 4 / 6
    counts = found.counts
    assert (counts["expected"], counts["judged"], counts["infrastructure"], counts["missing"]) == (8, 6, 2, 0)
    assert (counts["passed"], counts["submissions"]) == (2, 4)
    assert counts["endings"]["calls_spent"] == 1 and sum(counts["endings"].values()) == 8


def test_a01_below_the_coverage_floor_the_report_warns() -> None:
    low = report_of(judged(*a01(), coverage_floor=0.9))
    assert "Warning: coverage 75.00 % lies below the floor of 90.00 %; do not compare these rates." in low
    assert "2 of 8 tasks were not judged (2 without an answer of the model or crashed, 0 missing)" in low
    assert "Warning" not in report_of(judged(*a01(), coverage_floor=0.75))


def test_a_missing_episode_counts_0_and_never_leaves_the_mean() -> None:
    found = judged(episode("t0", "42"), tasks=10)
    assert found.rates["pass_rate"] == 0.1 and found.rates["pass_rate_judged"] == 1.0 and found.rates["coverage"] == 0.1
    assert found.counts["missing"] == 9 and found.verdicts["t5"] == "no episode"


def test_an_answer_without_a_submission_is_no_pass() -> None:
    found = judged(episode("t0", "42", "calls_spent"))
    assert found.rates["pass_rate"] == 0.0 and found.verdicts["t0"] == "not submitted (calls_spent)"


def test_load_rate_has_its_own_denominator() -> None:
    """Judged tasks; infrastructure is no load rate of 0, and an arm that cannot load has none."""
    episodes = (
        episode("t0", "42", loaded=("s1",)),
        episode("t1", "42"),
        episode("t2", None, "infrastructure"),
        episode("t3", None, "calls_spent", ("s2", "s1")),
    )
    found = judged(*episodes)
    assert found.rates["load_rate"] == 2 / 3
    assert found.counts["tasks_with_load"] == 2
    without = judged(*episodes, can_load=False)
    assert "load_rate" not in without.rates and "load" not in without.scores
    assert "Nothing can be loaded in this arm" in report_of(without, can_load=False)


def test_rates_without_a_denominator_are_absent_and_json_holds_no_nan() -> None:
    found = judged(episode("t0", None, "infrastructure"), resamples=20)
    assert set(found.rates) == {"pass_rate", "coverage"}
    json.dumps(agent_document(found), allow_nan=False)
    assert "0.00" in report_of(found)


def test_measurements_are_one_row_a_metric_and_task() -> None:
    rows = [(m.metric, m.id, m.value) for m in judged(*a01()[:2], a01()[6], tasks=3).measurements()]
    assert rows[:4] == [("pass", "t0", 1.0), ("judged", "t0", 1.0), ("submitted", "t0", 1.0), ("load", "t0", 0.0)]
    assert ("pass", "t2", 0.0) in rows and ("judged", "t2", 0.0) in rows
    assert not any(metric in ("load", "submitted") and task == "t2" for metric, task, _ in rows)
    assert all(0 <= value <= 1 for _, _, value in rows)


def test_episodes_of_unknown_tasks_are_counted_and_ignored() -> None:
    found = judged(episode("t0", "42"), episode("t9", "42"), tasks=1)
    assert found.counts["unknown"] == 1 and found.rates["pass_rate"] == 1.0 and found.counts["submissions"] == 1


def test_gold_is_compared_by_the_one_rule() -> None:
    checks = {"t0": check("t0", "60", "unit"), "t1": check("t1", "60"), "t2": check("t2", "1,234")}
    found = judge_episodes(
        {i: episode(i, a) for i, a in (("t0", "60%"), ("t1", "60%"), ("t2", "$1234"))}, checks, can_load=False, resamples=0
    )
    assert [found.scores["pass"][i] for i in checks] == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("episodes", "checks", "message"),
    [
        ({"t0": episode("t0", "1")}, {}, "no checks"),
        ({"t0": episode("t1", "1")}, {"t0": check("t0")}, "filed under"),
        ({"t0": episode("t0", "1")}, {"t0": check("t0", "many")}, "gold answer"),
        ({"t0": episode("t0", "1")}, {"t0": Check("t0", "taste", "1")}, "no grader"),
    ],
)
def test_bad_input_is_refused(episodes: dict[str, Episode], checks: dict[str, Check], message: str) -> None:
    with pytest.raises(SkillbenchError, match=message):
        judge_episodes(episodes, checks, can_load=True, resamples=0)


def step(kind: str, **values: Any) -> dict[str, Any]:
    return {"kind": kind, **values}


def reply(prompt: int | None = 10, completion: int | None = 5, cached: bool = False, cost: float | None = 0.5) -> dict[str, Any]:
    return step(
        "reply",
        purpose="action",
        outcome="ok",
        cached=cached,
        prompt_tokens=prompt,
        completion_tokens=completion,
        seconds=0.25,
        cost_usd=cost,
    )


def action(tool: str, status: str, error: str = "") -> dict[str, Any]:
    return step("action", tool=tool, status=status, error=error)


STEPS = (
    step("offer", skills=[{"text_cut": 3, "description_cut": 0}, {"text_cut": 0, "description_cut": 0}], failure=None),
    step("assessment", decision="MATCH"),
    step("assessment", decision="MATCH"),
    step("assessment", decision="NOT_NEEDED"),
    step("assessment", decision=None),
    step("check", actions=5),
    step("load", status="loaded"),
    step("load", status="again"),
    step("load", status="unknown"),
    step("violation", purpose="assessment", error="label"),
    step("violation", purpose="action", error="not_json"),
    step("violation", purpose="action", error="not_json"),
    action("calculator", "ok"),
    action("calculator", "error", "words"),
    action("calculator", "repeated"),
    action("finish", "error", "no_number"),
    action("search", "unknown_tool", "unknown_tool"),
    action("load_skill", "repeated"),
    action("finish", "ok"),
    reply(),
    reply(None, None, cost=None),
    reply(cached=True),
)


def test_everything_is_counted() -> None:
    counts = judged(episode("t0", "42", loaded=("s1",), steps=STEPS)).counts
    assert (counts["tasks_offered"], counts["skills_offered"], counts["skills_cut"]) == (1, 2, 1)
    assert counts["csi"] == {
        "assessments": 3,
        "decisions": {"MATCH": 2, "PARTIAL_MATCH": 0, "NO_MATCH": 0, "NOT_NEEDED": 1},
        "without_a_decision": 1,
        "runtime_checks": 1,
    }
    assert counts["loads"] == {"loaded": 1, "again": 1, "unknown": 1}
    assert counts["violations"] == {"in_actions": 2, "in_assessments": 1, "by_kind": {"label": 1, "not_json": 2}}
    assert counts["actions"] == 4
    assert counts["tools"]["calculator"] == {"attempts": 2, "successes": 1, "errors": 1, "errors_by_kind": {"words": 1}}
    assert counts["tools"]["finish"]["attempts"] == 2 and "search" not in counts["tools"]
    assert (counts["unknown_tools"], counts["repeated_actions"], counts["repeated_calculations"]) == (1, 2, 1)
    work = counts["work"]
    assert (work["calls"], work["prompt_tokens"], work["completion_tokens"]) == (3, 20, 10)
    assert (work["calls_with_unknown_tokens"], work["calls_with_unknown_cost"], work["cost_usd"]) == (1, 1, 1.0)
    assert (work["seconds"], work["seconds_per_call"], work["calls_per_episode"]) == (0.75, 0.25, 3.0)
    assert work["seconds_per_call_p95"] == 0.25


def test_a11_totals_say_at_least_where_usage_is_unknown() -> None:
    text = report_of(judged(episode("t0", "42", steps=STEPS)))
    assert "at least 20" in text and "at least 1.0000" in text
    known = report_of(judged(episode("t0", "42", steps=(reply(),))))
    assert "at least" not in known


def report_of(found: Any, can_load: bool = True, uses_gold: bool = False) -> str:
    document = {**agent_document(found), "arm": {"name": "direct", "uses_gold": uses_gold, "can_load": can_load, "csi": False}}
    return page_markdown(agent_page({"dataset": "d", "arm": "direct", "method": "direct"}, document))


def test_the_report_marks_gold_and_shows_endings_that_happened() -> None:
    text = report_of(judged(*a01(), resamples=50), uses_gold=True)
    assert "This arm uses gold" in text and "context overflow" in text and "time spent" not in text
    assert "| Pass rate, all tasks |" in text and "2 of 8 tasks" in text and "2 of 6 judged tasks" in text


def test_intervals_hold_the_rate() -> None:
    found = judged(*a01(), resamples=200)
    for name, (low, high) in found.intervals.items():
        assert name in RATES and 0 <= low <= found.rates[name] <= high <= 1


def test_every_ending_is_counted_by_name() -> None:
    assert set(judged(episode("t0", "1")).counts["endings"]) == {str(ending) for ending in Ending}


def test_notes_of_a_clean_run_do_not_warn() -> None:
    document = {**agent_document(judged(episode("t0", "42"), coverage_floor=1.0)), "arm": {"uses_gold": False, "can_load": True}}
    assert agent_notes(document) == []
