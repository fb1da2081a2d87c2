"""``task=harbor_collect``: finished Harbor jobs become a run folder with episodes, measurements and a report. No model, no
container.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from skillbench import reporting, tasks
from skillbench.agents.episodes import episode_to_row
from skillbench.agents.harbor_facts import Fact, episode_of, expected_skills, fact_from_row, fact_of, fact_to_row, missing_fact
from skillbench.agents.harbor_logs import NO_LOG, AgentLog
from skillbench.agents.harbor_summary import measurements, page, summarise
from skillbench.agents.harbor_trials import Job, mismatches, read_jobs
from skillbench.clock import Clock
from skillbench.config import Settings, build
from skillbench.errors import SkillbenchError
from skillbench.interfaces import Tracker
from skillbench.judging.report import TerminalPage, page_markdown
from skillbench.records import Episode
from skillbench.run_dir import EPISODES, MEASUREMENTS, METRICS, PREDICTION, REPORT, TRIALS, RunDir, canonical

log = logging.getLogger(__name__)

HARBOR = "harbor.json"
_SHOWN = 20  # mismatches that the log names


def harbor_collect(
    job: tasks.JobContext, *, exports: str | None = None, skills: bool | None = None, rewards: str = "result"
) -> int:
    """Read the jobs below ``jobs=DIR``; the exit status is 1 if the skills of a job never arrived.

    ``exports`` is the folder that ``task=harbor_export`` wrote the tasks to; without it the manifest is looked for where the job
    says that its task lay. ``skills`` says that agents must have had skills (true) or none (false) where no manifest does; null:
    nobody says. ``rewards`` is
    ``result`` (the harness's ``result.json`` decides) or ``files`` (the verifier's files do).
    """
    jobs = read_jobs(job.config["jobs"], rewards)
    if skills not in (None, True, False):
        raise SkillbenchError(f"task.skills={skills!r} must be true, false or null")
    if exports is not None and not Path(exports).is_dir():
        raise SkillbenchError(f"task.exports={exports}: no such folder")
    failed = False

    def work(run: RunDir, tracker: Tracker) -> Mapping[str, Any]:
        nonlocal failed
        document = collect(jobs, run, Settings.of(job.config), Path(exports) if exports else None, skills)
        failed = document["counts"]["jobs_whose_skills_never_arrived"] > 0
        return document

    return max(tasks.in_run_folder(job, work, show), int(failed))


def collect(jobs: Sequence[Job], run: RunDir, settings: Settings, exports: Path | None, skills: bool | None) -> Mapping[str, Any]:
    """Write a run folder from jobs; returns the metrics document."""
    clock = Clock()
    arm = _arm(run.config())
    must = False if skills is None and not arm["can_load"] else skills
    facts: list[Fact] = []
    with clock("collect_seconds"), run.appending(EPISODES) as handle:
        handle.truncate(0)
        for fact, episode in _read_all(jobs, exports, must, arm["name"], run.config()["seed"]):
            facts.append(fact)
            handle.write(canonical({**episode_to_row(episode), "trial": fact.trial, "job": fact.job}) + "\n")
    run.write_rows(TRIALS, map(fact_to_row, facts))
    run.write_json(
        HARBOR, {"jobs": [job_row(job, [f for f in facts if f.job == job.name]) for job in jobs], "rewards": "see trials.jsonl"}
    )
    run.write_json(PREDICTION, _prediction(facts, arm, clock))
    return _finish(run, settings, facts)


def _arm(config: Mapping[str, Any]) -> dict[str, Any]:
    arm = build(config["arm"])
    no_csi = {"csi": False, "csi_by_default": False}  # the capability check belongs to our own loop, which no container runs
    return {"name": arm.name, "uses_gold": arm.source.uses_gold, "can_load": arm.can_load, **no_csi, "seed": config["seed"]}


def _read_all(jobs: Sequence[Job], exports: Path | None, must: bool | None, arm: str, seed: int) -> Iterator[tuple[Fact, Episode]]:
    """Facts and episode of every trial, job by job, by trial name; then the trials that a job planned and that are not there."""
    times: Counter[str] = Counter()
    for job in jobs:
        for trial in job.trials:
            expected = expected_skills(trial, exports, must)
            fact, agent_log = fact_of(trial, job, _episode_id(trial.task, times), expected)
            yield fact, episode_of(fact, agent_log, arm, seed, trial.message, expected.names or {})
        for name in _absent(job):
            fact = missing_fact(job, name, _episode_id(name.rpartition("__")[0] or name or f"{job.name}/missing", times))
            yield fact, episode_of(fact, _NO_FOLDER, arm, seed, "", {})


_NO_FOLDER = AgentLog("no folder", notes=NO_LOG.notes)


def _episode_id(task: str, times: Counter[str]) -> str:
    """The task, or ``task#2`` and so on for its further trials."""
    times[task] += 1
    return task if times[task] == 1 else f"{task}#{times[task]}"


def _absent(job: Job) -> list[str]:
    """Names of planned trials without a folder: those that the job's statistics name, then "" for each that nothing names."""
    if job.stats is None:
        return []
    there = {trial.name for trial in job.trials}
    named = sorted({*job.stats.rewards, *job.stats.exceptions} - there)
    left = (job.stats.planned or 0) - len(there) - len(named)
    return [*named, *[""] * max(0, left)]


def job_row(job: Job, facts: Sequence[Fact]) -> dict[str, Any]:
    """What is kept of a job. Its skills never arrived if some agent should have had some, and none of its agents shows a sign of
    any.
    """
    arrivals = Counter(fact.arrival for fact in facts if not fact.missing)
    return {
        "name": job.name,
        "planned": job.stats.planned if job.stats else None,
        "found": len(job.trials),
        "skills_never_arrived": arrivals["absent"] > 0 and arrivals["arrived"] == 0,
        "mismatches": mismatches(job),
        "notes": list(job.notes),
        "stats": asdict(job.stats) if job.stats else None,
    }


def _prediction(facts: Sequence[Fact], arm: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    """In the form of every run: what made the episodes."""
    agents = sorted({" ".join(filter(None, (f.agent, f.model))) for f in facts if f.agent or f.model})
    return {
        "dataset": "harbor",
        "backbone": {"name": "none"},
        "method": {"name": "none", "prompts": {}},
        "llm": {"name": ", ".join(agents) or "unknown"},
        "plans": {"file": None, "models": [], "plans": 0, "failed": 0},
        "arm": dict(arm),
        "environment": {"name": "harbor"},
        "timing": clock.seconds(),
    }


def measure(run: RunDir, settings: Settings) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The metrics document without ``timing``, and the rows of ``measurements.jsonl``, out of the facts on disk."""
    facts = [fact_from_row(row) for row in run.rows(TRIALS)]
    jobs, arm = run.read_json(HARBOR)["jobs"], run.read_json(PREDICTION)["arm"]
    document = summarise(facts, jobs, arm, floor=settings.coverage_floor, resamples=settings.resamples, seed=settings.seed)
    return document, [{"metric": m.metric, "id": m.id, "value": m.value} for m in measurements(facts)]


def markdown(run: RunDir, document: Mapping[str, Any]) -> str:
    """The text of ``report.md``."""
    return page_markdown(page(_header(run), document))


def _header(run: RunDir) -> dict[str, Any]:
    prediction = run.read_json(PREDICTION)
    return {
        "agents": prediction["llm"]["name"],
        "arm": prediction["arm"]["name"],
        "seed": prediction["arm"]["seed"],
        "uses_gold": prediction["arm"]["uses_gold"],
    }


def _finish(run: RunDir, settings: Settings, facts: Sequence[Fact]) -> dict[str, Any]:
    document, rows = measure(run, settings)
    prediction = run.read_json(PREDICTION)
    document["timing"] = prediction["timing"]
    run.write_rows(MEASUREMENTS, rows)
    run.write_json(METRICS, document)
    run.write_text(REPORT, markdown(run, document))
    run.set_status("finished", counts=document["counts"])
    # The data are the tasks, so that the arms of one comparison are over the same data; what came of them has hashes of its own.
    fingerprint = hashlib.sha256(canonical(sorted({fact.task for fact in facts})).encode()).hexdigest()
    reporting.write_receipt(run, prediction, {"public": fingerprint, "gold": "verifier"}, document, run.config())
    return document


def show(run: RunDir, document: Mapping[str, Any]) -> None:
    """Print the tables and say what is wrong."""
    from rich.console import Console

    found = page(_header(run), document)
    Console(soft_wrap=False).print(TerminalPage(found))
    for note in found.notes:
        log.log(logging.ERROR if note.startswith("Error") else logging.WARNING, "%s", note)
    lines = [
        line
        for job in run.read_json(HARBOR)["jobs"]
        for line in (*(f"{job['name']}: {note}" for note in job["notes"]), *job["mismatches"])
    ]
    for line in lines[:_SHOWN]:
        log.warning("%s", line)
    if len(lines) > _SHOWN:
        log.warning("and %d more, see %s", len(lines) - _SHOWN, run.path / HARBOR)
    log.info("run folder: %s", run.path)
