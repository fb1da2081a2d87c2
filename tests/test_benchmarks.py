"""The benchmark script at a tiny size: what it prints and what it leaves behind. Times are not judged here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPT = REPOSITORY / "benchmarks" / "retrieval.py"
TINY = ("--skills", "150", "--queries", "3", "--encoded", "12", "--judged", "30", "--repeats", "1")


def run(tmp_path: Path, *options: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(SCRIPT), *TINY, "--data", str(tmp_path / "absent"), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    return done.stdout


def numbers(text: str, row: str) -> list[float]:
    found = re.search(rf"^  {re.escape(row)} (.+)$", text, re.M)
    assert found, f"no row {row!r} in\n{text}"
    return [float(cell.replace(",", "")) for cell in found[1].split()]


@pytest.fixture(scope="module")
def bm25_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(tmp_path_factory.mktemp("bm25"), "--only", "bm25", "--no-numba")


def test_bm25_cold_and_warm(bm25_text: str) -> None:
    for row in ("cold, streamed", "warm, streamed", "cold, held", "warm, held"):
        wall, cpu, imports, opening, index, search, own, whole = numbers(bm25_text, row)
        assert wall >= imports + opening + index + search
        assert cpu > 0
        assert own > 0
        assert whole > 0 or sys.platform != "linux"
    assert "wordllama," not in bm25_text
    assert "judging" not in bm25_text


def test_machine_and_gallery_are_stated(bm25_text: str) -> None:
    assert re.search(r"^machine    .+, \d+ cores, [\d.]+ GiB memory, load ", bm25_text, re.M)
    assert f"Python {sys.version.split()[0]}" in bm25_text
    assert "bm25s 0." in bm25_text
    assert re.search(r"^gallery    150 skills from the \d+ of the packaged sample, 0\.\d MB", bm25_text, re.M)


def test_judging_agrees_with_pytrec_eval(tmp_path: Path) -> None:
    pytest.importorskip("pytrec_eval")
    text = run(tmp_path, "--only", "judging")
    assert numbers(text, "largest per-query difference")[0] < 1e-9
    assert "judging 30 queries" in text
    assert "gallery" not in text


@pytest.mark.slow
def test_wordllama_encodes_once(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    text = run(tmp_path, "--only", "wordllama")
    assert numbers(text, "cold (encoding)")[-1] == 12
    assert numbers(text, "warm (cache)")[-1] == 0


def test_a_sweep_beside_a_single_run(tmp_path: Path) -> None:
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "sweep.py"), "--repeats", "1", "--points", "2", "judge.resamples=20"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"one run ([\d.]+) s, a sweep of 2 ([\d.]+) s: ([\d.]+) times as long\n", done.stdout)
    assert found and all(float(number) > 0 for number in found.groups()) and list(tmp_path.iterdir()) == []
