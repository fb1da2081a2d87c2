"""The report of an agent run, out of the plain content of ``metrics.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skillbench.judging.report import Column, Page, ReportTable, key_table, percent

Document = Mapping[str, Any]

_NAMES = {
    "pass_rate": "Pass rate, all tasks",
    "pass_rate_judged": "Pass rate, judged tasks",
    "load_rate": "Load rate",
    "submission_rate": "Submitted",
    "coverage": "Coverage",
}


def agent_page(header: Mapping[str, Any], document: Document) -> Page:
    """Tables and notes. ``header`` names data set, arm, seed and models; ``document`` is ``metrics.json``."""
    title = " · ".join(str(header[key]) for key in ("dataset", "arm", "method") if header.get(key) not in (None, "none"))
    counts = document["counts"]
    tables = [
        _rate_table(document),
        _table("Endings", _seen(counts["endings"]), "Ending", "Episodes"),
        _skill_table(counts),
        _tool_table(counts),
        _table("Capability checks", _csi_rows(counts["csi"]), "Checks", "Number") if _used_csi(counts) else None,
        _table("Format", _format_rows(counts), "Replies in a wrong form", "Number"),
        _table("Work", _work_rows(counts["work"]), "Work", "Amount"),
        key_table("Retrieval", document.get("retrieval", {}), terminal=False),
        key_table("Data audit", document.get("audit", {}), terminal=False),
        key_table("Timing", document.get("timing", {}), terminal=False),
    ]
    return Page(title, header, [table for table in tables if table is not None and table.rows], agent_notes(document))


def _rate_table(document: Document) -> ReportTable:
    intervals = document["agent_intervals"]
    level = f" [{100 * document['judging']['confidence']:g} %]" if intervals else ""
    rows = [
        (_NAMES[name], _cell(value, intervals.get(name)), _denominator(name, document["counts"]))
        for name, value in document["agent"].items()
    ]
    return ReportTable("Agent", (Column("Metric", text=True), Column(f"%{level}"), Column("of", text=True)), tuple(rows))


def _cell(value: float, ends: Sequence[float] | None) -> str:
    return f"{percent(value)} [{percent(ends[0])}, {percent(ends[1])}]" if ends else percent(value)


def _denominator(name: str, counts: Mapping[str, Any]) -> str:
    part = {
        "pass_rate": "passed",
        "pass_rate_judged": "passed",
        "load_rate": "tasks_with_load",
        "submission_rate": "submissions",
        "coverage": "judged",
    }[name]
    if name in ("pass_rate", "coverage"):
        return f"{counts[part]} of {counts['expected']} tasks"
    return f"{counts[part]} of {counts['judged']} judged tasks"


def _table(title: str, rows: Mapping[str, Any], first: str, second: str) -> ReportTable:
    shown = tuple((_words(key), f"{value:,}" if isinstance(value, int) else str(value)) for key, value in rows.items())
    return ReportTable(title, (Column(first, text=True), Column(second)), shown)


def _seen(numbers: Mapping[str, int]) -> dict[str, int]:
    return {key: number for key, number in numbers.items() if number}


def _words(key: str) -> str:
    return key if key.isupper() else key.replace("_", " ")


def _skill_table(counts: Mapping[str, Any]) -> ReportTable | None:
    if not counts["skills_offered"] and not counts["offer_failures"]:
        return None
    rows = {
        "tasks with an offer": counts["tasks_offered"],
        "tasks without one because retrieval failed": counts["offer_failures"],
        "skills offered": counts["skills_offered"],
        "skills shown cut": counts["skills_cut"],
        "tasks with a load": counts["tasks_with_load"],
        "skills loaded": counts["loads"]["loaded"],
        "loads of a skill that was loaded": counts["loads"]["again"],
        "loads of an unknown skill": counts["loads"]["unknown"],
    }
    return _table("Skills", rows, "Skills", "Number")


def _tool_table(counts: Mapping[str, Any]) -> ReportTable:
    columns = (
        Column("Tool", text=True),
        Column("Attempts"),
        Column("Successes"),
        Column("Errors"),
        Column("By kind", text=True, width="wide"),
    )
    rows = [
        (tool, str(n["attempts"]), str(n["successes"]), str(n["errors"]), _listed(n["errors_by_kind"]))
        for tool, n in counts["tools"].items()
    ]
    note = (
        f"{counts['actions']} actions ran; {counts['unknown_tools']} calls of an unknown tool and {counts['repeated_actions']} "
        f"identical actions ({counts['repeated_calculations']} of them calculations) were answered without running."
    )
    return ReportTable("Actions", columns, tuple(rows), note)


def _listed(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {n}" for kind, n in kinds.items())


def _used_csi(counts: Mapping[str, Any]) -> bool:
    return bool(counts["csi"]["assessments"] or counts["csi"]["without_a_decision"])


def _csi_rows(csi: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "assessments": csi["assessments"],
        **csi["decisions"],
        "without a decision": csi["without_a_decision"],
        "runtime checks": csi["runtime_checks"],
    }


def _format_rows(counts: Mapping[str, Any]) -> dict[str, Any]:
    found = counts["violations"]
    return _seen({"in actions": found["in_actions"], "in assessments": found["in_assessments"], **found["by_kind"]})


def _work_rows(work: Mapping[str, Any]) -> dict[str, Any]:
    tokens = "at least " if work["calls_with_unknown_tokens"] else ""
    cost = "at least " if work["calls_with_unknown_cost"] else ""
    return {
        "model calls": work["calls"],
        "calls an episode": f"{work['calls_per_episode']:.1f}",
        "prompt tokens": f"{tokens}{work['prompt_tokens']:,}",
        "completion tokens": f"{tokens}{work['completion_tokens']:,}",
        "model seconds": f"{work['seconds']:,.1f}",
        "seconds a call": f"{work['seconds_per_call']:.2f}",
        "seconds a call, 95th percentile": f"{work['seconds_per_call_p95']:.2f}",
        "US dollars": f"{cost}{work['cost_usd']:.4f}",
    }


def agent_notes(document: Document) -> list[str]:
    """What a reader must know beside the numbers."""
    counts, notes = document["counts"], []
    if document["arm"]["uses_gold"]:
        notes.append("This arm uses gold: an upper bound, not a result of retrieval.")
    lost = counts["infrastructure"] + counts["missing"]
    if lost:
        notes.append(
            f"{lost} of {counts['expected']} tasks were not judged ({counts['infrastructure']} without an answer of the model or "
            f"crashed, {counts['missing']} missing); they count 0 in the pass rate over all tasks and are tried again with resume=."
        )
    coverage, floor = document["agent"]["coverage"], document["judging"]["coverage_floor"]
    if coverage < floor:
        notes.append(
            f"Warning: coverage {percent(coverage)} % lies below the floor of {percent(floor)} %; do not compare these rates."
        )
    if counts["unknown"]:
        notes.append(f"Ignored: {counts['unknown']} episodes of tasks that the gold does not know.")
    if not document["arm"]["can_load"]:
        notes.append("Nothing can be loaded in this arm, so it has no load rate.")
    if document["judging"]["resamples"]:
        notes.append(f"Intervals: percentile bootstrap over tasks, {document['judging']['resamples']:,} resamples.")
    return notes
