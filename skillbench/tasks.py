"""What ``task=`` can be. Each takes a :class:`JobContext` and returns the exit status."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillbench.config import Settings, build
from skillbench.errors import SkillbenchError
from skillbench.interfaces import Tracker
from skillbench.records import Trace
from skillbench.run_dir import EPISODES, LOG, TRACES, TRIALS, OtherInputs, RunDir, canonical

log = logging.getLogger(__name__)

_SHOWN = 20  # differences that task=verify names


@dataclass(frozen=True, slots=True)
class JobContext:
    """One job: its resolved config, the overrides that were typed, its folder, and whether it is one of a sweep."""

    config: Mapping[str, Any]
    overrides: tuple[str, ...]
    folder: Path
    in_sweep: bool


def retrieval(job: JobContext) -> int:
    """Rank the gallery for every query of a data set and judge the rankings."""
    from skillbench import parts, pipeline, reporting

    settings = Settings.of(job.config)
    built = parts.assemble(job.config)
    if job.config["dry_run"]:
        log.info("%s", pipeline.estimate(built, settings))
        return 0
    return in_run_folder(job, lambda run, tracker: pipeline.run_retrieval(built, run, settings, tracker), reporting.show)


Work = Callable[[RunDir, Tracker], Mapping[str, Any]]


def in_run_folder(job: JobContext, work: Work, show: Callable[[RunDir, Mapping[str, Any]], None]) -> int:
    """Do ``work`` in the job's run folder, with its log, tracker and status; a finished run is left as it is, unless transport
    failed.
    """
    tracker = build(job.config["tracker"])
    run = RunDir.enter(job.folder, job.config, job.overrides, must_exist=bool(job.config["resume"]))
    if run.is_done():
        log.info("already finished, nothing to do: %s", run.path)
        run.release()
        return 0
    state = "failed"
    try:
        with _logged_to(run.path / LOG):
            tracker.start(job.config, str(run.path))
            document = work(run, tracker)
        state = "finished"
        if job.in_sweep:  # the sweep ends with a table of all its jobs; each job's own tables stand in its report.md
            from skillbench.judging.headline import headline

            log.info("%s · %s", run.path, " · ".join(f"{name} {value}" for name, value in headline(document).items()))
        else:
            show(run, document)
    except OtherInputs:
        raise  # what the folder holds stays as it is
    except BaseException as error:
        run.set_status("failed", error=str(error) or type(error).__name__)
        raise
    finally:
        tracker.finish(str(run.path), state)
        run.release()
    return 0


class _logged_to:
    """Also write the log of a block to a file, with times."""

    def __init__(self, path: Path) -> None:
        self._handler = logging.FileHandler(path, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self._handler)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self._handler)
        self._handler.close()


def judge(job: JobContext) -> int:
    """Judge a finished run again. Typed values of ks, judge.* and dataset.* replace the run's own."""
    from skillbench import parts
    from skillbench.clock import Clock

    run = RunDir.load(job.config["run"])
    if (run.path / TRIALS).exists():
        raise SkillbenchError(
            f"run={run.path}: collected Harbor jobs were judged by their verifiers; use task=verify or harbor_collect"
        )
    config = rejudged_config(run.config(), job)
    dataset = build(config["dataset"])
    data = parts.load_data(dataset, canonical(config["dataset"]))
    how = judging_of(run)
    document = how.judge_run(run, dataset, data, Settings.of(config), Clock(), config)
    how.show(run, document)
    return 0


def judging_of(run: RunDir) -> Any:
    """The module that judges this run: by its episodes if it has some, by its rankings otherwise. Both have the same functions."""
    from skillbench import agent_reporting, reporting

    return agent_reporting if (run.path / EPISODES).exists() else reporting


def rejudged_config(was: Mapping[str, Any], job: JobContext) -> dict[str, Any]:
    """A run's config with what the judge may be told anew: cutoffs, judging options, and where the data lies."""
    config = dict(was)
    for override in job.overrides:
        key = override.lstrip("+").split("=")[0]
        top, _, rest = key.partition(".")
        if key == "ks" or top == "judge":
            config[top] = job.config[top]
        elif top == "dataset" and rest:
            config["dataset"] = (
                {**config["dataset"], rest: job.config["dataset"][rest]} if rest in config["dataset"] else config["dataset"]
            )
        elif key not in ("task", "run"):
            raise SkillbenchError(
                f"task=judge takes run, ks, judge.* and dataset.* only; {key} belongs to prediction, so start a new run"
            )
    return config


def verify(job: JobContext) -> int:
    """Recompute every number and hash of a run; log what differs. Exit status 1 if anything does."""
    from skillbench import verifying

    run = RunDir.load(job.config["run"])
    differences = verifying.differences(run)
    for line in differences[:_SHOWN]:
        log.error("differs: %s", line)
    if len(differences) > _SHOWN:
        log.error("differs: and %d more", len(differences) - _SHOWN)
    log.info("%s: %s", run.path, f"{len(differences)} differences" if differences else "every number and hash agrees")
    return 1 if differences else 0


def audit(job: JobContext) -> int:
    """Load a data set with its gold and say what is wrong with it; no model is loaded and nothing is written."""
    from skillbench import parts
    from skillbench.data.audit import audit_gold

    dataset = build(job.config["dataset"])
    data = parts.load_data(dataset, canonical(job.config["dataset"]))
    if hasattr(dataset, "load_checks"):
        log.info("checks of tasks: %d", len(dataset.load_checks()))
    gold = audit_gold(data.public, dataset.load_gold(), allow_missing_gold=bool(getattr(dataset, "allow_missing_gold", False)))
    for line in [*data.audit.lines(), *gold.lines()]:
        log.info("%s", line)
    return 0


def explain(job: JobContext) -> int:
    """Print the trace behind one ranking: every candidate with its scores."""
    from skillbench.judging.explain import print_trace

    run = RunDir.load(job.config["run"])
    query = job.config["query"]
    traces = {row["query_id"]: row for row in run.rows(TRACES)}
    if query not in traces:
        raise SkillbenchError(f"query={query!r}: no trace in {run.path / TRACES}; {_some(list(traces))}")
    print_trace(run, str(query), Trace(traces[query]["candidates"]), Trace(traces[query].get("first", {})))
    return 0


def _some(ids: Sequence[str]) -> str:
    return f"it has {', '.join(ids[:3])} and {max(0, len(ids) - 3)} more" if ids else "the method of this run writes none"
