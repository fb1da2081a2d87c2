"""Several agent runs together: arms by seeds, and arms against each other on the same tasks.

Two comparisons stand side by side. The paired bootstrap and the randomisation test draw over *tasks*, after a task's rewards were
averaged over seeds, because the same task under another seed is no independent observation. McNemar's exact test is per seed, where
each task is one pair; pooled over seeds it would claim more than there is.

Collected Harbor jobs are agent runs too. Their rewards may be fractions: the difference, its interval and p take them as they are,
while McNemar's test needs passes, and a task is passed with the full reward of 1. Several trials of a task are averaged first, so
it is passed if all of them are. The convention not chosen, to count the larger reward as a win in McNemar's test, is a sign test.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from skillbench.agents.harbor_reward import is_full
from skillbench.errors import SkillbenchError
from skillbench.judging import significance
from skillbench.judging.report import Column, Page, ReportTable, percent
from skillbench.run_dir import MEASUREMENTS, METRICS, RECEIPT, TRIALS, RunDir, canonical

# What may differ between the runs of one comparison: the arm and what it brings with it, the seed, and where things lie.
_MAY_DIFFER = (
    *("arm", "seed", "method", "baseline", "plans", "rankings", "backbone", "lexical"),
    *("alpha", "beta", "gamma", "default_scheme", "k_c", "k_r"),
    *("task", "resume", "run", "query", "id", "runs", "paths", "tracker", "sweep", "judge", "device"),
)


@dataclass(frozen=True, slots=True)
class ArmRun:
    """One judged agent run. ``passed`` (rewards from 0 to 1) and ``judged`` are keyed by task id; ``rates`` and ``counts`` are its
    metrics.

    ``setting`` is what must be equal for a fair comparison, as JSON text; ``gold`` is the fingerprint of the gold.
    """

    arm: str
    seed: int
    folder: str
    uses_gold: bool
    passed: Mapping[str, float]
    judged: Mapping[str, float]
    rates: Mapping[str, float]
    counts: Mapping[str, Any]
    setting: str
    gold: str


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """An arm over its seeds. ``by_seed`` holds each seed's rates; ``mean`` and ``spread`` are over seeds.

    ``spread`` is the sample standard deviation (n - 1), absent for a single seed: it says how much seeds differ, not how sure
    the mean is over tasks.
    """

    arm: str
    uses_gold: bool
    seeds: tuple[int, ...]
    by_seed: Mapping[int, Mapping[str, float]]
    mean: Mapping[str, float]
    spread: Mapping[str, float]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ArmComparison:
    """Arm ``a`` minus arm ``b`` in strict pass rate, on the seeds that both have and all their tasks.

    ``wins``, ``losses`` and ``ties`` count tasks, by the reward averaged over seeds. ``p_value`` is the two-sided paired
    randomisation test over tasks; ``mcnemar`` holds (seed, passed by a alone, by b alone, exact two-sided p), where only the full
    reward is a pass.
    """

    a: str
    b: str
    seeds: tuple[int, ...]
    difference: float
    interval: tuple[float, float]
    wins: int
    losses: int
    ties: int
    p_value: float
    mcnemar: tuple[tuple[int, int, int, float], ...]


@dataclass(frozen=True, slots=True)
class ArmTable:
    """Arms in the order of their first run, all pairs of them, and what makes a comparison doubtful."""

    arms: tuple[ArmSummary, ...]
    comparisons: tuple[ArmComparison, ...]
    tasks: int
    warnings: tuple[str, ...]


def load_arm_run(run: RunDir) -> ArmRun:
    """A judged agent run from its folder. Raises SkillbenchError for a folder that is none."""
    metrics, config, receipt = run.read_json(METRICS), run.config(), run.read_json(RECEIPT)
    if "agent" not in metrics:
        raise SkillbenchError(f"{run.path} is not a judged agent run")
    from_harbor = (run.path / TRIALS).exists()
    columns = _columns(run, from_harbor)
    return ArmRun(
        arm=_arm_name(metrics["arm"]),
        seed=config["seed"],
        folder=run.path.name,
        uses_gold=metrics["arm"]["uses_gold"],
        passed=columns["pass"],
        judged=columns["judged"],
        rates=metrics["agent"],
        counts=metrics["counts"],
        setting=canonical(_harbor_setting(config, receipt) if from_harbor else _setting(config)),
        gold=receipt["data"]["gold"],
    )


def _columns(run: RunDir, from_harbor: bool) -> dict[str, dict[str, float]]:
    """``pass`` and ``judged`` by task; means over the trials of a task where it had several."""
    tasks = {row["id"]: row["task"] or row["id"] for row in run.rows(TRIALS)} if from_harbor else {}
    found: dict[str, dict[str, list[float]]] = {"pass": defaultdict(list), "judged": defaultdict(list)}
    for row in run.rows(MEASUREMENTS):
        if row["metric"] in found:
            found[row["metric"]][tasks.get(row["id"], row["id"])].append(row["value"])
    return {metric: {task: math.fsum(v) / len(v) for task, v in column.items()} for metric, column in found.items()}


def _setting(config: Mapping[str, Any]) -> dict[str, Any]:
    setting = {key: value for key, value in config.items() if key not in _MAY_DIFFER}
    agent = {key: value for key, value in config["agent"].items() if key not in ("csi", "at_once")}
    setting["agent"] = {**agent, "generation": {key: value for key, value in agent["generation"].items() if key != "seed"}}
    setting["dataset"] = {k: v for k, v in config["dataset"].items() if k != "root"}
    return setting


def _harbor_setting(config: Mapping[str, Any], receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Which agents and models ran, and what decided about rewards: the rest of such a config made no trial."""
    return {"environment": "harbor", "agents": receipt["llm"]["name"], "rewards": config["task"]["rewards"]}


def _arm_name(arm: Mapping[str, Any]) -> str:
    """An arm whose capability check was switched against its default is an arm of its own in a table."""
    name = str(arm["name"])
    return name if arm["csi"] == arm["csi_by_default"] else f"{name} {'with' if arm['csi'] else 'without'} csi"


def summarise(runs: Sequence[ArmRun], *, resamples: int = 10_000, seed: int = 42, confidence: float = 0.95) -> ArmTable:
    """Means and spreads over seeds, and every pair of arms on the same tasks.

    Raises SkillbenchError for no runs, for two runs of the same arm and seed, and for runs over different tasks or gold.
    """
    by_arm: dict[str, dict[int, ArmRun]] = {}
    for run in runs:
        seeds = by_arm.setdefault(run.arm, {})
        if run.seed in seeds:
            raise SkillbenchError(
                f"{run.folder} and {seeds[run.seed].folder} are both arm {run.arm} with seed {run.seed}; name one of them"
            )
        seeds[run.seed] = run
    tasks = _common_tasks(runs)
    draw = {"resamples": resamples, "seed": seed}
    pairs = [_compare(a, b, by_arm[a], by_arm[b], tasks, draw, confidence) for a, b in combinations(by_arm, 2)]
    return ArmTable(
        tuple(_summary(arm, seeds) for arm, seeds in by_arm.items()),
        tuple(pair for pair in pairs if pair is not None),
        len(tasks),
        tuple(_warnings(runs, by_arm)),
    )


def _common_tasks(runs: Sequence[ArmRun]) -> list[str]:
    if not runs:
        raise SkillbenchError("there are no agent runs to compare")
    first = runs[0]
    for run in runs[1:]:
        if run.passed.keys() != first.passed.keys() or run.gold != first.gold:
            odd = sorted(run.passed.keys() ^ first.passed.keys())
            only = f" ({odd[0]} is in {(run if odd[0] in run.passed else first).folder} alone)" if odd else ""
            raise SkillbenchError(
                f"{run.folder} and {first.folder} were judged on different tasks or gold{only}; compare runs over the same ones"
            )
    return list(first.passed)


def _summary(arm: str, seeds: Mapping[int, ArmRun]) -> ArmSummary:
    names = dict.fromkeys(name for run in seeds.values() for name in run.rates)
    values = {name: [run.rates[name] for run in seeds.values() if name in run.rates] for name in names}
    counts = {key: sum(int(run.counts[key]) for run in seeds.values()) for key in ("expected", "judged", "passed")}
    return ArmSummary(
        arm=arm,
        uses_gold=next(iter(seeds.values())).uses_gold,
        seeds=tuple(sorted(seeds)),
        by_seed={seed: seeds[seed].rates for seed in sorted(seeds)},
        mean={name: math.fsum(v) / len(v) for name, v in values.items()},
        spread={name: _deviation(v) for name, v in values.items() if len(v) > 1},
        counts=counts,
    )


def _deviation(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def _compare(
    a: str,
    b: str,
    of_a: Mapping[int, ArmRun],
    of_b: Mapping[int, ArmRun],
    tasks: Sequence[str],
    draw: Mapping[str, int],
    confidence: float,
) -> ArmComparison | None:
    """None for arms without a common seed: then nothing is paired."""
    seeds = tuple(sorted(of_a.keys() & of_b.keys()))
    if not seeds:
        return None
    gaps = np.array([math.fsum(of_a[s].passed[t] - of_b[s].passed[t] for s in seeds) / len(seeds) for t in tasks])
    column = gaps[:, None]
    low, high = significance.bootstrap_intervals(column, confidence=confidence, **draw)[0]
    return ArmComparison(
        a=a,
        b=b,
        seeds=seeds,
        difference=math.fsum(gaps.tolist()) / len(tasks),
        interval=(float(low), float(high)),
        wins=int((gaps > 0).sum()),
        losses=int((gaps < 0).sum()),
        ties=int((gaps == 0).sum()),
        p_value=float(significance.paired_randomisation(column, **draw)[0]),
        mcnemar=tuple(_mcnemar_row(seed, of_a[seed], of_b[seed], tasks) for seed in seeds),
    )


def _mcnemar_row(seed: int, a: ArmRun, b: ArmRun, tasks: Sequence[str]) -> tuple[int, int, int, float]:
    """A task is passed with the full reward; parts of it are no pass."""
    only_a = sum(is_full(a.passed[t]) and not is_full(b.passed[t]) for t in tasks)
    only_b = sum(is_full(b.passed[t]) and not is_full(a.passed[t]) for t in tasks)
    return seed, only_a, only_b, mcnemar_exact(only_a, only_b)


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Two-sided exact p-value of McNemar's test: under the null each discordant pair falls to either side with 1/2.

    Twice the smaller binomial tail, at most 1; 1 without a discordant pair. Not chosen: the chi-squared approximation, which needs
    25 discordant pairs or more.
    """
    n, least = only_a + only_b, min(only_a, only_b)
    tail = sum(math.comb(n, k) for k in range(least + 1))
    return min(1.0, float(2 * tail / (1 << n)))


def _warnings(runs: Sequence[ArmRun], by_arm: Mapping[str, Mapping[int, ArmRun]]) -> Iterator[str]:
    if len({run.setting for run in runs}) > 1:
        yield "The runs differ in more than arm and seed (model, budget, data or limits); see the receipts."
    lacking = {arm: sorted({r.seed for r in runs} - seeds.keys()) for arm, seeds in by_arm.items()}
    for arm, missing in lacking.items():
        if missing:
            yield f"{arm} has no run with seed {', '.join(map(str, missing))}."
    low = [run for run in runs if run.rates.get("coverage", 1.0) < 1.0]
    if low:
        lost = sum(run.counts["expected"] - run.counts["judged"] for run in low)
        where = ", ".join(run.folder for run in low)
        yield f"{lost} episodes in {len(low)} runs could not be judged and count 0; resume or repeat these first: {where}."


def arms_page(table: ArmTable) -> Page:
    """The comparison as a report."""
    seeds = sorted({seed for arm in table.arms for seed in arm.seeds})
    warnings = [f"Warning: {warning}" for warning in table.warnings]
    notes = [
        f"Each rate is over {table.tasks} tasks a seed, of which those that could not be judged count 0; mean ± sample standard "
        "deviation over seeds.",
        "Difference, interval and p are over tasks, their rewards averaged over seeds and over trials of a task (paired bootstrap, "
        "paired randomisation test).",
        "McNemar: for each seed, tasks passed by the first arm alone / by the second alone, and the exact two-sided p; a part of a "
        "reward is no pass.",
        *(f"{arm.arm} uses gold: an upper bound." for arm in table.arms if arm.uses_gold),
        *warnings,
    ]
    title = f"{len(table.arms)} arms, seeds {', '.join(map(str, seeds))}"
    return Page(title, {}, [_seed_table(table, seeds), _rate_table(table), _comparison_table(table)], notes)


def _seed_table(table: ArmTable, seeds: Sequence[int]) -> ReportTable:
    columns = (Column("Arm", text=True), *(Column(f"seed {seed}") for seed in seeds), Column("Mean ± SD"))
    rows = [(arm.arm, *(_of_seed(arm, seed) for seed in seeds), _spread(arm, "pass_rate")) for arm in table.arms]
    return ReportTable("Pass rate, all tasks", columns, tuple(rows))


def _of_seed(arm: ArmSummary, seed: int) -> str:
    return percent(arm.by_seed[seed]["pass_rate"]) if seed in arm.by_seed else "–"


def _spread(arm: ArmSummary, rate: str) -> str:
    if rate not in arm.mean:
        return "–"
    return percent(arm.mean[rate]) + (f" ± {percent(arm.spread[rate])}" if rate in arm.spread else "")


def _rate_table(table: ArmTable) -> ReportTable:
    names = {"pass_rate_judged": "Pass, judged", "load_rate": "Load", "submission_rate": "Submitted", "coverage": "Coverage"}
    columns = (Column("Arm", text=True), *(Column(name) for name in names.values()), Column("Passed", width="wide"))
    rows = [
        (arm.arm, *(_spread(arm, rate) for rate in names), f"{arm.counts['passed']} of {arm.counts['expected']}")
        for arm in table.arms
    ]
    return ReportTable("Further rates", columns, tuple(rows))


def _comparison_table(table: ArmTable) -> ReportTable:
    columns = (
        Column("Arms", text=True),
        Column("Difference [95 %]"),
        Column("better/worse/same"),
        Column("p"),
        Column("McNemar", width="wide", text=True),
    )
    rows = [
        (
            f"{pair.a} - {pair.b}",
            f"{_signed(pair.difference)} [{_signed(pair.interval[0])}, {_signed(pair.interval[1])}]",
            f"{pair.wins}/{pair.losses}/{pair.ties}",
            f"{pair.p_value:.3f}",
            "; ".join(f"{a}/{b} p={p:.3f}" for _, a, b, p in pair.mcnemar),
        )
        for pair in table.comparisons
    ]
    return ReportTable("Pairs of arms on the same tasks", columns, tuple(rows))


def _signed(value: float) -> str:
    return f"{100 * value + 0.0:+.2f}"
