"""``task=explain``: why a query got its ranking, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from skillbench.records import Trace
from skillbench.run_dir import PLANS, RunDir

_COLUMNS = {
    "list": "list_rank",
    "rank": "rank",
    "skill": "skill_id",
    "d": "d",
    "query": "n_q",
    "pseudo": "n_p",
    "anchors": "n_a",
    "h": "h",
}
"""Headings of SkillDreamer's trace and the columns under them."""


def print_trace(run: RunDir, query_id: str, trace: Trace, first: Trace, shown: int = 10) -> None:
    """Print the plan of a query and its best ``shown`` candidates: a reranker's, then for each capability those of its list.

    ``first`` is the trace of the stage below a reranker, empty where there is none.

    Columns of a capability: place in its list and in the final ranking, d (which picks the candidates), the three min-max
    normalised scores, and h, by which the list is ordered. A reranker's columns stand as it wrote them, by its rank.
    """
    console = Console()
    plan: Mapping[str, Any] = next((p for p in run.rows(PLANS) if p["query_id"] == query_id), {})
    ranking = run.rankings()[query_id]
    console.print(Text(f"Query {query_id}: {len(ranking.skill_ids)} skills, best {', '.join(ranking.skill_ids[:3])}", style="bold"))
    if plan.get("anchors"):
        console.print(Text("Anchors: " + ", ".join(plan["anchors"])))
    if "capability" not in trace.columns:
        console.print()
        console.print(_table(list(trace), {name.replace("_", " "): name for name in trace.columns}, "rank", shown))
        trace = first
    for j in sorted(set(trace.columns.get("capability", ()))):
        console.print()
        console.print(Text(_title(plan, j), style="bold"))
        console.print(_table([row for row in trace if row["capability"] == j], _COLUMNS, "list_rank", shown))


def _title(plan: Mapping[str, Any], j: int) -> str:
    capabilities, skills = plan.get("capabilities") or [], plan.get("pseudo_skills") or []
    named = capabilities[j] if j < len(capabilities) else "the query itself"
    imagined = f" · imagined skill of {len(skills[j].split())} words" if j < len(skills) else ""
    return f"{j + 1}. {named}{imagined}"


def _table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], by: str, shown: int) -> Table:
    """The best rows by the rank in column ``by``; those without a rank follow, by h where there is one."""
    table = Table(box=None, pad_edge=False)
    for heading, name in columns.items():
        table.add_column(heading, justify="left" if name == "skill_id" else "right", overflow="fold")
    ordered = sorted(rows, key=lambda row: (row[by] is None, row[by] or 0, -row.get("h", 0.0), row["skill_id"]))
    for row in ordered[:shown]:
        table.add_row(*(_cell(row[name]) for name in columns.values()))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
