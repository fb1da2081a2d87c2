"""Protocols: what the parts promise each other. Each has 1 to 4 methods; a config's ``_target_`` names what fills it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from skillbench.gold import Check, Qrels  # noqa: TID251 - types in signatures; the values are opened by the judge alone
    from skillbench.models.sampling import Sampling
    from skillbench.records import Hits, Plan, Probe, PublicData, Query, Ranked, Skill, Task, Text, Usage


class DataSet(Protocol):
    """A benchmark. Building one reads nothing. ``load_public`` runs before prediction, ``load_gold`` after it."""

    name: str

    def load_public(self) -> PublicData:
        """Skills and queries, without anything that could answer a query. Raises SkillbenchError naming file and row."""
        ...

    def load_gold(self) -> Qrels:
        """Gold of every query of ``load_public``. Called by the judge only, after all predictions are on disk."""
        ...


class TaskSet(Protocol):
    """The further half of a DataSet whose queries are tasks for an agent; its config chooses an environment."""

    def load_tasks(self) -> tuple[Task, ...]:
        """Tasks in the order of the data, without anything that could answer one. Each names a query of ``load_public``."""
        ...

    def load_checks(self) -> Mapping[str, Check]:
        """How each task is graded, by task id. Called by the judge only, after all episodes are on disk."""
        ...


class Index(Protocol):
    """A searchable gallery. Exact; independent of gallery order, batch size and chunk size; not thread-safe."""

    skill_ids: tuple[str, ...]

    def search(self, probes: Sequence[Probe], k: int) -> list[Hits]:
        """The top ``min(k, gallery)`` skills of each probe, in the order of ``probes``; equal scores go by skill id."""
        ...

    def score(self, texts: Sequence[Text], skill_ids: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Similarity of ``texts[i]`` to each of ``skill_ids[i]``: float64 arrays of the same lengths, as ``search`` scores them."""
        ...


class Backbone(Protocol):
    """A retriever model. Building one loads nothing; weights are loaded when something must be encoded."""

    name: str

    def index(self, skills: Sequence[Skill]) -> Index:
        """Index a gallery (from cache where possible). Raises SkillbenchError if it is empty or holds no text."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready: model id, revision or file hash, prompts, document template, limits, device, dtype."""
        ...

    def stats(self) -> Mapping[str, float]:
        """Counts and seconds so far: texts encoded and found in cache, indexes built and loaded, texts cut."""
        ...

    def release(self) -> None:
        """Free weights and device memory. The backbone may be used again; it then loads again."""
        ...


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message. ``role`` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One generation: everything that decides the reply, and so the cache key.

    ``schema`` is a JSON schema as canonical JSON text, or empty for free text. ``sample`` tells repeated draws of the same
    prompt apart. ``cut_ok`` alone decides no reply: whoever asks can use text that ``max_tokens`` cut, so that such a reply is
    complete for them and may be cached.
    """

    messages: tuple[ChatMessage, ...]
    max_tokens: int = 1024
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 42
    schema: str = ""
    stop: tuple[str, ...] = ()
    sample: int = 0
    cut_ok: bool = False


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The outcome of one request; never an exception.

    ``outcome`` is ``ok`` (complete text), ``length`` (cut by max_tokens), ``overflow`` (prompt too long), ``empty``,
    ``reasoning_only``, ``incomplete`` (unclosed reasoning block), ``declined`` (the model, or a content filter, would not),
    ``malformed`` (the server's answer was no chat completion), ``rate_limited``, ``server_error``, ``connection``, ``timeout``,
    ``refused`` (4xx) or ``budget`` (a cap was reached; not asked). ``text`` is what stands after reasoning blocks; ``raw`` is
    everything that came.
    """

    outcome: str
    text: str
    raw: str
    model: str
    usage: Usage
    detail: str = ""
    cached: bool = False

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"


class ChatModel(Protocol):
    """A language model, batch first. One is built for each run and passed to all that need it."""

    name: str
    sampling: Sampling

    def complete(
        self, requests: Sequence[ChatRequest], on_reply: Callable[[int, ChatReply], None] | None = None
    ) -> list[ChatReply]:
        """Replies in the order of ``requests``; runs them concurrently or in batches; calls ``on_reply(i, reply)`` as each
        comes.
        """
        ...

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready: model id, revision or file hash, base URL without secrets, sampling defaults, structured-output mode."""
        ...

    def stats(self) -> Mapping[str, float]:
        """Calls asked and answered from cache, tokens, seconds, cost, and a count for each outcome."""
        ...

    def release(self) -> None:
        """Close connections and free weights. The model may be used again."""
        ...


@dataclass(frozen=True, slots=True)
class Retriever:
    """What a method may search and read: the backbone's index, a BM25 index of the same gallery, the skills, the LLM.

    ``lexical`` is a function because most methods never need it; it builds or loads the index on its first call.
    """

    index: Index
    lexical: Callable[[], Index]
    skills: Mapping[str, Skill]
    llm: ChatModel


class Method(Protocol):
    """A way to turn a query into a ranking. ``plan`` may call the LLM, never sees the gallery; ``rank`` searches."""

    name: str
    needs_plans: bool
    needs_llm: bool

    def plan(self, queries: Sequence[Query], llm: ChatModel) -> Iterator[Plan]:
        """One plan a query, in any order, each as soon as it is ready. Not called when ``needs_plans`` is false."""
        ...

    def rank(self, queries: Sequence[Query], plans: Mapping[str, Plan], retriever: Retriever, k: int) -> Iterator[Ranked]:
        """One ranking a query, in the order of ``queries``, of at most ``k`` skills. ``plans`` is keyed by query id."""
        ...


class Tracker(Protocol):
    """Where a finished run is logged. Called after results are on disk; must not raise for trouble of its own."""

    def start(self, config: Mapping[str, Any], run_dir: str) -> None: ...

    def progress(self, values: Mapping[str, float]) -> None: ...

    def finish(self, run_dir: str, status: str) -> None: ...
