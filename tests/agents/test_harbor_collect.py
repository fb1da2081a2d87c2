"""task=harbor_collect on job folders in three formats: crashes, missing rewards, empty skill mounts, loads that failed."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cli import run_here
from harbor_jobs import LONG, available, export_manifest, finish_job, keys, messages, trajectory, trial, use

from skillbench.agents.episodes import read_episodes
from skillbench.agents.harbor_trials import mismatches, read_jobs
from skillbench.errors import SkillbenchError
from skillbench.judging.report_data import gather

Collect = Callable[..., tuple[int, Path, dict[str, Any]]]


@pytest.fixture
def collect(tmp_path: Path) -> Collect:
    """Run the task; returns the exit status, the run folder and the metrics document."""

    def go(jobs: Path, *overrides: str) -> tuple[int, Path, dict[str, Any]]:
        out = tmp_path / "out"
        before = set(out.glob("*/*"))
        status = run_here(
            "task=harbor_collect",
            f"jobs={jobs}",
            f"paths.outputs={out}",
            f"paths.cache={tmp_path / 'cache'}",
            "judge.resamples=50",
            *overrides,
        )
        (run,) = set(out.glob("*/*")) - before
        return status, run, json.loads((run / "metrics.json").read_text())

    return go


def rows(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def values(run: Path, metric: str) -> dict[str, float]:
    return {row["id"]: row["value"] for row in rows(run, "measurements.jsonl") if row["metric"] == metric}


LOADED = {
    "claude-code.txt": messages(
        [use("Skill", {"skill": "pdf"}, "Launching skill: pdf"), use("Bash", {"command": "true"}, "ok")], ["pdf", "xlsx"]
    )
}
NOT_LOADED = {"claude-code.txt": messages([use("Bash", {"command": "ls /home/agent/.claude/skills"}, "pdf xlsx")], ["pdf", "xlsx"])}
REFUSED = {
    "claude-code.txt": messages(
        [use("Skill", {"skill": "pdf"}, "<tool_use_error>Unknown skill: pdf</tool_use_error>", error=True)], ["pdf", "xlsx"]
    )
}
EMPTY_MOUNT = {"claude-code.txt": messages([use("Bash", {"command": "true"}, "ok")], [])}
QWEN = {
    "qwen-code.txt": messages(
        [
            use("skill", {"skill": "pdf"}, "Base directory for this skill: /x\n" + LONG),
            use("skill", {"skill": "no"}, 'Skill "no" not found.'),
        ],
        ["pdf"],
    )
}
TERMINUS = {"trajectory.json": trajectory([[keys("cat /skills/pdf/SKILL.md\n")]], ["root@c:/app# cat\n" + LONG], available("pdf"))}
TERMINUS_FAILED = {
    "trajectory.json": trajectory(
        [[keys("cat /skills/pdf/SKILL.md\n")]], ["cat: /skills/pdf/SKILL.md: No such file or directory"], available("pdf")
    )
}


def test_three_formats_with_crashes_missing_rewards_and_failed_loads(tmp_path: Path, collect: Collect) -> None:
    job = tmp_path / "jobs" / "2026-01-26"
    trial(job, "a__1", reward=1.0, log=LOADED, tokens=(1000, 90, 0.4))
    trial(job, "b__2", reward=0.0, log=NOT_LOADED, tokens=(273023, 0, None))
    trial(job, "c__3", reward=0.5, log=REFUSED)
    trial(job, "d__4", reward=None, log=QWEN, agent="qwen-code", exception="RewardFileNotFoundError")
    trial(job, "e__5", reward=1.0, log=TERMINUS, agent="terminus-2")
    trial(job, "f__6", reward=0.0, log=TERMINUS_FAILED, agent="terminus-2", exception="AgentTimeoutError")
    trial(job, "g__7", reward=7, log={})
    trial(job, "h__8", reward=None, log=LOADED, exception="EnvironmentStartTimeoutError")
    trial(job, "i__9", result=False, log={"claude-code.txt": LOADED["claude-code.txt"][:400]})
    trial(job, "j__0", reward=0.0, log=NOT_LOADED, exception="NonZeroAgentExitCodeError")
    finish_job(job, {"1.0": ["a__1", "e__5"], "0.5": ["c__3"], "0.0": ["b__2", "f__6", "j__0"]}, planned=10, trials=8, errors=4)
    status, run, document = collect(tmp_path / "jobs")
    assert status == 0
    counts = document["counts"]
    assert (counts["expected"], counts["judged"], counts["infrastructure"], counts["missing"], counts["mismatches"]) == (
        10,
        6,
        1,
        0,
        0,
    )
    assert {k: v for k, v in counts["rewards"].items() if v} == {"valid": 6, "missing": 3, "out_of_range": 1}
    assert counts["rewards_missing_or_invalid"] == 4
    assert {k: v for k, v in counts["endings"].items() if v} == {"submitted": 6, "time_spent": 1, "infrastructure": 1, "crashed": 2}
    agent = document["agent"]
    assert agent["pass_rate"] == pytest.approx(2.5 / 10)
    assert agent["pass_rate_judged"] == pytest.approx(2.5 / 6)
    assert agent["coverage"] == pytest.approx(6 / 10)
    # Offered and logged: a b c d e f j, and i, whose log was cut after the skills were listed; g left no log, h's set-up failed.
    assert (counts["trials_with_skills_on_offer"], counts["trials_with_load"], counts["trials_without_a_log"]) == (8, 3, 1)
    assert agent["load_rate"] == pytest.approx(3 / 8)
    assert values(run, "load") == {"a": 1, "b": 0, "c": 0, "d": 1, "e": 1, "f": 0, "i": 0, "j": 0}
    assert counts["loads"] == {
        "attempts": 8,
        "failed": 4,
        "by_skill_tool": 3,
        "by_read": 1,
        "skills_loaded": 4,
        "failures": {"no result": 1, "refused": 3},
    }
    assert values(run, "pass") == {"a": 1, "b": 0, "c": 0.5, "d": 0, "e": 1, "f": 0, "g": 0, "h": 0, "i": 0, "j": 0}
    assert set(values(run, "reward")) == {"a", "b", "c", "e", "f", "j"}


def test_unknown_usage_stays_unknown(tmp_path: Path, collect: Collect) -> None:
    """A11: null and 0 are not "free"; sums then say "at least"."""
    job = tmp_path / "job"
    trial(job, "a__1", log={"qwen-code.txt": messages([], ["x"], usage=None, total_cost_usd=None)}, tokens=(None, None, None))
    trial(job, "b__2", log={"qwen-code.txt": messages([], ["x"], usage=None, total_cost_usd=0)}, tokens=(500, 0, 0.0))
    trial(job, "c__3", log=LOADED, tokens=(None, 0, None))
    _, run, document = collect(job)
    work = document["counts"]["work"]
    assert (work["prompt_tokens"], work["trials_with_prompt_tokens_unknown"]) == (920, 1)
    assert (work["completion_tokens"], work["trials_with_completion_tokens_unknown"]) == (50, 2)
    assert (work["cost_usd"], work["trials_with_cost_usd_unknown"]) == (0.25, 2)
    episodes = read_episodes(rows(run, "episodes.jsonl"), "x")
    assert [(e.usage.prompt_tokens, e.usage.completion_tokens, e.usage.cost_usd, e.usage.seconds) for e in episodes.values()] == [
        (None, None, None, 150.0),
        (500, None, None, 150.0),
        (420, 50, 0.25, 150.0),
    ]
    assert "are at least" in (run / "report.md").read_text()


def test_a_job_whose_skills_never_arrived_is_an_infrastructure_error(
    tmp_path: Path, collect: Collect, caplog: pytest.LogCaptureFixture
) -> None:
    job = tmp_path / "job"
    for name in ("a", "b"):
        trial(job, f"{name}__1", reward=1.0, log=EMPTY_MOUNT, task_path=str(tmp_path / "tasks" / name))
        export_manifest(tmp_path / "tasks" / name, {"pdf": "org--pdf"})
    status, run, document = collect(job)
    assert status == 1
    assert "load_rate" not in document["agent"]
    assert "pass_rate_judged" not in document["agent"]
    assert document["agent"]["pass_rate"] == 0.0, "an agent without its skills says nothing about the arm: not judged, so 0"
    assert values(run, "reward") == {"a": 1.0, "b": 1.0}, "what the verifier said is kept"
    assert document["counts"]["rewards_of_trials_not_judged"] == 2 and document["verdicts"]["a"] == "reward 1, not judged"
    assert document["counts"]["jobs_whose_skills_never_arrived"] == 1
    assert document["counts"]["skills"] == {"arrived": 0, "absent": 2, "unknown": 0, "empty": 0, "none": 0}
    assert {e.ending for e in read_episodes(rows(run, "episodes.jsonl"), "x").values()} == {"infrastructure"}
    assert "never reached its agents" in (run / "report.md").read_text()
    assert any("never reached its agents" in record.message for record in caplog.records if record.levelname == "ERROR")


def test_other_skills_of_the_agent_are_no_sign_of_the_exported_ones(tmp_path: Path, collect: Collect) -> None:
    job = tmp_path / "job"
    built_in = {"claude-code.txt": messages([use("Skill", {"skill": "debug"}, "Launching skill: debug")], ["debug", "loop"])}
    trial(job, "a__1", log=built_in)
    export_manifest(tmp_path / "exports" / "a", {"pdf": "org--pdf"})
    status, run, document = collect(job, f"task.exports={tmp_path / 'exports'}")
    assert status == 1
    assert rows(run, "trials.jsonl")[0]["arrival"] == "absent"


def test_one_empty_mount_among_others_leaves_both_rates_and_is_counted(tmp_path: Path, collect: Collect) -> None:
    job = tmp_path / "job"
    for name, log in (("a", LOADED), ("b", EMPTY_MOUNT), ("c", NOT_LOADED)):
        trial(job, f"{name}__1", log=log, task_path=str(tmp_path / "tasks" / name))
        export_manifest(tmp_path / "tasks" / name, {"pdf": "org--pdf"})
    status, run, document = collect(job)
    assert (status, document["agent"]["load_rate"], document["counts"]["skills"]["absent"]) == (0, 0.5, 1)
    assert document["counts"]["judged"] == 2


def test_manifests_give_ids_and_only_exported_skills_count(tmp_path: Path, collect: Collect) -> None:
    job = tmp_path / "job"
    calls = [use("Skill", {"skill": "debug"}, "Launching skill: debug"), use("Skill", {"skill": "pdf"}, "Launching skill: pdf")]
    trial(job, "a__1", log={"claude-code.txt": messages(calls, ["debug", "pdf", "xlsx"])})
    export_manifest(tmp_path / "exports" / "a", {"pdf": "org--pdf", "xlsx": "org--xlsx"})
    _, run, _ = collect(job, f"task.exports={tmp_path / 'exports'}")
    (episode,) = read_episodes(rows(run, "episodes.jsonl"), "x").values()
    assert (episode.offered, episode.loaded) == (("org--pdf", "org--xlsx"), ("org--pdf",))


@pytest.mark.parametrize(
    ("overrides", "log", "arrival", "load_rate"),
    [
        ((), EMPTY_MOUNT, "none", None),
        (("task.skills=true",), EMPTY_MOUNT, "absent", None),
        (("task.skills=false",), EMPTY_MOUNT, "none", None),
        (("arm=no_skills",), EMPTY_MOUNT, "none", None),
        ((), {"trajectory.json": trajectory([], [], "Do it.", "claude-code")}, "unknown", 0.0),
        (("task.skills=true",), {"trajectory.json": trajectory([], [], "Do it.")}, "absent", None),
        ((), NOT_LOADED, "arrived", 0.0),
        ((), {}, "unknown", None),
    ],
)
def test_whether_skills_were_on_offer(
    tmp_path: Path, collect: Collect, overrides: tuple[str, ...], log: Mapping[str, str], arrival: str, load_rate: float | None
) -> None:
    trial(tmp_path / "job", "a__1", log=log)
    status, run, document = collect(tmp_path / "job", *overrides)
    assert rows(run, "trials.jsonl")[0]["arrival"] == arrival
    assert document["agent"].get("load_rate") == load_rate
    assert status == int(arrival == "absent")


@pytest.mark.parametrize(
    ("overrides", "top", "log", "arrival", "load_rate"),
    [
        ((), 5, EMPTY_MOUNT, "empty", 0.0),
        (("task.skills=true",), 5, EMPTY_MOUNT, "empty", 0.0),
        ((), 5, {}, "empty", 0.0),
        # A skill of the agent's own is none of the arm.
        ((), 5, LOADED, "empty", 0.0),
        # Nothing was to be offered: by the export, or by the arm.
        ((), 0, EMPTY_MOUNT, "none", None),
        (("arm=no_skills",), 5, EMPTY_MOUNT, "none", None),
        (("task.skills=false",), 5, EMPTY_MOUNT, "none", None),
    ],
)
def test_an_export_without_skills_is_a_task_without_a_load(
    tmp_path: Path,
    collect: Collect,
    overrides: tuple[str, ...],
    top: int,
    log: Mapping[str, str],
    arrival: str,
    load_rate: float | None,
) -> None:
    trial(tmp_path / "job", "a__1", log=log)
    export_manifest(tmp_path / "exports" / "a", {}, top)
    status, run, document = collect(tmp_path / "job", f"task.exports={tmp_path / 'exports'}", *overrides)
    assert (status, rows(run, "trials.jsonl")[0]["arrival"], document["agent"].get("load_rate")) == (0, arrival, load_rate)
    assert document["agent"]["pass_rate"] == 1.0, "the task is judged"


def test_failing_on_hard_queries_does_not_raise_the_load_rate(tmp_path: Path, collect: Collect) -> None:
    for name, log, skills in (("easy", LOADED, {"pdf": "org--pdf"}), ("hard", EMPTY_MOUNT, {})):
        trial(tmp_path / "job", f"{name}__1", log=log)
        export_manifest(tmp_path / "exports" / name, skills)
    status, run, document = collect(tmp_path / "job", f"task.exports={tmp_path / 'exports'}")
    assert (status, document["agent"]["load_rate"], values(run, "load")) == (0, 0.5, {"easy": 1.0, "hard": 0.0})
    counts = document["counts"]
    assert (counts["trials_with_skills_on_offer"], counts["trials_without_skills_found"]) == (1, 1)
    assert "Retrieval gave 1 trials no skill" in (run / "report.md").read_text()
    hard = next(row for row in rows(run, "episodes.jsonl") if row["task_id"] == "hard")
    assert hard["steps"][0]["failure"] == "retrieval gave this task no skill" and hard["offered"] == []


def test_a_reward_beside_a_failed_set_up_is_no_pass(tmp_path: Path, collect: Collect) -> None:
    trial(tmp_path / "job", "a__1", reward=1.0, log=LOADED, exception="EnvironmentStartTimeoutError")
    trial(tmp_path / "job", "b__1", reward=1.0, log=LOADED)
    _, run, document = collect(tmp_path / "job")
    assert document["agent"]["pass_rate"] == 0.5 and document["agent"]["pass_rate_judged"] == 1.0
    assert (document["counts"]["passed"], document["counts"]["judged"]) == (1, 1)
    assert "1 valid rewards are of trials whose set-up failed" in (run / "report.md").read_text()


def test_planned_trials_without_a_folder_count_zero(tmp_path: Path, collect: Collect) -> None:
    """A01 and M01: what is not there cannot leave the mean."""
    job = tmp_path / "job"
    trial(job, "a__1", log=LOADED)
    finish_job(job, {"1.0": ["a__1", "b__2"]}, planned=4, trials=2)
    _, run, document = collect(job)
    assert document["agent"]["pass_rate"] == 0.25
    assert (document["counts"]["expected"], document["counts"]["missing"]) == (4, 3)
    assert list(values(run, "pass")) == ["a", "b", "job/missing", "job/missing#2"]
    assert [line for line in json.loads((run / "harbor.json").read_text())["jobs"][0]["mismatches"]] == [
        "job: n_total_trials is 4, there are 1 trial folders",
        "job: the evals count 2 trials, there are 1 folders and 1 rewards",
        "job: reward_stats gives 1 to b__2, which has no folder",
    ]


def test_several_trials_of_a_task_are_kept_apart(tmp_path: Path, collect: Collect) -> None:
    job = tmp_path / "job"
    for n, reward in enumerate((1.0, 0.0, 1.0)):
        trial(job, f"a__{n}", reward=reward, log=LOADED)
    _, run, document = collect(job)
    assert values(run, "reward") == {"a": 1.0, "a#2": 0.0, "a#3": 1.0}
    assert (document["counts"]["tasks"], document["agent"]["pass_rate"]) == (1, pytest.approx(2 / 3))


def test_several_jobs_and_an_unfinished_one(tmp_path: Path, collect: Collect, caplog: pytest.LogCaptureFixture) -> None:
    for name, reward in (("one", 1.0), ("two", 0.0)):
        trial(tmp_path / "jobs" / name, "a__1", reward=reward, log=LOADED)
        finish_job(tmp_path / "jobs" / name, {f"{reward}": ["a__1"]}, planned=1, trials=1, finished=name == "one")
    (tmp_path / "jobs" / "notes").mkdir()
    _, run, document = collect(tmp_path / "jobs")
    assert {name: job["pass_rate"] for name, job in document["by_job"].items()} == {"one": 1.0, "two": 0.0}
    assert list(values(run, "pass")) == ["a", "a#2"]
    assert "two: the job did not finish" in caplog.messages


def test_a09_the_verifiers_files_are_compared_and_decide_only_when_asked(tmp_path: Path, collect: Collect) -> None:
    job = tmp_path / "job"
    trial(job, "a__1", reward=0.0, files={"reward.txt": "1"}, log=LOADED)
    trial(job, "b__2", reward=None, files={"reward.json": '{"reward": 1}'}, log=LOADED)
    trial(job, "c__3", reward=1.0, files={"reward.txt": "1.0\n"}, log=LOADED)
    _, run, document = collect(job)
    assert document["agent"]["pass_rate"] == pytest.approx(1 / 3)
    assert document["counts"]["rewards_that_files_contradict"] == 2
    _, run, document = collect(job, "task.rewards=files")
    assert document["agent"]["pass_rate"] == 1.0


def test_the_run_folder_verifies_and_shows_episodes(tmp_path: Path, collect: Collect, capsys: pytest.CaptureFixture[str]) -> None:
    trial(tmp_path / "job", "a__1", log=REFUSED, exception="AgentTimeoutError")
    _, run, _ = collect(tmp_path / "job", "arm=direct", "seed=7")
    assert run_here("task=verify", f"run={run}") == 0
    assert run_here("task=episode", f"run={run}", "id=a") == 0
    shown = capsys.readouterr().out
    for part in ("arm direct · seed 7", "load pdf by skill tool: failed", "AgentTimeoutError: it broke here", "ending: time_spent"):
        assert part in shown
    assert run_here("task=judge", f"run={run}") == 2
    metrics = json.loads((run / "metrics.json").read_text())
    metrics["agent"]["pass_rate"] = 0.75
    (run / "metrics.json").write_text(json.dumps(metrics))
    assert run_here("task=verify", f"run={run}") == 1


def two_arms(tmp_path: Path, collect: Collect) -> None:
    """Six tasks under two arms, three trials of the last one; the rewards of ``d`` and ``e`` are parts."""
    without = {"a": 0.0, "b": 0.0, "c": 1.0, "d": 0.0, "e": 0.5}
    with_skills = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.5, "e": 1.0}
    for arm, rewards, last, log in (
        ("no_skills", without, (1.0, 0.0, 0.0), EMPTY_MOUNT),
        ("direct", with_skills, (1.0, 1.0, 1.0), LOADED),
    ):
        for name, reward in rewards.items():
            trial(tmp_path / arm, f"{name}__1", reward=reward, log=log, tokens=(100, 10, 0.1))
        for n, reward in enumerate(last):
            trial(tmp_path / arm, f"f__{n}", reward=reward, log=log, tokens=(100, 10, 0.1))
        assert collect(tmp_path / arm, f"arm={arm}", "seed=42")[0] == 0


def test_collected_arms_are_compared_on_the_same_tasks(
    tmp_path: Path, collect: Collect, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """task=arms: trials of a task are averaged, parts of a reward count in the difference and are no pass in McNemar's test."""
    two_arms(tmp_path, collect)
    monkeypatch.setenv("COLUMNS", "200")
    capsys.readouterr()
    assert run_here("task=arms", f"runs={tmp_path / 'out'}/*/*", "judge.resamples=200") == 0
    out = capsys.readouterr().out
    assert "2 arms, seeds 42" in out and "over 6 tasks" in out
    assert "Warning" not in out, "jobs of two arms differ in nothing but the arm"
    first, second = (f"{name} - {other}" for name, other in (("direct", "no_skills"), ("no_skills", "direct")))
    line = next(line for line in out.splitlines() if first in line or second in line)
    # By task: a 1, b 1, c 0, d 0.5, e 0.5, f 2/3; full rewards of a, b, e and f (all of its trials) by direct alone
    assert f"{100 * (1 + 1 + 0 + 0.5 + 0.5 + 2 / 3) / 6:.2f}" in line
    assert ("5/0/1" in line and "4/0 p=0.125" in line) or ("0/5/1" in line and "0/4 p=0.125" in line)


def test_collected_arms_stand_in_the_report(tmp_path: Path, collect: Collect) -> None:
    two_arms(tmp_path, collect)
    out = tmp_path / "report"
    assert run_here("task=report", f"runs={tmp_path / 'out'}", f"out={out}", "task.static_figures=false") == 0
    assert gather(str(tmp_path / "out")).line() == "2 finished runs", "none is damaged"
    table = (out / "tables" / "arms.csv").read_text().splitlines()
    assert len(table) == 3 and all(line.startswith("harbor,claude-code p/m,") for line in table[1:]), "one data set for both arms"
    assert all(line.split(",")[9:11] == ["6", "0"] for line in table[1:]), "tasks, and trials that were not judged"
    (pair,) = (out / "tables" / "arm_pairs.csv").read_text().splitlines()[1:]
    assert "no_skills" in pair and "direct" in pair and "61.11" in pair
    assert "p=0.125" in pair


def test_arms_over_other_tasks_are_refused_with_a_name(
    tmp_path: Path, collect: Collect, capsys: pytest.CaptureFixture[str]
) -> None:
    for arm, names in (("no_skills", "ab"), ("direct", "abc")):
        for name in names:
            trial(tmp_path / arm, f"{name}__1", log=EMPTY_MOUNT if arm == "no_skills" else LOADED)
        collect(tmp_path / arm, f"arm={arm}")
    assert run_here("task=arms", f"runs={tmp_path / 'out'}/*/*") == 2
    error = capsys.readouterr().err
    assert "judged on different tasks" in error and "(c is in " in error


def test_another_model_under_one_arm_is_said(tmp_path: Path, collect: Collect, capsys: pytest.CaptureFixture[str]) -> None:
    for arm, agent, log in (("no_skills", "claude-code", EMPTY_MOUNT), ("direct", "qwen-code", QWEN)):
        trial(tmp_path / arm, "a__1", log=log, agent=agent)
        collect(tmp_path / arm, f"arm={arm}")
    capsys.readouterr()
    assert run_here("task=arms", f"runs={tmp_path / 'out'}/*/*", "judge.resamples=20") == 0
    assert "Warning: The runs differ in more than arm and seed" in " ".join(capsys.readouterr().out.split())


def test_collecting_twice_gives_the_same_numbers(tmp_path: Path, collect: Collect) -> None:
    for name, log in (("a", LOADED), ("b", QWEN), ("c", TERMINUS)):
        trial(tmp_path / "job", f"{name}__1", log=log)
    runs = [collect(tmp_path / "job")[1] for _ in range(2)]
    for name in ("episodes.jsonl", "trials.jsonl", "measurements.jsonl", "report.md", "harbor.json"):
        assert (runs[0] / name).read_bytes() == (runs[1] / name).read_bytes()


@pytest.mark.parametrize(
    ("make", "overrides", "message"),
    [
        (False, (), "needs jobs=DIR"),
        (False, ("jobs=nowhere",), "no such folder"),
        (True, ("task.rewards=luck",), "must be one of result, files"),
        (True, ("task.exports=nowhere",), "no such folder"),
        (True, ("task.skills=perhaps",), "must be true, false or null"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: bool, overrides: tuple[str, ...], message: str
) -> None:
    job = tmp_path / "job"
    if make:
        trial(job, "a__1", log=LOADED)
        overrides = (f"jobs={job}", *overrides)
    assert run_here("task=harbor_collect", f"paths.outputs={tmp_path / 'out'}", *overrides) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_trials_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x" / "y").mkdir(parents=True)
    with pytest.raises(SkillbenchError, match="no trial folder"):
        read_jobs(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "null",
        '{"verifier_result": [], "agent_info": 3, "exception_info": "x", "agent_result": 1, "started_at": 3, "config": 4}',
    ],
)
def test_broken_files_are_notes(tmp_path: Path, text: str) -> None:
    folder = trial(tmp_path / "job", "a__1")
    (folder / "result.json").write_text(text)
    (folder / "config.json").write_text(text)
    (tmp_path / "job" / "result.json").write_text(text)
    (job,) = read_jobs(tmp_path / "job")
    (found,) = job.trials
    assert (found.task, found.reward.outcome, found.exception) == ("a", "missing", "")
    assert mismatches(job) == []


def test_statistics_that_differ_from_the_trials(tmp_path: Path) -> None:
    job = tmp_path / "job"
    trial(job, "a__1", reward=1.0)
    trial(job, "b__2", reward=0.0, exception="AgentTimeoutError")
    finish_job(job, {"0.0": ["a__1"]}, planned=2, trials=2, errors=0)
    (found,) = read_jobs(job)
    assert mismatches(found) == [
        "job: the evals count 0 errors, 1 trials name an exception",
        "job: reward_stats gives 0 to a__1, its result.json has 1",
        "job: b__2 has the reward 0, reward_stats does not name it",
    ]


def test_a_link_is_no_trial(tmp_path: Path) -> None:
    trial(tmp_path / "elsewhere", "a__1")
    trial(tmp_path / "job", "b__1")
    (tmp_path / "job" / "a__1").symlink_to(tmp_path / "elsewhere" / "a__1")
    (job,) = read_jobs(tmp_path / "job")
    assert [found.name for found in job.trials] == ["b__1"]
