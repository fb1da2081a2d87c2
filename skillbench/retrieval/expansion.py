"""Rivals that ask an LLM before they search: HyDE, Query2doc, query rewriting, query decomposition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from skillbench.interfaces import ChatModel, Retriever
from skillbench.planning.rivals import DocumentPlanner, QueryPlanner
from skillbench.records import Plan, Probe, Query, Ranked, Ranking, Text
from skillbench.retrieval.bm25 import BM25Index
from skillbench.retrieval.fusion import round_robin
from skillbench.retrieval.method_parts import Job, check_choice, check_plans, check_positive, rank_plans


class _Expansion:
    """What these methods share: a planner that asks the LLM, what a failed plan becomes, and plans that must be the method's own.

    ``written`` says what a plan of the method holds: ``documents`` (as pseudo skills) or ``queries`` (as capabilities).
    """

    needs_plans = True
    needs_llm = False
    written = "documents"

    def __init__(self, name: str, planner: DocumentPlanner | QueryPlanner, on_failure: str) -> None:
        self.name = name
        self._planner = planner
        self._on_failure = check_choice("on_failure", on_failure, ("zero", "direct"))

    def plan(self, queries: Sequence[Query], llm: ChatModel) -> Iterator[Plan]:
        """What the LLM writes for each query."""
        return self._planner.plan(queries, llm)

    def prompt_hashes(self) -> dict[str, str]:
        """``{name: SHA-256}`` of the prompt."""
        return self._planner.prompt_hashes()

    def rank(self, queries: Sequence[Query], plans: Mapping[str, Plan], retriever: Retriever, k: int) -> Iterator[Ranked]:
        """See :class:`skillbench.interfaces.Method`. Raises SkillbenchError for plans that another method made."""
        documents = self.written == "documents"
        made_by = self._planner.made_by
        check_plans(queries, plans, self.name, capabilities=not documents, pseudo_skills=documents, made_by=made_by)
        return rank_plans(queries, plans, retriever, k, self._on_failure, lambda jobs: self._ranked(jobs, retriever, k))

    def _ranked(self, jobs: Sequence[Job], retriever: Retriever, k: int) -> list[Ranked]:
        """One search for each query; scores are the index's."""
        hits = retriever.index.search([self._probe(query, plan, retriever) for query, plan in jobs], k)
        return [Ranked(h.ranking(query.id)) for (query, _), h in zip(jobs, hits, strict=True)]

    def _probe(self, query: Query, plan: Plan, retriever: Retriever) -> Probe:
        raise NotImplementedError


class HyDE(_Expansion):
    """Search by the mean of hypothetical documents and the query.

    Gao, Ma, Lin and Callan, "Precise Zero-Shot Dense Retrieval without Relevance Labels", arXiv:2212.10496: the vector is the
    mean over N sampled documents and the query itself. Documents are encoded as documents, the query as a query, all with unit
    length. On BM25 the same mean is taken of scores.

    ``include_query=False`` leaves the query out, as the paper's equation 7 does before its refinement.
    """

    def __init__(self, name: str, planner: DocumentPlanner, include_query: bool, on_failure: str) -> None:
        super().__init__(name, planner, on_failure)
        self._include_query = include_query

    def _probe(self, query: Query, plan: Plan, retriever: Retriever) -> Probe:
        texts = [Text(t, "document") for t in plan.pseudo_skills] + ([Text(query.text)] if self._include_query else [])
        return Probe(tuple((1.0 / len(texts), text) for text in texts))


class Query2doc(_Expansion):
    """Search by the query joined with a pseudo document.

    Wang, Yang and Wei, "Query2doc: Query Expansion with Large Language Models", arXiv:2303.07678. A dense model reads
    ``query + separator + document`` as one query; for BM25 the query is repeated ``lexical_repeats`` times (5 in the paper) before
    the document, which balances their lengths. The few-shot examples of the prompt are ours.
    """

    def __init__(self, name: str, planner: DocumentPlanner, separator: str, lexical_repeats: int, on_failure: str) -> None:
        super().__init__(name, planner, on_failure)
        self._separator, self._repeats = separator, check_positive("method.lexical_repeats", lexical_repeats)

    def _probe(self, query: Query, plan: Plan, retriever: Retriever) -> Probe:
        document = " ".join(plan.pseudo_skills)
        if isinstance(retriever.index, BM25Index):
            return Probe.of(" ".join([query.text] * self._repeats + [document]))
        return Probe.of(query.text + self._separator + document)


class OtherQueries(_Expansion):
    """Search by queries that an LLM wrote; their lists are interleaved round-robin.

    With ``max_queries=1`` it is the rewrite step of rewrite-retrieve-read (Ma, Gong, He, Zhao and Duan, "Query Rewriting for
    Retrieval-Augmented Large Language Models", arXiv:2305.14283; their frozen-LLM variant). With more it is query decomposition
    (Ammann, Golde and Akbik, "Question Decomposition for Retrieval-Augmented Generation", arXiv:2507.00355), which also searches
    the query itself (``include_query``) and reranks the merged pool; put a reranker on top for that.

    Args:
        name: what reports call it.
        planner: writes the queries.
        include_query: the list of the query itself comes first.
        depth: how many of each list take part.
        on_failure: ``zero`` or ``direct``.

    """

    written = "queries"

    def __init__(self, name: str, planner: QueryPlanner, include_query: bool, depth: int, on_failure: str) -> None:
        super().__init__(name, planner, on_failure)
        self._include_query, self._depth = include_query, check_positive("method.depth", depth)

    def _ranked(self, jobs: Sequence[Job], retriever: Retriever, k: int) -> list[Ranked]:
        """One search for all queries of all jobs; scores are 1/rank."""
        texts = [[*([q.text] if self._include_query else []), *plan.capabilities] for q, plan in jobs]
        hits = iter(retriever.index.search([Probe.of(t) for own in texts for t in own], self._depth))
        lists = [[next(hits).skill_ids for _ in own] for own in texts]
        return [Ranked(Ranking.from_order(q.id, round_robin(own, k), k)) for (q, _), own in zip(jobs, lists, strict=True)]
