"""What a sweep costs beside a single run: whole processes, everything cached, the best of some repeats.

    python benchmarks/sweep.py dataset=skillusage dataset.root=DIR method=skilldreamer plans=FILE

Arguments are overrides of both; the sweep adds ``alpha=``. Without any it is the shipped sample.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

ALPHAS = (0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4, 6, 8)


def seconds(arguments: Sequence[str]) -> float:
    """Wall time of one process. Raises CalledProcessError, with the output, if it fails."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "skillbench", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        done.check_returncode()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description="A warm sweep over alpha against one warm run.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--points", type=int, default=len(ALPHAS), help=f"how many values of alpha, at most {len(ALPHAS)}")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shared = [*options.overrides, f"paths.outputs={folder}/out", f"paths.cache={folder}/cache"]
        sweep = ["-m", *shared, f"alpha={','.join(map(str, ALPHAS[: options.points]))}"]
        seconds(shared)  # fills the cache
        times = [(seconds(shared), seconds(sweep)) for _ in range(options.repeats)]
    one, many = (min(column) for column in zip(*times, strict=True))
    print(f"one run {one:.2f} s, a sweep of {options.points} {many:.2f} s: {many / one:.2f} times as long")


if __name__ == "__main__":
    main()
