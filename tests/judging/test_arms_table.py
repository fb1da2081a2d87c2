"""Arms by seeds, and arms against each other: hand-counted cases, and scipy for the exact test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbench.errors import SkillbenchError
from skillbench.judging.arms import ArmRun, arms_page, mcnemar_exact, summarise
from skillbench.judging.report import page_markdown


def run(arm: str, seed: int, passed: str, **changes: Any) -> ArmRun:
    """``passed`` has one digit a task."""
    values = {f"t{n}": float(digit) for n, digit in enumerate(passed)}
    rate = sum(values.values()) / len(values)
    made: dict[str, Any] = {
        "arm": arm,
        "seed": seed,
        "folder": f"{arm}-{seed}",
        "uses_gold": False,
        "passed": values,
        "judged": dict.fromkeys(values, 1.0),
        "rates": {"pass_rate": rate, "pass_rate_judged": rate, "submission_rate": 1.0, "coverage": 1.0},
        "counts": {
            "expected": len(values),
            "judged": len(values),
            "passed": int(sum(values.values())),
            "submissions": len(values),
            "tasks_with_load": 0,
        },
        "setting": "{}",
        "gold": "g",
    }
    return ArmRun(**{**made, **changes})


def test_mean_and_spread_over_seeds() -> None:
    table = summarise([run("a", 42, "1100"), run("a", 43, "1000"), run("a", 44, "1110"), run("b", 42, "0000")], resamples=50)
    a, b = table.arms
    assert a.mean["pass_rate"] == pytest.approx(0.5) and a.spread["pass_rate"] == pytest.approx(0.25)
    assert a.by_seed[44]["pass_rate"] == 0.75 and a.counts["passed"] == 6
    assert b.mean["pass_rate"] == 0.0 and b.spread == {}
    assert table.warnings == ("b has no run with seed 43, 44.",)


def test_pairs_are_compared_on_common_seeds_by_task() -> None:
    table = summarise(
        [run("a", 1, "1110"), run("a", 2, "1100"), run("b", 1, "0011"), run("b", 2, "0101"), run("b", 3, "1111")], resamples=500
    )
    (pair,) = table.comparisons
    assert (pair.a, pair.b, pair.seeds) == ("a", "b", (1, 2))
    # per task, over two seeds: 1, (1+0)/2 = 0.5, (0+0)/2 = 0, (-1-1)/2 = -1
    assert pair.difference == pytest.approx((1 + 0.5 + 0 - 1) / 4)
    assert (pair.wins, pair.losses, pair.ties) == (2, 1, 1)
    assert pair.interval[0] <= pair.difference <= pair.interval[1]
    assert [row[:3] for row in pair.mcnemar] == [(1, 2, 1), (2, 1, 1)]
    assert pair.mcnemar[0][3] == 1.0


def test_the_randomisation_test_is_exact_for_few_tasks() -> None:
    (pair,) = summarise([run("a", 1, "11111"), run("b", 1, "00000")], resamples=1000).comparisons
    assert pair.p_value == pytest.approx(2 / 2**5)
    assert pair.mcnemar == ((1, 5, 0, pytest.approx(2 / 2**5)),)


@pytest.mark.parametrize(("b", "c", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (6, 1, 0.125), (10, 2, 0.038574), (3, 3, 1.0)])
def test_mcnemar_by_hand(b: int, c: int, p: float) -> None:
    assert mcnemar_exact(b, c) == pytest.approx(p, abs=1e-6)
    assert mcnemar_exact(c, b) == mcnemar_exact(b, c)


@given(st.integers(0, 60), st.integers(0, 60))
@settings(deadline=None)
def test_mcnemar_is_the_binomial_test(b: int, c: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    expected = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert mcnemar_exact(b, c) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_takes_the_full_reward_as_a_pass_and_the_other_tests_take_parts() -> None:
    """A verifier may give half a reward: that is better than none, and no pass."""
    a = replace(run("a", 1, "1"), passed={"t0": 1.0, "t1": 0.5, "t2": 0.5, "t3": 0.1 + 0.2 + 0.3 + 0.4, "t4": 0.25})
    b = replace(run("b", 1, "0"), passed={"t0": 0.5, "t1": 0.0, "t2": 1.0, "t3": 0.0, "t4": 0.75})
    (pair,) = summarise([a, b], resamples=200).comparisons
    assert pair.mcnemar == ((1, 2, 1, 1.0),)
    assert (pair.wins, pair.losses, pair.ties) == (3, 2, 0)
    assert pair.difference == pytest.approx((0.5 + 0.5 - 0.5 + 1.0 - 0.5) / 5)


def test_arms_without_a_common_seed_are_not_paired() -> None:
    assert summarise([run("a", 1, "10"), run("b", 2, "10")], resamples=10).comparisons == ()


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], "no agent runs"),
        ([run("a", 1, "10"), run("a", 1, "11")], "are both arm a with seed 1"),
        ([run("a", 1, "10"), run("b", 1, "110")], "different tasks or gold"),
        ([run("a", 1, "10"), run("b", 1, "10", gold="other")], "different tasks or gold"),
    ],
)
def test_what_cannot_be_compared_is_refused(runs: list[ArmRun], message: str) -> None:
    with pytest.raises(SkillbenchError, match=message):
        summarise(runs, resamples=10)


def test_doubts_are_said() -> None:
    rates = {"pass_rate": 0.5, "coverage": 0.5}
    counts = {"expected": 2, "judged": 1, "passed": 1, "submissions": 1, "tasks_with_load": 0}
    table = summarise([run("a", 1, "10"), run("b", 1, "10", setting='{"k":1}', rates=rates, counts=counts)], resamples=10)
    assert len(table.warnings) == 2
    text = page_markdown(arms_page(table))
    assert (
        "Warning: The runs differ in more than arm and seed" in text and "Warning: 1 episodes in 1 runs could not be judged" in text
    )


def test_the_page() -> None:
    table = summarise(
        [run("a", 42, "1100"), run("a", 43, "1000"), run("gold", 42, "1111", uses_gold=True), run("gold", 43, "1111")], resamples=50
    )
    text = page_markdown(arms_page(table))
    assert "| a | 50.00 | 25.00 | 37.50 ± 17.68 |" in text
    assert "a - gold" in text and "gold uses gold: an upper bound." in text
    assert "0/2 p=0.500; 0/3 p=0.250" in text
