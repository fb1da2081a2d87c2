"""Real run folders for the tests of reports: the pipeline over a small made data set, with BM25 and made plans."""

from __future__ import annotations

import json
import random
from pathlib import Path

from skillbench.judging.report_data import ReportRun
from tests.cli import run_here

TOPICS = {
    "join-tables": "merge two tables on a shared key column",
    "plot-bars": "draw sorted bar charts with zero baseline",
    "clean-dates": "parse calendar timestamps of several formats",
    "write-report": "state findings before evidence in prose",
    "mend-csv": "repair broken delimiter quoting in spreadsheets",
    "route-trucks": "plan vehicle routes under capacity limits",
    "scan-logs": "search server logs for failing requests",
    "tune-index": "choose database indexes from query plans",
}
FAILED = "q07"  # the query whose plan failed
QUERIES = 24


def write_folder(root: Path, queries: int = QUERIES, seed: int = 3) -> Path:
    """``dataset=folder`` with eight skills; queries name some of their gold skills' words, and words of other skills."""
    rng = random.Random(seed)
    for name, words in TOPICS.items():
        path = root / name / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_text(f"---\nname: {name}\ndescription: How to {words}.\n---\n\nSteps: {words}, carefully.\n", encoding="utf-8")
    (root / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _queries(rng, queries)), encoding="utf-8")
    return root


def _queries(rng: random.Random, queries: int) -> list[dict[str, object]]:
    names, rows = list(TOPICS), []
    for i in range(queries):
        gold = rng.sample(names, 1 + i % 5)
        noise = rng.choice([n for n in names if n not in gold])
        words = [*TOPICS[gold[0]].split()[:2], *TOPICS[noise].split()[:4]]
        rows.append({"id": f"q{i:02}", "query": f"please {' '.join(words)} for task {i}", "skills": gold})
    return rows


def write_plans(folder: Path, path: Path) -> Path:
    """One capability and pseudo skill for each gold skill but the last; one plan that failed."""
    rows = []
    for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        query = json.loads(line)
        wanted = query["skills"][:-1] or query["skills"]
        failed = query["id"] == FAILED
        rows.append(
            {
                "query_id": query["id"],
                "capabilities": [] if failed else [f"how to {TOPICS[s]}" for s in wanted],
                "anchors": [] if failed else TOPICS[wanted[0]].split()[:1],
                "pseudo_skills": [] if failed else [f"# {s}\n{TOPICS[s]}" for s in wanted],
                "failure": {"stage": "capabilities", "reason": "no <JSON> in the reply & nothing else"} if failed else None,
                "model": "toy-llm",
                "usage": {"calls": 2, "prompt_tokens": 100, "completion_tokens": 50, "seconds": 0.5, "cost_usd": 0.001},
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def common(folder: Path, outputs: Path) -> list[str]:
    """What all runs share."""
    own = ["dataset=folder", f"dataset.root={folder}", "backbone=bm25", "k=5", "ks=[1,3,5]", "judge.resamples=200"]
    return [*own, f"paths.outputs={outputs}", "paths.cache=null"]


def make_outputs(root: Path) -> Path:
    """17 finished runs (α × seeds, β × γ, two ablations, direct, RRF twice), one that failed and one that was killed."""
    folder, outputs = write_folder(root / "skills"), root / "outputs"
    plans = write_plans(folder, root / "plans.jsonl")
    dreaming = ["-m", *common(folder, outputs), "method=skilldreamer", f"plans={plans}"]
    assert run_here(*dreaming, "alpha=0.5,1,2,4", "seed=42,43") == 0
    assert run_here(*dreaming, "beta=1,2", "gamma=0,1") == 0
    assert run_here(*dreaming, "method.pseudo_skills=false", "method.merge=round_robin,single") == 0
    assert run_here(*common(folder, outputs), "method=direct") == 0
    for _ in range(2):
        assert run_here(*common(folder, outputs), "method=rrf") == 0
    assert run_here("-m", *common(folder, outputs), "method=decompose", f"plans={plans}") == 1
    killed = outputs / "retrieval" / "killed"
    killed.mkdir()
    (killed / "status.json").write_text(json.dumps({"state": "running", "config_hash": "x"}), encoding="utf-8")
    return outputs


def made_run(
    number: int, seed: int = 42, *, data: str = "d", method: str = "m", uses_gold: bool = False, **numbers: float
) -> ReportRun:
    """A run that no pipeline made, with these metrics (``recall_at_1=0.5``); it has neither files nor a baseline."""
    means = {name.replace("_at_", "@"): value for name, value in numbers.items()}
    counts = {"expected": 4, "answered": 4, "unanswered": 0, "failed": 0, "missing": 0, "fallback": 0, "failures_by_stage": {}}
    document = {
        "retrieval": means,
        "intervals": {name: [value, value] for name, value in means.items()},
        "counts": {**counts, "gold_skills": 4},
        "by_gold_size": {"1": {"queries": 4, **means}},
        "judging": {"ks": [1], "resamples": 50, "seed": seed, "confidence": 0.95},
        "uses_gold": uses_gold,
    }
    receipt = {
        "data": {"name": "made", "public": data, "gold": f"gold-{data}"},
        "judged_with": {"judge": {"duplicates": "separate"}, "dataset": {"name": "made", "root": f"/{number}"}},
        "protocol_version": 2,
        "config_hash": "c",
        "plans": {"plans": 0, "models": []},
        "llm": {"name": "none"},
    }
    config = {"seed": seed, "k": 5, "method": {"name": method}, "backbone": {"name": "b"}, "plans": None}
    return ReportRun(number, f"run-{number}", Path(f"/nowhere/run-{number}"), config, (), {"state": "finished"}, receipt, document)
