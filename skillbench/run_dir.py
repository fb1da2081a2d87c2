"""A run folder: the only code that reads or writes one."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import yaml

from skillbench import PROTOCOL_VERSION, __version__
from skillbench.errors import SkillbenchError
from skillbench.records import Failure, Ranking

PLANS, RANKINGS, BASELINE, TRACES = "plans.jsonl", "rankings.jsonl", "baseline.jsonl", "traces.jsonl"
MEASUREMENTS, METRICS, REPORT, RECEIPT, STATUS = "measurements.jsonl", "metrics.json", "report.md", "receipt.json", "status.json"
PREDICTION, TREC, QRELS, LOG = "prediction.json", "rankings.trec", "qrels.trec", "run.log"
EPISODES = "episodes.jsonl"
TRIALS = "trials.jsonl"  # of collected Harbor jobs: what their numbers are computed from

# Settings that say where or how long, not what: two runs that differ in these alone are the same run.
_NOT_IDENTITY = ("resume", "run", "query", "id", "runs", "a", "b", "out", "paths", "tracker", "sweep")


# libyaml where it is there: the same result, ten times as fast.
_YamlLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_YamlDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def canonical(value: object) -> str:
    """JSON with sorted keys and no blanks: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def config_hash(config: Mapping[str, Any]) -> str:
    """SHA-256 of a resolved config without paths, tracker, and what names another run folder."""
    kept = {key: _without_cache(value) for key, value in config.items() if key not in _NOT_IDENTITY}
    return hashlib.sha256(canonical(kept).encode()).hexdigest()


def _without_cache(node: Any) -> Any:
    return {k: v for k, v in node.items() if k != "cache"} if isinstance(node, Mapping) else node


class OtherInputs(SkillbenchError):
    """A run folder was to go on with other data, plans or prompts than it was begun with. Nothing in it has been touched."""


class RunDir:
    """One run's folder, locked while it is written. See the module's README section for its files.

    ``enter`` makes a new folder or goes on with an unfinished one; ``load`` opens a finished one for reading.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: TextIO | None = None
        self._config: dict[str, Any] | None = None

    @classmethod
    def enter(cls, path: Path, config: Mapping[str, Any], overrides: Iterable[str], must_exist: bool) -> RunDir:
        """Lock ``path`` for a run with this resolved config.

        Raises SkillbenchError when the folder cannot be written, is in use, holds another configuration, or (``must_exist``) is no
        run.
        """
        run = cls(path)
        digest = config_hash(json.loads(canonical(config)))
        if must_exist and not (path / STATUS).is_file():
            raise SkillbenchError(f"resume={path}: no run folder there (no {STATUS})")
        try:
            path.mkdir(parents=True, exist_ok=True)
            run._acquire()
            run._check_same(digest)
            if not (path / STATUS).exists():
                run._write_new(config, list(overrides), digest)
        except OSError as error:
            raise SkillbenchError(
                f"run folder {path} cannot be written ({error.strerror or error}); set paths.outputs=DIR"
            ) from error
        return run

    @classmethod
    def load(cls, path: str | Path | None) -> RunDir:
        """Open an existing run folder for reading; raises SkillbenchError if it is none."""
        if not path:
            raise SkillbenchError("this task needs run=DIR, the folder of a run")
        run = cls(Path(path))
        if not (run.path / STATUS).is_file():
            raise SkillbenchError(f"run={path}: no run folder there (no {STATUS})")
        return run

    def _acquire(self) -> None:
        self._lock = (self.path / ".lock").open("a", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SkillbenchError(f"run folder {self.path} is in use by another process") from error

    def release(self) -> None:
        """Unlock the folder."""
        if self._lock:
            self._lock.close()
            self._lock = None
            (self.path / ".lock").unlink(missing_ok=True)

    def _check_same(self, digest: str) -> None:
        if not (self.path / STATUS).exists():
            return
        was = self.status().get("config_hash")
        if was != digest:
            raise SkillbenchError(
                f"run folder {self.path} holds a run with another configuration; start a new one, or repeat its overrides: "
                f"{self._overrides_line()}"
            )

    def _overrides_line(self) -> str:
        return " ".join(yaml.safe_load((self.path / ".hydra" / "overrides.yaml").read_text(encoding="utf-8")) or ["(none)"])

    def _write_new(self, config: Mapping[str, Any], overrides: list[str], digest: str) -> None:
        folder = self.path / ".hydra"
        folder.mkdir(exist_ok=True)
        write_whole(
            folder / "config.yaml",
            yaml.dump(json.loads(json.dumps(config)), Dumper=_YamlDumper, sort_keys=False, allow_unicode=True),
        )
        write_whole(folder / "overrides.yaml", yaml.safe_dump(overrides, allow_unicode=True))
        self.write_json(
            STATUS,
            {
                "state": "running",
                "config_hash": digest,
                "version": __version__,
                "protocol_version": PROTOCOL_VERSION,
                "started": now(),
            },
        )

    def config(self) -> dict[str, Any]:
        """The resolved config that the run was made with, read once."""
        if self._config is not None:
            return self._config
        try:
            loaded = yaml.load((self.path / ".hydra" / "config.yaml").read_bytes(), _YamlLoader)
        except (OSError, yaml.YAMLError) as error:
            raise SkillbenchError(f"run folder {self.path}: .hydra/config.yaml cannot be read") from error
        if not isinstance(loaded, dict):
            raise SkillbenchError(f"run folder {self.path}: .hydra/config.yaml is not a config")
        self._config = loaded
        return loaded

    def begin_with(self, inputs: Mapping[str, str]) -> None:
        """Write down the hashes of what the run is made from; where it goes on, they must be the same.

        The config names files; it does not hold them. Raises OtherInputs that says which have changed since.
        """
        status = self.status()
        was = status.get("inputs")
        if was is None:
            self.write_json(STATUS, {**status, "inputs": dict(inputs)})
            return
        changed = [name for name in {**was, **inputs} if was.get(name) != inputs.get(name)]
        if changed:
            raise OtherInputs(
                f"run folder {self.path} was begun with other {' and '.join(changed)} than there is now, "
                "and results of both must not be mixed; start a new run"
            )

    def status(self) -> dict[str, Any]:
        """The content of status.json: ``state`` is running, finished or failed."""
        return self.read_json(STATUS)

    def is_done(self) -> bool:
        """True for a finished run in which nothing failed in transport: what no model answered can be asked again."""
        status = self.status()
        return status.get("state") == "finished" and not status.get("transport_failures")

    def set_status(self, state: str, **more: object) -> None:
        """Replace the state, keeping identity and start time."""
        kept = {k: v for k, v in self.status().items() if k not in ("error", "ended", "counts", "transport_failures")}
        self.write_json(STATUS, {**kept, "state": state, "ended": now(), **more})

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON object of the folder; raises SkillbenchError naming the file."""
        try:
            value = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SkillbenchError(f"{self.path / name} cannot be read: {str(error)[:120]}") from error
        if not isinstance(value, dict):
            raise SkillbenchError(f"{self.path / name} must hold a JSON object")
        return value

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON object whole (temporary name, then rename), NaN refused."""
        write_whole(self.path / name, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Write a text file whole."""
        write_whole(self.path / name, text)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a JSONL file; [] if it is absent. A half-written last line is dropped; any other bad line is an error."""
        path = self.path / name
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")
        rows = []
        for number, line in enumerate(lines, 1):
            row = _parse_row(line)
            if row is None and line and number < len(lines):
                raise SkillbenchError(f"{path}:{number}: not a JSON object; the file was edited or damaged")
            if row is not None and number < len(lines):
                rows.append(row)
        return rows

    def write_rows(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Replace a JSONL file whole."""
        write_whole(self.path / name, "".join(row_line(row) for row in rows))

    @contextlib.contextmanager
    def appending(self, name: str) -> Iterator[TextIO]:
        """A file that :func:`append_row` adds to. A half-written last line is cut off first."""
        path = self.path / name
        if path.exists():
            whole = path.read_bytes().rpartition(b"\n")
            if whole[2]:
                os.truncate(path, len(whole[0]) + len(whole[1]))
        with path.open("a", encoding="utf-8", newline="\n") as handle:
            yield handle

    def rankings(self, name: str = RANKINGS) -> dict[str, Ranking]:
        """Rankings by query id, in file order; of a query that stands twice, the last."""
        found = (ranking_from_row(row, f"{self.path / name}") for row in self.rows(name))
        return {ranking.query_id: ranking for ranking in found}

    def file_hashes(self) -> dict[str, str]:
        """SHA-256 of every file of the folder but the receipt and the lock, by relative path."""
        files = sorted(p for p in self.path.rglob("*") if p.is_file())
        named = {p.relative_to(self.path).as_posix(): p for p in files}
        return {name: _sha256(path) for name, path in named.items() if name not in (RECEIPT, ".lock")}


def append_row(handle: TextIO, row: Mapping[str, Any]) -> None:
    """Add one line and flush it, so that a kill loses at most the line in hand."""
    handle.write(row_line(row))
    handle.flush()


def row_line(row: Mapping[str, Any]) -> str:
    """One JSONL line. U+2028 and its like stay inside strings, since lines are cut at line feeds only."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def _parse_row(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def ranking_row(ranking: Ranking) -> dict[str, Any]:
    """The row of a ranking; ``failure`` is there only for a query that could not be processed."""
    row: dict[str, Any] = {"query_id": ranking.query_id, "skill_ids": list(ranking.skill_ids), "scores": list(ranking.scores)}
    if ranking.failure:
        row["failure"] = {"stage": ranking.failure.stage, "reason": ranking.failure.reason}
    return row


def ranking_from_row(row: Mapping[str, Any], where: str) -> Ranking:
    """A ranking from its row; raises SkillbenchError naming the file and the query."""
    try:
        failure = Failure(**row["failure"]) if "failure" in row else None
        return Ranking(row["query_id"], tuple(row["skill_ids"]), tuple(map(float, row["scores"])), failure)
    except (KeyError, TypeError, ValueError) as error:
        raise SkillbenchError(f"{where}: the row of query {row.get('query_id')!r} is no ranking ({error})") from error


def trec_lines(rankings: Iterable[Ranking], tag: str) -> str:
    """A TREC run. The score column is K, K-1, …: tools sort by it, and each breaks ties in its own way, so it repeats the order
    that was judged.

    Blanks and percent signs inside ids are percent-encoded, since the format parts columns by blanks.
    """
    lines = []
    for ranking in rankings:
        for rank, skill_id in enumerate(ranking.skill_ids, 1):
            lines.append(
                f"{trec_id(ranking.query_id)} Q0 {trec_id(skill_id)} {rank} {len(ranking.skill_ids) + 1 - rank} {trec_id(tag)}\n"
            )
    return "".join(lines)


def trec_qrels(grades: Mapping[str, Mapping[str, int]]) -> str:
    """Gold in TREC form, with ids encoded as in :func:`trec_lines`, so that any tool can score the run beside it."""
    return "".join(
        f"{trec_id(query)} 0 {trec_id(skill)} {grade}\n" for query, row in grades.items() for skill, grade in row.items()
    )


def trec_id(value: str) -> str:
    """An id without blanks."""
    if "%" not in value and value.split() == [value]:
        return value
    return "".join(f"%{ord(c):02X}" if c.isspace() or c == "%" else c for c in value)


def write_whole(path: Path, text: str) -> None:
    """Write under a temporary name and rename: a reader sees the old file or the new one, never a half."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise SkillbenchError(f"{path} cannot be written ({error.strerror or error})") from error


def now() -> str:
    """UTC time, to the second, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
