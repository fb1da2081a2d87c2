"""From a trial folder to an episode and a row of facts: how it ended, which skills reached the agent, and which it loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from skillbench.agents.endings import Ending
from skillbench.agents.harbor_loads import Load, find_loads, loaded_names
from skillbench.agents.harbor_logs import AgentLog, Call, read_agent_log
from skillbench.agents.harbor_trials import Job, Trial, read_object
from skillbench.records import Episode, Usage

ARRIVALS = ("arrived", "absent", "unknown", "empty", "none")
"""Whether skills reached the agent. ``arrived``: its log lists one, or it loaded one. ``absent``: it should have had some and its
log lists none. ``unknown``: it should have had some, or nobody says, and its log does not say. ``empty``: the arm offers skills,
and the manifest of this task's export holds none, because its ranking failed or was empty: a task without a load, as in the
agent's own loop. ``none``: it was to have none (an arm without skills, an export of the top 0), or its log lists none and nobody
says that it should."""

MANIFEST = "manifest.json"
MANIFEST_KIND = "skillbench harbor export"

_MAX_TEXT = 4000  # characters of an input or an observation that an episode keeps
_ENDINGS: tuple[tuple[str, Ending], ...] = (
    # The verifier's own faults: the agent had ended before.
    (r"^(Verifier|RewardFile|AddTestsDir|DownloadVerifier)", Ending.SUBMITTED),
    (r"^AgentTimeout", Ending.TIME_SPENT),
    (r"ContextLength|ContextWindow", Ending.CONTEXT_OVERFLOW),
    (r"OutputLength", Ending.TOKENS_SPENT),
    (
        r"Setup|EnvironmentStart|Environment\w*Error|Docker|Build|RateLimit|Connection|Network|Authentication|ServiceUnavailable|InternalServer|API\w*Error|Cancel",
        Ending.INFRASTRUCTURE,
    ),
)
_STOPS = {"error_max_turns": Ending.ACTIONS_SPENT}


@dataclass(frozen=True, slots=True)
class Fact:
    """One row of ``trials.jsonl``: everything that the numbers are computed from. ``id`` is the task, with ``#2`` … for further
    trials of it.
    """

    id: str
    job: str
    trial: str
    task: str
    agent: str
    model: str
    outcome: str
    reward: float | None
    disagrees: bool
    ending: str
    exception: str
    arrival: str
    offered: tuple[str, ...]
    loaded: tuple[str, ...]
    loads: tuple[Mapping[str, str], ...]
    log: str
    usage: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def missing(self) -> bool:
        """True for a trial that the job planned and that left no folder."""
        return self.log == "no folder"

    @property
    def infrastructure(self) -> bool:
        """True where the agent could not work as it should have: nothing to be read into reward or loads."""
        return self.missing or self.arrival == "absent" or self.ending == Ending.INFRASTRUCTURE

    @property
    def judged(self) -> bool:
        """True for a valid reward of an agent that could work."""
        return self.reward is not None and not self.infrastructure

    @property
    def may_load(self) -> bool:
        """True for a trial of the load rate's denominator: an agent that could work, had skills on offer, and left a log.

        One that retrieval left without skills belongs to it, with a load of 0: else a retriever gains by failing on hard tasks.
        """
        logged = self.arrival in ("arrived", "unknown") and self.log not in ("none", "no folder")
        return not self.infrastructure and (logged or self.arrival == "empty")


def fact_to_row(fact: Fact) -> dict[str, Any]:
    """A JSON-ready row."""
    row = asdict(fact)
    return {key: list(value) if isinstance(value, tuple) else value for key, value in row.items()}


def fact_from_row(row: Mapping[str, Any]) -> Fact:
    """The fact of a row that :func:`fact_to_row` made."""
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Fact(**values)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a trial should have had: names of skills with their ids, None where nobody says; whether it must have some; and whether
    it was to have some and its export holds none.
    """

    names: Mapping[str, str] | None
    must: bool | None
    empty: bool = False


def expected_skills(trial: Trial, exports: Path | None, must: bool | None) -> Expected:
    """From the manifest of the exported task, below ``exports`` or where the job says that the task lay; else ``must`` alone."""
    places = [exports / trial.task] if exports else []
    places += [Path(trial.task_path)] if trial.task_path else []
    for place in places:
        manifest, _ = read_object(place / MANIFEST)
        if manifest.get("kind") == MANIFEST_KIND:
            names = {
                str(s["name"]): str(s["skill_id"])
                for s in manifest.get("skills", ())
                if isinstance(s, dict) and {"name", "skill_id"} <= s.keys()
            }
            empty = not names and must is not False and manifest.get("top") != 0
            return Expected(names, bool(names) if must is None else must, empty)
    return Expected(None, must)


def arrival_of(log: AgentLog, loads: list[Load], expected: Expected) -> str:
    """One of ARRIVALS."""
    if expected.empty:
        return "empty"
    wanted = set(expected.names or ())
    got = set(loaded_names(loads, wanted))
    if expected.must is False and not got:
        return "none"
    if expected.names is not None and not wanted:
        return "none"
    listed = log.listed
    if (got & wanted if wanted else got) or (listed and (listed & wanted if wanted else True)):
        return "arrived"
    if listed is None:
        return "unknown"
    return "absent" if expected.must else "none"


def fact_of(trial: Trial, job: Job, episode_id: str, expected: Expected) -> tuple[Fact, AgentLog]:
    """The facts of a trial, and its log."""
    log = read_agent_log(trial.folder / "agent")
    loads = find_loads(log.calls)
    arrival = arrival_of(log, loads, expected)
    offered = tuple(expected.names or ()) or tuple(sorted(log.listed or ()))
    loaded = tuple(name for name in loaded_names(loads, offered) if not offered or name in offered)
    on_offer = arrival in ("arrived", "unknown")
    ending = ending_of(trial, log, arrival)
    usage = _usage(trial, log)
    return Fact(
        id=episode_id,
        job=job.name,
        trial=trial.name,
        task=trial.task,
        agent=trial.agent,
        model=trial.model,
        outcome=trial.reward.outcome,
        reward=trial.reward.value,
        disagrees=trial.reward_disagrees,
        ending=str(ending),
        exception=trial.exception,
        arrival=arrival,
        offered=offered if on_offer else (),
        loaded=loaded if on_offer else (),
        loads=tuple(asdict(load) for load in loads),
        log=log.format,
        usage=asdict(usage),
        notes=(*trial.notes, *log.notes),
    ), log


def ending_of(trial: Trial, log: AgentLog, arrival: str) -> Ending:
    """How the agent ended. A trial without ``result.json`` was broken off; skills that never arrived are a fault of the set-up."""
    if arrival == "absent":
        return Ending.INFRASTRUCTURE
    if trial.exception:
        return next((ending for pattern, ending in _ENDINGS if re.search(pattern, trial.exception)), Ending.CRASHED)
    if not trial.result:
        return Ending.CRASHED
    return _STOPS.get(log.stop, Ending.SUBMITTED)


def missing_fact(job: Job, name: str, episode_id: str) -> Fact:
    """A trial that the job planned and that left no folder; ``name`` is "" where nothing names it."""
    task = name.rpartition("__")[0] or name
    usage = asdict(Usage(0, None, None, 0.0, None))
    return Fact(
        episode_id,
        job.name,
        name,
        task,
        "",
        "",
        "missing",
        None,
        False,
        str(Ending.INFRASTRUCTURE),
        "",
        "unknown",
        (),
        (),
        (),
        "no folder",
        usage,
        ("no trial folder",),
    )


def _usage(trial: Trial, log: AgentLog) -> Usage:
    """The harness's numbers, else the log's; None where neither says. ``calls`` are the agent's own turns, 0 where the log does not
    say.
    """
    prompt, completion, cost = trial.tokens
    tokens = log.tokens
    return Usage(
        calls=tokens.calls or 0,
        prompt_tokens=prompt if prompt is not None else tokens.prompt or None,
        completion_tokens=completion if completion is not None else tokens.completion or None,
        seconds=trial.seconds or 0.0,
        cost_usd=cost if cost is not None else tokens.cost_usd or None,
    )


def episode_of(fact: Fact, log: AgentLog, arm: str, seed: int, message: str, ids: Mapping[str, str]) -> Episode:
    """The episode: its offer, every tool call with what came back, every load, and the end. Skills stand by id where a manifest
    gives one.
    """
    offered, loaded = ([ids.get(name, name) for name in names] for names in (fact.offered, fact.loaded))
    steps: list[dict[str, Any]] = [
        {
            "kind": "offer",
            "skills": [_shown(name, ids) for name in fact.offered],
            "in_context": False,
            "failure": _offer_failure(fact),
        }
    ]
    steps += [_action(number, call) for number, call in enumerate(log.calls, 1)]
    steps += _load_steps(fact, ids)
    steps.append({"kind": "end", "ending": fact.ending, "detail": _detail(fact, message)})
    return Episode(fact.id, arm, seed, tuple(offered), tuple(loaded), tuple(steps), log.answer, fact.ending, Usage(**fact.usage))


def _shown(name: str, ids: Mapping[str, str]) -> dict[str, Any]:
    return {"skill": ids.get(name, name), "label": name, "description_cut": 0, "text_cut": 0}


def _offer_failure(fact: Fact) -> str | None:
    return {"absent": "the skills never arrived", "empty": "retrieval gave this task no skill"}.get(fact.arrival)


def _detail(fact: Fact, message: str) -> str:
    parts = [fact.exception and f"{fact.exception}: {message}".rstrip(": "), _offer_failure(fact) or "", f"reward {fact.outcome}"]
    return "; ".join(part for part in parts if part)


def _action(number: int, call: Call) -> dict[str, Any]:
    status = "error" if call.failed else "ok" if call.result is not None else "error"
    return {
        "kind": "action",
        "n": number,
        "tool": call.tool,
        "input": _cut(json.dumps(dict(call.arguments), ensure_ascii=False)),
        "thought": "",
        "status": status,
        "error": "" if status == "ok" else "no result" if call.result is None else "tool error",
        "observation": _cut(call.result or ""),
    }


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} … {len(text) - _MAX_TEXT} more characters"


def _load_steps(fact: Fact, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    steps, seen = [], set[str]()
    for load in fact.loads:
        name = load["name"]
        status = "failed" if load["failure"] else "again" if name in seen else "loaded"
        seen |= set() if load["failure"] else {name}
        steps.append(
            {"kind": "load", "by": load["by"], "name": name, "skill": ids.get(name), "status": status, "error": load["failure"]}
        )
    return steps
