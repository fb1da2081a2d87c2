"""SkillDreamer's imagination: capability inference (CI) and pseudo skill generation (PSG).

SkillDreamer, "Imagine Before Retrieval", arXiv:2609.01642. What each step must make the LLM do stands in the prompts
``capabilities``, ``pseudo_skill`` and ``pseudo_skill_from_query``; the wording is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatModel, ChatReply, ChatRequest
from skillbench.planning.asking import CUT, Generation, ask, batches, is_transport, model_name, reply_failure, total_usage
from skillbench.planning.structured import BadReply, capability_schema, parse_capabilities
from skillbench.planning.templates import Prompt, load_prompt, prompt_hashes
from skillbench.records import Failure, Plan, Query

WRAPPERS = frozenset({"", "md", "markdown", "yaml", "yml"})
EXPLICIT_ONLY = "capabilities: explicit ones only"
WITHOUT_CI = "pseudo skill from the query alone"
MADE_BY = "skilldreamer"


@dataclass(frozen=True, slots=True)
class SkillDreamerPlanner:
    """One CI call a query, then one PSG call a capability.

    ``capabilities=False`` (no CI) writes one pseudo skill from the query alone and gives no anchors; ``pseudo_skills=False``
    (no PSG) stops after CI; not both. ``implicit=False`` asks CI for stated capabilities only. The prompts are names of packaged
    prompts or paths of ``.j2`` files; the PSG prompt may use ``query``, ``capability`` and ``anchors`` (ours uses the capability
    alone). ``keep_partial=True`` keeps a plan of which some pseudo skills failed in content, without those capabilities and with a
    note; otherwise one failed call fails the plan, and one that failed in transport always does, since a resume asks again. A
    pseudo skill that ``max_tokens`` cut is kept with a note: it is a retrieval proxy, and the text that came is the model's own.
    A CI reply that was cut counts only if its JSON is complete. ``queries_at_once`` queries go through both steps before their
    plans come out: more keeps a fast endpoint busy, fewer lose less when a slow one is killed.
    """

    capabilities: bool
    pseudo_skills: bool
    implicit: bool
    max_capabilities: int
    max_anchors: int
    capability_prompt: str
    skill_prompt: str
    query_skill_prompt: str
    capability_generation: Generation
    skill_generation: Generation
    keep_partial: bool
    queries_at_once: int

    def __post_init__(self) -> None:
        if not (self.capabilities or self.pseudo_skills):
            raise SkillbenchError("capabilities=false and pseudo_skills=false leave nothing to imagine; use method=direct")
        if self.max_capabilities < 1 or self.queries_at_once < 1:
            raise SkillbenchError("max_capabilities and queries_at_once must be 1 or more")

    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts that these switches use."""
        if not self.capabilities:
            return (load_prompt(self.query_skill_prompt),)
        names = (self.capability_prompt, self.skill_prompt) if self.pseudo_skills else (self.capability_prompt,)
        return tuple(map(load_prompt, names))

    def prompt_hashes(self) -> dict[str, str]:
        """``{name: SHA-256}`` of the prompts in use."""
        return prompt_hashes(self.prompts())

    def plan(self, queries: Sequence[Query], llm: ChatModel) -> Iterator[Plan]:
        """One plan a query, in the order of ``queries``; a query whose calls failed gives a plan with ``failure``."""
        for part in batches(queries, self.queries_at_once):
            drafts = self._infer(part, llm) if self.capabilities else [_without_ci(q) for q in part]
            yield from self._imagine(part, drafts, llm) if self.pseudo_skills else drafts

    def capability_requests(self, queries: Sequence[Query], llm: ChatModel) -> list[ChatRequest]:
        """The CI requests, one a query."""
        prompt, schema = load_prompt(self.capability_prompt), capability_schema(self.max_capabilities, self.max_anchors)
        fixed = {"implicit": self.implicit, "max_capabilities": self.max_capabilities, "max_anchors": self.max_anchors}
        return [self.capability_generation.request(llm, prompt.render({"query": q.text, **fixed}), schema) for q in queries]

    def skill_requests(self, query: Query, draft: Plan, llm: ChatModel) -> list[ChatRequest]:
        """The PSG requests of one query: one a capability, or one from the query where there was no CI."""
        if draft.failure is not None:
            return []
        if not self.capabilities:
            return [self.skill_generation.request(llm, load_prompt(self.query_skill_prompt).render({"query": query.text}))]
        prompt, shared = load_prompt(self.skill_prompt), {"query": query.text, "anchors": draft.anchors}
        return [self.skill_generation.request(llm, prompt.render({"capability": c, **shared})) for c in draft.capabilities]

    def _infer(self, queries: Sequence[Query], llm: ChatModel) -> list[Plan]:
        replies = ask(llm, self.capability_requests(queries, llm), "capabilities")
        return [self._inferred(query, reply, llm) for query, reply in zip(queries, replies, strict=True)]

    def _inferred(self, query: Query, reply: ChatReply, llm: ChatModel) -> Plan:
        notes = () if self.implicit else (EXPLICIT_ONLY,)
        blank = Plan(query.id, model=model_name([reply], llm), usage=reply.usage, notes=notes, made_by=MADE_BY)
        failure = reply_failure(reply, "capabilities", CUT)
        if failure is not None:
            return replace(blank, failure=failure)
        try:
            found = parse_capabilities(reply.text, self.max_capabilities)
        except BadReply as bad:
            cut = f"cut at {self.capability_generation.settled(llm).max_tokens} tokens: " if reply.outcome == "length" else ""
            return replace(blank, failure=Failure("capabilities", f"{cut}{bad}"))
        notes = (*notes, *found.notes, *(("text after the JSON was cut",) if reply.outcome == "length" else ()))
        return replace(blank, capabilities=found.capabilities, anchors=found.anchors, notes=notes)

    def _imagine(self, queries: Sequence[Query], drafts: Sequence[Plan], llm: ChatModel) -> Iterator[Plan]:
        requests = [self.skill_requests(q, d, llm) for q, d in zip(queries, drafts, strict=True)]
        replies = iter(ask(llm, [r for rs in requests for r in rs], "pseudo skills"))
        for draft, own in zip(drafts, requests, strict=True):
            yield self._imagined(draft, [next(replies) for _ in own], llm)

    def _imagined(self, draft: Plan, replies: Sequence[ChatReply], llm: ChatModel) -> Plan:
        if draft.failure is not None:
            return draft
        failures = {j: f for j, r in enumerate(replies) if (f := _skill_failure(r, j)) is not None}
        plan = replace(draft, usage=draft.usage + total_usage(replies), model=draft.model or model_name(replies, llm))
        is_partial = self.keep_partial and len(failures) < len(replies) and not any(map(is_transport, failures.values()))
        if failures and not is_partial:
            return replace(plan, failure=_worst(tuple(failures.values())))
        kept = [j for j in range(len(replies)) if j not in failures]
        return replace(
            plan,
            capabilities=tuple(draft.capabilities[j] for j in kept) if draft.capabilities else (),
            pseudo_skills=tuple(clean_skill(replies[j].text) for j in kept),
            notes=(*plan.notes, *_skill_notes(replies, failures, kept, self.skill_generation.settled(llm).max_tokens)),
        )


def _without_ci(query: Query) -> Plan:
    return Plan(query.id, notes=(WITHOUT_CI,), made_by=MADE_BY)


def clean_skill(text: str) -> str:
    """The text of a pseudo skill without outer blanks and without a code fence that wraps the whole of it.

    The closing fence may be missing, as it is in a reply that was cut. Fences inside are the skill's own and stay.
    """
    lines = text.strip().splitlines()
    if not lines or not lines[0].startswith("```") or lines[0].strip("` ").casefold() not in WRAPPERS:
        return text.strip()
    inner = lines[1:-1] if lines[-1].strip() == "```" else lines[1:]
    return "\n".join(inner).strip()


def _skill_failure(reply: ChatReply, index: int) -> Failure | None:
    failure = reply_failure(reply, "pseudo_skills", CUT)
    if failure is None and not clean_skill(reply.text):
        failure = Failure("pseudo_skills", "cut by max_tokens before any text" if reply.outcome == "length" else "empty")
    return failure and replace(failure, reason=f"pseudo skill {index + 1}: {failure.reason}")


def _worst(failures: Sequence[Failure]) -> Failure:
    """The failure to record: one of content before one of transport, since asking again would not mend it."""
    return next((f for f in failures if f.stage != "transport"), failures[0])


def _skill_notes(replies: Sequence[ChatReply], failures: dict[int, Failure], kept: Sequence[int], limit: int) -> tuple[str, ...]:
    cut = [str(j + 1) for j in kept if replies[j].outcome == "length"]
    cuts = (f"pseudo skill {', '.join(cut)} cut at {limit} tokens",) if cut else ()
    return cuts + tuple(f"capability {j + 1} dropped: {failure.reason}" for j, failure in failures.items())
