"""What a sweep says about its jobs: one note a job, and from the notes a table, ``sweep.json`` and one line.

A note is a file in ``<sweep>/.jobs``, since jobs may run in other processes (joblib, submitit, Ray).
"""

from __future__ import annotations

import fcntl
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillbench.errors import SkillbenchError

if TYPE_CHECKING:
    from rich.table import Table

    from skillbench.tasks import JobContext

log = logging.getLogger(__name__)

NOTES = ".jobs"  # notes of the latest launch, one file a job
SUMMARY = "sweep.json"
ENDED_WELL = ("finished", "finished earlier")


@dataclass(frozen=True, slots=True)
class Note:
    """What became of a job. ``state``: running, finished, finished earlier, failed, left out, interrupted."""

    number: int
    folder: str
    state: str
    overrides: tuple[str, ...]
    attempts: int = 0
    seconds: float = 0.0
    error: str | None = None


def write_note(sweep: Path, note: Note) -> None:
    """Leave or replace a job's note."""
    from skillbench.run_dir import write_whole

    (sweep / NOTES).mkdir(parents=True, exist_ok=True)
    write_whole(sweep / NOTES / f"{note.number}.json", json.dumps(asdict(note), ensure_ascii=False) + "\n")


def notes(sweep: Path) -> list[Note]:
    """The notes of the latest launch of a sweep, by job number. A job that neither ended nor still runs is ``interrupted``."""
    found = []
    for path in (sweep / NOTES).glob("*.json"):
        row = read_json(path)
        if "number" in row:
            note = Note(**{**row, "overrides": tuple(row["overrides"])})
            found.append(
                but(note, state="interrupted") if note.state == "running" and not _is_held(sweep / note.folder / ".lock") else note
            )
    return sorted(found, key=lambda note: note.number)


def _is_held(lock: Path) -> bool:
    """True if another open file holds this lock; a run's own lock file is removed when the run ends."""
    try:
        with lock.open("r", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def but(note: Note, **changes: Any) -> Note:
    """``note`` with some fields changed."""
    return Note(**{**asdict(note), **changes})


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, {} where there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def failure_line(sweep: Path, found: Sequence[Note]) -> str | None:
    """One line about the jobs that did not end well, or None."""
    bad = [note for note in found if note.state not in ENDED_WELL]
    if not bad:
        return None
    others = {state: n for state, n in sorted(Counter(note.state for note in bad).items()) if state != "failed"}
    more = "".join(f", {n} {state}" for state, n in others.items())
    failed = len(bad) - sum(others.values())
    return f"{failed} of {len(found)} jobs failed{more}; see status.json in each folder below {sweep}"


def write_summary(sweep: Path, found: Sequence[Note]) -> None:
    """Write sweep.json: counts by state and one row a job."""
    from skillbench.run_dir import write_whole

    rows = [asdict(note) for note in found]
    document = {"jobs": len(rows), "states": dict(Counter(note.state for note in found)), "rows": rows}
    write_whole(sweep / SUMMARY, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def show(sweep: Path, found: Sequence[Note]) -> None:
    """Print the status table of a sweep and log one line for each job that did not end well."""
    from rich.console import Console

    Console(soft_wrap=False).print(status_table(found, results(sweep, found)))
    counts = Counter(note.state for note in found)
    log.info("%s: %d jobs, %s", sweep, len(found), ", ".join(f"{n} {state}" for state, n in counts.items()))
    for note in found:
        if note.state not in ENDED_WELL:
            log.error("job %d (%s): %s", note.number, note.folder, note.error or note.state)


def results(sweep: Path, found: Sequence[Note]) -> dict[int, dict[str, str]]:
    """Headline results by job number; jobs that ended otherwise have none."""
    from skillbench.judging.headline import headline
    from skillbench.run_dir import METRICS

    return {note.number: headline(read_json(sweep / note.folder / METRICS)) for note in found if note.state in ENDED_WELL}


def status_table(found: Sequence[Note], results: Mapping[int, Mapping[str, str]]) -> Table:
    """One row a job: number; state, folder and attempts where some job calls for it; what sets it apart from the others; results
    in percent; seconds, last because a narrow terminal cuts there. Errors are lines of their own below the table.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    columns = _columns(found, results)
    table = Table(title="Sweep", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in columns:
        is_number = heading == "Seconds" or any(heading in own for own in results.values())
        longest = max(len(word) for cell in (heading, *columns[heading]) for word in cell.split(" "))
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold", min_width=min(longest, 24))
    for position, note in enumerate(found):
        style = "" if note.state in ENDED_WELL else "bold red" if note.state == "failed" else "yellow"
        table.add_row(*(Text(cells[position]) for cells in columns.values()), style=style)
    return table


def _columns(found: Sequence[Note], results: Mapping[int, Mapping[str, str]]) -> dict[str, list[str]]:
    shared = set.intersection(*(set(note.overrides) for note in found)) if len(found) > 1 else set()
    names = dict.fromkeys(name for own in results.values() for name in own)
    columns = {"Job": [str(note.number) for note in found]}
    if any(note.state != "finished" for note in found):
        columns["State"] = [note.state for note in found]
    if any(note.folder != str(note.number) for note in found):
        columns["Folder"] = [note.folder for note in found]
    if any(note.attempts > 1 for note in found):
        columns["Tries"] = [str(note.attempts) for note in found]
    columns["Overrides"] = [" ".join(o for o in note.overrides if o not in shared) for note in found]
    columns |= {name: [results.get(note.number, {}).get(name, "") for note in found] for name in names}
    columns["Seconds"] = [f"{note.seconds:.1f}" for note in found]
    return columns


def status(job: JobContext) -> int:
    """``task=status run=SWEEP``: the table of a sweep that runs, was stopped, or has ended. Exit status 1 if a job ended badly."""
    folder = Path(job.config["run"] or "")
    found = notes(folder) if job.config["run"] else []
    if not found:
        raise SkillbenchError(
            f"task=status run={job.config['run']}: no sweep folder there (no {NOTES}); run=DIR is the folder that -m wrote"
        )
    show(folder, found)
    return 1 if failure_line(folder, found) else 0


def run_folders(path: Path) -> list[Path]:
    """The run folders at or below ``path``: itself if it is one, else its jobs (sorted by name, numbers in order)."""
    from skillbench.run_dir import STATUS

    if (path / STATUS).is_file():
        return [path]
    return sorted((p.parent for p in path.glob(f"*/{STATUS}")), key=lambda p: (not p.name.isdigit(), p.name.zfill(9)))
