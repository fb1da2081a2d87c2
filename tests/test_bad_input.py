"""Bad input through the entry function: one clear line, exit status 2, nothing half-written. (Data files:
tests/data/test_bad_data.py.)"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import newest, run_here

CONFIG_CASES: list[tuple[str, list[str], str]] = [
    ("unknown backbone", ["backbone=bgee"], "backbone has no choice 'bgee'; did you mean bge?"),
    ("unknown data set", ["dataset=skilret"], "did you mean skillret?"),
    ("unknown method", ["method=skilldremer"], "did you mean skilldreamer?"),
    ("unknown task", ["task=retreival"], "did you mean retrieval?"),
    ("unknown tracker", ["tracker=wanbd"], "tracker has no choice 'wanbd'"),
    ("misspelt key", ["alhpa=3"], "unknown key alhpa; did you mean alpha?"),
    ("misspelt nested key", ["backbone.document.tmplate=x"], "did you mean backbone.document.template?"),
    ("added misspelt key", ["+alhpa=3"], "unknown key alhpa; did you mean alpha?"),
    ("added nested key", ["+backbone.foo=3"], "unknown key backbone.foo"),
    ("added unknown tree", ["+retreiver.top_k=3"], "unknown key retreiver.top_k"),
    ("mandatory value left out", ["backbone=hub"], "backbone.model has no value and needs one"),
    ("two mandatory values left out", ["backbone=endpoint"], "also missing: backbone.encoder.base_url"),
    ("dead interpolation", ["device=${nowhere}"], "device cannot be resolved"),
    ("no key", ["skillusage"], "skillusage"),
    ("open bracket", ["seed=[1"], "cannot be read as KEY=VALUE"),
    ("a comma without -m", ["k=5,10"], "use -m for a sweep"),
    ("k is text", ["k=abc"], "k='abc' must be a whole number"),
    ("k is zero", ["k=0"], "k=0 must be a whole number"),
    ("ks is one number", ["ks=5"], "must be a list of whole numbers"),
    ("ks is empty", ["ks=[]"], "must be ascending whole numbers"),
    ("ks descends", ["ks=[10,5]"], "must be ascending whole numbers"),
    ("ks above k", ["ks=[5,50]"], "asks for a cutoff above k=5"),
    ("negative seed", ["seed=-1"], "seed=-1 must be"),
    ("no resamples", ["judge.resamples=0"], "judge.resamples=0 must be"),
    ("unknown duplicates mode", ["judge.duplicates=both"], "must be separate or group"),
    ("unknown stemmer", ["backbone.stemmer=klingon"], "backbone.stemmer='klingon' must be none or one of"),
    ("unknown stop words", ["backbone.stop_words=latin"], "must be none or english"),
    ("unknown bm25 variant", ["backbone.variant=bm26"], "must be lucene, robertson or atire"),
    ("b above one", ["backbone.b=2"], "backbone.b=2 between 0 and 1"),
    ("template without a field", ["backbone.document.template=text"], "must use some of {name}, {description}, {body}"),
    ("template with a foreign field", ["backbone.document.template='{gold}'"], "{gold}"),
    ("a method without its LLM", ["method=hyde"], "method=hyde needs a language model"),
    ("a reranker without its LLM", ["method=rerank_listwise"], "method=rerank_listwise needs a language model"),
    ("plans that are not there", ["method=skilldreamer", "plans=/nowhere/plans.jsonl"], "plans=/nowhere/plans.jsonl: no such file"),
    ("resume of nothing", ["resume=/nowhere/run"], "resume=/nowhere/run: no run folder there"),
    ("judge without a run", ["task=judge"], "this task needs run=DIR"),
    ("judge of no run", ["task=judge", "run=/nowhere"], "run=/nowhere: no run folder there"),
    ("verify of no run", ["task=verify", "run=/nowhere"], "run=/nowhere: no run folder there"),
    (
        "a key of another choice",
        ["method=direct", "method.planner.max_anchors=3"],
        "method.planner.max_anchors is a key of another choice of method",
    ),
    ("explain of no run", ["task=explain", "run=/nowhere", "query=q"], "run=/nowhere: no run folder there"),
    ("a data folder that is not there", ["dataset.root=/nowhere"], "/nowhere"),
    ("a data file in place of a folder", ["dataset=skillusage", "dataset.root=/dev/null"], "/dev/null"),
    ("a model file that is not there", ["backbone=hub", "backbone.model=./no/such/model"], "no such file or folder"),
    ("an unknown pooling", ["backbone=bge", "backbone.encoder.pooling=sum"], "must be cls, mean, lasttoken or model"),
    ("an unknown dtype", ["backbone=bge", "backbone.dtype=int3"], "must be auto, float32, bfloat16 or float16"),
]


def base(folder: Path, tmp_path: Path) -> list[str]:
    return [
        "dataset=folder",
        f"dataset.root={folder}",
        "backbone=bm25",
        "method=direct",
        "k=5",
        "ks=[1,5]",
        f"paths.outputs={tmp_path / 'out'}",
        f"paths.cache={tmp_path / 'cache'}",
    ]


def merged(first: list[str], second: list[str]) -> list[str]:
    """Later overrides in place of earlier ones of the same key; keys that the new choice does not have are left out."""
    keys = {o.split("=")[0] for o in second}
    changes_dataset = any(o.startswith("dataset=") for o in second)
    kept = [o for o in first if o.split("=")[0] not in keys and not (changes_dataset and o.startswith("dataset."))]
    return kept + second


def left_behind(tmp_path: Path) -> list[str]:
    """What a refused command left in outputs: nothing but, where the run had begun, a status that says failed."""
    out = tmp_path / "out"
    found = [p for p in out.rglob("*") if p.is_file()] if out.exists() else []
    for status in [p for p in found if p.name == "status.json"]:
        assert json.loads(status.read_text())["state"] == "failed"
    return [
        p.name
        for p in found
        if p.name in ("metrics.json", "rankings.jsonl", "receipt.json", "report.md") or p.name.endswith(".tmp")
    ]


@pytest.mark.parametrize(("overrides", "message"), [c[1:] for c in CONFIG_CASES], ids=[c[0] for c in CONFIG_CASES])
def test_bad_config(
    overrides: list[str], message: str, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run_here(*merged(base(tiny_folder, tmp_path), overrides))
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert status == 2
    assert len(error) == 1 and message in error[0], error
    assert left_behind(tmp_path) == []


def spoil_rankings(run: Path) -> None:
    (run / "rankings.jsonl").write_text('{"query_id": "q1"\n{}\n')


def spoil_status(run: Path) -> None:
    (run / "status.json").write_text("{")


def spoil_receipt(run: Path) -> None:
    (run / "receipt.json").unlink()


def spoil_config(run: Path) -> None:
    (run / ".hydra" / "config.yaml").write_text("[1, 2")


def spoil_prediction(run: Path) -> None:
    (run / "prediction.json").write_text("[]")


@pytest.mark.parametrize(
    ("spoil", "task", "message"),
    [
        (spoil_rankings, "judge", "rankings.jsonl:1: not a JSON object"),
        (spoil_rankings, "verify", "rankings.jsonl:1: not a JSON object"),
        (spoil_config, "judge", ".hydra/config.yaml cannot be read"),
        (spoil_receipt, "verify", "receipt.json cannot be read"),
        (spoil_prediction, "judge", "prediction.json must hold a JSON object"),
        (spoil_status, "resume", "status.json cannot be read"),
    ],
)
def test_a_damaged_run_folder(
    spoil: Callable[[Path], None], task: str, message: str, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(*base(tiny_folder, tmp_path)) == 0
    run = newest(tmp_path / "out")
    before = (run / "metrics.json").read_bytes()
    spoil(run)
    capsys.readouterr()
    arguments = [*base(tiny_folder, tmp_path), f"resume={run}"] if task == "resume" else [f"task={task}", f"run={run}"]
    assert run_here(*arguments) == 2
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(error) == 1 and message in error[0], error
    assert (run / "metrics.json").read_bytes() == before


def test_outputs_that_cannot_be_written(tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("a file")
    assert run_here(*base(tiny_folder, tmp_path)) == 2
    assert f"{tmp_path / 'out'}" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "a file"


def test_a_cache_that_cannot_be_written(tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cache").write_text("a file")
    assert run_here(*base(tiny_folder, tmp_path)) == 2
    assert "paths.cache" in capsys.readouterr().err
    assert left_behind(tmp_path) == []


def test_a_full_disk_while_rankings_are_written(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run fails with one line, keeps its rows, and goes on when there is room again."""
    from skillbench import pipeline

    whole = pipeline.append_row

    def full(handle: object, row: dict[str, object]) -> None:
        if row["query_id"] == "q3":
            raise OSError(28, "No space left on device")
        whole(handle, row)  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "append_row", full)
    assert run_here(*base(tiny_folder, tmp_path)) == 2
    assert "No space left on device" in capsys.readouterr().err
    run = newest(tmp_path / "out")
    assert len((run / "rankings.jsonl").read_text().splitlines()) == 2
    monkeypatch.setattr(pipeline, "append_row", whole)
    assert run_here(*base(tiny_folder, tmp_path), f"resume={run}") == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_skill_is_named(tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tiny_folder / "mend-csv" / "SKILL.md"
    secret.chmod(stat.S_IWUSR)
    assert run_here(*base(tiny_folder, tmp_path)) == 2
    assert "mend-csv" in capsys.readouterr().err


def test_a_gallery_without_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "skills"
    (folder / "empty").mkdir(parents=True)
    (folder / "empty" / "SKILL.md").write_text("---\nname: empty\n---\n")
    (folder / "queries.jsonl").write_text('{"id": "q", "query": "x", "skills": ["empty"]}\n')
    assert run_here(*base(folder, tmp_path)) == 2
    assert "no skill of the gallery holds a word" in capsys.readouterr().err


def test_gold_that_is_not_in_the_gallery_is_refused_or_counted(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(tiny_folder / "mend-csv")
    assert run_here(*base(tiny_folder, tmp_path)) == 2
    assert "mend-csv" in capsys.readouterr().err
    assert run_here(*base(tiny_folder, tmp_path), "dataset.allow_missing_gold=true") in (0, 2)
