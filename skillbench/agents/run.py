"""The order of work of an agent run, top to bottom: data, plans, rankings, offers, episodes; then, models released, the judge."""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillbench import agent_reporting, pipeline, reporting
from skillbench.agents.arms import Arm, Found
from skillbench.agents.attempts import Attempt, Start, play
from skillbench.agents.budget import Budget, Meter
from skillbench.agents.endings import Ending
from skillbench.agents.environment import Environment
from skillbench.agents.episodes import episode_to_row, is_final, read_episodes
from skillbench.agents.loop import Rules, attempt
from skillbench.agents.offers import Limits, Offer
from skillbench.agents.templates import AgentPrompts
from skillbench.clock import Clock
from skillbench.config import Settings
from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatModel, TaskSet, Tracker
from skillbench.parts import GalleryIndexes, LoadedData, Parts
from skillbench.planning.asking import Generation, is_transport
from skillbench.progress import track
from skillbench.records import Episode, Failure, Plan, PublicData, Query, Ranking, Task
from skillbench.run_dir import (
    EPISODES,
    PREDICTION,
    RANKINGS,
    TREC,
    RunDir,
    append_row,
    canonical,
    ranking_from_row,
    ranking_row,
    trec_lines,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentParts:
    """What an agent run needs beside the parts of a retrieval run. ``rankings`` is a file or a run folder, or None to rank here."""

    arm: Arm
    environment: Environment
    budget: Budget
    limits: Limits
    generation: Generation
    prompts: AgentPrompts
    offered: int
    csi: bool
    at_once: int
    rankings: str | None

    def __post_init__(self) -> None:
        for key in ("offered", "at_once"):
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SkillbenchError(f"agent.{key}={value!r} must be a whole number of 1 or more")


def run_agent(parts: Parts, agent: AgentParts, run: RunDir, settings: Settings, tracker: Tracker) -> Mapping[str, Any]:
    """Attempt every task and judge; returns the metrics document. Every row is on disk as soon as it is known."""
    job = _Job(parts, agent, run, settings, tracker, Clock())
    tasks = _task_set(parts).load_tasks()
    with job.clock("data_seconds"):
        data = parts.data()
    reporting.log_data(data)
    run.begin_with(_inputs(job, data))
    found, indexes = _found(job, tasks, data)
    with job.clock("episode_seconds"):
        episodes = _attempt_all(job, tasks, found)
    _finish_prediction(job, found.plans, indexes)
    _log_endings(episodes)
    parts.release()
    return agent_reporting.judge_run(run, parts.dataset, data, settings, job.clock, run.config())


@dataclass(frozen=True, slots=True)
class _Job:
    """What the stages of one run share."""

    parts: Parts
    agent: AgentParts
    run: RunDir
    settings: Settings
    tracker: Tracker
    clock: Clock


def _inputs(job: _Job, data: LoadedData) -> dict[str, str]:
    """As for a retrieval run; and the agent's prompts and the rankings that were made elsewhere."""
    hashes = {"agent prompts": hashlib.sha256(canonical(job.agent.prompts.hashes()).encode()).hexdigest()}
    if job.agent.arm.source.needs_rankings and job.agent.rankings:
        hashes["rankings"] = _rankings_used(job.agent)["sha256"]
    return {**job.parts.inputs(data), **hashes}


def _task_set(parts: Parts) -> TaskSet:
    if not hasattr(parts.dataset, "load_tasks"):
        raise SkillbenchError(f"dataset={parts.dataset.name} has no tasks for an agent; choose one that has, such as dataset=gsm8k")
    dataset: Any = parts.dataset
    return dataset  # type: ignore[no-any-return]


def _found(job: _Job, tasks: Sequence[Task], data: LoadedData) -> tuple[Found, GalleryIndexes | None]:
    """What the arm's source takes skills from; nothing is planned, indexed or opened that it does not need."""
    agent, source = job.agent, job.agent.arm.source
    found, indexes = Found(data.skills, agent.offered, job.settings.seed), None
    public = _queries_of(data.public, tasks)
    if source.uses_gold:
        from skillbench.agents.oracle import curated_skills  # the one import of gold, and only for an arm that says so

        found = replace(found, curated=curated_skills(job.parts.dataset, tasks))
    ranks_here = source.needs_rankings and not agent.rankings
    if source.needs_plans or ranks_here:
        found = replace(found, plans=_plans(job, public.queries))
    if source.needs_rankings and agent.offered >= len(data.skills):
        log.warning(
            "the gallery has %d skills and agent.offered=%d: every task is offered all of them, so methods differ in their order "
            "alone; lower agent.offered or add skills (dataset=gsm8k: dataset.distractors=N)",
            len(data.skills),
            agent.offered,
        )
    if ranks_here:
        indexes = _rank(job, public, found.plans, data)
    elif source.needs_rankings:
        _take_rankings(agent, public.queries, data, job.run)
    return (replace(found, rankings=job.run.rankings()) if source.needs_rankings else found), indexes


def _plans(job: _Job, queries: Sequence[Query]) -> Mapping[str, Plan]:
    arm, method = job.agent.arm, job.parts.method.name
    arm.check_method(method, "the run has method=")
    with job.clock("plan_seconds"):
        plans = pipeline.make_plans(job.parts, queries, job.run, job.tracker)
    if arm.source.needs_plans and not plans:
        raise SkillbenchError(f"arm={arm.name} needs plans and method={method} makes none; add method=skilldreamer")
    return plans


def _rank(job: _Job, public: PublicData, plans: Mapping[str, Plan], data: LoadedData) -> GalleryIndexes:
    indexes = job.parts.indexes(data)
    with job.clock("index_seconds"):
        retriever = indexes.retriever(job.parts.llm)
    with job.clock("rank_seconds"):
        depth = max(job.settings.k, job.agent.offered)
        pipeline.rank(job.parts.method, public, plans, retriever, job.run, RANKINGS, depth)
    return indexes


def _queries_of(public: PublicData, tasks: Sequence[Task]) -> PublicData:
    """The data with the queries of the tasks alone: the others need no ranking here."""
    wanted = {task.query_id for task in tasks}
    queries = tuple(query for query in public.queries if query.id in wanted)
    if len(queries) < len(wanted):
        raise SkillbenchError(
            f"data set {public.name}: a task names query {sorted(wanted - {q.id for q in queries})[0]}, which does not exist"
        )
    return replace(public, queries=queries)


def _take_rankings(agent: AgentParts, queries: Sequence[Query], data: LoadedData, run: RunDir) -> None:
    """Copy the rankings of these queries into the run folder. A query that the file lacks is a recorded failure."""
    path = _rankings_file(agent)
    rows = RunDir(path.parent).rows(path.name)
    taken = {row.get("query_id"): ranking_from_row(row, str(path)) for row in rows}
    if not any(query.id in taken for query in queries):
        raise SkillbenchError(
            f"rankings={agent.rankings}: no ranking for any of {len(queries)} queries; is it from another data set?"
        )
    strange = next((s for r in taken.values() for s in r.skill_ids if s not in data.skills), None)
    if strange is not None:
        raise SkillbenchError(f"rankings={agent.rankings}: skill {strange} is not in this gallery; is it from another data set?")
    absent = Failure("rankings", f"no ranking in {path.name}")
    run.write_rows(RANKINGS, (ranking_row(taken.get(query.id, Ranking.failed(query.id, absent))) for query in queries))


def _rankings_file(agent: AgentParts) -> Path:
    path = Path(str(agent.rankings))
    if path.is_dir():
        made_by = RunDir.load(path).config()["method"]["name"]
        agent.arm.check_method(made_by, f"the rankings of {path} are by")
        path = path / RANKINGS
    if not path.is_file():
        raise SkillbenchError(f"rankings={agent.rankings}: no such file or run folder")
    return path


def _attempt_all(job: _Job, tasks: Sequence[Task], found: Found) -> dict[str, Episode]:
    """Attempt the tasks without a final episode, appending row by row; at the end the rows stand in the order of the tasks."""
    agent, run, llm = job.agent, job.run, job.parts.llm
    kept = {t: e for t, e in read_episodes(run.rows(EPISODES), str(run.path / EPISODES)).items() if is_final(e)}
    left = [task for task in tasks if task.id not in kept]
    if kept:
        log.info("%d of %d episodes are there already", len(kept), len(tasks))
    sampling = agent.generation.settled(llm)
    rules = Rules(agent.arm.name, job.settings.seed, agent.csi, agent.budget, sampling, agent.environment, agent.prompts)
    offers = {task.id: agent.arm.offer(task, found, agent.limits) for task in left}
    with run.appending(EPISODES) as handle, track(f"attempting ({agent.arm.name})", len(left)) as advance:
        for episode in _episodes(agent, left, offers, rules, llm):
            append_row(handle, episode_to_row(episode))
            kept[episode.task_id] = episode
            advance(1)
            job.tracker.progress({"episodes": len(kept), **llm.stats()})
    run.write_rows(EPISODES, (episode_to_row(kept[task.id]) for task in tasks))
    return kept


def _episodes(
    agent: AgentParts, tasks: Sequence[Task], offers: Mapping[str, Offer], rules: Rules, llm: ChatModel
) -> Iterator[Episode]:
    """Episodes as they end. Where no model answered when the task's skills were looked for, there is no attempt: a resume looks
    again.
    """
    starts: list[Start] = []
    for task in tasks:
        failure = offers[task.id].failure
        if failure is not None and is_transport(failure):
            ended = str(Ending.INFRASTRUCTURE)
            steps = ({"kind": "end", "ending": ended, "detail": failure.reason},)
            yield Episode(task.id, rules.arm, rules.seed, (), (), steps, None, ended)
        else:
            starts.append(functools.partial(_begin, task, offers[task.id], rules))
    yield from play(starts, llm, agent.at_once)


def _begin(task: Task, offer: Offer, rules: Rules) -> Attempt:
    return attempt(task, offer, rules, Meter(rules.budget))


def _log_endings(episodes: Mapping[str, Episode]) -> None:
    endings = [episode.ending for episode in episodes.values()]
    log.info("episodes: %s", ", ".join(f"{endings.count(e)} {e}" for e in Ending if e in endings))


def _finish_prediction(job: _Job, plans: Mapping[str, Plan], indexes: GalleryIndexes | None) -> None:
    """Write what made the episodes: models, prompts, arm, environment, counts, seconds."""
    parts, agent, run, source = job.parts, job.agent, job.run, job.agent.arm.source
    rankings = run.rankings()
    if rankings:
        run.write_text(TREC, trec_lines(rankings.values(), f"{parts.backbone.name}-{parts.method.name}"))
        pipeline.keep_last_traces(run, rankings)
    method = parts.describe_method() if indexes or plans else {"name": "none"}
    run.write_json(
        PREDICTION,
        {
            "dataset": parts.dataset.name,
            "backbone": dict(parts.backbone.describe()) if indexes else {"name": "none"},
            "method": {**method, "prompts": {**(parts.prompts_used() if plans else {}), **agent.prompts.hashes()}},
            "llm": dict(parts.llm.describe()),
            "plans": pipeline.plan_source(parts.plans, plans),
            "rankings": _rankings_used(agent) if source.needs_rankings and agent.rankings else None,
            "arm": {
                "name": agent.arm.name,
                "uses_gold": source.uses_gold,
                "can_load": agent.arm.can_load,
                "csi": agent.csi,
                "csi_by_default": agent.arm.csi,
            },
            "environment": dict(agent.environment.describe()),
            "timing": {
                **job.clock.seconds(),
                **(indexes.stats() if indexes else {}),
                **{f"llm_{k}": v for k, v in parts.llm.stats().items()},
            },
        },
    )


def _rankings_used(agent: AgentParts) -> dict[str, str]:
    path = _rankings_file(agent)
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
