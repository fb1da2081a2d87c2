"""``task=report``: its files, and the page in a real browser (Debian's chromium, driven by Playwright)."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from skillbench.judging.report_content import content_of
from skillbench.judging.report_data import Gathered, gather
from skillbench.judging.report_html import warnings_of, write_report
from tests.cli import run_cli, run_here
from tests.judging.report_layouts import made_run

ODD = "a<b>&'\" <script>document.title='broken'</script> $x$"


@pytest.fixture(scope="module")
def report(report_outputs: Path) -> Path:
    """The folder of a report over all runs and one whose folder has an odd name, beside the outputs."""
    runs = gather(str(report_outputs)).runs
    odd = report_outputs / "retrieval" / ODD.replace("/", "∕")
    shutil.copytree(runs[-1].path, odd)
    out = report_outputs.parent / "report"
    try:
        assert (
            run_here("task=report", f"runs={report_outputs}/retrieval/*", f"out={out}", f"paths.outputs={out.parent}/unused") == 0
        )
        yield out
    finally:
        shutil.rmtree(odd)


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag == "a":
            self.found.append(values["href"] or "")
        self.loaded += [values[key] or "" for key in ("src", "srcset") if key in values] + (
            [values.get("href") or ""] if tag == "link" else []
        )


def links_of(page: Path) -> Links:
    parser = Links()
    parser.feed(re.sub(r"<script.*?</script>", "", page.read_text(encoding="utf-8"), flags=re.S))
    return parser


# ------------------------------------------------------------------------------------------------------------------ files


def test_files(report):
    tables = {p.stem for p in (report / "tables").glob("*.md")}
    assert tables >= {
        "main",
        "change",
        "sensitivity_alpha",
        "gold_size",
        "misalignment",
        "ablations",
        "cost",
        "failures",
        "unfinished",
        "runs",
    }
    assert {p.name for p in (report / "tables").iterdir()} == {f"{t}.{e}" for t in tables for e in ("md", "csv", "tex")}
    figures = {p.stem for p in (report / "figures").glob("*.png")}
    assert {p.name for p in (report / "figures").iterdir()} == {f"{f}.{e}" for f in figures for e in ("png", "svg")}
    assert "alpha_1_folder_bm25_recall" in figures and "grid_beta_gamma_1_folder_bm25" in figures
    assert not (report.parent / "unused").exists() or not any((report.parent / "unused").glob("*/*")), "no empty folder is left"


def test_one_file_that_names_no_host_and_no_place_of_this_machine(report):
    text = (report / "report.html").read_text(encoding="utf-8")
    links = links_of(report / "report.html")
    assert links.loaded == [], "nothing is loaded from anywhere"
    assert not any(re.match(r"[a-z]+:|/", link) for link in links.found), "every link is relative"
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert "://" not in own
    assert str(report.parent) not in text and str(Path.home()) not in text.replace("/root/.", "")


def test_every_link_leads_to_something(report):
    for link in links_of(report / "report.html").found:
        path = unquote(link.partition("#")[0])
        assert not path or (report / path).exists(), link
    for page in (report / "tables").glob("*.md"):
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / unquote(link) / "metrics.json").is_file(), link


def test_the_main_table_says_what_the_runs_say(report, report_outputs):
    """Read back from the CSV: means, intervals, counts and runs of every set-up."""
    with (report / "tables" / "main.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 11
    for row in rows:
        folders = [report_outputs / "retrieval" / name.replace("%20", " ") for name in row["runs"].split()]
        assert folders
        for folder in folders:
            document = json.loads((folder / "metrics.json").read_text())
            config = (folder / ".hydra" / "config.yaml").read_text()
            own = re.search(r"^method:\n(?:  .*\n)*?  name: (\w+)$", config, re.M)[1] == row["Method"]
            means, intervals = (
                document[key] for key in (("retrieval", "intervals") if own else ("baseline", "baseline_intervals"))
            )
            for metric, label in (("recall@1", "Recall@1"), ("ndcg@3", "NDCG@3"), ("completeness@5", "Completeness@5")):
                assert float(row[label]) == pytest.approx(100 * means[metric], abs=6e-5)
                if row["Seeds"] == "1":
                    assert [float(row[f"{label} {end}"]) for end in ("low", "high")] == pytest.approx(
                        [100 * v for v in intervals[metric]], abs=6e-5
                    )
            assert row["n"] == str(document["counts"]["expected"])
            assert row["Failed"] == ("1" if row["Method"] == "skilldreamer" else "0")


def test_the_best_of_a_data_set_is_bold(report):
    with (report / "tables" / "main.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    bold = {
        i
        for i, line in enumerate((report / "tables" / "main.md").read_text().split("\n| ")[3:])
        if re.match(r"[^|]*\|[^|]*\|[^|]*\|[^|]*\| \*\*", line)
    }
    best = max(float(row["Recall@1"]) for row in rows)
    assert bold == {i for i, row in enumerate(rows) if round(float(row["Recall@1"]), 2) == round(best, 2)} and 0 < len(bold) < len(
        rows
    )


def test_what_uses_gold_is_marked_and_does_not_compete():
    runs = [
        made_run(1, recall_at_1=0.5),
        made_run(2, method="low", recall_at_1=0.4),
        made_run(3, method="oracle", uses_gold=True, recall_at_1=1.0),
    ]
    content = content_of(Gathered(tuple(runs), ()), {})
    rows = {row[2].text: row for row in content.sections[0].tables[0].rows}
    assert [rows[m][4].bold for m in ("m", "low", "oracle (uses gold)")] == [True, False, False]
    assert any("upper bounds" in line for line in warnings_of(runs))


def test_runs_that_cannot_be_set_side_by_side_are_warned_of():
    other = made_run(2, data="e", recall_at_1=0.1)
    newer = made_run(3, recall_at_1=0.1)
    newer = replace(newer, receipt={**newer.receipt, "protocol_version": 3})
    assert warnings_of([made_run(1, recall_at_1=0.1)]) == []
    assert "read different data" in warnings_of([made_run(1, recall_at_1=0.1), other])[0]
    assert "different protocol versions (2, 3)" in warnings_of([made_run(1, recall_at_1=0.1), newer])[0]
    content = content_of(Gathered((made_run(1, recall_at_1=0.1), newer), ()), {})
    assert len(content.setups) == 2, "numbers of two protocols are no replicates"


def test_ablations_stand_beside_the_whole_method(report):
    with (report / "tables" / "ablations.csv").open(encoding="utf-8", newline="") as handle:
        rows = [row["Change"] for row in csv.DictReader(handle)]
    assert rows == ["whole method", "γ=0", "merge=single, pseudo_skills=false", "pseudo_skills=false"]


def test_curves_grids_and_failures(report, report_outputs):
    content = content_of(gather(str(report_outputs)), {})
    charts = {chart.key: chart for section in content.sections for chart in section.charts}
    alpha = charts["alpha_1_folder_bm25_recall"]
    assert [[p.x for p in s.points] for s in alpha.series[:2]] == [[0.5, 1, 2, 4], [0.5, 4]]
    assert all(p.low <= p.y <= p.high for s in alpha.series for p in s.points)
    assert len(charts["grid_beta_gamma_1_folder_bm25"].series[0].points) == 4
    with (report / "tables" / "failures.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [(r["Method"], r["Kind"], r["Stage"], r["Reason"], r["Queries of a run"]) for r in rows] == [
        ("skilldreamer", "failed", "capabilities", "no <JSON> in the reply & nothing else", "1")
    ]


def test_the_same_runs_give_the_same_bytes(report_outputs, tmp_path):
    pages = []
    for name in ("a", "b"):
        content = content_of(gather(str(report_outputs)), {})
        pages.append(write_report(content, tmp_path / name, title="T", static_figures=False).read_bytes())
    assert pages[0] == pages[1] and len(pages[0]) < 8_000_000


def test_a_chosen_cutoff_is_used(report_outputs):
    keys = [c.key for s in content_of(gather(str(report_outputs)), {}, cutoff=5).sections for c in s.charts]
    assert "main_folder_recall_at_5" in keys and "main_folder_recall_at_1" not in keys


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "error: task=report needs runs='outputs/…'"),
        (("runs=nowhere/*",), "error: runs=nowhere/*: no run folder there"),
        (("runs=nowhere", "task.cutoff=0"), "error: task.cutoff=0 must be a whole number of 1 or more"),
        (("runs=nowhere", "task.cutof=5"), "error: config: unknown key task.cutof"),
    ],
)
def test_what_cannot_be_reported_is_one_line_and_leaves_nothing(tmp_path, arguments, line):
    result = run_cli("task=report", *arguments, f"paths.outputs={tmp_path}/outputs")
    assert result.returncode == 2 and result.stderr.strip().splitlines()[-1].startswith(line)
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.rglob("*/*/*"))


# ---------------------------------------------------------------------------------------------------------------- browser

FLAGS = ("no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update", "disable-sync", "no-first-run")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Opens pages: ``browser(path, width, scheme)`` gives the page, its console errors, and what it asked for."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        # Playwright starts it with a new and empty user-data-dir.
        engine = driver.chromium.launch(executable_path=chromium, headless=True, args=[f"--{flag}" for flag in FLAGS])

        def show(path: Path, width: int = 1400, scheme: str = "light") -> tuple[Any, list[str], list[str]]:
            page, troubles, asked = engine.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme), [], []
            page.set_default_timeout(60_000)
            page.on("console", lambda m: troubles.append(m.text) if m.type in ("error", "warning") else None)
            page.on("pageerror", lambda e: troubles.append(str(e)))
            page.on("request", lambda r: asked.append(r.url))
            page.goto(path.resolve().as_uri())
            return page, troubles, asked

        yield show
        engine.close()


def scroll_through(page: Any) -> None:
    """Charts are drawn when they come near the window."""
    height = page.evaluate("document.documentElement.scrollHeight")
    for y in range(0, height, 600):
        page.evaluate(f"scrollTo(0, {y})")
        page.wait_for_timeout(40)
    page.wait_for_function("[...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg'))", timeout=60_000)


def column(page: Any, table: str, number: int) -> list[str]:
    return page.eval_on_selector_all(f"#table-{table} tbody tr td:nth-child({number})", "cells => cells.map(c => c.dataset.sort)")


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (400, "dark")])
def test_the_page_is_whole_and_asks_for_nothing(report, browser, width, scheme):
    page, troubles, asked = browser(report / "report.html", width, scheme)
    scroll_through(page)
    assert troubles == [] and set(asked) == {(report / "report.html").resolve().as_uri()}
    assert page.title() == "Skill retrieval report", "no name in a run folder became a script"
    assert page.locator(".plot").count() == len(list((report / "figures").glob("*.png"))) > 10
    assert page.locator("#figure-alpha_1_folder_bm25_recall .scatterlayer .trace").count() >= 6, "lines, bands and dashed levels"
    assert page.locator("#figure-main_folder_recall_at_1 .bars .point").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page itself never scrolls sideways"
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    dark = sum(map(int, re.findall(r"\d+", background)[:3])) < 200
    assert dark == (scheme == "dark")


def test_the_switch_changes_the_page_and_its_charts(report, browser):
    page, troubles, _ = browser(report / "report.html", 1000, "light")
    page.wait_for_selector("#figure-main_folder_recall_at_1 .trace.bars:last-child .point path")
    fill = "getComputedStyle(document.querySelector('#figure-main_folder_recall_at_1 .trace.bars:last-child .point path')).fill"
    before = page.evaluate(fill), page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    page.wait_for_function(f"{fill} !== '{before[0]}'")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before[1]
    page.click("#theme")
    page.wait_for_function(f"{fill} === '{before[0]}'")
    assert troubles == []


def test_tables_sort_by_value(report, browser):
    page, troubles, _ = browser(report / "report.html")
    head = page.locator("#table-main thead th", has_text="Recall@1").locator("button")
    head.click()
    values = [float(v) for v in column(page, "main", 5)]
    assert values == sorted(values, reverse=True) and len(set(values)) > 2
    head.click()
    assert [float(v) for v in column(page, "main", 5)] == sorted(values)
    assert page.locator("#table-main th[aria-sort]").get_attribute("aria-sort") == "ascending"
    page.locator("#table-main thead th", has_text="Method").locator("button").click()
    assert column(page, "main", 3) == sorted(column(page, "main", 3))
    page.locator("#table-cost thead th", has_text="LLM tokens/query").locator("button").click()
    tokens = column(page, "cost", 8)
    assert "" in tokens and all(not later for later in tokens[tokens.index("") :]), "cells without a value stay last"
    page.locator("#table-cost thead th", has_text="LLM tokens/query").locator("button").click()
    assert column(page, "cost", 8)[-1] == ""
    assert troubles == []


def test_rows_can_be_filtered_and_cutoffs_hidden(report, browser):
    page, _, _ = browser(report / "report.html")
    page.fill("#table-main input", "skilldreamer α=4")
    assert page.locator("#table-main tbody tr:visible").count() == 1
    page.fill("#table-main input", "")
    assert page.locator("#table-main tbody tr:visible").count() == 11
    page.click("#table-main button[data-k='3']")
    shown = page.locator("#table-main thead th:visible").all_inner_texts()
    values = [f"{name}@{k}" for k in (1, 5) for name in ("Recall", "NDCG", "Completeness")]
    assert shown == ["Data set", "Backbone", "Method", "Settings", *values, "n", "Failed", "Seeds"]


def test_values_and_points_lead_to_their_runs(report, browser):
    page, _, _ = browser(report / "report.html")
    first = page.locator("#table-main tbody tr").first.locator("td.num a").first
    assert re.match(r"18 runs: ", first.get_attribute("title"))
    first.click()
    folders = page.eval_on_selector_all("#runs-of a", "links => links.map(a => a.getAttribute('href'))")
    assert len(folders) == 18 and all((report / unquote(f) / "metrics.json").is_file() for f in folders)
    assert ODD.replace("/", "∕") in " ".join(page.locator("#runs-of a").all_inner_texts()), "shown as it is"
    page.keyboard.press("Escape")
    assert page.locator("#runs-of").count() == 0
    single = page.locator("#table-main tbody tr", has_text="pseudo_skills=false").first.locator("td.num a").first
    assert (report / unquote(single.get_attribute("href")) / "metrics.json").is_file()
    bar = page.locator("#figure-main_folder_recall_at_1 .bars .point").last
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.8)
    page.wait_for_selector("#figure-main_folder_recall_at_1 .hoverlayer .hovertext")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.8)
    page.wait_for_selector("#runs-of a")
    assert page.locator("#runs-of a").count() == 3
