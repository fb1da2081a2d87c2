"""The main path through the entry function: a run's files, its numbers, resume, sweeps, judge, verify."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import pytrec_eval

from skillbench.run_dir import RunDir, trec_id
from tests.cli import command, environment, newest, run_cli, run_here

FILES = {
    ".hydra/config.yaml",
    ".hydra/overrides.yaml",
    "measurements.jsonl",
    "metrics.json",
    "prediction.json",
    "qrels.trec",
    "rankings.jsonl",
    "rankings.trec",
    "receipt.json",
    "report.md",
    "run.log",
    "status.json",
}


def arguments(folder: Path, outputs: Path, cache: Path, *more: str) -> list[str]:
    return [
        "dataset=folder",
        f"dataset.root={folder}",
        "backbone=bm25",
        "k=5",
        "ks=[1,3,5]",
        "judge.resamples=50",
        f"paths.outputs={outputs}",
        f"paths.cache={cache}",
        *more,
    ]


def files(run: Path) -> set[str]:
    return {p.relative_to(run).as_posix() for p in run.rglob("*") if p.is_file()}


def metrics_without_timing(run: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run / "metrics.json").read_text())
    document.pop("timing")
    return document


def same_results(one: Path, other: Path) -> None:
    for name in ("rankings.jsonl", "rankings.trec", "measurements.jsonl"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert json.dumps(metrics_without_timing(one)) == json.dumps(metrics_without_timing(other))


@pytest.fixture
def run(tiny_folder: Path, tmp_path: Path, session_cache: Path) -> Path:
    assert run_here(*arguments(tiny_folder, tmp_path / "out", session_cache)) == 0
    return newest(tmp_path / "out")


def test_a_run_leaves_the_stated_files_and_numbers(run: Path) -> None:
    assert files(run) == FILES
    metrics = json.loads((run / "metrics.json").read_text())
    rankings = RunDir(run).rankings()
    assert rankings["q3"].skill_ids[0] == "c-sharp"
    assert rankings["q4"].skill_ids == ()  # B02: nothing matches, nothing is returned, and Recall is 0 in the mean
    by_hand = {"q1": 1.0, "q3": 1.0, "q4": 0.0}
    rows = [json.loads(line) for line in (run / "measurements.jsonl").read_text().splitlines()]
    recall = {row["id"]: row["value"] for row in rows if row["metric"] == "recall@5"}
    assert {q: recall[q] for q in by_hand} == by_hand
    assert metrics["retrieval"]["recall@5"] == pytest.approx(sum(recall.values()) / 5)
    assert (metrics["counts"]["expected"], metrics["counts"]["answered"], metrics["counts"]["unanswered"]) == (5, 4, 1)
    assert metrics["timing"].get("indexes_built", 0) + metrics["timing"].get("indexes_loaded", 0) == 1


def test_the_receipt_traces_the_numbers(run: Path) -> None:
    receipt = json.loads((run / "receipt.json").read_text())
    assert set(receipt["files"]) == FILES - {"receipt.json"}
    assert receipt["backbone"]["document"] == "{name} | {description} | {body}"
    assert receipt["seed"] == 42
    assert receipt["machine"]["libraries"]["bm25s"][0].isdigit()
    assert receipt["data"]["public"] != receipt["data"]["gold"]


def test_pytrec_eval_agrees_on_the_emitted_run(run: Path) -> None:
    from tests.conftest import TINY_QUERIES

    qrels = {q["id"]: dict.fromkeys(q["skills"], 1) for q in TINY_QUERIES}
    trec: dict[str, dict[str, float]] = {q: {} for q in qrels}
    for line in (run / "rankings.trec").read_text().splitlines():
        query, _, skill, _, score, _ = line.split(" ")
        trec[query][skill] = float(score)
    found = pytrec_eval.RelevanceEvaluator(qrels, {"recall.1,3,5", "ndcg_cut.1,3,5"}).evaluate(trec)
    rows = [json.loads(line) for line in (run / "measurements.jsonl").read_text().splitlines()]
    ours = {(row["metric"], row["id"]): row["value"] for row in rows}
    for query in qrels:
        for k in (1, 3, 5):
            # pytrec_eval leaves out a query with an empty ranking; ours is 0 there
            reference = found.get(query, {f"recall_{k}": 0.0, f"ndcg_cut_{k}": 0.0})
            assert ours[f"recall@{k}", query] == pytest.approx(reference[f"recall_{k}"], abs=1e-9)
            assert ours[f"ndcg@{k}", query] == pytest.approx(reference[f"ndcg_cut_{k}"], abs=1e-9)
            assert ours[f"completeness@{k}", query] == float(reference[f"recall_{k}"] == 1.0)


def test_a_second_run_builds_nothing_again(tiny_folder: Path, tmp_path: Path) -> None:
    for expected in ({"indexes_built": 1}, {"indexes_loaded": 1}):
        assert run_here(*arguments(tiny_folder, tmp_path / "out", tmp_path / "cache")) == 0
        timing = json.loads((newest(tmp_path / "out") / "metrics.json").read_text())["timing"]
        assert {k: timing[k] for k in ("indexes_built", "indexes_loaded") if timing.get(k)} == expected


def test_a_second_run_embeds_nothing_again(tiny_folder: Path, tmp_path: Path) -> None:
    for encoded, cached in ((6, 0), (0, 6)):
        assert run_here(*arguments(tiny_folder, tmp_path / "out", tmp_path / "cache", "backbone=wordllama")) == 0
        timing = json.loads((newest(tmp_path / "out") / "metrics.json").read_text())["timing"]
        assert (timing["skills_encoded"], timing["skills_from_cache"]) == (encoded, cached)
        assert timing["queries_encoded"] == (5 if encoded else 0)


def test_m09_deeper_cutoffs_do_not_move_shallow_ones(tiny_folder: Path, tmp_path: Path, session_cache: Path) -> None:
    found = []
    for ks in ("[3]", "[3,5]"):
        assert run_here(*arguments(tiny_folder, tmp_path / "out", session_cache, f"ks={ks}")) == 0
        found.append(json.loads((newest(tmp_path / "out") / "metrics.json").read_text())["retrieval"])
    assert {k: v for k, v in found[0].items() if k.endswith("@3")} == {k: v for k, v in found[1].items() if k.endswith("@3")}


def test_verify_finds_every_change(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here("task=verify", f"run={run}") == 0
    for name in sorted(FILES - {"receipt.json", ".hydra/overrides.yaml"}):
        spoilt = run.parent / "spoilt"
        shutil.copytree(run, spoilt)
        text = (spoilt / name).read_text()
        (spoilt / name).write_text(text.replace("q", "Q", 1) if name.endswith((".jsonl", ".trec")) else text + "\n")
        try:
            status = run_here("task=verify", f"run={spoilt}")
        finally:
            shutil.rmtree(spoilt)
        assert status != 0, name


def test_verify_recomputes_and_not_only_hashes(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A number that was changed together with its hash is found all the same."""
    import hashlib

    metrics = json.loads((run / "metrics.json").read_text())
    metrics["retrieval"]["recall@5"] += 0.01
    (run / "metrics.json").write_text(json.dumps(metrics, indent=2, ensure_ascii=False) + "\n")
    receipt = json.loads((run / "receipt.json").read_text())
    receipt["files"]["metrics.json"] = hashlib.sha256((run / "metrics.json").read_bytes()).hexdigest()
    (run / "receipt.json").write_text(json.dumps(receipt))
    assert run_here("task=verify", f"run={run}") == 1
    assert "retrieval.recall@5" in caplog.text


def test_verify_sees_changed_data(run: Path, tiny_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    skill = tiny_folder / "mend-csv" / "SKILL.md"
    skill.write_text(skill.read_text() + "more\n")
    assert run_here("task=verify", f"run={run}") == 1
    assert "public data: fingerprint" in caplog.text


def test_judge_again_with_other_cutoffs_and_back(run: Path) -> None:
    before = metrics_without_timing(run)
    assert run_here("task=judge", f"run={run}", "ks=[2,4]") == 0
    assert "recall@2" in metrics_without_timing(run)["retrieval"]
    assert run_here("task=verify", f"run={run}") == 0
    assert run_here("task=judge", f"run={run}") == 0
    assert metrics_without_timing(run) == before


def test_rrf_is_compared_with_direct(tiny_folder: Path, tmp_path: Path, session_cache: Path) -> None:
    assert run_here(*arguments(tiny_folder, tmp_path / "out", session_cache, "method=rrf", "backbone=wordllama")) == 0
    run = newest(tmp_path / "out")
    assert files(run) == FILES | {"baseline.jsonl"}
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["difference"]["recall@5"] == pytest.approx(metrics["retrieval"]["recall@5"] - metrics["baseline"]["recall@5"])


def test_resume_after_a_crash_gives_the_same_bytes(
    run: Path, tiny_folder: Path, tmp_path: Path, session_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillbench import pipeline

    for rows_before_crash in range(5):
        whole = pipeline.append_row
        left = rows_before_crash

        def crash(handle: Any, row: Any, whole: Any = whole) -> None:
            nonlocal left
            if left == 0:
                handle.write('{"query_id": "ha')
                handle.flush()
                raise RuntimeError("the machine went away")
            left -= 1
            whole(handle, row)

        outputs = tmp_path / f"crash{rows_before_crash}"
        monkeypatch.setattr(pipeline, "append_row", crash)
        with pytest.raises(RuntimeError):
            run_here(*arguments(tiny_folder, outputs, session_cache))
        monkeypatch.setattr(pipeline, "append_row", whole)
        broken = newest(outputs)
        assert json.loads((broken / "status.json").read_text())["state"] == "failed"
        assert run_here(*arguments(tiny_folder, outputs, session_cache, f"resume={broken}")) == 0
        same_results(run, broken)
        assert run_here("task=verify", f"run={broken}") == 0


def test_resume_with_a_changed_config_is_refused(
    run: Path, tiny_folder: Path, tmp_path: Path, session_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    assert run_here(*arguments(tiny_folder, tmp_path / "out", session_cache, f"resume={run}", "k=6")) == 2
    assert "another configuration" in capsys.readouterr().err
    assert before == {p: p.read_bytes() for p in run.rglob("*") if p.is_file() and p.name != ".lock"}


@pytest.mark.parametrize("changed", ["data", "plans"])
def test_resume_with_other_data_or_plans_is_refused(
    changed: str, tiny_folder: Path, tmp_path: Path, session_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The config only names the files. A killed run must not go on with what they hold now."""
    plans = tmp_path / "plans.jsonl"

    def write_plans(pseudo_skill: str) -> None:
        empty = {"capabilities": ["c"], "anchors": [], "failure": None}
        rows = [{"query_id": f"q{n}", "pseudo_skills": [pseudo_skill], **empty} for n in range(1, 6)]
        plans.write_text("".join(json.dumps(row) + "\n" for row in rows))

    write_plans("join tables")
    mine = arguments(tiny_folder, tmp_path / "out", session_cache, "method=skilldreamer", f"plans={plans}")
    assert run_here(*mine) == 0
    run = newest(tmp_path / "out")
    (run / "rankings.jsonl").write_bytes((run / "rankings.jsonl").read_bytes().split(b"\n")[0] + b"\n")
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps({**status, "state": "running"}))
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file() and p.name != "run.log"}
    if changed == "data":
        (tiny_folder / "mend-csv" / "SKILL.md").write_text("---\nname: mend-csv\ndescription: Other.\n---\n\nOther.\n")
    else:
        write_plans("plot bars")
    assert run_here(*mine, f"resume={run}") == 2
    assert f"was begun with other {changed} than there is now" in capsys.readouterr().err
    assert before == {p: p.read_bytes() for p in run.rglob("*") if p.is_file() and p.name not in ("run.log", ".lock")}


def test_a_reports_header_shows_the_weights_that_were_used(tmp_path: Path, session_cache: Path) -> None:
    base = ["backbone=bm25", "judge.resamples=20", f"paths.outputs={tmp_path}", f"paths.cache={session_cache}"]
    assert run_here(*base, "method.alpha_retrieval=0", "method.gamma=0", "method.merge=single") == 0
    report = (newest(tmp_path) / "report.md").read_text()
    for line in ("alpha_retrieval: 0", "alpha_rerank: 2", "beta: 1", "gamma: 0", "merge: single"):
        assert line in report.replace("**", "").replace("| ", "").replace(" |", ""), line


@pytest.mark.parametrize("switch", ["method.capabilities=false", "method.implicit=false"])
def test_plans_that_are_shipped_are_not_taken_for_other_switches(
    switch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(switch, f"paths.outputs={tmp_path}") == 2
    assert "needs a language model" in capsys.readouterr().err


def test_a_finished_run_is_not_done_again(run: Path, tiny_folder: Path, tmp_path: Path, session_cache: Path) -> None:
    before = (run / "receipt.json").read_bytes()
    assert run_here(*arguments(tiny_folder, tmp_path / "out", session_cache, f"resume={run}")) == 0
    assert (run / "receipt.json").read_bytes() == before


@pytest.mark.slow
def test_kill_dash_nine_then_resume(run: Path, tiny_folder: Path, tmp_path: Path, session_cache: Path) -> None:
    """Real kills at random moments of a real process, over and over in one folder; then it is let through."""
    draw = random.Random(7)
    outputs = tmp_path / "killed"
    kills, begun = 0, False
    for attempt in range(13):
        resume = [f"resume={newest(outputs)}"] if begun else []
        process = subprocess.Popen(
            command(*arguments(tiny_folder, outputs, session_cache, *resume)),
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(timeout=draw.uniform(0.3, 1.2) if attempt < 12 else None)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        begun = begun or bool(list(outputs.glob("*/*/status.json")))
    assert kills >= 1 and process.returncode == 0
    same_results(run, newest(outputs))


def test_two_launches_at_once_do_not_share_a_folder(tiny_folder: Path, tmp_path: Path) -> None:
    both = [
        subprocess.Popen(
            command(*arguments(tiny_folder, tmp_path / "out", tmp_path / "cache")),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    texts = [process.communicate(timeout=200)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], texts
    runs = sorted((tmp_path / "out" / "retrieval").iterdir())
    assert len(runs) == 2
    same_results(*runs)


def test_h08_a_sweep_keeps_going_and_says_which_failed(tiny_folder: Path, tmp_path: Path, session_cache: Path) -> None:
    done = run_cli("-m", *arguments(tiny_folder, tmp_path / "out", session_cache, "k=3,5,4,0", "ks=[1,3]"))
    states = {int(p.parent.name): json.loads(p.read_text()) for p in (tmp_path / "out").glob("*/*/*/status.json")}
    assert {n: s["state"] for n, s in states.items()} == {0: "finished", 1: "finished", 2: "finished", 3: "failed"}
    assert states[3]["error"].startswith("k=0")
    assert (done.returncode, "1 of 4 jobs failed" in done.stderr) == (1, True)
    assert all((tmp_path / "out").glob("*/*/0/metrics.json"))


def test_a_sweep_in_one_process_equals_single_runs(run: Path, tiny_folder: Path, tmp_path: Path, session_cache: Path) -> None:
    assert run_here("-m", *arguments(tiny_folder, tmp_path / "sweep", session_cache, "backbone=wordllama,bm25", "seed=42,43")) == 0
    folders = sorted((tmp_path / "sweep").glob("*/*/[0-9]"))
    assert len(folders) == 4
    for name in ("rankings.jsonl", "rankings.trec"):
        assert (folders[2] / name).read_bytes() == (run / name).read_bytes() == (folders[3] / name).read_bytes()
    assert json.dumps(metrics_without_timing(folders[2])) == json.dumps(metrics_without_timing(run))


def test_help_and_cfg_answer(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.perf_counter()
    shown = run_cli("--help")
    assert time.perf_counter() - started < 30
    assert shown.returncode == 0 and "backbone" in shown.stdout
    assert "alpha: ${scheme:alpha}" in run_cli("--cfg", "job").stdout


def test_real_data_direct_with_bm25(shared_data: Path, tmp_path: Path, session_cache: Path) -> None:
    """60 tasks, 1,695 skills: the emitted run against pytrec_eval and the numbers as a golden value."""
    root = f"dataset.root={shared_data / 'skillusage'}"
    assert (
        run_here(
            "method=direct",
            "dataset=skillusage",
            root,
            "backbone=bm25",
            f"paths.outputs={tmp_path}",
            f"paths.cache={session_cache}",
            "judge.resamples=50",
        )
        == 0
    )
    run = newest(tmp_path)
    mapping = json.loads((shared_data / "skillusage" / "data" / "task_skill_mapping.json").read_text())
    qrels = {task: {trec_id(f"benchflow-ai--{name}"): 1 for name in names} for task, names in mapping.items()}
    trec: dict[str, dict[str, float]] = {}
    for line in (run / "rankings.trec").read_text().splitlines():
        query, _, skill, _, score, _ = line.split(" ")
        trec.setdefault(query, {})[skill] = float(score)
    found = pytrec_eval.RelevanceEvaluator(qrels, {"recall.5,10,15", "ndcg_cut.5,10,15"}).evaluate(trec)
    retrieval = json.loads((run / "metrics.json").read_text())["retrieval"]
    for k in (5, 10, 15):
        for ours, theirs in ((f"recall@{k}", f"recall_{k}"), (f"ndcg@{k}", f"ndcg_cut_{k}")):
            assert retrieval[ours] == pytest.approx(sum(found[q][theirs] for q in qrels) / len(qrels), abs=1e-9)
        assert retrieval[f"completeness@{k}"] == pytest.approx(
            sum(found[q][f"recall_{k}"] == 1 for q in qrels) / len(qrels), abs=1e-9
        )
    assert retrieval["recall@5"] == pytest.approx(0.6344444, abs=1e-6)
