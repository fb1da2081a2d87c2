"""What a sweep shows of its jobs' results, and what its jobs share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillbench import pipeline
from skillbench.judging.headline import headline
from skillbench.run_dir import BASELINE, RunDir
from tests.cli import run_here

Small = Callable[..., list[str]]


def test_headline_of_a_retrieval_run_is_at_its_first_cutoff() -> None:
    values = {"recall@10": 0.75, "recall@5": 0.5, "ndcg@10": 0.25, "ndcg@5": 0.123456, "misaligned": 1.0, "completeness@5": 0.0}
    assert headline({"retrieval": values}) == {"Recall@5": "50.00", "NDCG@5": "12.35", "Completeness@5": "0.00"}


def test_headline_of_an_agent_run_leaves_out_a_rate_that_is_not_defined() -> None:
    rates = {"pass_rate": 0.5, "submission_rate": 1.0, "coverage": 1.0}
    assert headline({"agent": rates, "retrieval": {"recall@5": 1.0}}) == {"Pass": "50.00", "Submitted": "100.00"}


def test_the_table_shows_each_jobs_results_and_the_jobs_print_a_line_each(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "sweep"
    caplog.set_level("INFO")
    assert run_here("-m", *small("backbone.b=0,0.75", "k=5,0", f"sweep.dir={folder}")) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "Sweep" and "Retrieval" not in "".join(lines)
    for job in ("0", "1"):
        document = json.loads((folder / job / "metrics.json").read_text())
        values = list(headline(document).values())
        row = next(line for line in lines if line.startswith(f"{job} "))
        assert [cell for cell in row.split() if cell in values] == values and "finished" in row
        assert any(str(folder / job) in m and all(v in m for v in values) for m in caplog.messages)
    assert "failed" in next(line for line in lines if line.startswith("2 "))


def test_jobs_share_a_baseline_only_where_nothing_differs(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[str] = []
    rank: Any = pipeline.rank

    def counting(method: Any, public: Any, plans: Any, retriever: Any, run: Any, name: str, k: int, *more: Any) -> None:
        ranked.append(name)
        rank(method, public, plans, retriever, run, name, k, *more)

    monkeypatch.setattr(pipeline, "rank", counting)
    folder = tmp_path / "sweep"
    jobs = small("method=rrf", "backbone.b=0,0.75", "k=5,6", "seed=1,2", f"sweep.dir={folder}")
    assert run_here("-m", *jobs) == 0
    baselines = {job.name: (job / BASELINE).read_bytes() for job in folder.glob("[0-9]")}
    assert len(baselines) == 8 and ranked.count(BASELINE) == 4
    monkeypatch.setattr(pipeline, "rank", rank)
    for job in sorted(baselines):
        config = RunDir(folder / job).config()
        own = (f"backbone.b={config['backbone']['b']}", f"k={config['k']}", f"seed={config['seed']}")
        assert run_here(*small("method=rrf", *own, f"paths.outputs={tmp_path / f'alone-{job}'}")) == 0
        (run,) = (tmp_path / f"alone-{job}").glob("*/*/")
        assert baselines[job] == (run / BASELINE).read_bytes()
        mine, its = (json.loads((path / "metrics.json").read_text()) for path in (run, folder / job))
        assert {k: v for k, v in mine.items() if k != "timing"} == {k: v for k, v in its.items() if k != "timing"}
