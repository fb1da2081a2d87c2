"""The lower half of a run: gold is opened, rankings on disk are judged, and the report and receipt are written."""

from __future__ import annotations

import hashlib
import logging
import platform
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from skillbench import PROTOCOL_VERSION, __version__
from skillbench.clock import Clock
from skillbench.config import Settings
from skillbench.data.audit import audit_gold, fingerprint_gold
from skillbench.gold import Qrels
from skillbench.interfaces import DataSet
from skillbench.judging.judge import Judgement, compare, judge_retrieval, metrics_document
from skillbench.judging.report import render_tables, report_markdown
from skillbench.parts import Latest, LoadedData
from skillbench.planning.asking import is_transport
from skillbench.run_dir import (
    BASELINE,
    MEASUREMENTS,
    METRICS,
    PREDICTION,
    QRELS,
    RANKINGS,
    RECEIPT,
    REPORT,
    RunDir,
    canonical,
    now,
    trec_qrels,
)

log = logging.getLogger(__name__)

_LIBRARIES = (
    "bm25s",
    "hydra-core",
    "numpy",
    "omegaconf",
    "openai",
    "safetensors",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
    "wordllama",
)


# What the judge reads of a config.
JUDGED_WITH = ("dataset", "k", "ks", "seed", "judge")


def log_data(data: LoadedData) -> None:
    """One line about the data, and one for each kind of thing that is wrong with it."""
    for line in data.audit.lines():
        log.info("%s", line)


def judge_run(
    run: RunDir, dataset: DataSet, data: LoadedData, settings: Settings, clock: Clock, judged_with: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Judge the rankings in a run folder and write measurements, metrics, report and receipt; returns the metrics document.

    ``judged_with`` are the parts of the config that the judge read; a later ``task=judge`` may give others than the run's own.
    """
    with clock("judge_seconds"):
        document, judgement, qrels = measure(run, dataset, data, settings)
    prediction = run.read_json(PREDICTION)
    document["timing"] = {**prediction["timing"], "judge_seconds": clock.seconds()["judge_seconds"]}
    run.write_rows(MEASUREMENTS, ({"metric": m.metric, "id": m.id, "value": m.value} for m in judgement.measurements()))
    run.write_text(QRELS, trec_qrels(qrels.grades))
    run.write_json(METRICS, document)
    run.write_text(REPORT, report_markdown(report_header(run, prediction), document))
    lost = transport_failures(run)
    if lost:
        log.warning(
            "%d of %d queries have no answer from a model; resume=%s asks for these again", lost, len(qrels.grades), run.path
        )
    run.set_status("finished", counts=document["counts"], transport_failures=lost)
    write_receipt(run, prediction, {"public": data.fingerprint, "gold": fingerprint_gold(qrels)}, document, judged_with)
    return document


def transport_failures(run: RunDir) -> int:
    """Queries that failed because no model answered; a resume asks for these again, and for no others."""
    return sum(is_transport(ranking.failure) for ranking in run.rankings(RANKINGS).values())


def measure(run: RunDir, dataset: DataSet, data: LoadedData, settings: Settings) -> tuple[dict[str, Any], Judgement, Qrels]:
    """The metrics document without ``timing``, the judgement behind it, and the gold."""
    qrels = dataset.load_gold()
    gold = audit_gold(data.public, qrels, allow_missing_gold=bool(getattr(dataset, "allow_missing_gold", False)))
    for line in gold.lines():
        log.info("%s", line)
    options: dict[str, Any] = {
        "ks": settings.ks,
        "graded": any(grade > 1 for row in qrels.grades.values() for grade in row.values()),
        "set_compat": bool(getattr(dataset, "set_compat", False)),
        "groups": data.audit.duplicate_map() if settings.duplicates == "group" else None,
        "resamples": settings.resamples,
        "seed": settings.seed,
    }
    judgement = judge_retrieval(run.rankings(RANKINGS), qrels, **options)
    baseline = _judged_baseline(run, qrels, options) if (run.path / BASELINE).exists() else None
    document = metrics_document(
        judgement, baseline, compare(judgement, baseline, resamples=settings.resamples, seed=settings.seed) if baseline else None
    )
    document["audit"] = {"public": data.audit.as_dict(), "gold": gold.as_dict()}
    return document, judgement, qrels


_baseline: Latest[Judgement] = Latest()


def _judged_baseline(run: RunDir, qrels: Qrels, options: Mapping[str, Any]) -> Judgement:
    """The jobs of a sweep mostly have the same baseline: it is judged once for the same rankings, gold and options."""
    rankings = hashlib.sha256((run.path / BASELINE).read_bytes()).hexdigest()
    key = canonical([rankings, fingerprint_gold(qrels), options])
    return _baseline.get(key, lambda: judge_retrieval(run.rankings(BASELINE), qrels, **options))


def fingerprint(qrels: Qrels) -> str:
    """SHA-256 of the gold."""
    return fingerprint_gold(qrels)


def markdown(header: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """The text of ``report.md``."""
    return report_markdown(header, document)


def report_header(run: RunDir, prediction: Mapping[str, Any]) -> dict[str, Any]:
    """What stands above the tables."""
    config = run.config()
    own = prediction["llm"].get("model") or prediction["llm"].get("name", "none")
    models = [*prediction["plans"]["models"]]
    if not models or (prediction["plans"]["file"] and own != "none" and own not in models):
        models.append(own)  # plans were replayed, and another model reranks
    return {
        "dataset": prediction["dataset"],
        "backbone": prediction["backbone"]["name"],
        "method": prediction["method"]["name"],
        "baseline": "direct",
        "llm": ", ".join(models),
        "k": config["k"],
        **_switches(config["method"]),
    }


def _switches(method: Mapping[str, Any]) -> dict[str, Any]:
    """SkillDreamer's weights as they were used, and what is switched off or otherwise than in the paper; {} for other methods."""
    if method["name"] != "skilldreamer":
        return {}
    weights = {key: method[key] for key in ("alpha_retrieval", "alpha_rerank", "beta", "gamma", "k_c", "k_r")}
    if method["alpha_retrieval"] == method["alpha_rerank"]:
        weights = {"alpha": method["alpha_rerank"], **{k: v for k, v in weights.items() if not k.startswith("alpha_")}}
    usual = {
        "capabilities": True,
        "implicit": True,
        "pseudo_skills": True,
        "merge": "round_robin",
        "proxy_role": "document",
        "on_failure": "zero",
    }
    return weights | {key: method[key] for key, value in usual.items() if method[key] != value}


def show(run: RunDir, document: Mapping[str, Any]) -> None:
    """Print the tables of a judged run."""
    from rich.console import Console

    Console(soft_wrap=False).print(render_tables(report_header(run, run.read_json(PREDICTION)), document))
    log.info("run folder: %s", run.path)


def write_receipt(
    run: RunDir, prediction: Mapping[str, Any], data: Mapping[str, str], document: Mapping[str, Any], judged_with: Mapping[str, Any]
) -> None:
    """Write receipt.json, last: what produced the numbers, and the hash of every other file."""
    status = run.status()
    run.write_json(
        RECEIPT,
        {
            "skillbench": __version__,
            "protocol_version": PROTOCOL_VERSION,
            "git_commit": git_commit(),
            "config": run.config(),
            "config_hash": status["config_hash"],
            "judged_with": {key: judged_with[key] for key in JUDGED_WITH},
            "data": {"name": prediction["dataset"], **data},
            "backbone": prediction["backbone"],
            "llm": prediction["llm"],
            "plans": prediction["plans"],
            "prompts": prediction["method"]["prompts"],
            **{key: prediction[key] for key in ("arm", "environment", "rankings") if key in prediction},
            "seed": run.config()["seed"],
            "machine": {
                "python": platform.python_version(),
                "system": f"{platform.system()} {platform.machine()}",
                "libraries": library_versions(),
            },
            "counts": document["counts"],
            "started": status["started"],
            "judged": now(),
            "files": run.file_hashes(),
        },
    )


@lru_cache(maxsize=1)
def library_versions() -> dict[str, str]:
    """Versions of the libraries that can move a number, as installed."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


@lru_cache(maxsize=1)
def git_commit() -> str | None:
    """The commit of the source tree that skillbench runs from, with ``+changes`` if files differ; None for an installed package."""
    top = Path(__file__).parent.parent
    if not (top / ".git").exists():
        return None
    try:
        commit = subprocess.run(
            ["git", "-C", str(top), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "-C", str(top), "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+changes" if changed else "")
