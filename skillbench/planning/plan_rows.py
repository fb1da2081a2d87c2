"""Plans as rows of ``plans.jsonl``: what a run writes, and what ``plans=PATH`` replays in place of an LLM."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from skillbench.errors import SkillbenchError
from skillbench.planning.asking import is_transport
from skillbench.records import Failure, Plan, Query, Usage

log = logging.getLogger(__name__)

REQUIRED = ("query_id", "capabilities", "anchors", "pseudo_skills", "failure")
OPTIONAL = ("model", "usage", "notes", "made_by")


def plan_to_row(plan: Plan) -> dict[str, Any]:
    """``plan`` as a JSON-ready row; :func:`plan_from_row` gives it back equal."""
    return {
        "query_id": plan.query_id,
        "capabilities": list(plan.capabilities),
        "anchors": list(plan.anchors),
        "pseudo_skills": list(plan.pseudo_skills),
        "failure": None if plan.failure is None else asdict(plan.failure),
        "model": plan.model,
        "usage": asdict(plan.usage),
        "notes": list(plan.notes),
        "made_by": plan.made_by,
    }


def plan_from_row(row: object, where: str) -> Plan:
    """The plan that ``row`` describes. Raises SkillbenchError that begins with ``where`` (``file:line``) for anything else.

    ``model``, ``usage``, ``notes`` and ``made_by`` may be absent: a count that a row does not give is unknown, not zero. A row
    without a failure must hold something to search with, and as many pseudo skills as capabilities where it has both.
    """
    if not isinstance(row, dict):
        raise SkillbenchError(f"{where}: a plan is a JSON object, not {type(row).__name__}")
    _check_keys(row, where)
    texts = {key: _texts(row.get(key, []), key, where) for key in ("capabilities", "anchors", "pseudo_skills", "notes")}
    failure, usage = _failure(row["failure"], where), _usage(row.get("usage"), where)
    model, made_by = (row.get(key, "") for key in ("model", "made_by"))
    if not (isinstance(model, str) and isinstance(made_by, str)):
        raise SkillbenchError(f"{where}: {'made_by' if isinstance(model, str) else 'model'} must be text")
    try:
        plan = Plan(row["query_id"], failure=failure, usage=usage, model=model, made_by=made_by, **texts)
    except SkillbenchError as error:
        raise SkillbenchError(f"{where}: {error}") from error
    return _usable(plan, where)


def load_plans(path: str | Path, queries: Sequence[Query]) -> dict[str, Plan]:
    """Plans of ``queries`` from a JSON-lines file, keyed by query id, in the order of ``queries``.

    A query without a row is a recorded failure of stage ``plans``; one warning counts them. Rows of other queries are passed
    over with one line in the log. A file in which no row belongs to ``queries`` is an error, for it was made for other data.
    A query with two rows is an error. A half-written last line (without a line end) is dropped with a warning. A plan that was
    recorded as a transport failure is one of stage ``plans`` here, since this run has no model to ask again.
    """
    rows = _read_rows(Path(path))
    wanted = {q.id for q in queries}
    if queries and not wanted & rows.keys():
        raise SkillbenchError(f"plans file {path} holds no plan for any of {len(queries)} queries; is it from another data set?")
    if extra := len(rows.keys() - wanted):
        log.info("plans file %s: %d rows are for other queries", path, extra)
    if missing := [q.id for q in queries if q.id not in rows]:
        log.warning("plans file %s has no plan for %d of %d queries, such as %s", path, len(missing), len(queries), missing[0])
    return {q.id: rows[q.id] if q.id in rows else absent(q.id, str(path)) for q in queries}


def absent(query_id: str, path: str) -> Plan:
    """The plan of a query that a plans file does not hold."""
    return Plan(query_id, failure=Failure("plans", f"no plan in {Path(path).name}"))


def _read_rows(path: Path) -> dict[str, Plan]:
    plans: dict[str, Plan] = {}
    for where, row in _json_rows(path):
        plan = plan_from_row(row, where)
        if plan.query_id in plans:
            raise SkillbenchError(f"{where}: query {plan.query_id} has a plan already")
        plans[plan.query_id] = _settled(plan)
    return plans


def _settled(plan: Plan) -> Plan:
    if not is_transport(plan.failure):
        return plan
    return replace(plan, failure=Failure("plans", f"no model answered when it was made: {plan.failure and plan.failure.reason}"))


def _json_rows(path: Path) -> Iterable[tuple[str, Any]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SkillbenchError(f"plans file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SkillbenchError(f"plans file {path} is not UTF-8 (byte {error.start})") from error
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield f"{path}:{number}", json.loads(line, parse_constant=_no_constant)
        except ValueError as error:
            if number == len(lines):
                log.warning("%s:%d: half-written last line dropped", path, number)
                return
            raise SkillbenchError(f"{path}:{number}: not JSON: {error}") from error


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON value")


def _check_keys(row: Mapping[str, Any], where: str) -> None:
    missing = [key for key in REQUIRED if key not in row]
    unknown = sorted(set(map(str, row)) - {*REQUIRED, *OPTIONAL})
    if missing or unknown:
        what = f"lacks {', '.join(missing)}" if missing else f"has unknown keys {', '.join(unknown)}"
        raise SkillbenchError(f"{where}: the plan {what}; its keys are {', '.join((*REQUIRED, *OPTIONAL))}")


def _texts(value: object, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise SkillbenchError(f"{where}: {key} must be a list of strings")
    if key != "notes" and not all(v.strip() for v in value):
        raise SkillbenchError(f"{where}: {key} holds a blank string")
    return tuple(value)


def _failure(value: object, where: str) -> Failure | None:
    if value is None:
        return None
    texts = isinstance(value, dict) and all(isinstance(v, str) and v for v in value.values())
    if not isinstance(value, dict) or not texts or set(value) != {"stage", "reason"}:
        raise SkillbenchError(f'{where}: failure must be null or {{"stage": text, "reason": text}}')
    return Failure(value["stage"], value["reason"])


def _usage(value: object, where: str) -> Usage:
    if value is None:
        return Usage(0, None, None, 0.0, None)
    fields = {"calls": 0, "prompt_tokens": None, "completion_tokens": None, "seconds": 0.0, "cost_usd": None}
    if not isinstance(value, dict) or not set(value) <= set(fields):
        raise SkillbenchError(f"{where}: usage must be an object with keys among {', '.join(fields)}")
    for key, number in value.items():
        if number is None and fields[key] is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise SkillbenchError(f"{where}: usage.{key} must be a number of 0 or more")
    return Usage(**{**fields, **value})


def _usable(plan: Plan, where: str) -> Plan:
    if plan.failure is not None:
        return plan
    if not (plan.capabilities or plan.pseudo_skills):
        raise SkillbenchError(f"{where}: the plan has neither capabilities nor pseudo skills, and no failure that says why")
    if plan.capabilities and plan.pseudo_skills and len(plan.capabilities) != len(plan.pseudo_skills):
        raise SkillbenchError(f"{where}: {len(plan.capabilities)} capabilities but {len(plan.pseudo_skills)} pseudo skills")
    return plan
