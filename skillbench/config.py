"""From a composed Hydra config to checked settings and built objects; and to one clear line when it is wrong."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra.utils
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from skillbench.errors import SkillbenchError

READS_A_RUN = ("judge", "verify", "explain", "episode", "arms", "sync", "status", "dashboard")


def conf_dir() -> Path:
    """The folder of the config files: inside an installed package, at the top of a source tree otherwise."""
    packaged = Path(__file__).parent / "conf"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "conf"


def register_resolvers() -> None:
    """Name the interpolations that conf/ uses. Safe to call again."""
    OmegaConf.register_new_resolver("scheme", _scheme, replace=True)
    OmegaConf.register_new_resolver("run_dir", _run_dir, replace=True, use_cache=True)
    OmegaConf.register_new_resolver("sweep_dir", _sweep_dir, replace=True, use_cache=True)
    OmegaConf.register_new_resolver("shipped_plans", _shipped_plans, replace=True)


def _scheme(key: str, *, _root_: DictConfig) -> float:
    """The weight that the backbone states for this data set, else the default."""
    own = (_root_.backbone.get("schemes") or {}).get(_root_.dataset.name) or {}
    return float(own.get(key, _root_.default_scheme[key]))


def _shipped_plans(*, _root_: DictConfig) -> str | None:
    """The plans that a data set ships, when method and switches are those that they were made for and no LLM was asked for."""
    method = _root_.method
    is_whole = method.name == "skilldreamer" and method.capabilities and method.implicit
    if is_whole and _root_.llm.get("name", "none") == "none":
        plans = _root_.dataset.get("plans")
        return None if plans is None else str(plans)
    return None


def _run_dir(job: str, resume: str | None, outputs: str) -> str:
    """Where Hydra makes the folder of a single run. Tasks that only read get none of their own."""
    if job in READS_A_RUN or job == "audit":
        return "."
    return resume or _fresh(job, outputs)


def _sweep_dir(job: str, chosen: str | None, outputs: str) -> str:
    return chosen or _fresh(job, outputs)


def _fresh(job: str, outputs: str) -> str:
    # Two launches in the same second must not share a folder.
    return f"{outputs}/{job}/{time.strftime('%Y-%m-%d_%H-%M-%S')}-{uuid.uuid4().hex[:6]}"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


@dataclass(frozen=True, slots=True)
class Settings:
    """The scalar settings of a run, checked at birth: ``ks`` ascending and without repeats, none above ``k``."""

    k: int
    ks: tuple[int, ...]
    seed: int
    duplicates: str
    resamples: int
    coverage_floor: float = 0.0  # below it the report of an agent run warns; 0 never does

    def __post_init__(self) -> None:
        for name, value in (("k", self.k), ("judge.resamples", self.resamples)):
            if not _is_count(value):
                raise SkillbenchError(f"{name}={value!r} must be a whole number of 1 or more")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise SkillbenchError(f"seed={self.seed!r} must be a whole number of 0 or more")
        if not self.ks or not all(map(_is_count, self.ks)) or list(self.ks) != sorted(set(self.ks)):
            raise SkillbenchError(
                f"ks={list(self.ks)} must be ascending whole numbers of 1 or more, each once, for example ks=[5,10,15]"
            )
        if self.ks[-1] > self.k:
            raise SkillbenchError(f"ks={list(self.ks)} asks for a cutoff above k={self.k}; raise k or lower ks")
        if not 0 <= self.coverage_floor <= 1:
            raise SkillbenchError(f"judge.coverage_floor={self.coverage_floor!r} must lie between 0 and 1")
        if self.duplicates not in ("separate", "group"):
            raise SkillbenchError(f"judge.duplicates={self.duplicates!r} must be separate or group")

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Settings from a resolved config."""
        ks = config["ks"]
        if not isinstance(ks, Sequence) or isinstance(ks, str):
            raise SkillbenchError(f"ks={ks!r} must be a list of whole numbers, for example ks=[5,10,15]")
        judge = config["judge"]
        floor = judge.get("coverage_floor", 0.0)  # a run folder of an earlier version has none
        return cls(config["k"], tuple(ks), config["seed"], judge["duplicates"], judge["resamples"], floor)


def plain(config: DictConfig) -> dict[str, Any]:
    """The resolved config as plain JSON types.

    Raises SkillbenchError naming the full key for a value left at ``???`` or an interpolation that leads nowhere, before anything
    is loaded.
    """
    try:
        resolved = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise _unresolved(config, error) from error
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}


def _unresolved(config: DictConfig, error: OmegaConfBaseException) -> SkillbenchError:
    """The first key without a value, or the first that cannot be resolved; looked for key by key, since OmegaConf's own error
    may name another.
    """
    missing = []
    for key in _leaves(config, ""):
        try:
            OmegaConf.select(config, key, throw_on_missing=True)
        except MissingMandatoryValue:
            missing.append(key)
        except OmegaConfBaseException as cause:
            return SkillbenchError(f"config: {key} cannot be resolved: {str(cause).splitlines()[0]}")
    if missing:
        return SkillbenchError(f"config: {missing[0]} has no value and needs one; add {missing[0]}=VALUE" + _others(missing))
    return SkillbenchError(f"config: {str(error).splitlines()[0]}")


def _others(missing: Sequence[str]) -> str:
    return f" (also missing: {', '.join(missing[1:4])})" if len(missing) > 1 else ""


def _leaves(node: Any, prefix: str) -> Iterator[str]:
    keys: list[Any] = list(node.keys()) if isinstance(node, DictConfig) else list(range(len(node)))
    for key in keys:
        path = f"{prefix}.{key}" if prefix and isinstance(node, DictConfig) else f"{prefix}[{key}]" if prefix else str(key)
        raw = node._get_node(key)
        if isinstance(raw, (DictConfig, ListConfig)) and not raw._is_interpolation() and not raw._is_none():
            yield from _leaves(raw, path)
        else:
            yield path


def build(node: Mapping[str, Any], **shared: Any) -> Any:
    """Instantiate a resolved node; the one place where configs become objects. A SkillbenchError of a constructor comes through
    as it is.
    """
    _check_arguments(node, "")
    try:
        return hydra.utils.instantiate(node, _convert_="all", **shared)
    except hydra.errors.InstantiationException as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, SkillbenchError):
            cause = cause.__cause__
        if cause is not None:
            raise cause from None
        raise SkillbenchError(
            f"config: {node.get('_target_')} cannot be built: {str(error.__cause__ or error).splitlines()[0]}"
        ) from error


def _check_arguments(node: Any, path: str) -> None:
    """Refuse a key that the target's constructor does not take, naming the nearest that it does. Looks at nested nodes too."""
    if isinstance(node, list):
        for i, item in enumerate(node):
            _check_arguments(item, f"{path}[{i}]")
    if not isinstance(node, Mapping):
        return
    if "_target_" in node:
        parameters = inspect.signature(hydra.utils.get_object(node["_target_"])).parameters
        for key in node:
            if not key.startswith("_") and key not in parameters:
                raise SkillbenchError(f"config: unknown key {path + key}{nearest(key, parameters)}")
    for key, value in node.items():
        _check_arguments(value, f"{path}{key}.")


def nearest(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    """A hint that begins with "; ": the most similar known word (siblings of a dotted key first), or where to look."""
    parent = word.rpartition(".")[0]
    siblings = [k for k in known if parent and k.rpartition(".")[0] == parent]
    found = difflib.get_close_matches(word, siblings, n=1, cutoff=0.8) or difflib.get_close_matches(
        word, list(known), n=1, cutoff=0.6
    )
    if found and found[0] != parent:
        return f"; did you mean {found[0]}?"
    return f"; {parent} has {', '.join(k.rpartition('.')[2] for k in siblings)}" if siblings else "; --cfg job shows all keys"


def refuse_added_keys(config: DictConfig, reference: DictConfig) -> None:
    """Refuse keys that ``+key=value`` added and that no config file has: a misspelt one would be set and never read."""
    known = set(_leaves(reference, "")) | {str(k) for k in reference}
    for key in _leaves(config, ""):
        if (
            key not in known
            and re.sub(r"\[\d+\]$", "", key) not in known
            and not any(k.startswith(f"{key}[") or k.startswith(f"{key}.") for k in known)
        ):
            if not any(re.match(rf"{re.escape(k)}(\[|\.)", key) and _is_free(reference, k) for k in known):
                raise SkillbenchError(f"config: unknown key {key}{nearest(key, sorted(known))}")


def _is_free(reference: DictConfig, key: str) -> bool:
    """True for an empty mapping or a list: there the user names the entries."""
    value = OmegaConf.select(reference, key, throw_on_resolution_failure=False)
    return isinstance(value, ListConfig) or value is None or (isinstance(value, DictConfig) and not len(value))


def explain(error: Exception, known: Sequence[str]) -> str:
    """One line for what Hydra or OmegaConf refused."""
    text = "\n".join(str(e) for e in (error, error.__cause__) if e is not None)
    if (found := re.search(r"Could not override '([^']+)'", text)) and found[1] in known:
        group = found[1].partition(".")[0]
        return f"config: {found[1]} is a key of another choice of {group} than the one made here (an arm chooses its method)"
    if found := re.search(r"Could not override '([^']+)'", text):
        return f"config: unknown key {found[1]}{nearest(found[1], known)}"
    if found := re.search(r"Could not find '([^'/]+)/([^']+)'", text):
        options = re.findall(r"^\t(\S+)$", text, re.M)
        return f"config: {found[1]} has no choice {found[2]!r}{nearest(found[2], options)} (choices: {', '.join(options)})"
    if found := re.search(r"Ambiguous value for argument '(.+?)'", text):
        return f"config: {found[1]!r} would be a sweep; use -m for a sweep, [a,b] for a list, or 'key=\"a,b\"' for text"
    if override := getattr(error, "override", None):
        return (
            f"config: {override!r} cannot be read as KEY=VALUE; "
            "put text with blanks, commas, quotes or brackets inside two quotes: 'key=\"a, b\"'"
        )
    return "config: " + " ".join(text.split())[:400]


def leaf_keys(config: DictConfig) -> list[str]:
    """All keys of a composed config, groups included."""
    return sorted({*_leaves(config, ""), *map(str, config)})


_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
_bounded: set[str] = set()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_limits(processes: int = 1) -> None:
    """Bound the threads of numeric libraries, in each of ``processes`` side by side, by the cores of this machine; what the
    environment says by itself stands.

    Must run before numpy is imported. Several processes with all threads each fight for the cores.
    """
    for name in _THREADS:
        if name in _bounded or name not in os.environ:
            os.environ[name] = str(max(1, cores() // processes))
            _bounded.add(name)


def lift_thread_limits() -> None:
    """Take back what :func:`thread_limits` set: processes that are started on other machines find their own."""
    for name in _bounded:
        os.environ.pop(name, None)
    _bounded.clear()
