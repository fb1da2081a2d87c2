"""The lower half of an agent run: checks are opened, episodes on disk are judged, and the report and receipt are written.

It has the same functions as :mod:`skillbench.reporting`, so that ``task=judge`` and ``task=verify`` can use either.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillbench import reporting
from skillbench.agents.episodes import is_final, read_episodes
from skillbench.clock import Clock
from skillbench.config import Settings
from skillbench.data.audit import fingerprint_gold
from skillbench.interfaces import DataSet
from skillbench.judging.agent_judge import AgentJudgement, agent_document, judge_episodes
from skillbench.judging.agent_report import agent_notes, agent_page
from skillbench.judging.judge import Judgement
from skillbench.judging.report import TerminalPage, page_markdown
from skillbench.parts import LoadedData
from skillbench.records import Measurement
from skillbench.run_dir import EPISODES, MEASUREMENTS, METRICS, PREDICTION, RANKINGS, REPORT, RunDir, canonical

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Judged:
    """The agent's judgement and, where the run has rankings and the data set gold skills, the retrieval's."""

    agent: AgentJudgement
    retrieval: Judgement | None

    def measurements(self) -> list[Measurement]:
        """Those of the agent, then those of the rankings."""
        return self.agent.measurements() + (self.retrieval.measurements() if self.retrieval else [])


@dataclass(frozen=True, slots=True)
class Gold:
    """Both kinds of gold, as fingerprints need them."""

    skills: str
    checks: str


def judge_run(
    run: RunDir, dataset: DataSet, data: LoadedData, settings: Settings, clock: Clock, judged_with: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Judge the episodes in a run folder and write measurements, metrics, report and receipt; returns the metrics document."""
    with clock("judge_seconds"):
        document, judged, gold = measure(run, dataset, data, settings)
    prediction = run.read_json(PREDICTION)
    document["timing"] = {**prediction["timing"], "judge_seconds": clock.seconds()["judge_seconds"]}
    run.write_rows(MEASUREMENTS, ({"metric": m.metric, "id": m.id, "value": m.value} for m in judged.measurements()))
    run.write_json(METRICS, document)
    run.write_text(REPORT, markdown(report_header(run, prediction), document))
    run.set_status("finished", counts=document["counts"], transport_failures=unanswered(run))
    reporting.write_receipt(run, prediction, {"public": data.fingerprint, "gold": fingerprint(gold)}, document, judged_with)
    for note in agent_notes(document):
        if note.startswith("Warning"):
            log.warning("%s", note)
    return document


def unanswered(run: RunDir) -> int:
    """Episodes in which no model answered, or that the harness broke; a resume attempts these again, and no others."""
    return sum(not is_final(episode) for episode in read_episodes(run.rows(EPISODES), str(run.path / EPISODES)).values())


def measure(run: RunDir, dataset: DataSet, data: LoadedData, settings: Settings) -> tuple[dict[str, Any], Judged, Gold]:
    """The metrics document without ``timing``, the judgements behind it, and the gold."""
    tasks: Any = dataset
    checks = tasks.load_checks()
    prediction = run.read_json(PREDICTION)
    agent = judge_episodes(
        read_episodes(run.rows(EPISODES), str(run.path / EPISODES)),
        checks,
        can_load=prediction["arm"]["can_load"],
        coverage_floor=settings.coverage_floor,
        resamples=settings.resamples,
        seed=settings.seed,
    )
    qrels = dataset.load_gold()
    document = {
        **agent_document(agent),
        "arm": {**prediction["arm"], "seed": run.config()["seed"]},
        "verdicts": dict(agent.verdicts),
    }
    retrieval = None
    if (run.path / RANKINGS).exists() and any(qrels.gold(query_id) for query_id in qrels.grades):
        ranked, retrieval, _ = reporting.measure(run, dataset, data, settings)
        document |= {"retrieval": ranked["retrieval"], "retrieval_counts": ranked["counts"], "audit": ranked["audit"]}
    rows = sorted([check.task_id, check.grader, check.answer, sorted(check.options.items())] for check in checks.values())
    digest = hashlib.sha256(canonical(rows).encode()).hexdigest()
    return document, Judged(agent, retrieval), Gold(fingerprint_gold(qrels), digest)


def fingerprint(gold: Gold) -> str:
    """SHA-256 over the gold skills and the checks of the tasks."""
    return hashlib.sha256(f"{gold.skills} {gold.checks}".encode()).hexdigest()


def report_header(run: RunDir, prediction: Mapping[str, Any]) -> dict[str, Any]:
    """What stands above the tables."""
    config = run.config()
    arm = prediction["arm"]
    llm = prediction["llm"]
    return {
        "dataset": prediction["dataset"],
        "arm": arm["name"],
        "uses_gold": arm["uses_gold"],
        "csi": arm["csi"],
        "seed": config["seed"],
        "llm": llm.get("model") or llm.get("name", "none"),
        "method": prediction["method"]["name"],
        "backbone": prediction["backbone"]["name"],
        "offered": config["agent"]["offered"],
        **{key: value for key, value in config["agent"]["budget"].items() if not key.startswith("_")},
    }


def markdown(header: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """The text of ``report.md``."""
    return page_markdown(agent_page(header, document))


def show(run: RunDir, document: Mapping[str, Any]) -> None:
    """Print the tables of a judged run."""
    from rich.console import Console

    Console(soft_wrap=False).print(TerminalPage(agent_page(report_header(run, run.read_json(PREDICTION)), document)))
    log.info("run folder: %s", run.path)
