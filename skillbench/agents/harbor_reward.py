"""The reward of a Harbor trial: one table of outcomes, one order of sources.

| what is there | outcome | value |
|---|---|---|
| a number within [0, 1], bare, as ``{"reward": n}``, or as such a number in quotes | ``valid`` | that number |
| no file, or no reward in ``result.json`` | ``missing`` | none |
| an empty file | ``empty`` | none |
| text that is no number, JSON that is broken, an object without ``reward``, true, a list | ``malformed`` | none |
| NaN or an infinity | ``not_finite`` | none |
| a number outside [0, 1] | ``out_of_range`` | none |
| a file of more than 64 KiB | ``too_large`` | none |

Anything but ``valid`` is a fault of the verifier: it counts 0 in the pass rate over all tasks, and leaves the rate over judged
tasks. Rates are means of rewards, in which a part counts as a part; where a task must be passed or not, the full reward of 1
passes.

``result.json`` is written by Harbor outside the container and decides. The files in ``verifier/`` lie in a folder that is mounted
while the agent runs, so an agent can write them: they are compared with ``result.json`` and a difference is reported, and they
decide only where the caller asks for it (``rewards=files``, for harnesses that write nothing else). Of the two, ``reward.json``
decides; ``reward.txt`` counts where there is no JSON file, or where its object has no ``reward``. The convention not chosen, the
larger of the two, rewards a planted file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_BYTES = 64 * 1024
FULL = 1.0 - 1e-9  # a verifier may add up parts of 0.1
OUTCOMES = ("valid", "missing", "empty", "malformed", "not_finite", "out_of_range", "too_large")

_DECIMAL = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")


@dataclass(frozen=True, slots=True)
class Reward:
    """An outcome of the table, its value where it is ``valid``, and the file that decided."""

    outcome: str
    value: float | None
    source: str

    @property
    def counted(self) -> float:
        """The value, or 0 for a reward that is none."""
        return self.value if self.value is not None else 0.0


def is_full(reward: float) -> bool:
    """True for a reward that passes a task where only pass and fail are told apart."""
    return reward >= FULL


def reward_of_value(value: object, source: str) -> Reward:
    """The outcome of a value from JSON: a scalar, or an object with ``reward``."""
    if isinstance(value, Mapping):
        return (
            reward_of_value(value["reward"], source)
            if "reward" in value and not isinstance(value["reward"], Mapping)
            else Reward("malformed", None, source)
        )
    if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return Reward("malformed", None, source)
    if isinstance(value, float) and not math.isfinite(value):
        return Reward("not_finite", None, source)
    return Reward("valid", float(value), source) if 0 <= value <= 1 else Reward("out_of_range", None, source)


def reward_of_text(text: str, source: str) -> Reward:
    """The outcome of the text of a reward file."""
    stripped = text.strip().lstrip("\ufeff")
    if not stripped:
        return Reward("empty", None, source)
    if stripped.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return Reward("not_finite", None, source)
    try:
        value = json.loads(stripped, parse_int=_bounded_int)
    except (ValueError, RecursionError):
        value = stripped if _DECIMAL.fullmatch(stripped) else None
    return reward_of_value(value, source)


def _bounded_int(digits: str) -> int | float:
    return int(digits) if len(digits) < 300 else float("inf")


def reward_from_files(folder: Path) -> Reward:
    """The reward that the files of a ``verifier/`` folder state."""
    found = _file_reward(folder / "reward.json")
    if found.outcome == "missing" or (found.outcome == "malformed" and _lacks_reward(folder / "reward.json")):
        text = _file_reward(folder / "reward.txt")
        return found if text.outcome == "missing" and found.outcome != "missing" else text
    return found


def _file_reward(path: Path) -> Reward:
    if path.is_symlink() or not path.is_file():
        return Reward("missing", None, path.name)
    try:
        if path.stat().st_size > MAX_BYTES:
            return Reward("too_large", None, path.name)
        return reward_of_text(path.read_bytes().decode("utf-8"), path.name)
    except (OSError, UnicodeDecodeError):
        return Reward("malformed", None, path.name)


def _lacks_reward(path: Path) -> bool:
    """True for a JSON object that reports other things and has no key ``reward``."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "reward" not in value


def reward_from_result(result: Mapping[str, Any]) -> Reward:
    """The reward in a trial's ``result.json``: ``verifier_result.rewards.reward``."""
    verified = result.get("verifier_result")
    rewards = verified.get("rewards") if isinstance(verified, Mapping) else None
    if rewards is None or (isinstance(rewards, Mapping) and rewards.get("reward", 0) is None):
        return Reward("missing", None, "result.json")
    return reward_of_value(rewards, "result.json")


def files_disagree(decided: Reward, files: Reward) -> bool:
    """True where the verifier's files state something else than what decided. A file that is absent states nothing."""
    return files.outcome != "missing" and (files.outcome, files.value) != (decided.outcome, decided.value)
