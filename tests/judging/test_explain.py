"""``task=explain``: the trace of a run as a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillbench.judging.explain import print_trace
from skillbench.records import Ranking, Trace
from skillbench.run_dir import RANKINGS, RunDir, ranking_row
from tests.cli import newest, run_here


def test_explain_shows_what_the_trace_of_a_skilldreamer_run_holds(
    tmp_path: Path, session_cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert run_here("backbone=bm25", "judge.resamples=20", f"paths.outputs={tmp_path}", f"paths.cache={session_cache}") == 0
    run = newest(tmp_path)
    row = json.loads((run / "traces.jsonl").read_text().splitlines()[0])
    plan = next(p for p in map(json.loads, (run / "plans.jsonl").open()) if p["query_id"] == row["query_id"])
    capsys.readouterr()
    assert run_here("task=explain", f"run={run}", f"query={row['query_id']}") == 0
    shown = capsys.readouterr().out
    assert all(anchor in shown for anchor in plan["anchors"])
    trace = Trace(row["candidates"])
    for number, capability in enumerate(plan["capabilities"]):
        part = shown.split(f"{number + 1}. {capability[:40]}")[1]
        first = next(r for r in trace if r["capability"] == number and r["list_rank"] == 1)
        line = next(line for line in part.splitlines() if line.split()[:1] == ["1"])
        cells = [f"{first[name]:.4f}" for name in ("d", "n_q", "n_p", "n_a", "h")]
        assert line.split() == ["1", str(first["rank"] or "-"), first["skill_id"], *cells]


def test_explain_of_a_reranker_shows_its_own_columns_by_its_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunDir(tmp_path)
    run.write_rows(RANKINGS, [ranking_row(Ranking.from_order("q", ["b", "a"], 2))])
    rows = [{"skill_id": s, "first_rank": n, "score": v, "rank": r} for s, n, v, r in [("a", 1, 0.25, 2), ("b", 2, 0.5, 1)]]
    print_trace(run, "q", Trace.of_rows([*rows, {"skill_id": "c", "first_rank": 3, "rank": None}]), Trace())
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[1:] == [
        ["skill", "id", "first", "rank", "score", "rank"],
        ["b", "2", "0.5000", "1"],
        ["a", "1", "0.2500", "2"],
        ["c", "3", "-", "-"],
    ]


def test_explain_of_a_reranker_over_skilldreamer_shows_both_traces(
    tmp_path: Path, session_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"match": "guides are listed", "reply": "[2] > [1]"}) + "\n")
    stacked = [
        "method=rerank_listwise",
        "method@method.first=skilldreamer",
        "plans=package:data/sample/plans.jsonl",
        "method.depth=5",
    ]
    place = [f"paths.outputs={tmp_path}", f"paths.cache={session_cache}", "judge.resamples=20", "backbone=bm25"]
    assert run_here(*stacked, "llm=scripted", f"llm.path={script}", *place) == 0
    run = newest(tmp_path)
    row = json.loads((run / "traces.jsonl").read_text().splitlines()[0])
    assert set(row["candidates"]) == {"skill_id", "first_rank", "left_out", "rank"} and "h" in row["first"]
    capsys.readouterr()
    assert run_here("task=explain", f"run={run}", f"query={row['query_id']}") == 0
    shown = capsys.readouterr().out
    assert "left out" in shown and "anchors" in shown
    receipt = json.loads((run / "receipt.json").read_text())
    assert list(receipt["prompts"]) == ["listwise"], "the plans' prompts were not asked here"
    assert "scripted" in (run / "report.md").read_text().split("##")[0]


def test_a_trace_is_a_table() -> None:
    trace = Trace.of_rows([{"a": 1, "b": 2}, {"b": 3}])
    assert (len(trace), list(trace), trace[-1]) == (2, [{"a": 1, "b": 2}, {"a": None, "b": 3}], {"a": None, "b": 3})
    assert len(Trace()) == 0 and not list(Trace())
    with pytest.raises(ValueError, match="differ in length"):
        Trace({"a": [1], "b": []})
