"""What SkillDreamer's rivals ask an LLM before they search: hypothetical documents, or other queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatModel, ChatReply, ChatRequest
from skillbench.planning.asking import CUT, Generation, ask, batches, model_name, reply_failure, total_usage
from skillbench.planning.structured import BadReply, parse_queries, query_schema
from skillbench.planning.templates import load_prompt, prompt_hashes
from skillbench.records import Failure, Plan, Query


@dataclass(frozen=True, slots=True)
class DocumentPlanner:
    """Hypothetical documents for a query, as ``pseudo_skills`` of its plan: ``samples`` draws of one prompt.

    One failed draw fails the plan: the mean over those that came would be another estimate. A draw that ``max_tokens`` cut is
    kept with a note. The prompt may use ``query``.
    """

    prompt: str
    samples: int
    generation: Generation
    queries_at_once: int

    def __post_init__(self) -> None:
        if self.samples < 1 or self.queries_at_once < 1:
            raise SkillbenchError("samples and queries_at_once must be 1 or more")
        if self.samples > 1 and self.generation.temperature == 0:
            raise SkillbenchError(
                f"{self.samples} samples at temperature 0 are one text {self.samples} times; raise the temperature"
            )

    @property
    def made_by(self) -> str:
        """What its plans say that they were made by: the name of the prompt."""
        return Path(self.prompt).stem

    def prompt_hashes(self) -> dict[str, str]:
        """``{name: SHA-256}`` of the prompt."""
        return prompt_hashes([load_prompt(self.prompt)])

    def requests(self, query: Query, llm: ChatModel) -> list[ChatRequest]:
        """One request a sample; they differ in ``sample`` alone, so that a cache keeps them apart.

        Raises SkillbenchError for several samples at temperature 0.
        """
        if self.samples > 1 and self.generation.settled(llm).temperature == 0:
            raise SkillbenchError(
                f"{self.samples} samples at temperature 0 are one text {self.samples} times; raise the temperature"
            )
        text = load_prompt(self.prompt).render({"query": query.text})
        return [self.generation.request(llm, text, sample=i) for i in range(self.samples)]

    def plan(self, queries: Sequence[Query], llm: ChatModel) -> Iterator[Plan]:
        """One plan a query, in the order of ``queries``."""
        for part in batches(queries, self.queries_at_once):
            replies = ask(llm, [r for q in part for r in self.requests(q, llm)], "documents")
            for query, own in zip(part, batches(replies, self.samples), strict=True):
                yield self._plan(query, own, llm)

    def _plan(self, query: Query, replies: Sequence[ChatReply], llm: ChatModel) -> Plan:
        plan = Plan(query.id, model=model_name(replies, llm), usage=total_usage(replies), made_by=self.made_by)
        for number, reply in enumerate(replies, 1):
            failure = reply_failure(reply, "document", CUT)
            if failure is None and not reply.text.strip():
                failure = Failure("document", "empty")
            if failure is not None:
                return replace(plan, failure=replace(failure, reason=f"document {number}: {failure.reason}"))
        cut = sum(reply.outcome == "length" for reply in replies)
        notes = (f"{cut} of {len(replies)} documents cut at {self.generation.settled(llm).max_tokens} tokens",) if cut else ()
        return replace(plan, pseudo_skills=tuple(reply.text.strip() for reply in replies), notes=notes)


@dataclass(frozen=True, slots=True)
class QueryPlanner:
    """Search queries written from a query, as ``capabilities`` of its plan, by the rule of ``parse_queries``.

    The prompt may use ``query`` and ``max_queries``. A cut reply counts only if its JSON is complete.
    """

    prompt: str
    max_queries: int
    generation: Generation
    queries_at_once: int

    def __post_init__(self) -> None:
        if self.max_queries < 1 or self.queries_at_once < 1:
            raise SkillbenchError("max_queries and queries_at_once must be 1 or more")

    @property
    def made_by(self) -> str:
        """What its plans say that they were made by: the name of the prompt."""
        return Path(self.prompt).stem

    def prompt_hashes(self) -> dict[str, str]:
        """``{name: SHA-256}`` of the prompt."""
        return prompt_hashes([load_prompt(self.prompt)])

    def request(self, query: Query, llm: ChatModel) -> ChatRequest:
        """The one request of a query."""
        text = load_prompt(self.prompt).render({"query": query.text, "max_queries": self.max_queries})
        return self.generation.request(llm, text, query_schema(self.max_queries))

    def plan(self, queries: Sequence[Query], llm: ChatModel) -> Iterator[Plan]:
        """One plan a query, in the order of ``queries``."""
        for part in batches(queries, self.queries_at_once):
            replies = ask(llm, [self.request(q, llm) for q in part], "queries")
            yield from (self._plan(q, reply, llm) for q, reply in zip(part, replies, strict=True))

    def _plan(self, query: Query, reply: ChatReply, llm: ChatModel) -> Plan:
        plan = Plan(query.id, model=model_name([reply], llm), usage=reply.usage, made_by=self.made_by)
        failure = reply_failure(reply, "queries", CUT)
        if failure is not None:
            return replace(plan, failure=failure)
        try:
            queries, notes = parse_queries(reply.text, self.max_queries)
        except BadReply as bad:
            return replace(plan, failure=Failure("queries", str(bad)))
        return replace(plan, capabilities=queries, notes=notes)
