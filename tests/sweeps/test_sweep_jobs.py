"""Multiruns: what becomes of each job, the policy for failing ones, and how a stopped sweep goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from skillbench import sweep
from skillbench.errors import SkillbenchError
from skillbench.overrides import quoted
from skillbench.run_dir import RunDir
from skillbench.sweep import Policy
from skillbench.sweep_notes import notes, run_folders
from tests.cli import command, environment, run_here

Small = Callable[..., list[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sweep"


def states(folder: Path) -> dict[str, str]:
    return {p.parent.name: json.loads(p.read_text())["state"] for p in sorted(folder.glob("*/status.json"))}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.glob("[0-9]*/*")) if p.is_file()}


def outcome(folder: Path) -> list[str]:
    return [row["state"] for row in json.loads((folder / "sweep.json").read_text())["rows"]]


# ---------------------------------------------------------------------------------------------------------- failing jobs


def test_h08_four_jobs_of_which_two_raise(
    small: Small,
    broken_gold: Path,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Jobs 1 and 3 are complete, 2 and 4 leave their own error, the summary says 2 of 4, the exit status is 1."""
    queries = f"dataset.queries={tmp_path / 'skills' / 'queries.jsonl'},{broken_gold}"
    assert run_here("-m", *small("seed=1,2", queries, f"sweep.dir={folder}")) == 1
    assert states(folder) == {"0": "finished", "1": "failed", "2": "finished", "3": "failed"}
    assert all((folder / job / "metrics.json").is_file() for job in "02") and not (folder / "1" / "metrics.json").exists()
    for job in "13":
        assert "no-such-skill" in json.loads((folder / job / "status.json").read_text())["error"]
        assert (folder / job / "rankings.jsonl").is_file()
    shown = capsys.readouterr()
    assert "2 of 4 jobs failed" in shown.err
    assert shown.out.count("finished") == shown.out.count("failed") == 2
    assert [m.split(":")[0] for m in caplog.messages if m.startswith("job ") and "no-such-skill" in m] == ["job 1 (1)", "job 3 (3)"]
    assert json.loads((folder / "sweep.json").read_text())["states"] == {"finished": 2, "failed": 2}


def test_an_error_that_nobody_foresaw_leaves_its_traceback(small: Small, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from skillbench import pipeline

    def explode(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError("somewhere deep")

    monkeypatch.setattr(pipeline, "rank", explode)
    assert run_here("-m", *small("seed=1,2", f"sweep.dir={folder}")) == 1
    assert [note.error for note in notes(folder)] == ["ZeroDivisionError: somewhere deep"] * 2
    assert "Traceback" in (folder / "0" / "error.txt").read_text() and "explode" in (folder / "0" / "error.txt").read_text()


def test_h08_fail_fast_leaves_the_later_jobs_out(small: Small, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here("-m", *small("k=5,0,6,7", "ks=[1,5]", "sweep.on_failure=stop", f"sweep.dir={folder}")) == 1
    assert outcome(folder) == ["finished", "failed", "left out", "left out"]
    assert "1 of 4 jobs failed, 2 left out" in capsys.readouterr().err
    assert [p.name for p in run_folders(folder)] == ["0", "1"]


def test_a_stopped_sweep_goes_on_where_it_was(small: Small, broken_gold: Path, folder: Path, tmp_path: Path) -> None:
    queries = f"dataset.queries={broken_gold},{tmp_path / 'skills' / 'queries.jsonl'}"
    arguments = small(queries, "seed=1,2", f"sweep.dir={folder}")
    assert run_here("-m", *arguments, "sweep.on_failure=stop") == 1
    assert outcome(folder) == ["failed", "left out", "left out", "left out"]
    assert run_here("-m", *arguments) == 1
    assert outcome(folder) == ["failed", "failed", "finished", "finished"]


def test_a_failed_job_is_tried_again(
    small: Small, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from skillbench import pipeline

    rank, calls = pipeline.rank, []

    def sometimes(*args: Any, **kwargs: Any) -> None:
        calls.append(1)
        if len(calls) in (1, 3, 4):
            raise OSError("a hiccup")
        rank(*args, **kwargs)

    monkeypatch.setattr(pipeline, "rank", sometimes)
    assert run_here("-m", *small("seed=1,2", "sweep.retries=1", f"sweep.dir={folder}")) == 1
    found = notes(folder)
    assert [(note.state, note.attempts) for note in found] == [("finished", 2), ("failed", 2)]
    assert "tried again (1 of 1)" in caplog.text
    assert run_here("task=verify", f"run={folder / '0'}") == 0


@pytest.mark.parametrize("wrong", ["sweep.on_failure=perhaps", "sweep.retries=-1", "sweep.retries=many", "resume=somewhere"])
def test_a_wrong_policy_fails_every_job_before_it_begins(wrong: str, small: Small, folder: Path) -> None:
    assert run_here("-m", *small("seed=1,2", wrong, f"sweep.dir={folder}")) == 1
    assert [note.state for note in notes(folder)] == ["failed"] * 2
    assert all(wrong.split("=")[0] in str(note.error) for note in notes(folder))
    assert not list(folder.rglob("rankings.jsonl"))


# --------------------------------------------------------------------------------------------------------------- restarts


def test_h09_a_second_launch_does_nothing_again(small: Small, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    arguments = small("seed=1,2,3", f"sweep.dir={folder}")
    assert run_here("-m", *arguments) == 0
    before = contents(folder)
    caplog.set_level("INFO", "skillbench")
    assert run_here("-m", *arguments) == 0
    assert contents(folder) == before
    assert outcome(folder) == ["finished earlier"] * 3 and "holds 3 runs" in caplog.text


def test_h09_jobs_are_known_by_their_config_not_by_their_number(small: Small, folder: Path) -> None:
    """A value put in front of the others shifts every number; no run is done twice and none is overwritten."""
    assert run_here("-m", *small("seed=1,2,3", f"sweep.dir={folder}")) == 0
    before = contents(folder)
    assert run_here("-m", *small("seed=9,1,2,3", f"sweep.dir={folder}")) == 0
    after = contents(folder)
    assert before.items() <= after.items()
    assert [(n.state, RunDir(folder / n.folder).config()["seed"]) for n in notes(folder)] == [
        ("finished", 9),
        *(("finished earlier", s) for s in (1, 2, 3)),
    ]
    assert len(run_folders(folder)) == 4 and notes(folder)[0].folder.startswith("0-")


def test_h09_a_changed_config_never_overwrites(small: Small, folder: Path) -> None:
    assert run_here("-m", *small("seed=1,2", f"sweep.dir={folder}")) == 0
    before = contents(folder)
    assert run_here("-m", *small("seed=1,2", "k=6", f"sweep.dir={folder}")) == 0
    assert before.items() <= contents(folder).items() and len(run_folders(folder)) == 4


def test_h09_a_killed_job_goes_on_in_its_folder(small: Small, folder: Path) -> None:
    arguments = small("seed=1,2", f"sweep.dir={folder}")
    assert run_here("-m", *arguments) == 0
    whole = contents(folder)
    for name in ("metrics.json", "measurements.jsonl", "receipt.json", "report.md"):  # as a kill in the middle leaves it
        (folder / "1" / name).unlink()
    status = json.loads((folder / "1" / "status.json").read_text())
    (folder / "1" / "status.json").write_text(json.dumps({**status, "state": "running"}))
    rows = (folder / "1" / "rankings.jsonl").read_text().splitlines(True)
    (folder / "1" / "rankings.jsonl").write_text("".join(rows[:2]) + rows[2][:10])
    assert run_here("-m", *arguments) == 0
    assert outcome(folder) == ["finished earlier", "finished"]
    assert (
        contents(folder)["1/rankings.jsonl"] == whole["1/rankings.jsonl"]
        and contents(folder)["0/receipt.json"] == whole["0/receipt.json"]
    )
    assert run_here("task=verify", f"run={folder / '1'}") == 0


def test_a_job_that_was_refused_gets_its_folder_back(small: Small, folder: Path) -> None:
    assert run_here("-m", *small("k=5,0", "ks=[1]", f"sweep.dir={folder}")) == 1
    assert run_here("-m", *small("k=5,3", "ks=[1]", f"sweep.dir={folder}")) == 0
    assert states(folder) == {"0": "finished", "1": "finished"}
    assert run_here("task=verify", f"run={folder / '1'}") == 0


def test_two_launches_into_one_folder_at_once_are_refused(small: Small, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep._hold(folder)
    try:
        held = subprocess.run(
            command("-m", *small("seed=1,2", f"sweep.dir={folder}")), env=environment(), capture_output=True, text=True, timeout=100
        )
    finally:
        sweep.begin()
    assert held.returncode == 2 and "is in use by another process" in held.stderr
    assert not run_folders(folder)


def test_status_of_a_sweep(small: Small, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here("-m", *small("k=5,0", "ks=[1]", f"sweep.dir={folder}")) == 1
    capsys.readouterr()
    assert run_here("task=status", f"run={folder}") == 1
    assert "k=0" in capsys.readouterr().out
    note = json.loads((folder / ".jobs" / "1.json").read_text())
    (folder / ".jobs" / "1.json").write_text(json.dumps({**note, "state": "running"}))
    assert [n.state for n in notes(folder)] == ["finished", "interrupted"]
    assert run_here("task=status", f"run={folder.parent}") == 2
    assert run_here("task=status") == 2


def test_resume_is_for_single_runs(small: Small, folder: Path) -> None:
    assert run_here("-m", *small("seed=1,2", f"resume={folder}", f"sweep.dir={folder}")) == 1
    assert "sweep.dir=DIR" in str(notes(folder)[0].error)


FORTY = 40


def forty(small: Small, folder: Path, tmp_path: Path) -> list[str]:
    """Forty data sets, one a job; three cannot work: no such file, no JSON, gold that does not exist (found after the rankings)."""
    good = (tmp_path / "skills" / "queries.jsonl").read_text()
    data = tmp_path / "queries"
    data.mkdir(exist_ok=True)
    for i in range(FORTY):
        (data / f"{i:02}.jsonl").write_text(good)
    (data / "07.jsonl").unlink()
    (data / "19.jsonl").write_text("{no json\n")
    (data / "33.jsonl").write_text(good.replace("c-sharp", "no-such-skill"))
    return small(f"dataset.queries={','.join(str(data / f'{i:02}.jsonl') for i in range(FORTY))}", f"sweep.dir={folder}")


@pytest.mark.slow
def test_item_6_forty_jobs_three_fail_killed_half_way_and_started_again(small: Small, folder: Path, tmp_path: Path) -> None:
    arguments = forty(small, folder, tmp_path)
    process = subprocess.Popen(command("-m", *arguments), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while (
        sum(state == "finished" for state in states(folder).values()) < FORTY // 2
        and time.monotonic() < deadline
        and process.poll() is None
    ):
        time.sleep(0.02)
    assert process.poll() is None, "the sweep ended before it could be killed"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = {job for job, state in states(folder).items() if state == "finished"}
    assert FORTY // 2 <= len(done) < FORTY - 3
    before = {name: content for name, content in contents(folder).items() if name.split("/")[0] in done}

    again = subprocess.run(command("-m", *arguments), env=environment(), capture_output=True, text=True, timeout=300)
    assert again.returncode == 1 and f"3 of {FORTY} jobs failed" in again.stderr
    found = notes(folder)
    assert [n.number for n in found if n.state == "failed"] == [7, 19, 33]
    reasons = [str(n.error) for n in found if n.state == "failed"]
    assert "07.jsonl" in reasons[0] and "19.jsonl" in reasons[1] and "no-such-skill" in reasons[2]
    complete = [p for p in run_folders(folder) if RunDir(p).status()["state"] == "finished"]
    assert len(complete) == FORTY - 3 == len({RunDir(p).status()["config_hash"] for p in complete})
    for path in complete:
        assert [row["query_id"] for row in RunDir(path).rows("rankings.jsonl")] == ["q1", "q2", "q3", "q4", "q5"]
        assert (path / "receipt.json").is_file()
    assert before.items() <= contents(folder).items(), "a finished job was touched"
    assert sum(n.state == "finished earlier" for n in found) == len(done)
    assert len({p.joinpath("rankings.jsonl").read_bytes() for p in complete}) == 1


# ------------------------------------------------------------------------------------------------------------- small parts


@pytest.mark.parametrize(
    ("on_failure", "retries"), [("", 0), ("Stop", 0), ("stop", -1), ("stop", True), ("continue", 1.5), ("continue", None)]
)
def test_policies_that_cannot_be(on_failure: str, retries: Any) -> None:
    with pytest.raises(SkillbenchError, match="sweep"):
        Policy(on_failure, retries)


def read_back(override: str) -> Any:
    parsed = OverridesParser.create().parse_override(override)
    assert not parsed.is_sweep_override()
    return parsed.value()


@example("sum of a, b")
@example("what's new")
@example('say "no"')
@example("a=b")
@example("(x) [y] {z}")
@example("back\\slash")
@example("ends in a backslash\\")
@example("it's\\")
@example("10")
@example("true")
@example("null")
@example("")
@example("  blanks  ")
@example("line\nbreak")
@example("Org/Model-0.6B")
@example("ünïcode→")
@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=40).filter(lambda t: "${" not in t))
def test_h05_any_text_arrives_intact(text: str) -> None:
    value = read_back(quoted("x", text))
    assert (value if isinstance(value, str) else getattr(value, "text", value)) == text


@pytest.mark.parametrize(
    "value", [3, -1, 0.25, 1e-9, True, False, None, [5, 10], ["a, b", "c"], {"k": "v w"}, [[1], {"a": [True]}]]
)
def test_h05_numbers_lists_and_mappings_keep_their_types(value: Any) -> None:
    def plain(found: Any) -> Any:
        if isinstance(found, list):
            return [plain(item) for item in found]
        if isinstance(found, dict):
            return {plain(k): plain(v) for k, v in found.items()}
        return getattr(found, "text", found)

    found = plain(read_back(quoted("x", value)))
    assert found == value and type(found) is type(value)


def test_h05_an_interpolation_in_text_is_no_interpolation(small: Small, tmp_path: Path) -> None:
    from omegaconf import OmegaConf

    parsed = OverridesParser.create().parse_override(quoted("x", "costs ${much}"))
    assert OmegaConf.create({"x": getattr(parsed.value(), "text", parsed.value())}).x == "costs ${much}"


def test_h05_values_as_an_agent_gives_them(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    """Unquoted ones are refused with how to quote them; a list works as one argument, and as two it is refused."""
    assert run_here(*small("tracker=none", "ks=[1, 5]")) == 0
    for words in (["query=sum of a, b"], ["query=what's new"], ["ks=[1,", "5]"]):
        assert run_here(*small(*words)) == 2
        assert "quotes" in (shown := capsys.readouterr().err) or 'key="a,b"' in shown
    assert run_here(*small(quoted("query", "sum of a, b = what's new"))) == 0


def test_run_folders_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("10", "2", "0", "2-abc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "status.json").write_text("{}")
    assert [p.name for p in run_folders(tmp_path)] == ["0", "2", "10", "2-abc"]
    assert run_folders(tmp_path / "10") == [tmp_path / "10"]
