"""The few numbers by which one run of a sweep is told from another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillbench.judging.judge import HEADLINE
from skillbench.judging.report import label

_RATES = {"pass_rate": "Pass", "load_rate": "Load", "submission_rate": "Submitted"}


def headline(document: Mapping[str, Any]) -> dict[str, str]:
    """Heading to value in percent, of a ``metrics.json``: the papers' metrics at the first cutoff, or an agent's rates.

    A rate that is not defined (a load rate where nothing could be loaded) is left out.
    """
    if "agent" in document:
        found = {heading: document["agent"].get(name) for name, heading in _RATES.items()}
    else:
        values = document.get("retrieval", {})
        found = {label(metric): values[metric] for name in HEADLINE if (metric := _first(values, name))}
    return {heading: f"{100 * value:.2f}" for heading, value in found.items() if value is not None}


def _first(values: Mapping[str, Any], name: str) -> str | None:
    at = [metric for metric in values if metric.partition("@")[0] == name]
    return min(at, key=lambda metric: int(metric.partition("@")[2]), default=None)
