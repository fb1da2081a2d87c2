"""The objects that a run is made of, built once; and what the jobs of one process can share."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from skillbench.config import build
from skillbench.data.audit import PublicAudit, audit_public, fingerprint_public
from skillbench.errors import SkillbenchError
from skillbench.interfaces import Backbone, ChatModel, DataSet, Index, Method, Retriever
from skillbench.records import PublicData, Skill
from skillbench.run_dir import canonical

T = TypeVar("T")

_OF_TEXTS = ("_cut", "_tokens", "_tokens_lost", "empty_skills")


class Latest(Generic[T]):
    """Keeps the value of the latest key. The jobs of a sweep mostly share data and index; what the next job does not need is
    let go.
    """

    def __init__(self) -> None:
        self._key: str | None = None
        self._value: T | None = None

    def get(self, key: str, make: Callable[[], T]) -> T:
        """The kept value for ``key``, or a new one in its place."""
        value = self.look(key)
        if value is None:
            self._key = self._value = None
            value = make()
            self.keep(key, value)
        return value

    def look(self, key: str) -> T | None:
        """The kept value for ``key``, or None."""
        return self._value if self._key == key else None

    def keep(self, key: str, value: T) -> None:
        """Keep ``value`` in the place of what is there."""
        self._key, self._value = key, value


@dataclass(frozen=True, slots=True)
class LoadedData:
    """Public data with its audit and fingerprint."""

    public: PublicData
    audit: PublicAudit
    fingerprint: str
    skills: Mapping[str, Skill]


class GalleryIndexes:
    """A backbone's index of a gallery, and a BM25 index of the same gallery for methods that ask for one."""

    def __init__(self, backbone: Backbone, lexical: Backbone, data: LoadedData) -> None:
        self._backbone, self._lexical, self._data = backbone, lexical, data
        self._index: Index | None = None
        self._lexical_index: Index | None = None
        self._before: Counter[str] = Counter()

    def begin_job(self) -> None:
        """Count from here on: a sweep's jobs share the indexes and each reports its own work."""
        self._before = Counter(dict(self._totals()))

    def retriever(self, llm: ChatModel) -> Retriever:
        """What a method may search and read."""
        if self._index is None:
            self._index = self._backbone.index(self._data.public.skills)
        return Retriever(self._index, self._lexical_once, self._data.skills, llm)

    def _lexical_once(self) -> Index:
        if self._lexical_index is None:
            same = self._backbone.describe() == self._lexical.describe()
            self._lexical_index = self._index if same and self._index else self._lexical.index(self._data.public.skills)
        return self._lexical_index

    def _totals(self) -> Mapping[str, float]:
        return {**self._backbone.stats(), **{f"lexical_{k}": v for k, v in self._lexical.stats().items()}}

    def stats(self) -> dict[str, float]:
        """Counts and seconds of this job. What describes the texts (tokens, cuts) is no work: every job of a sweep has it whole."""
        return {k: round(v if k.endswith(_OF_TEXTS) else v - self._before[k], 3) for k, v in self._totals().items()}

    def release(self) -> None:
        """Free the weights; the vectors stay for the next job."""
        self._backbone.release()


class _Shared:
    """What the jobs of a launch share: objects, loaded data, indexes, and the text of the baseline's rankings."""

    def __init__(self) -> None:
        self.datasets: Latest[DataSet] = Latest()
        self.backbones: Latest[tuple[Backbone, Backbone]] = Latest()
        self.data: Latest[LoadedData] = Latest()
        self.indexes: Latest[GalleryIndexes] = Latest()
        self.baselines: Latest[str] = Latest()


_shared = _Shared()


def forget() -> None:
    """Let go of what earlier jobs left: one launch shares nothing with the one before, since files may have changed."""
    global _shared
    _shared = _Shared()


@dataclass(frozen=True, slots=True)
class Parts:
    """Dataset, backbone, method, baseline (None when the method is ``direct``), LLM, and the plans file if there is one."""

    dataset: DataSet
    backbone: Backbone
    lexical: Backbone
    method: Method
    baseline: Method | None
    llm: ChatModel
    plans: str | None
    keys: Mapping[str, str]

    def data(self) -> LoadedData:
        """The public data, loaded and audited once for all jobs of this process that share it."""
        return load_data(self.dataset, self.keys["dataset"])

    def indexes(self, data: LoadedData) -> GalleryIndexes:
        """The indexes, shared likewise."""
        found = _shared.indexes.get(self.keys["indexes"], lambda: GalleryIndexes(self.backbone, self.lexical, data))
        found.begin_job()
        return found

    def inputs(self, data: LoadedData) -> dict[str, str]:
        """SHA-256 of what a run is made from beside its config: the public data, the plans file, the prompts."""
        inputs = {"data": data.fingerprint, "prompts": hashlib.sha256(canonical(self.prompts_used()).encode()).hexdigest()}
        if self.plans and self.method.needs_plans:
            inputs["plans"] = hashlib.sha256(Path(self.plans).read_bytes()).hexdigest()
        return inputs

    def baseline_rows(self) -> str | None:
        """The baseline's rankings as an earlier job of this process wrote them, or None."""
        return _shared.baselines.look(self.keys["baseline"])

    def keep_baseline(self, rows: str) -> None:
        """Let the next jobs have the baseline's rankings."""
        _shared.baselines.keep(self.keys["baseline"], rows)

    def prompts_used(self) -> dict[str, str]:
        """SHA-256 of each prompt that this run asks with: those of the plans are none where a plans file stands in for the LLM."""
        asks = "ranking_prompt_hashes" if self.plans else "prompt_hashes"
        hashes: Mapping[str, str] = getattr(self.method, asks, dict)()
        return dict(hashes)

    def describe_method(self) -> dict[str, Any]:
        """The method's name and, where it has models of its own (rerankers), what they are."""
        own: Mapping[str, Any] = getattr(self.method, "describe", dict)()
        return {"name": self.method.name, **({"reranker": dict(own)} if own else {})}

    def release(self) -> None:
        """Free weights and connections before gold is opened."""
        for part in (self.backbone, self.lexical, self.llm, self.method):
            getattr(part, "release", _nothing)()


def _nothing() -> None:
    """What a part without anything to free does."""


def load_data(dataset: DataSet, key: str) -> LoadedData:
    """Load and audit the public half of a data set."""

    def make() -> LoadedData:
        public = dataset.load_public()
        return LoadedData(public, audit_public(public), fingerprint_public(public), {s.id: s for s in public.skills})

    return _shared.data.get(key, make)


def assemble(config: Mapping[str, Any]) -> Parts:
    """Build every object of a run from its resolved config; loads no data and no weights.

    Raises SkillbenchError for a method that needs an LLM when there is neither ``plans=`` nor ``llm=``.
    """
    method = build(config["method"])
    plans = find_plans(config["plans"])
    llm = _open_llm(config)
    needs_llm = method.needs_llm or (method.needs_plans and not plans)
    if needs_llm and llm.name == "none":
        asks = "llm=openai llm.model=NAME llm.base_url=URL" + ("" if method.needs_llm else ", or plans=FILE for plans made earlier")
        raise SkillbenchError(f"method={method.name} needs a language model: add {asks}")
    keys = _keys(config)
    backbone, lexical = _shared.backbones.get(keys["indexes"], lambda: (build(config["backbone"]), build(config["lexical"])))
    return Parts(
        dataset=_shared.datasets.get(keys["dataset"], lambda: build(config["dataset"])),
        backbone=backbone,
        lexical=lexical,
        method=method,
        baseline=None if method.name == "direct" else build(config["baseline"]),
        llm=llm,
        plans=plans,
        keys=keys,
    )


def _keys(config: Mapping[str, Any]) -> dict[str, str]:
    """What two jobs must have in common to share data, indexes (and the models that count what they did), and the baseline."""
    models = [config["dataset"], config["backbone"], config["lexical"]]
    return {
        "dataset": canonical(config["dataset"]),
        "indexes": canonical(models),
        "baseline": canonical([*models, config["baseline"], config["k"]]),
    }


def find_plans(path: str | None) -> str | None:
    """A plans file as a path; ``package:FILE`` lies inside skillbench. Raises SkillbenchError if it is not there."""
    if not path:
        return None
    found = Path(__file__).parent / path.removeprefix("package:") if path.startswith("package:") else Path(path)
    if not found.is_file():
        raise SkillbenchError(f"plans={path}: no such file")
    return str(found)


def _open_llm(config: Mapping[str, Any]) -> ChatModel:
    from skillbench.models.cached import open_llm

    cache = config["paths"]["cache"]
    llm: ChatModel = open_llm(
        build(config["llm"]), Path(cache) / "generations.sqlite" if cache else None, dry_run=bool(config["dry_run"])
    )
    return llm
