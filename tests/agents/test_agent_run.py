"""``task=agent`` as a user runs it, with a scripted agent: every arm, judging again, verifying, resuming, comparing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import agent_toys
import pytest
from cli import command, environment, newest, run_here

from skillbench.judging.arms import load_arm_run
from skillbench.run_dir import RunDir

Arguments = Callable[..., list[str]]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def metrics(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    return found


def run_arm(arguments: Arguments, tmp_path: Path, *more: str, **options: Any) -> Path:
    assert run_here(*arguments(*more, **options)) == 0
    return newest(tmp_path / "out")


@pytest.mark.parametrize("arm", agent_toys.ARMS)
def test_every_arm_end_to_end(arm: str, arguments: Arguments, tmp_path: Path, brain: ModuleType) -> None:
    run = run_arm(arguments, tmp_path, f"arm={arm}")
    episodes, document = rows(run / "episodes.jsonl"), metrics(run)
    assert len(episodes) == 16 and [e["task_id"] for e in episodes] == sorted(e["task_id"] for e in episodes)
    assert all(e["arm"] == arm and e["seed"] == 42 and e["ending"] == "submitted" for e in episodes)
    task_of = [next(step["text"] for step in e["steps"] if step["kind"] == "prompt") for e in episodes]
    right = sum(any(question in text for question in agent_toys.QUESTIONS[:3]) for text in task_of)
    assert 0 < right < 16
    assert document["agent"]["pass_rate"] == right / 16
    assert document["arm"]["uses_gold"] is (arm in ("curated", "distractors"))
    assert ("load_rate" in document["agent"]) is (arm not in ("no_skills", "forced"))
    counts = document["counts"]
    assert counts["tools"]["calculator"] == {"attempts": 32, "successes": 16, "errors": 16, "errors_by_kind": {"equals_sign": 16}}
    assert (counts["unknown_tools"], counts["repeated_calculations"], counts["submissions"]) == (16, 16, 16)
    assert counts["violations"]["in_actions"] == 16
    csi = arm == "skilldreamer"
    assert (counts["csi"]["assessments"] > 0) is csi and (counts["violations"]["in_assessments"] > 0) is csi
    assert (run / "rankings.jsonl").exists() is (arm in ("direct", "skilldreamer", "distractors", "forced", "retrieved"))
    assert (run / "plans.jsonl").exists() is (arm in ("skilldreamer", "pseudo"))
    assert ("retrieval" in document) is (run / "rankings.jsonl").exists()
    receipt = json.loads((run / "receipt.json").read_text(encoding="utf-8"))
    assert receipt["arm"]["name"] == arm and receipt["environment"]["name"] == "arithmetic"
    assert "agent/system" in receipt["prompts"] and "episodes.jsonl" in receipt["files"]
    assert run_here("task=verify", f"run={run}") == 0


def test_all_arms_get_the_same_description_of_tools_submission_and_loading(
    arguments: Arguments, tmp_path: Path, brain: ModuleType
) -> None:
    systems = set()
    for arm in agent_toys.ARMS:
        run_arm(arguments, tmp_path, f"arm={arm}", "dataset.rows=6")
        systems |= {request.messages[0].content for request in brain.ASKED if request.messages[0].role == "system"}
    assert len(systems) == 1
    for word in ("calculator", "finish", "load_skill", "at most 12 actions and 30 replies"):
        assert word in next(iter(systems))


def test_judging_again_gives_the_same_numbers_and_no_model_is_asked(
    arguments: Arguments, tmp_path: Path, brain: ModuleType
) -> None:
    run = run_arm(arguments, tmp_path, "arm=direct")
    before, asked = metrics(run), len(brain.ASKED)
    assert run_here("task=judge", f"run={run}") == 0
    assert metrics(run)["agent"] == before["agent"] and metrics(run)["counts"] == before["counts"]
    assert run_here("task=judge", f"run={run}", "judge.coverage_floor=1.0") == 0
    assert metrics(run)["judging"]["coverage_floor"] == 1.0
    assert run_here("task=verify", f"run={run}") == 0
    assert len(brain.ASKED) == asked


def test_verify_sees_a_changed_answer(
    arguments: Arguments, tmp_path: Path, brain: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    run = run_arm(arguments, tmp_path, "arm=no_skills")
    path = run / "episodes.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace('"answer": "1000000"', '"answer": "18"', 1), encoding="utf-8")
    assert run_here("task=verify", f"run={run}") == 1
    assert "episodes.jsonl was changed" in caplog.text


def test_the_gold_is_opened_after_the_episodes_are_on_disk(
    arguments: Arguments, tmp_path: Path, brain: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []
    for name in ("load_gold", "load_checks"):
        original = getattr(agent_toys.GSM8K, name)

        def watched(self: Any, name: str = name, original: Any = original) -> Any:
            written = [len(rows(p)) for p in tmp_path.glob("out*/*/*/episodes.jsonl")]
            seen.append((name, sum(written)))
            return original(self)

        monkeypatch.setattr(agent_toys.GSM8K, name, watched)
    run_arm(arguments, tmp_path, "arm=direct")
    assert {name for name, _ in seen} == {"load_gold", "load_checks"} and all(count == 16 for _, count in seen)
    seen.clear()
    run_arm(arguments, tmp_path, "arm=curated")
    assert [row for row in seen if row[1] < 32] == [("load_gold", 16)], "an arm of gold reads the skills, never the answers"


def test_rankings_of_a_run_and_of_a_file(
    arguments: Arguments, tmp_path: Path, brain: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run_arm(arguments, tmp_path, "arm=direct", "dataset.distractors=20")
    again = run_arm(arguments, tmp_path, "arm=direct", "dataset.distractors=20", f"rankings={first}")
    offered = [[e["offered"] for e in rows(r / "episodes.jsonl")] for r in (first, again)]
    assert offered[0] == offered[1] and (again / "rankings.jsonl").read_bytes() == (first / "rankings.jsonl").read_bytes()
    receipt = json.loads((again / "receipt.json").read_text(encoding="utf-8"))
    assert receipt["rankings"]["file"] == "rankings.jsonl" and receipt["backbone"] == {"name": "none"}
    part = tmp_path / "some.jsonl"
    part.write_text("".join((first / "rankings.jsonl").read_text().splitlines(keepends=True)[:3]), encoding="utf-8")
    few = run_arm(arguments, tmp_path, "arm=forced", "dataset.distractors=20", f"rankings={part}")
    assert metrics(few)["counts"]["offer_failures"] == 13
    for more, message in (
        ((f"rankings={first}", "arm=skilldreamer"), "use arm=retrieved for the skills of any method"),
        ((f"rankings={first}", "arm=direct"), "is not in this gallery"),
        (("rankings=nowhere", "arm=direct"), "no such file or run folder"),
        ((f"rankings={part}", "arm=direct", "dataset.split=train"), "is it from another data set?"),
        (("arm=direct", "method=rrf"), "use arm=retrieved for the skills of any method"),
        (("arm=pseudo", "method=direct"), "arm=pseudo means skills by method=skilldreamer"),
    ):
        assert run_here(*arguments(*more)) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["llm=none"], "task=agent needs a language model"),
        (["dataset=skillusage"], "dataset=skillusage has no tasks for an agent"),
        (["agent.csi=perhaps"], "agent.csi='perhaps' must be true or false"),
        (["agent.offered=0"], "agent.offered=0 must be a whole number"),
        (["agent.budget.max_calls=0"], "max_calls=0 must be 1 or more"),
        (["arm=nobody"], "arm has no choice 'nobody'"),
        (["arm=curated", "dataset.rows=30"], "has 24 rows, dataset.rows=30 asks for more"),
        (["judge.coverage_floor=2"], "must lie between 0 and 1"),
        (["agent.budget.max_call=3"], "did you mean agent.budget.max_calls"),
    ],
)
def test_bad_input_is_refused_before_a_model_is_asked(
    more: list[str], message: str, arguments: Arguments, brain: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    base = [a for a in arguments() if not (a.startswith("llm._") and more == ["llm=none"])]
    assert run_here(*base, *more) == 2
    assert message in capsys.readouterr().err
    assert not brain.ASKED


def test_curated_refuses_rows_without_labels(
    arguments: Arguments, tmp_path: Path, brain: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    root = agent_toys.write_rows(tmp_path / "many")
    for path in root.glob("*.jsonl"):
        path.write_text(path.read_text() * 2, encoding="utf-8")
    assert run_here(*arguments("arm=curated", f"dataset.root={root}", "dataset.rows=48")) == 2
    assert "tasks of gsm8k have no curated skills, such as test-0026" in capsys.readouterr().err
    assert not brain.ASKED


def test_a01_transport_failures_are_tried_again_and_finished_episodes_are_kept(
    arguments: Arguments, tmp_path: Path, brain: ModuleType
) -> None:
    """Every sixth task gets no answer; the run ends with a strict and a judged rate; a resume asks for those tasks alone."""
    base = arguments("arm=direct")
    assert run_here(*base, "llm.path=A pump moves") == 0
    run = newest(tmp_path / "out")
    first = {row["task_id"]: row for row in rows(run / "episodes.jsonl")}
    lost = [t for t, row in first.items() if row["ending"] == "infrastructure"]
    document = metrics(run)
    assert lost and document["counts"]["infrastructure"] == len(lost)
    assert document["agent"]["coverage"] == 1 - len(lost) / 16
    assert document["agent"]["pass_rate"] == document["counts"]["passed"] / 16
    assert document["agent"]["pass_rate_judged"] == document["counts"]["passed"] / (16 - len(lost))
    assert "Warning: coverage" in (run / "report.md").read_text(encoding="utf-8")
    # The same configuration, with the fault gone: the identity of the run is that of its config, so the script file is the same
    brain.ASKED.clear()
    assert json.loads((run / "status.json").read_text())["transport_failures"] == len(lost)
    original = agent_toys.Brain._say

    def healed(self: Any, request: Any) -> Any:
        self.transport = []
        return original(self, request)

    agent_toys.Brain._say = healed  # type: ignore[method-assign]
    try:
        assert run_here(*base, "llm.path=A pump moves", f"resume={run}") == 0
    finally:
        agent_toys.Brain._say = original  # type: ignore[method-assign]
    second = {row["task_id"]: row for row in rows(run / "episodes.jsonl")}
    assert list(second) == list(first)
    assert all(second[t] == first[t] for t in first if t not in lost)
    assert all(second[t]["ending"] == "submitted" for t in lost)
    asked = {r.messages[1].content.split("(no. ")[1].split(")")[0] for r in brain.ASKED}
    assert len(asked) == len(lost)
    assert metrics(run)["agent"]["coverage"] == 1.0
    brain.ASKED.clear()
    assert run_here(*base, "llm.path=A pump moves", f"resume={run}") == 0 and not brain.ASKED, "a finished run asks nothing"


def test_a01_a_plan_that_no_model_answered_is_no_attempt(
    arguments: Arguments, tmp_path: Path, brain: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = agent_toys.Brain._say

    def failing(self: Any, request: Any) -> Any:
        if request.messages[0].role != "system":
            self.transport = ["A pump moves"]
        return original(self, request)

    monkeypatch.setattr(agent_toys.Brain, "_say", failing)
    run = run_arm(arguments, tmp_path, "arm=skilldreamer")
    lost = [row for row in rows(run / "episodes.jsonl") if row["ending"] == "infrastructure"]
    assert lost and all(row["usage"]["calls"] == 0 and row["offered"] == [] for row in lost)


SAME = ("episodes.jsonl", "measurements.jsonl", "rankings.jsonl", "plans.jsonl")


def same_results(a: Path, b: Path) -> None:
    for name in SAME:
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    first, second = (metrics(run) for run in (a, b))
    assert {k: v for k, v in first.items() if k != "timing"} == {k: v for k, v in second.items() if k != "timing"}


def test_a06_killed_at_ten_random_moments_and_resumed_it_equals_the_uninterrupted_run(
    arguments: Arguments, tmp_path: Path, brain: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crashes that no handler sees, between any two batches of requests; then a half-written last line is added as well."""
    monkeypatch.setenv("BRAIN_UNEVEN", "1")
    whole = run_arm(arguments, tmp_path, "arm=skilldreamer", "agent.at_once=3")
    total = brain.CRASH["seen"]
    rng = random.Random(5)
    base = arguments("arm=skilldreamer", "agent.at_once=3", f"paths.outputs={tmp_path / 'cut'}")
    resume: list[str] = []
    crashes = 0
    for _ in range(10):
        brain.CRASH.update(after=rng.randrange(4, total // 5), seen=0)
        try:
            run_here(*base, *resume)
            break
        except agent_toys.Crash:
            crashes += 1
        cut = newest(tmp_path / "cut")
        resume = [f"resume={cut}"]
        if crashes % 3 == 0 and (cut / "episodes.jsonl").exists():
            with (cut / "episodes.jsonl").open("a", encoding="utf-8") as handle:
                handle.write('{"task_id": "test-00')
    brain.CRASH.update(after=-1, seen=0)
    assert crashes >= 5
    assert run_here(*base, *resume) == 0
    same_results(whole, newest(tmp_path / "cut"))
    assert run_here("task=verify", f"run={newest(tmp_path / 'cut')}") == 0


@pytest.mark.parametrize("kill_after", [2, 9])
def test_a06_a_process_that_is_killed_goes_on(kill_after: int, arguments: Arguments, tmp_path: Path, brain: ModuleType) -> None:
    """kill -9 of a real process after so many episodes; the resumed folder holds what an uninterrupted run holds."""
    whole = run_arm(arguments, tmp_path, "arm=skilldreamer", "agent.at_once=2")
    base = arguments("arm=skilldreamer", "agent.at_once=2", f"paths.outputs={tmp_path / 'cut'}")
    path = f"{environment()['PYTHONPATH']}{os.pathsep}{Path(__file__).parent}"
    process = subprocess.Popen(
        command(*base), env=environment(PYTHONPATH=path, BRAIN_SECONDS="0.05"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        found = [p for p in (tmp_path / "cut").glob("*/*/episodes.jsonl") if p.read_bytes().count(b"\n") >= kill_after]
        if found:
            break
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    cut = newest(tmp_path / "cut")
    before = (cut / "episodes.jsonl").read_bytes().count(b"\n")
    assert kill_after <= before < 16
    assert run_here(*base, f"resume={cut}") == 0
    same_results(whole, cut)


def test_one_seed_reaches_sampling_and_shuffles(arguments: Arguments, tmp_path: Path, brain: ModuleType) -> None:
    offered = []
    for seed in (42, 43):
        brain.ASKED.clear()
        run = run_arm(arguments, tmp_path, "arm=distractors", f"seed={seed}")
        assert {request.seed for request in brain.ASKED} == {seed}
        assert {row["seed"] for row in rows(run / "episodes.jsonl")} == {seed}
        offered.append([row["offered"] for row in rows(run / "episodes.jsonl")])
    assert offered[0] != offered[1] and list(map(sorted, offered[0])) == list(map(sorted, offered[1]))


def test_a_sweep_of_arms_and_seeds_and_its_comparison(
    arguments: Arguments, tmp_path: Path, brain: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(*arguments("arm=no_skills,direct,skilldreamer", "seed=42,43", "dataset.part=validation"), "-m") == 0
    runs = sorted((tmp_path / "out").glob("*/*/*/episodes.jsonl"))
    assert len(runs) == 6 and all(len(rows(run)) == 8 for run in runs)
    capsys.readouterr()
    assert run_here("task=arms", f"runs={tmp_path / 'out'}/*/*/*", "judge.resamples=50") == 0
    out = capsys.readouterr().out
    for part in ("3 arms, seeds 42, 43", "no_skills", "direct - skilldreamer", "seed 43"):
        assert part in out
    assert "Warning" not in out
    assert run_here("task=arms", "runs=nowhere/*") == 2


def test_task_episode_prints_one(
    arguments: Arguments, tmp_path: Path, brain: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_arm(arguments, tmp_path, "arm=skilldreamer")
    capsys.readouterr()
    first = rows(run / "episodes.jsonl")[0]["task_id"]
    assert run_here("task=episode", f"run={run}", f"id={first}") == 0
    out = capsys.readouterr().out
    for part in (f"task {first}", "[system]", "[assessment]", "by assessment: loaded", "verdict: ", "equals_sign"):
        assert part in out
    assert run_here("task=episode", f"run={run}", "id=test-9999") == 2
    assert "no such episode" in capsys.readouterr().err


def test_csi_can_be_switched_in_any_arm(arguments: Arguments, tmp_path: Path, brain: ModuleType) -> None:
    run = run_arm(arguments, tmp_path, "arm=direct", "agent.csi=true", "dataset.part=validation")
    assert metrics(run)["counts"]["csi"]["assessments"] > 0 and metrics(run)["arm"]["csi"] is True
    assert load_arm_run(RunDir(run)).arm == "direct with csi"
    run = run_arm(arguments, tmp_path, "arm=skilldreamer", "agent.csi=false", "dataset.part=validation")
    assert metrics(run)["counts"]["csi"]["assessments"] == 0
    assert load_arm_run(RunDir(run)).arm == "skilldreamer without csi"
    first = load_arm_run(RunDir(run_arm(arguments, tmp_path, "arm=no_skills", "seed=1", "dataset.part=validation")))
    other = load_arm_run(RunDir(run_arm(arguments, tmp_path, "arm=direct", "seed=2", "dataset.part=validation")))
    warm = load_arm_run(
        RunDir(run_arm(arguments, tmp_path, "arm=direct", "agent.generation.temperature=1", "dataset.part=validation"))
    )
    assert first.setting == other.setting != warm.setting


def test_questions_with_answers_of_any_kind(arguments: Arguments, tmp_path: Path, brain: ModuleType) -> None:
    run = run_arm(arguments, tmp_path, "arm=no_skills", "environment=questions", "dataset.part=validation")
    assert {row["answer"] for row in rows(run / "episodes.jsonl")} == {"about the half"}


def test_importing_the_package_stays_light() -> None:
    heavy = ("torch", "openai", "scipy", "wandb", "transformers")
    code = f"import sys, skillbench.agents.task, skillbench.judging.arms; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True).stdout
    assert out.strip() == "[]"
