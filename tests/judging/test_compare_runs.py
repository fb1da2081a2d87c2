"""``task=compare``: outcomes by query, paired tests, the queries that changed most, and what is refused."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from skillbench.config import build
from skillbench.errors import SkillbenchError
from skillbench.judging.compare_runs import RunComparison, compare_folders
from skillbench.judging.compare_views import comparison_table, print_comparison, write_comparison
from skillbench.judging.report_data import gather
from skillbench.judging.significance import holm
from skillbench.run_dir import RunDir
from tests.cli import run_cli, run_here
from tests.judging.report_layouts import FAILED, QUERIES, TOPICS, common, write_folder

HEADLINE = [f"{name}@{k}" for k in (1, 3, 5) for name in ("recall", "ndcg", "completeness")]


@pytest.fixture(scope="module")
def folders(report_outputs: Path) -> tuple[Path, Path]:
    """A run of SkillDreamer with alpha=1, and one of direct."""
    runs = gather(str(report_outputs)).runs
    dreaming = next(r for r in runs if r.config["method"]["name"] == "skilldreamer" and r.config["alpha"] == 1)
    return dreaming.path, next(r.path for r in runs if r.config["method"]["name"] == "direct")


def compared(a: Path, b: Path, metric: str | None = None, shown: int = 10, load: Any = build) -> RunComparison:
    return compare_folders(a, b, metric=metric, shown=shown, load=load)


@pytest.fixture(scope="module")
def found(folders: tuple[Path, Path]) -> RunComparison:
    return compared(*folders)


def values(folder: Path) -> dict[str, dict[str, float]]:
    columns: dict[str, dict[str, float]] = {}
    for line in (folder / "measurements.jsonl").read_text().splitlines():
        row = json.loads(line)
        columns.setdefault(row["metric"], {})[row["id"]] = row["value"]
    return columns


# ---------------------------------------------------------------------------------------------------------------- numbers


def test_outcomes_are_counted_by_query(found, folders):
    a, b = map(values, folders)
    for metric in HEADLINE:
        gaps = [a[metric][q] - b[metric][q] for q in a[metric]]
        expected = (sum(g > 0 for g in gaps), sum(g < 0 for g in gaps), sum(g == 0 for g in gaps))
        assert (found.tests.wins[metric], found.tests.losses[metric], found.tests.ties[metric]) == expected
        assert found.tests.differences[metric] == pytest.approx(sum(gaps) / len(gaps)) and len(gaps) == found.queries == QUERIES
    assert found.tests.wins["recall@5"] > 0 < found.tests.losses["recall@1"] + found.tests.losses["ndcg@5"]


def test_against_its_own_baseline_a_run_says_what_its_judge_said(found, folders):
    """The baseline beside the run and the run of direct rank alike, so differences, intervals and tests must be the judge's."""
    document = json.loads((folders[0] / "metrics.json").read_text())
    for metric in HEADLINE:
        assert found.tests.differences[metric] == pytest.approx(document["difference"][metric], abs=1e-12)
        assert list(found.tests.intervals[metric]) == document["difference_intervals"][metric]
        assert found.tests.p_values[metric] == document["difference_tests"][metric]["p_value"]
        assert found.tests.p_holm[metric] == document["difference_tests"][metric]["p_holm"]


def test_of_lower_is_better_metrics_the_lower_value_wins(found, folders):
    a, b = map(values, folders)
    assert found.tests.wins["misaligned"] == sum(a["misaligned"][q] < b["misaligned"][q] for q in a["misaligned"]) > 0


def test_bootstrap_p_values_equal_scipys(found, folders):
    """The shift method on scipy's own resamples of the paired differences."""
    stats = pytest.importorskip("scipy.stats")
    a, b = map(values, folders)
    for metric in ("recall@3", "ndcg@5", "completeness@5"):
        gaps = np.array([a[metric][q] - b[metric][q] for q in a[metric]])
        drawn = stats.bootstrap(
            (gaps,), np.mean, n_resamples=200, method="percentile", rng=np.random.default_rng(42), vectorized=True
        )
        extreme = (np.abs(drawn.bootstrap_distribution - gaps.mean()) >= abs(gaps.mean()) - 1e-12).sum()
        assert found.bootstrap[metric] == pytest.approx((1 + extreme) / 201, abs=1e-11)


def test_holm_is_over_the_headline_metrics_alone(found):
    family = {m: p for m, p in found.bootstrap.items() if m in HEADLINE}
    assert found.bootstrap_holm == holm(family) and len(family) == len(HEADLINE)
    assert set(found.tests.p_holm) == set(HEADLINE)


@pytest.fixture(scope="module")
def untied(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[RunComparison, np.ndarray, np.ndarray]:
    """Copies of the runs with made values without ties, judged with 20,000 resamples; and these values."""
    root, rng = tmp_path_factory.mktemp("untied"), np.random.default_rng(8)
    a = rng.random(QUERIES)
    columns = a, np.clip(a + rng.normal(0.1, 0.15, QUERIES), 0, 1)
    for folder, column in zip(folders, columns, strict=True):
        copy = shutil.copytree(folder, root / folder.name)
        rows = ({"metric": "ndcg@5", "id": f"q{i:02}", "value": v} for i, v in enumerate(column))
        (copy / "measurements.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        document = json.loads((copy / "metrics.json").read_text())
        document["judging"]["resamples"] = 20_000
        (copy / "metrics.json").write_text(json.dumps(document))
    return compared(*(root / folder.name for folder in folders)), *columns


def test_p_values_and_interval_are_near_scipys(untied):
    stats = pytest.importorskip("scipy.stats")
    found, a, b = untied
    options = {"permutation_type": "samples", "alternative": "greater", "n_resamples": 20_000, "rng": np.random.default_rng(1)}
    theirs = stats.permutation_test((a - b,), lambda x, axis: np.abs(x.mean(axis=axis)), **options).pvalue
    assert 0.01 < theirs < 0.5 and found.tests.p_values["ndcg@5"] == pytest.approx(theirs, abs=0.01)
    ends = stats.bootstrap(
        (a - b,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(42), vectorized=True
    )
    assert found.tests.intervals["ndcg@5"] == pytest.approx(tuple(ends.confidence_interval), abs=1e-11)
    assert found.bootstrap["ndcg@5"] == pytest.approx(theirs, abs=0.05), "two tests of one hypothesis"


@pytest.mark.slow
def test_the_randomisation_test_is_near_ranx(untied):
    """On values without ties: ranx compares floating-point means without slack, so that of tied ones it misses some."""
    pytest.importorskip("ranx")
    from ranx.statistical_tests import fisher_randomization_test

    found, a, b = untied
    theirs, _ = fisher_randomization_test(b, a, n_permutations=20_000, max_p=0.01, random_seed=5)
    assert found.tests.p_values["ndcg@5"] == pytest.approx(theirs, abs=0.01)


def test_the_other_way_round(found, folders):
    back = compared(folders[1], folders[0])
    for metric in HEADLINE:
        assert back.tests.differences[metric] == pytest.approx(-found.tests.differences[metric])
        assert (back.tests.wins[metric], back.tests.losses[metric]) == (found.tests.losses[metric], found.tests.wins[metric])
        assert back.bootstrap[metric] == found.bootstrap[metric] and back.tests.p_values[metric] == found.tests.p_values[metric]
    assert [c.query_id for c in back.changed] == [c.query_id for c in found.changed]


def test_a_run_against_itself(folders):
    same = compared(folders[0], folders[0])
    assert same.changed == () and set(same.tests.ties.values()) == {QUERIES} and set(same.bootstrap.values()) == {1.0}
    assert comparison_table(same).rows[0][3].text == "+0.00"


# ---------------------------------------------------------------------------------------------------------- changed queries


def test_the_largest_changes_come_first_with_both_rankings(found, folders):
    a, b = map(values, folders)
    gaps = [abs(a["ndcg@5"][c.query_id] - b["ndcg@5"][c.query_id]) for c in found.changed]
    assert found.changed_by == "ndcg@5" and gaps == sorted(gaps, reverse=True) and len(gaps) == 10
    left_out = [abs(a["ndcg@5"][q] - b["ndcg@5"][q]) for q in a["ndcg@5"] if q not in {c.query_id for c in found.changed}]
    assert max(left_out) <= gaps[-1]
    rankings = [RunDir(folder).rankings() for folder in folders]
    gold = _gold(folders)
    for change in found.changed:
        for side, ranking in zip(change.sides, rankings, strict=True):
            ids = ranking[change.query_id].skill_ids
            assert tuple(row.skill_id for row in side.rows) == ids
            assert [row.gold for row in side.rows] == [i in gold[change.query_id] for i in ids]
            assert set(side.missed) == set(gold[change.query_id]) - set(ids)
        assert change.text.startswith("please ") and ("a better" in change.line) == (change.change > 0)


def _gold(folders: tuple[Path, Path]) -> dict[str, list[str]]:
    path = folders[0].parents[3] / "skills" / "queries.jsonl"
    return {row["id"]: row["skills"] for row in map(json.loads, path.read_text().splitlines())}


def test_a_query_that_failed_says_why(folders):
    change = next(c for c in compared(*folders, shown=QUERIES).changed if c.query_id == FAILED)
    assert change.sides[0].rows == () and change.sides[0].empty == "failed (capabilities): no <JSON> in the reply & nothing else"


def test_the_metric_and_the_number_of_queries_can_be_chosen(folders):
    chosen = compared(*folders, metric="recall_at_3", shown=2)
    assert chosen.changed_by == "recall@3" and len(chosen.changed) == 2
    assert compared(*folders, shown=0).changed == ()
    with pytest.raises(SkillbenchError, match=r"task.metric=recall_at_4: the two runs do not share it; they share recall@1, "):
        compared(*folders, metric="recall_at_4")


def test_without_the_data_the_numbers_stand_and_a_note_says_what_is_missing(folders, found):
    def gone(node: Any) -> Any:
        return build({**node, "root": "/nowhere/at/all"})

    blind = compared(*folders, load=gone)
    assert blind.tests == found.tests and blind.bootstrap == found.bootstrap
    assert [c.query_id for c in blind.changed] == [c.query_id for c in found.changed]
    assert all(row.gold is None for c in blind.changed for side in c.sides for row in side.rows)
    assert blind.notes[0].startswith("The data cannot be read here") and "Gold is not marked" in shown_in_terminal(blind)


def test_gold_that_changed_since_is_not_marked(folders, tmp_path):
    skills = shutil.copytree(folders[0].parents[3] / "skills", tmp_path / "skills")
    rows = [json.loads(line) for line in (skills / "queries.jsonl").read_text().splitlines()]
    rows[0]["skills"] = [next(name for name in TOPICS if name not in rows[0]["skills"])]
    (skills / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changed = compared(*folders, load=lambda node: build({**node, "root": str(skills)}))
    assert changed.notes == ("The data set has changed since the runs were judged, so gold is not marked.",)


# ----------------------------------------------------------------------------------------------------------------- refused


def edited(folder: Path, to: Path, name: str, **more: Any) -> Path:
    shutil.copytree(folder, to)
    document = json.loads((to / name).read_text())
    for key, value in more.items():
        part = document
        *path, last = key.split("__")
        for step in path:
            part = part[step]
        part[last] = value
    (to / name).write_text(json.dumps(document))
    return to


def test_runs_on_other_data_are_refused(folders, tmp_path):
    other = write_folder(tmp_path / "other", seed=4)
    assert run_here(*common(other, tmp_path / "out"), "method=direct") == 0
    there = gather(str(tmp_path / "out")).runs[0].path
    with pytest.raises(
        SkillbenchError, match=r"were judged on different skills and queries \(folder \w{12} and folder \w{12}\); only runs"
    ):
        compared(folders[0], there)
    gold = edited(folders[0], tmp_path / "gold", "receipt.json", data__gold="f" * 64)
    with pytest.raises(SkillbenchError, match="were judged on different gold"):
        compared(folders[0], gold)


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        ("receipt.json", {"protocol_version": 99}, "different protocol versions .2, 99."),
        ("receipt.json", {"judged_with__judge__duplicates": "group"}, "different rules for identical skills .separate, group."),
        ("status.json", {"state": "running"}, "the run is running, not finished; go on with resume="),
        ("status.json", {"state": "failed"}, "the run is failed, not finished"),
    ],
)
def test_what_is_not_comparable_is_one_line(folders, tmp_path, name, change, line):
    with pytest.raises(SkillbenchError, match=line):
        compared(folders[0], edited(folders[1], tmp_path / "b", name, **change))


def test_folders_that_are_no_runs_are_named(folders, tmp_path):
    with pytest.raises(SkillbenchError, match="needs b=DIR"):
        compare_folders(folders[0], None, metric=None, shown=1, load=build)
    with pytest.raises(SkillbenchError, match=f"a={tmp_path}: no run folder there"):
        compared(tmp_path, folders[0])
    empty = shutil.copytree(folders[1], tmp_path / "agent")
    (empty / "measurements.jsonl").write_text('{"metric": "pass", "id": "t", "value": 1.0}\n')
    with pytest.raises(SkillbenchError, match="holds no retrieval metric"):
        compared(folders[0], empty)


# ------------------------------------------------------------------------------------------------------------------- views


def shown_in_terminal(found: RunComparison, width: int = 80) -> str:
    stream = io.StringIO()
    print_comparison(found, Console(file=stream, width=width, force_terminal=False, color_system=None))
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 100, 130])
def test_fits_the_terminal(found, width):
    text = shown_in_terminal(found, width)
    assert max(map(len, text.splitlines())) <= width and "…" not in text
    assert ("Bootstrap" in text.split("queries. Percentages")[0]) == (width >= 116)
    row = next(line for line in text.splitlines() if line.startswith("Recall@5"))
    assert f"{found.tests.wins['recall@5']}/{found.tests.losses['recall@5']}/{found.tests.ties['recall@5']}" in row
    assert text.count("●") == 1 + sum(row.gold for c in found.changed[:3] for side in c.sides for row in side.rows)


def test_markdown(found, folders, tmp_path):
    path, _ = write_comparison(found, tmp_path, html=True)
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert all((tmp_path / link / "metrics.json").is_file() for link in links) and len(set(links)) == 2
    assert text.count("### q") == len(found.changed)
    rows = [line for line in text.splitlines() if line.startswith("| Recall@3 |")]
    assert rows[0].split(" | ")[1] == f"{100 * sum(found.a.scores['recall@3'].values()) / QUERIES:.2f}"
    side = found.changed[0].sides[0].rows
    assert f"| 1 | {'**' + side[0].skill_id + '** ●' if side[0].gold else side[0].skill_id} |" in text
    assert "://" not in text


def test_the_page_stands_alone(found, tmp_path):
    _, page = write_comparison(found, tmp_path, html=True)
    text = page.read_text(encoding="utf-8")
    assert (
        len(text) < 200_000
        and "://" not in text
        and text.count('class="gold"') == sum(bool(row.gold) for c in found.changed for side in c.sides for row in side.rows)
    )
    assert write_comparison(found, tmp_path / "md", html=False) == [tmp_path / "md" / "compare.md"]


def test_from_the_command_line(folders, tmp_path):
    own = ["task=compare", f"a={folders[0]}", f"b={folders[1]}", f"paths.outputs={tmp_path}/outputs"]
    result = run_cli(*own, "task.changed=1")
    assert result.returncode == 0, result.stderr
    assert "1 of " in result.stdout and "a: " in result.stdout
    written = list((tmp_path / "outputs" / "compare").glob("*/*"))
    assert {p.name for p in written} == {"compare.md", "compare.html"}
    moved = shutil.move(folders[0].parents[3] / "skills", tmp_path / "moved")
    try:
        assert run_here(*own, f"out={tmp_path}/blind") == 0
        assert "cannot be read here" in (tmp_path / "blind" / "compare.md").read_text()
        assert run_here(*own, f"out={tmp_path}/found", "dataset=folder", f"dataset.root={moved}") == 0
        assert "●" in (tmp_path / "found" / "compare.md").read_text()
    finally:
        shutil.move(moved, folders[0].parents[3] / "skills")
    assert len(list((tmp_path / "outputs" / "compare").glob("*"))) == 1, "out= leaves no empty folder behind"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "error: task=compare needs a=DIR, the folder of a finished run (a and b)"),
        (("a=nowhere", "b=nowhere"), "error: a=nowhere: no run folder there (no status.json)"),
        (("a=nowhere", "b=nowhere", "task.changed=-1"), "error: task.changed=-1 must be a whole number of 0 or more"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, line):
    result = run_cli("task=compare", *arguments, f"paths.outputs={tmp_path}/outputs")
    assert (result.returncode, result.stdout) == (2, "") and result.stderr.strip() == line
    assert not list(tmp_path.rglob("*/*/*"))
