"""The section on agents: arms by seeds, pairs of arms on the same tasks, everything that was counted, and tokens against passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillbench.errors import SkillbenchError
from skillbench.judging.arms import ArmComparison, ArmRun, load_arm_run, summarise
from skillbench.judging.export_tables import Cell, DataTable, TableColumn, count_cell, empty_cell, text_cell
from skillbench.judging.figures import Chart, Point, Series
from skillbench.judging.report_data import ReportRun
from skillbench.judging.report_parts import Section, p_cell, signed_percent, slug, text_cells
from skillbench.judging.report_setups import Estimate, dataset_names, estimate_of
from skillbench.run_dir import RunDir

RATES = {"pass_rate": "Pass", "load_rate": "Load"}
_INTRO = (
    "Pass: mean verifier reward over all tasks, one that could not be judged counting 0 (Harbor: over all trials of them). Load: "
    "tasks in which the agent loaded at least one offered skill, of those in which it could work; one that retrieval left without "
    "skills is one without a load. Every value is of one seed, or the mean over seeds with its standard deviation."
)
_PAIR_NOTE = (
    "Pass rate of the first arm minus that of the second, in points, over tasks averaged over seeds: paired bootstrap interval, "
    "paired randomisation test. McNemar: for each seed, tasks passed by the first alone / by the second alone, and the exact p; "
    "a part of a reward is no pass."
)
_UNKNOWN_TOKENS = ("calls_with_unknown_tokens", "trials_with_prompt_tokens_unknown", "trials_with_completion_tokens_unknown")
_ORDER = ("no_skills", "direct", "skilldreamer", "pseudo", "forced", "distractors", "curated")


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One run of an arm: its rates in [0, 1] and its counts (nested ones with dots), by name."""

    dataset: str
    llm: str
    arm: str
    seed: int
    uses_gold: bool
    numbers: Mapping[str, float]
    number: int
    run: ArmRun


Groups = Mapping[tuple[str, str, str], Sequence[ArmResult]]


def arm_results(runs: Sequence[ReportRun]) -> list[ArmResult]:
    """The agent runs among ``runs``, by data set, model, arm and seed."""
    names = dataset_names(runs)
    found = [_arm_result(run, names) for run in runs if "agent" in run.document]
    return sorted(found, key=lambda r: (r.dataset, r.llm, _rank(r.arm), r.seed, r.number))


def _arm_result(run: ReportRun, names: Mapping[tuple[str, str], str]) -> ArmResult:
    arm, data, llm = load_arm_run(RunDir(run.path)), run.receipt["data"], run.receipt["llm"]
    numbers = {**arm.rates, **dict(_flat(arm.counts, ""))}
    model = str(llm.get("model") or llm.get("name", "none"))
    return ArmResult(names[data["public"], data["gold"]], model, arm.arm, arm.seed, arm.uses_gold, numbers, run.number, arm)


def _flat(numbers: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in numbers.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield f"{prefix}{key}", float(value)


def _rank(arm: str) -> tuple[int, str]:
    name = arm.split()[0]
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), arm)


def agent_section(results: Sequence[ArmResult]) -> Section:
    """Empty without agent runs."""
    groups: dict[tuple[str, str, str], list[ArmResult]] = defaultdict(list)
    for result in results:
        groups[result.dataset, result.llm, result.arm].append(result)
    if not groups:
        return Section("agents", "Agents: arms and seeds", _INTRO)
    tables = (_seed_table(groups), _pair_table(results), _number_table(groups))
    return Section("agents", "Agents: arms and seeds", _INTRO, tuple(t for t in tables if t.rows), tuple(_charts(groups)))


# ------------------------------------------------------------------------------------------------------------------ tables


def _seed_table(groups: Groups) -> DataTable:
    seeds = sorted({r.seed for members in groups.values() for r in members})
    columns = [TableColumn(t, number=False) for t in ("Data set", "Model", "Arm")]
    for title in RATES.values():
        columns += [*(TableColumn(f"{title}, seed {seed}") for seed in seeds), TableColumn(f"{title}, mean", parts=("", "sd"))]
    columns += [TableColumn("Tasks"), TableColumn("Not judged")]
    rows = tuple((*_names(key, members), *_seed_cells(members, seeds)) for key, members in groups.items())
    return DataTable(
        "arms", "Arms × seeds", tuple(columns), rows, "Percentages. Not judged: episodes of all seeds that no model answered."
    )


def _seed_cells(members: Sequence[ArmResult], seeds: Sequence[int]) -> Iterator[Cell]:
    for rate in RATES:
        for seed in seeds:
            yield _mean_cell([r for r in members if r.seed == seed], rate, 100)
        yield _mean_cell(members, rate, 100)
    yield count_cell(members[0].numbers.get("tasks", members[0].numbers["expected"]), _numbers(members))
    yield count_cell(sum(r.numbers["expected"] - r.numbers["judged"] for r in members), _numbers(members))


def _names(key: Sequence[str], members: Sequence[ArmResult]) -> list[Cell]:
    gold = " (uses gold)" if any(r.uses_gold for r in members) else ""
    return text_cells((key[0], key[1], key[2] + gold), _numbers(members))


def _numbers(members: Sequence[ArmResult]) -> tuple[int, ...]:
    return tuple(sorted({r.number for r in members}))


def mean_of(members: Sequence[ArmResult], name: str) -> Estimate | None:
    """Mean and spread of a number over runs of an arm; None if none has it."""
    known = [r for r in members if name in r.numbers]
    return estimate_of([r.numbers[name] for r in known], None, _numbers(known)) if known else None


def _mean_cell(members: Sequence[ArmResult], name: str, scale: float) -> Cell:
    found = mean_of(members, name)
    if found is None:
        return empty_cell()
    spread = "" if found.spread is None else f" ±{scale * found.spread:,.2f}"
    values = {"": scale * found.mean} | ({} if found.spread is None else {"sd": scale * found.spread})
    return Cell(f"{scale * found.mean:,.2f}{spread}", found.mean, runs=found.runs, values=values)


def _pair_table(results: Sequence[ArmResult]) -> DataTable:
    """Pairs of arms of the runs over one data set that differ in arm and seed alone."""
    alike: dict[tuple[str, str, str], list[ArmResult]] = defaultdict(list)
    for result in results:
        alike[result.dataset, result.llm, result.run.setting].append(result)
    texts, tests = ("Data set", "Model", "Arms"), ("Better", "Worse", "Same", "p")
    columns = [TableColumn(t, number=False) for t in texts] + [TableColumn("Difference", parts=("", "low", "high"))]
    columns += [*(TableColumn(t) for t in tests), TableColumn("McNemar", number=False)]
    rows, notes = [], [_PAIR_NOTE]
    for (dataset, llm, _), members in alike.items():
        try:
            pairs = summarise([r.run for r in members]).comparisons
        except SkillbenchError as error:
            notes.append(f"{dataset}, {llm}: {error}.")
            continue
        rows += [_pair_row(dataset, llm, pair, members) for pair in pairs]
    return DataTable("arm_pairs", "Pairs of arms on the same tasks", tuple(columns), tuple(rows), " ".join(notes))


def _pair_row(dataset: str, llm: str, pair: ArmComparison, members: Sequence[ArmResult]) -> tuple[Cell, ...]:
    runs = _numbers([r for r in members if r.arm in (pair.a, pair.b)])
    low, high = pair.interval
    values = {part: 100 * v for part, v in (("", pair.difference), ("low", low), ("high", high))}
    ends = f"[{signed_percent(low)}, {signed_percent(high)}]"
    difference = Cell(signed_percent(pair.difference), pair.difference, ends, runs=runs, values=values)
    counts = [count_cell(n, runs) for n in (pair.wins, pair.losses, pair.ties)]
    mcnemar = "; ".join(f"seed {seed}: {a}/{b}, p={p:.3f}" for seed, a, b, p in pair.mcnemar)
    names = text_cells((dataset, llm, f"{pair.a} − {pair.b}"), runs)
    return (*names, difference, *counts, p_cell(pair.p_value, runs), text_cell(mcnemar, runs))


def _number_table(groups: Groups) -> DataTable:
    """Arms side by side, without what is 0 for all of them."""
    arms = sorted(dict.fromkeys(key[2] for key in groups), key=_rank)
    columns = [TableColumn(t, number=False) for t in ("Data set", "Model", "Number")]
    columns += [TableColumn(arm, parts=("", "sd")) for arm in arms]
    rows = [row for place in dict.fromkeys(key[:2] for key in groups) for row in _number_rows(place, arms, groups)]
    note = "Means over seeds. Rates and coverage are percentages; all else is counted over the tasks of a seed."
    return DataTable("agent_counts", "All agent numbers", tuple(columns), tuple(rows), note)


def _number_rows(place: tuple[str, str], arms: Sequence[str], groups: Groups) -> Iterator[tuple[Cell, ...]]:
    members = [groups.get((*place, arm), ()) for arm in arms]
    runs = _numbers([r for row in members for r in row])
    for name in dict.fromkeys(n for row in members for r in row for n, value in r.numbers.items() if value and n not in RATES):
        scale = 100 if name.endswith(("rate", "rate_judged", "coverage")) else 1
        yield (*text_cells((*place, name), runs), *(_mean_cell(row, name, scale) for row in members))


# ------------------------------------------------------------------------------------------------------------------ charts


def _charts(groups: Groups) -> Iterator[Chart]:
    """For each data set and model: rates by arm (whiskers: one standard deviation over seeds), and passes by tokens."""
    for dataset, llm in dict.fromkeys(key[:2] for key in groups):
        arms = {key[2]: members for key, members in groups.items() if key[:2] == (dataset, llm)}
        place, key = f"{dataset}, {llm}", slug(dataset, llm)
        bars = tuple(Series(title, _bars(arms, rate), color) for color, (rate, title) in enumerate(RATES.items()))
        yield Chart(f"arms_{key}", f"Arms: {place}", "bar", "Arm", "%", bars)
        points = tuple(Series(arm, _tokens(members), color, color) for color, (arm, members) in enumerate(arms.items()))
        if any(series.points for series in points):
            yield Chart(f"arm_tokens_{key}", f"Pass rate by tokens: {place}", "scatter", "Tokens per task", "Pass rate (%)", points)


def _bars(arms: Mapping[str, Sequence[ArmResult]], rate: str) -> tuple[Point, ...]:
    return tuple(_bar(arm, members, rate, found) for arm, members in arms.items() if (found := mean_of(members, rate)))


def _bar(arm: str, members: Sequence[ArmResult], rate: str, found: Estimate) -> Point:
    mean, spread = 100 * found.mean, None if found.spread is None else 100 * found.spread
    seeds = ", ".join(f"seed {r.seed}: {100 * r.numbers[rate]:.2f}" for r in members if rate in r.numbers)
    low, high = (None, None) if spread is None else (max(0.0, mean - spread), min(100.0, mean + spread))
    return Point(arm, mean, low, high, f"<b>{arm}</b><br>{RATES[rate]} {mean:.2f}<br>{seeds}", found.runs)


def _tokens(members: Sequence[ArmResult]) -> tuple[Point, ...]:
    """One point a run; none where the tokens of a call or trial are unknown, for a partial sum would make an arm look cheap."""
    points = []
    for r in members:
        tokens = r.numbers.get("work.prompt_tokens", 0) + r.numbers.get("work.completion_tokens", 0)
        if tokens and not any(r.numbers.get(f"work.{key}") for key in _UNKNOWN_TOKENS):
            each, passed = tokens / r.numbers["expected"], 100 * r.numbers["pass_rate"]
            points.append(
                Point(each, passed, hover=f"<b>{r.arm}</b>, seed {r.seed}<br>{each:,.0f} tokens, {passed:.2f} %", runs=(r.number,))
            )
    return tuple(points)
