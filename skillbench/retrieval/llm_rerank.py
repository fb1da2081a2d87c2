"""Rerankers that ask a chat model: listwise (RankGPT), pairwise (PRP), and selection."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatModel, ChatReply, ChatRequest, Method, Retriever
from skillbench.models.replies import Unparsed, extract_json
from skillbench.planning.asking import CUT, Generation, ask, beginning, is_transport, one_line, reply_failure
from skillbench.planning.templates import load_prompt, prompt_hashes
from skillbench.records import Failure, Plan, Query, Ranked, Skill
from skillbench.retrieval.method_parts import check_positive
from skillbench.retrieval.rerank import Candidates, Reordered, Stage, first_hashes


def card(skill: Skill, description_chars: int, body_chars: int) -> str:
    """One line that shows a skill to a chat model: ``name: description``, then the beginning of the body where asked for.

    A skill without a description is shown by the beginning of its body. White space is collapsed, so that a skill cannot break
    out of its line.
    """
    description, body = " ".join(skill.description.split()), " ".join(skill.body.split())
    shown = description[:description_chars] if description else body[:description_chars]
    extra = f" | {body[:body_chars]}" if body_chars and description else ""
    return f"{' '.join(skill.name.split())}: {shown}{extra}"


class _LLMRerank:
    """What the rerankers of this module share: a first stage, a prompt, and how candidates are shown to the model.

    Args:
        name: what reports call it.
        first: the method that finds candidates.
        depth: candidates that are reranked.
        prompt: what a subclass renders; a packaged prompt or the path of a ``.j2`` file.
        generation: how replies are drawn.
        description_chars, body_chars: what a candidate shows of itself.
        on_failure: ``zero`` or ``first``.
        queries_at_once: queries that are asked about together.

    """

    needs_llm = True

    def __init__(
        self,
        name: str,
        first: Method,
        depth: int,
        prompt: str,
        generation: Generation,
        description_chars: int,
        body_chars: int,
        on_failure: str,
        queries_at_once: int,
    ) -> None:
        self.name = name
        self.needs_plans = first.needs_plans
        self._stage = Stage(first, depth, on_failure, queries_at_once)
        self._prompt, self._generation = prompt, generation
        self._limits = (check_positive("method.description_chars", description_chars), body_chars)

    def plan(self, queries: Sequence[Query], llm: ChatModel) -> Iterator[Plan]:
        """The first stage's plans."""
        return self._stage.first.plan(queries, llm)

    def prompt_hashes(self) -> dict[str, str]:
        """``{name: SHA-256}`` of this prompt and the first stage's."""
        return first_hashes(self._stage.first) | prompt_hashes([load_prompt(self._prompt)])

    def ranking_prompt_hashes(self) -> dict[str, str]:
        """Those that are asked with when plans come from a file."""
        return first_hashes(self._stage.first, "ranking_prompt_hashes") | prompt_hashes([load_prompt(self._prompt)])

    def rank(self, queries: Sequence[Query], plans: Mapping[str, Plan], retriever: Retriever, k: int) -> Iterator[Ranked]:
        """See :class:`skillbench.interfaces.Method`; scores are 1/rank."""
        return self._stage.rank(queries, plans, retriever, k, lambda heads: self._reorder(heads, retriever))

    def _reorder(self, heads: Sequence[Candidates], retriever: Retriever) -> list[Reordered]:
        raise NotImplementedError

    def _ask(self, retriever: Retriever, values: Mapping[str, Any], schema: str = "") -> ChatRequest:
        """The request that the prompt makes of ``values``."""
        return self._generation.request(retriever.llm, load_prompt(self._prompt).render(values), schema)

    def _cards(self, skill_ids: Sequence[str], retriever: Retriever) -> list[str]:
        return [card(retriever.skills[s], *self._limits) for s in skill_ids]


class ListwiseRerank(_LLMRerank):
    """Rerank a first stage by asking for orders of windows, from the bottom of the list to its top.

    Sun et al., "Is ChatGPT Good at Search? Investigating Large Language Models as Re-Ranking Agents" (RankGPT),
    arXiv:2304.09542: windows of 20 that move by 10. As there, numbers that a reply repeats or invents are dropped, and
    candidates that it leaves out keep their order behind the others; the trace counts them. Unlike its code, the last window
    always reaches the top of the list. A reply without a single valid number fails the query.

    ``window`` candidates are shown at once, and it moves by ``step``, less than ``window``. The prompt may use ``query`` and
    ``candidates``.
    """

    def __init__(
        self,
        name: str,
        first: Method,
        depth: int,
        window: int,
        step: int,
        prompt: str,
        generation: Generation,
        description_chars: int,
        body_chars: int,
        on_failure: str,
        queries_at_once: int,
    ) -> None:
        if not 1 <= step < window:
            raise SkillbenchError(f"method.step={step} must be 1 or more and less than method.window={window}")
        super().__init__(name, first, depth, prompt, generation, description_chars, body_chars, on_failure, queries_at_once)
        self._window, self._step = window, step

    def _reorder(self, heads: Sequence[Candidates], retriever: Retriever) -> list[Reordered]:
        orders = [list(ids) for _, ids in heads]
        spans = [windows(len(ids), self._window, self._step) for ids in orders]
        failures: dict[int, Failure] = {}
        repaired = [0] * len(heads)
        for turn in range(max(map(len, spans), default=0)):
            active = [i for i, own in enumerate(spans) if turn < len(own) and i not in failures]
            parts = [orders[i][slice(*spans[i][turn])] for i in active]
            requests = [self._request(heads[i][0], part, retriever) for i, part in zip(active, parts, strict=True)]
            for i, part, reply in zip(active, parts, ask(retriever.llm, requests, "listwise"), strict=True):
                numbers, failure = _numbers(reply, len(part))
                if failure is not None:
                    failures[i] = failure
                    continue
                repaired[i] += len(part) - len(numbers)
                rest = [n for n in range(len(part)) if n not in set(numbers)]
                orders[i][slice(*spans[i][turn])] = [part[n] for n in (*numbers, *rest)]
        return [
            Reordered(tuple(order), failures.get(i), {s: {"left_out": repaired[i]} for s in order})
            for i, order in enumerate(orders)
        ]  # fmt: skip

    def _request(self, query: Query, part: Sequence[str], retriever: Retriever) -> ChatRequest:
        return self._ask(retriever, {"query": query.text, "candidates": self._cards(part, retriever)})


def windows(n: int, window: int, step: int) -> list[tuple[int, int]]:
    """Half-open spans of a list of ``n`` from its end to its start; the last one begins at 0. One candidate needs no window."""
    spans = []
    end = n
    while n > 1:
        start = max(0, end - window)
        spans.append((start, end))
        if start == 0:
            break
        end -= step
    return spans


def _numbers(reply: ChatReply, n: int) -> tuple[list[int], Failure | None]:
    """Distinct positions (from 0) in the order in which the reply names them, or why there are none."""
    failure = reply_failure(reply, "rerank", CUT)
    if failure is not None:
        return [], failure
    bare = re.fullmatch(r"[A-Za-z ]{0,20}:?[\d\s>,;.()-]+", reply.text.strip())  # digits in a sentence are no order
    found = re.findall(r"\[(\d{1,6})\]", reply.text) or (re.findall(r"\d{1,6}", reply.text) if bare else [])
    positions = list(dict.fromkeys(int(f) - 1 for f in found if 1 <= int(f) <= n))
    return positions, None if positions else Failure("rerank", one_line("no valid number" + beginning(reply.raw)))


class PairwiseRerank(_LLMRerank):
    """Rerank a first stage by comparing pairs, each in both orders, inside a sort.

    Qin et al., "Large Language Models are Effective Text Rankers with Pairwise Ranking Prompting", arXiv:2306.17563, variant
    PRP-Sorting. A pair whose two replies disagree, or of which one names no winner, is a tie. The paper sorts with heapsort; this
    is a merge sort, which needs as few comparisons, keeps the first stage's order for ties, and lets the comparisons of a level
    run at once. A call that failed in transport fails the query, and so does a query none of whose replies names a winner. The
    prompt may use ``query``, ``first`` and ``second``.
    """

    def _reorder(self, heads: Sequence[Candidates], retriever: Retriever) -> list[Reordered]:
        if retriever.llm.describe().get("dry_run"):
            return self._most(heads, retriever)
        sorts = [_Sorting(query, ids) for query, ids in heads]
        while active := [s for s in sorts if s.pairs]:
            pairs = [(s, a, b) for s in active for a, b in s.pairs]
            requests = [self._request(s.query, x, y, retriever) for s, a, b in pairs for x, y in ((a, b), (b, a))]
            replies = iter(ask(retriever.llm, requests, "pairwise"))
            for s in active:
                s.answer([(next(replies), next(replies)) for _ in s.pairs])
        return [s.result() for s in sorts]

    def _request(self, query: Query, first: str, second: str, retriever: Retriever) -> ChatRequest:
        a, b = self._cards((first, second), retriever)
        return self._ask(retriever, {"query": query.text, "first": a, "second": b})

    def _most(self, heads: Sequence[Candidates], retriever: Retriever) -> list[Reordered]:
        """Ask as often as a sort can at most; how often it does depends on the replies, and a dry run has none."""
        pairs = [(q, pair) for q, ids in heads for pair in itertools.islice(itertools.combinations(ids, 2), most_pairs(len(ids)))]
        ask(retriever.llm, [self._request(q, x, y, retriever) for q, (a, b) in pairs for x, y in ((a, b), (b, a))], "pairwise")
        return [Reordered(ids) for _, ids in heads]


class _Sorting:
    """One query's sort between rounds: the pairs that wait for an answer, and what came of the answers so far."""

    def __init__(self, query: Query, skill_ids: Sequence[str]) -> None:
        self.query = query
        self._order = tuple(skill_ids)
        self._sort = sort_rounds(skill_ids)
        self._failure: Failure | None = None
        self._decided = self._ties = 0
        self._advance(None)

    def _advance(self, later_wins: list[bool] | None) -> None:
        try:
            self.pairs = next(self._sort) if later_wins is None else self._sort.send(later_wins)
        except StopIteration as stop:
            self.pairs, self._order = [], tuple(stop.value)

    def answer(self, replies: Sequence[tuple[ChatReply, ChatReply]]) -> None:
        """Go on with the replies to ``pairs``, each asked as (earlier, later) and as (later, earlier)."""
        failures = [f for pair in replies for reply in pair if is_transport(f := reply_failure(reply, "rerank", CUT))]
        if failures:
            self.pairs, self._failure = [], failures[0]
            return
        votes = [(winner(one.text), winner(other.text)) for one, other in replies]
        self._decided += sum(v is not None for pair in votes for v in pair)
        self._ties += sum(pair not in (("A", "B"), ("B", "A")) for pair in votes)
        self._advance([pair == ("B", "A") for pair in votes])

    def result(self) -> Reordered:
        """The order reached, or the failure."""
        if self._failure is None and len(self._order) > 1 and not self._decided:
            self._failure = Failure("rerank", "no reply named a winner")
        return Reordered(self._order, self._failure, {s: {"ties": self._ties} for s in self._order})


def sort_rounds(items: Sequence[str]) -> Generator[list[tuple[str, str]], list[bool], list[str]]:
    """A stable bottom-up merge sort whose comparisons come in rounds.

    Yields pairs (earlier, later) that can be compared at once; is sent, for each, whether the later one goes first; returns the
    sorted list. At most ``n * ceil(log2 n)`` comparisons.
    """
    runs = [[item] for item in items]
    while len(runs) > 1:
        merges: list[tuple[list[str], list[str], list[str]]] = [(runs[i], runs[i + 1], []) for i in range(0, len(runs) - 1, 2)]
        odd = [runs[-1]] if len(runs) % 2 else []
        while active := [m for m in merges if m[0] and m[1]]:
            later_wins = yield [(left[0], right[0]) for left, right, _ in active]
            for (left, right, out), later in zip(active, later_wins, strict=True):
                out.append((right if later else left).pop(0))
        runs = [out + left + right for left, right, out in merges] + odd
    return runs[0] if runs else []


def most_pairs(n: int) -> int:
    """The most comparisons that :func:`sort_rounds` makes of ``n`` items: a merge makes one less than it has items."""
    runs, most = [1] * n, 0
    while len(runs) > 1:
        merged = [sum(runs[i : i + 2]) for i in range(0, len(runs), 2)]
        most += sum(merged) - len(merged) - (len(runs) % 2) * (merged[-1] - 1)
        runs = merged
    return most


_VERDICT = re.compile(
    r"\W*(?:(?:the )?(?:better )?(?:guide|answer)\W+(?:is\W+)?(?:guide\W+)?)?([AB])(?=\W*(?:\n|$)|[.,:;)*\]])", re.IGNORECASE
)


def winner(text: str) -> str | None:
    """``A`` or ``B`` if the reply begins with that letter as its verdict ("B", "Guide B.", "Answer: B, because"), else None.

    A reply that goes on about a guide ("Guide A lacks the formulas") is no verdict, however often it names it.
    """
    said = _VERDICT.match(text)
    return said[1].upper() if said else None


class LLMSelect(_LLMRerank):
    """The LLM picks the guides that it needs from the top of a first stage; the picks come first, in its order.

    The LLM selection of SR-Agents (Su et al., "Skill Retrieval Augmentation for Agentic AI", arXiv:2604.24594) shows the top
    50 of BM25 and takes one pick; here it may take up to ``max_picks``. ``keep_rest`` lets the others follow in the first stage's
    order, so that lists of one length are compared; without it only the picks are ranked. An empty list of picks is an answer. A
    reply without JSON, or whose numbers are all out of range, is a failure. The prompt may use ``query``, ``candidates`` and
    ``max_picks``.
    """

    def __init__(
        self,
        name: str,
        first: Method,
        depth: int,
        max_picks: int,
        keep_rest: bool,
        prompt: str,
        generation: Generation,
        description_chars: int,
        body_chars: int,
        on_failure: str,
        queries_at_once: int,
    ) -> None:
        super().__init__(name, first, depth, prompt, generation, description_chars, body_chars, on_failure, queries_at_once)
        self._max_picks, self._keep_rest = check_positive("method.max_picks", max_picks), keep_rest

    def _reorder(self, heads: Sequence[Candidates], retriever: Retriever) -> list[Reordered]:
        requests = [self._request(query, ids, retriever) for query, ids in heads]
        replies = ask(retriever.llm, requests, "selection")
        return [self._picked(ids, reply) for (_, ids), reply in zip(heads, replies, strict=True)]

    def _request(self, query: Query, ids: Sequence[str], retriever: Retriever) -> ChatRequest:
        values = {"query": query.text, "candidates": self._cards(ids, retriever), "max_picks": self._max_picks}
        return self._ask(retriever, values, pick_schema(self._max_picks))

    def _picked(self, ids: tuple[str, ...], reply: ChatReply) -> Reordered:
        failure = reply_failure(reply, "rerank", CUT)
        picks = [] if failure else _picks(reply, len(ids))
        if isinstance(picks, Failure):
            failure, picks = picks, []
        chosen = tuple(ids[p] for p in picks[: self._max_picks])
        rest = tuple(s for s in ids if s not in set(chosen)) if self._keep_rest else ()
        return Reordered(chosen + rest, failure, {s: {"picked": s in chosen} for s in ids}, keep_tail=self._keep_rest)


def pick_schema(max_picks: int) -> str:
    """The JSON schema of a selection, as canonical JSON text."""
    numbers = {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": max_picks}
    schema = {"type": "object", "properties": {"guides": numbers}, "required": ["guides"], "additionalProperties": False}
    return json.dumps(schema, sort_keys=True, separators=(",", ":"))


def _picks(reply: ChatReply, n: int) -> list[int] | Failure:
    """Distinct positions (from 0) that a selection names, in its order, or why it cannot be read."""
    found = extract_json(reply.text)
    if isinstance(found, Unparsed):
        return Failure("rerank", one_line(found.reason + beginning(reply.raw)))
    value: Any = found.value.get("guides") if isinstance(found.value, dict) else found.value
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        return Failure("rerank", one_line("guides is no list of integers" + beginning(reply.raw)))
    valid = list(dict.fromkeys(v - 1 for v in value if 1 <= v <= n))
    if value and not valid:
        return Failure("rerank", one_line(f"no number from 1 to {n}" + beginning(reply.raw)))
    return valid
