"""Values that pass between modules: frozen, validated at birth, without a pocket that could hold a gold answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from skillbench.errors import SkillbenchError

Role = Literal["query", "document"]


def check_id(value: object, what: str) -> str:
    """Return ``value`` if it can serve as an id: a non-empty, printable, encodable string without outer blanks."""
    if not isinstance(value, str) or not value or value != value.strip() or not value.isprintable():
        raise SkillbenchError(f"{what} id {value!r} must be a non-empty printable string without leading or trailing blanks")
    return value


def check_text(value: object, what: str) -> str:
    """Return ``value`` if it is text that can be written as UTF-8 (a lone surrogate cannot)."""
    if not isinstance(value, str):
        raise SkillbenchError(f"{what} must be text, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise SkillbenchError(f"{what} holds a character that UTF-8 cannot encode (position {error.start})") from error
    return value


@dataclass(frozen=True, slots=True)
class Skill:
    """One entry of the gallery, as a retriever and an agent may see it."""

    id: str
    name: str
    description: str
    body: str

    def __post_init__(self) -> None:
        check_id(self.id, "skill")
        for part in ("name", "description", "body"):
            check_text(getattr(self, part), f"{part} of skill {self.id}")

    @property
    def is_empty(self) -> bool:
        """True when neither description nor body holds anything but blanks; such a skill is never retrieved."""
        return not (self.description.strip() or self.body.strip())


@dataclass(frozen=True, slots=True)
class Query:
    """What a user asks for: the only thing that a method sees of a benchmark question."""

    id: str
    text: str

    def __post_init__(self) -> None:
        check_id(self.id, "query")
        check_text(self.text, f"text of query {self.id}")


@dataclass(frozen=True, slots=True)
class Task:
    """What an agent is asked to do. ``query_id`` names the query whose ranking offers it skills."""

    id: str
    query_id: str
    prompt: str

    def __post_init__(self) -> None:
        check_id(self.id, "task")
        check_id(self.query_id, "query")
        check_text(self.prompt, f"prompt of task {self.id}")


@dataclass(frozen=True, slots=True)
class Failure:
    """A recorded failure: the stage that failed (``capabilities``, ``pseudo_skills``, ``rerank``, …) and why, in one line."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What model calls cost. ``None`` means that the endpoint did not say, never zero; totals then say "at least"."""

    calls: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    seconds: float = 0.0
    cost_usd: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            _plus(self.prompt_tokens, other.prompt_tokens),
            _plus(self.completion_tokens, other.completion_tokens),
            self.seconds + other.seconds,
            _plus(self.cost_usd, other.cost_usd),
        )


def _plus(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


@dataclass(frozen=True, slots=True)
class Plan:
    """What a method imagined for a query before it searched.

    ``capabilities[j]`` and ``pseudo_skills[j]`` belong together where both are present. A plan with a ``failure`` is a
    query whose ranking is empty, unless the method says otherwise (``on_failure``). ``notes`` are recorded cuts, such as
    "7 capabilities, kept 5". ``made_by`` is ``skilldreamer`` or the prompt of a rival, "" where a file does not say.
    """

    query_id: str
    capabilities: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()
    pseudo_skills: tuple[str, ...] = ()
    failure: Failure | None = None
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()
    made_by: str = ""

    def __post_init__(self) -> None:
        check_id(self.query_id, "query")
        for part in ("capabilities", "anchors", "pseudo_skills"):
            for value in getattr(self, part):
                check_text(value, f"{part} of plan {self.query_id}")


@dataclass(frozen=True, slots=True)
class Ranking:
    """Skill ids in the order that is judged, best first, with a score that never rises along it.

    Raises SkillbenchError for repeated ids, a score that is not finite, or scores that rise. ``failure`` says why a
    ranking is empty because its query could not be processed; an empty ranking without one is "nothing matched".
    """

    query_id: str
    skill_ids: tuple[str, ...]
    scores: tuple[float, ...]
    failure: Failure | None = None

    def __post_init__(self) -> None:
        check_id(self.query_id, "query")
        if len(self.skill_ids) != len(self.scores):
            raise SkillbenchError(f"ranking of query {self.query_id}: {len(self.skill_ids)} ids, {len(self.scores)} scores")
        if len(set(self.skill_ids)) != len(self.skill_ids):
            repeated = next(s for i, s in enumerate(self.skill_ids) if s in self.skill_ids[:i])
            raise SkillbenchError(f"ranking of query {self.query_id}: skill {repeated} appears twice")
        if not all(map(math.isfinite, self.scores)):
            raise SkillbenchError(f"ranking of query {self.query_id}: a score is not a finite number")
        if any(b > a for a, b in zip(self.scores, self.scores[1:], strict=False)):
            raise SkillbenchError(f"ranking of query {self.query_id}: scores rise along the ranking")

    @classmethod
    def from_scores(cls, query_id: str, scores: Mapping[str, float], k: int) -> Ranking:
        """The top ``k`` of ``scores``: score descending, then skill id ascending (the one tie rule of the project)."""
        top = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]
        return cls(query_id, tuple(i for i, _ in top), tuple(float(s) for _, s in top))

    @classmethod
    def from_order(cls, query_id: str, skill_ids: Iterable[str], k: int) -> Ranking:
        """A ranking whose order is not that of one score (round-robin, listwise): the first occurrence of each id counts, and
        the score is 1/rank.
        """
        kept = tuple(dict.fromkeys(skill_ids))[:k]
        return cls(query_id, kept, tuple(1.0 / rank for rank in range(1, len(kept) + 1)))

    @classmethod
    def failed(cls, query_id: str, failure: Failure) -> Ranking:
        """The empty ranking of a query that could not be processed."""
        return cls(query_id, (), (), failure)


@dataclass(frozen=True, slots=True)
class Episode:
    """One attempt of an agent at a task. The reward is a measurement, made later by the judge."""

    task_id: str
    arm: str
    seed: int
    offered: tuple[str, ...]
    loaded: tuple[str, ...]
    steps: tuple[Mapping[str, Any], ...]
    answer: str | None
    ending: str
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number about one query or task. ``value`` is finite; metrics of the judge lie in [0, 1]."""

    metric: str
    id: str
    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise SkillbenchError(f"measurement {self.metric} of {self.id} is not a finite number")


@dataclass(frozen=True, slots=True)
class Note:
    """Something a loader saw and did not hide: ``where`` is a path (with a line number where there is one) or an id."""

    kind: str
    where: str
    detail: str


@dataclass(frozen=True, slots=True)
class PublicData:
    """The public half of a benchmark. Ids are unique; order is the data set's own; ``source`` names files and revision."""

    name: str
    skills: tuple[Skill, ...]
    queries: tuple[Query, ...]
    notes: tuple[Note, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        _refuse_repeats((s.id for s in self.skills), f"data set {self.name}: skill")
        _refuse_repeats((q.id for q in self.queries), f"data set {self.name}: query")


def _refuse_repeats(ids: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for value in ids:
        if value in seen:
            raise SkillbenchError(f"{what} id {value} appears twice; ids must be unique")
        seen.add(value)


@dataclass(frozen=True, slots=True)
class Text:
    """A text to compare with the gallery, and the role in which an embedding model reads it."""

    text: str
    role: Role = "query"


@dataclass(frozen=True, slots=True)
class Probe:
    """A weighted sum of texts: the score of a skill is the sum of weight times similarity.

    For unit vectors that is one inner product with the weighted sum of the texts' vectors, which is how HSR's
    ``alpha * sim(q, s) + beta * sim(p, s)`` costs one search and no query-by-gallery matrix.
    """

    parts: tuple[tuple[float, Text], ...]

    @classmethod
    def of(cls, text: str, role: Role = "query") -> Probe:
        return cls(((1.0, Text(text, role)),))


@dataclass(frozen=True, slots=True)
class Hits:
    """What an index found, best first: score descending, then skill id ascending."""

    skill_ids: tuple[str, ...]
    scores: tuple[float, ...]

    def ranking(self, query_id: str) -> Ranking:
        return Ranking(query_id, self.skill_ids, self.scores)


@dataclass(frozen=True, slots=True)
class Trace:
    """What explains a ranking: a table with one row for each candidate, JSON-ready, kept by column because it is long."""

    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len({len(column) for column in self.columns.values()}) > 1:
            raise ValueError("the columns of a trace differ in length")

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Trace:
        """From rows; what a row lacks is None."""
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, position: int) -> dict[str, Any]:
        return {name: column[position] for name, column in self.columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[position] for position in range(len(self)))


@dataclass(frozen=True, slots=True)
class Ranked:
    """A ranking and, for methods that can explain it, the trace behind it; for a reranker also that of its first stage."""

    ranking: Ranking
    trace: Trace = field(default_factory=Trace)
    first: Trace = field(default_factory=Trace)
