from __future__ import annotations

from dataclasses import replace

import pytest
from method_toys import ids, plan, retriever, table_index, words_index

from skillbench.errors import SkillbenchError
from skillbench.planning.asking import Generation
from skillbench.planning.rivals import DocumentPlanner, QueryPlanner
from skillbench.records import Failure, Plan, Query, Skill, Text
from skillbench.retrieval.bm25 import BM25Backbone
from skillbench.retrieval.expansion import HyDE, OtherQueries, Query2doc
from skillbench.retrieval.methods import Direct, ReciprocalRankFusion, RoundRobin
from skillbench.retrieval.skill_text import DocumentText

COLD = Generation(100, 0.0, 1.0, 3)
DOCUMENTS = DocumentPlanner("hyde", 1, COLD, 64)
QUERIES = QueryPlanner("decompose", 5, COLD, 64)
Q1, Q2 = Query("q1", "red fox"), Query("q2", "blue whale")


def test_direct_is_the_plain_query():
    index = table_index({"red fox": {"a": 0.2, "b": 0.9, "c": 0.2}, "blue whale": {"c": 1.0}})
    method = Direct("direct")
    found = list(method.rank([Q1, Q2], {}, retriever(index), 2))
    assert [ids(f) for f in found] == [("b", "a"), ("c", "a")]
    assert found[0].ranking.scores == (0.9, 0.2) and list(method.plan([Q1], None)) == []
    assert not method.needs_plans and not method.needs_llm and method.prompt_hashes() == {}


def test_M07_a_skill_with_the_id_of_the_query_is_kept():
    index = table_index({"red fox": {"q1": 0.9, "b": 0.1}})
    assert ids(next(Direct("direct").rank([Q1], {}, retriever(index), 2))) == ("q1", "b")


def both_indexes():
    dense = table_index({"red fox": {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.1}})
    lexical = table_index({"red fox": {"c": 3.0, "d": 2.0, "a": 1.0, "b": 0.0}})
    return retriever(dense, lexical)


def test_rrf_by_hand():
    # a: 1/61 + 1/63, b: 1/62 + 1/64, c: 1/63 + 1/61, d: 1/64 + 1/62; ties by id
    found = next(ReciprocalRankFusion("rrf", 10, 60).rank([Q1], {}, both_indexes(), 4))
    assert ids(found) == ("a", "c", "b", "d")
    assert found.ranking.scores == pytest.approx((1 / 61 + 1 / 63, 1 / 63 + 1 / 61, 1 / 62 + 1 / 64, 1 / 64 + 1 / 62))


def test_rrf_depth_bounds_the_lists():
    assert set(ids(next(ReciprocalRankFusion("rrf", 1, 60).rank([Q1], {}, both_indexes(), 4)))) == {"a", "c"}


def test_round_robin_begins_with_bm25():
    assert ids(next(RoundRobin("rr", 50).rank([Q1], {}, both_indexes(), 3))) == ("c", "a", "d")


def test_B02_round_robin_goes_on_with_the_dense_list_when_no_word_matches():
    dense = table_index({"red fox": {"a": 0.9, "b": 0.8}})
    lexical = words_index({"a": "x", "b": "y"})
    assert ids(next(RoundRobin("rr", 50).rank([Q1], {}, retriever(dense, lexical), 3))) == ("a", "b")


def test_hyde_searches_by_the_mean_of_documents_and_query():
    index = table_index({"red fox": {"a": 0.9}, "doc 1": {"b": 0.6}, "doc 2": {"b": 0.6}})
    plans = {"q1": plan(Q1, pseudo_skills=["doc 1", "doc 2"])}
    found = next(HyDE("hyde", DOCUMENTS, True, "zero").rank([Q1], plans, retriever(index), 2))
    assert ids(found) == ("b", "a") and found.ranking.scores == pytest.approx((0.4, 0.3))
    (probe, _) = index.searched[0]
    assert [(t.role, pytest.approx(1 / 3) == w) for w, t in probe.parts] == [
        ("document", True),
        ("document", True),
        ("query", True),
    ]
    found = next(HyDE("hyde", DOCUMENTS, False, "zero").rank([Q1], plans, retriever(index), 2))
    assert found.ranking.scores == pytest.approx((0.6, 0.0))


def test_query2doc_joins_query_and_document():
    index = table_index({"red fox [SEP] a doc": {"b": 1.0, "a": 0.5}})
    method = Query2doc("query2doc", DOCUMENTS, " [SEP] ", 5, "zero")
    assert ids(next(method.rank([Q1], {"q1": plan(Q1, pseudo_skills=["a doc"])}, retriever(index), 1))) == ("b",)
    assert index.searched[0][0].parts == ((1.0, Text("red fox [SEP] a doc")),)


def test_query2doc_repeats_the_query_on_bm25():
    skills = [Skill("a", "n", "red fox", "x"), Skill("b", "n", "den cub", "y")]
    index = BM25Backbone("bm25", DocumentText("{description}"), "lucene", 1.5, 0.75, "none", "none", 0, 1, None).index(skills)
    plans = {"q1": plan(Q1, pseudo_skills=["den cub cub"])}
    orders = []
    for repeats in (1, 5):
        found = next(Query2doc("q2d", DOCUMENTS, " [SEP] ", repeats, "zero").rank([Q1], plans, retriever(index), 2))  # type: ignore[arg-type]
        orders.append(ids(found))
    assert orders == [("b", "a"), ("a", "b")]


def test_rewrite_searches_the_new_query_alone_and_decomposition_the_old_one_too():
    index = table_index({"red fox": {"a": 0.9, "b": 0.1}, "x": {"c": 0.9, "b": 0.5}, "y": {"d": 0.9, "c": 0.5}})
    plans = {"q1": plan(Q1, ["x", "y"])}
    rewrite = OtherQueries("rewrite", QUERIES, False, 2, "zero")
    assert ids(next(rewrite.rank([Q1], plans, retriever(index), 5))) == ("c", "d", "b")
    decompose = OtherQueries("decompose", QUERIES, True, 2, "zero")
    assert ids(next(decompose.rank([Q1], plans, retriever(index), 5))) == ("a", "c", "d", "b")


METHODS = [
    (HyDE("m", DOCUMENTS, True, "zero"), HyDE("m", DOCUMENTS, True, "direct"), {"pseudo_skills": ["p"]}),
    (Query2doc("m", DOCUMENTS, " ", 5, "zero"), Query2doc("m", DOCUMENTS, " ", 5, "direct"), {"pseudo_skills": ["p"]}),
    (OtherQueries("m", QUERIES, True, 9, "zero"), OtherQueries("m", QUERIES, True, 9, "direct"), {"capabilities": ["c"]}),
]


@pytest.mark.parametrize(("zero", "direct", "parts"), METHODS)
def test_failed_plans_score_zero_or_fall_back_and_are_recorded(zero, direct, parts):
    index = table_index(
        {"red fox": {"a": 0.9, "b": 0.1}, "blue whale": {"b": 0.9}, "p": {"b": 0.3}, "c": {"b": 0.3}, "blue whale p": {"b": 0.3}}
    )
    failure = Failure("queries", "why")
    plans = {"q1": Plan("q1", failure=failure), "q2": plan(Q2, **parts)}
    assert zero.needs_plans and not zero.needs_llm
    empty, good = (r.ranking for r in zero.rank([Q1, Q2], plans, retriever(index), 2))
    assert (empty.skill_ids, empty.failure, good.failure) == ((), failure, None) and good.skill_ids[0] == "b"
    fallen, same = (r.ranking for r in direct.rank([Q1, Q2], plans, retriever(index), 2))
    assert (fallen.skill_ids, fallen.failure) == (("a", "b"), failure) and same == good


@pytest.mark.parametrize(("method", "parts"), [(m, p) for m, _, p in METHODS])
def test_a_plan_of_another_method_is_refused(method, parts):
    other = {"capabilities": ["c"]} if "pseudo_skills" in parts else {"capabilities": ["c"], "pseudo_skills": ["p"]}
    with pytest.raises(SkillbenchError, match="made by another method"):
        next(method.rank([Q1], {"q1": plan(Q1, **other)}, retriever(table_index({"c": {"a": 1.0}})), 2))


@pytest.mark.parametrize(("method", "parts"), [(m, p) for m, _, p in METHODS])
def test_a_plan_that_another_prompt_made_is_refused_though_its_form_fits(method, parts):
    """HyDE's documents and Query2doc's, or a rewrite and a decomposition, look alike."""
    own = method._planner.made_by
    index = retriever(table_index({"red fox": {"a": 0.9}, "p": {"a": 1.0}, "c": {"a": 1.0}, "red fox p": {"a": 1.0}}))
    for made_by in ("", own):
        assert next(method.rank([Q1], {"q1": replace(plan(Q1, **parts), made_by=made_by)}, index, 2)).ranking.failure is None
    with pytest.raises(SkillbenchError, match=f"was made by other, not by {own}"):
        next(method.rank([Q1], {"q1": replace(plan(Q1, **parts), made_by="other")}, index, 2))


@pytest.mark.parametrize("build", [Direct, lambda n: ReciprocalRankFusion(n, 100, 60), lambda n: RoundRobin(n, 100)])
def test_M09_a_deeper_list_leaves_the_top_as_it_is(build):
    ranker = build("m")
    lists = [ids(next(ranker.rank([Q1], {}, both_indexes(), k))) for k in (1, 2, 4)]
    assert lists[2][:1] == lists[0] and lists[2][:2] == lists[1]


@pytest.mark.parametrize(
    "build", [lambda: ReciprocalRankFusion("m", 0, 60), lambda: ReciprocalRankFusion("m", 5, -1), lambda: RoundRobin("m", 0)]
)
def test_settings_out_of_range_are_refused(build):
    with pytest.raises(SkillbenchError):
        build()
