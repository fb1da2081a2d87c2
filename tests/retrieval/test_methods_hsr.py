"""HSR against a slow, literal reading of the equations, on toy, dense and BM25 indexes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from method_toys import ToyIndex, ids, plan, retriever, table_index, words_index

from skillbench.errors import SkillbenchError
from skillbench.interfaces import Retriever
from skillbench.planning.skilldreamer import EXPLICIT_ONLY
from skillbench.records import Failure, Plan, Query, Skill, Text
from skillbench.retrieval.bm25 import BM25Backbone
from skillbench.retrieval.dense import DenseIndex
from skillbench.retrieval.skill_text import DocumentText
from skillbench.retrieval.skilldreamer import SkillDreamer

QUERY = Query("q", "the query")


class NoPlanner:
    max_capabilities = 9

    def plan(self, queries, llm):
        raise AssertionError("ranking must not plan")

    def prompt_hashes(self):
        return {"p": "0"}


def method(**changes) -> SkillDreamer:
    values = {
        "name": "skilldreamer",
        "planner": NoPlanner(),
        "capabilities": True,
        "implicit": True,
        "pseudo_skills": True,
        "alpha_retrieval": 2.0,
        "alpha_rerank": 2.0,
        "beta": 1.0,
        "gamma": 1.0,
        "k_c": 20,
        "k_r": 20,
        "merge": "round_robin",
        "proxy_role": "document",
        "on_failure": "zero",
    }
    return SkillDreamer(**{**values, **changes})


def literal_hsr(skill_ids, r_q, r_p, r_a, alpha_1, alpha_2, beta, gamma, k_c, k_r, k):
    """The equations of DESIGN.md, section 6, one after the other, with dictionaries and loops.

    r_q[i], r_a[i]: similarity of the query, BM25 of the anchors; r_p[j][i]: similarity of pseudo skill j.
    """

    def norm(column, pool):
        low, high = min(column[i] for i in pool), max(column[i] for i in pool)
        return {i: (column[i] - low) / (high - low) if high > low else 0.0 for i in pool}

    matrix = []
    for r_pj in r_p:
        d = {i: alpha_1 * r_q[i] + beta * r_pj[i] for i in skill_ids}
        pool = sorted(skill_ids, key=lambda i: (-d[i], i))[:k_c]
        q, p, a = norm(r_q, pool), norm(r_pj, pool), norm(r_a, pool)
        h = {i: alpha_2 * q[i] + beta * p[i] + gamma * a[i] for i in pool}
        matrix.append(sorted(pool, key=lambda i: (-h[i], i))[:k_r])
    result = []
    for row in range(max(map(len, matrix))):
        for column in matrix:
            if row < len(column) and column[row] not in result and len(result) < k:
                result.append(column[row])
    return tuple(result)


similarity = st.integers(0, 4)
weight = st.sampled_from([0.0, 0.25, 1.0, 2.0, 4.0])


@st.composite
def cases(draw):
    n, m = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    names = draw(st.permutations([f"s{i}" for i in range(n)]))
    row = st.lists(similarity, min_size=n, max_size=n)
    rows = [draw(row) for _ in range(m)]
    if draw(st.booleans()):
        rows = [rows[0]] * m  # identical lists
    anchors = draw(st.one_of(st.just([0] * n), row))  # anchors that match nothing
    weights = {"alpha_retrieval": draw(weight), "alpha_rerank": draw(weight), "beta": draw(weight), "gamma": draw(weight)}
    if not weights["alpha_retrieval"] + weights["beta"]:
        weights["beta"] = 1.0
    sizes = {"k_c": draw(st.integers(1, 12)), "k_r": draw(st.integers(1, 12))}
    return names, draw(row), rows, anchors, weights, sizes, draw(st.integers(1, 15)), draw(st.booleans())


@settings(max_examples=400, deadline=None)
@given(cases())
def test_HSR_equals_the_equations_taken_literally(case):
    """Ties, one capability, K_c above the gallery, identical lists, no anchors, anchors that match nothing: same order."""
    names, query_row, rows, anchor_row, weights, sizes, k, has_anchors = case
    proxies = [f"p{j}" for j in range(len(rows))]
    table = {QUERY.text: query_row, **dict(zip(proxies, rows, strict=True))}
    index = table_index({text: dict(zip(names, map(float, row), strict=True)) for text, row in table.items()})
    lexical = table_index({"x y": dict(zip(names, map(float, anchor_row), strict=True))})
    own = plan(QUERY, [f"c{j}" for j in range(len(rows))], ["x", "y"] if has_anchors else [], proxies)
    found = next(method(**weights, **sizes).rank([QUERY], {"q": own}, retriever(index, lexical), k))
    r_a = dict(zip(names, anchor_row, strict=True)) if has_anchors else dict.fromkeys(names, 0)
    expected = literal_hsr(
        names,
        dict(zip(names, query_row, strict=True)),
        [dict(zip(names, row, strict=True)) for row in rows],
        r_a,
        weights["alpha_retrieval"],
        weights["alpha_rerank"],
        weights["beta"],
        weights["gamma"],
        sizes["k_c"],
        sizes["k_r"],
        k,
    )
    assert ids(found) == expected
    assert found.ranking.scores == tuple(1 / r for r in range(1, len(expected) + 1))


def by_hand(**changes):
    """Four skills, two proxies. Query: a first; proxy 1: b; proxy 2: c; anchors: d."""
    index = table_index(
        {
            "the query": {"a": 0.9, "b": 0.5, "c": 0.5, "d": 0.1},
            "p1": {"a": 0.0, "b": 0.8, "c": 0.0, "d": 0.4},
            "p2": {"a": 0.0, "b": 0.0, "c": 0.8, "d": 0.4},
        }
    )
    own = plan(QUERY, ["c1", "c2"], ["m", "n"], ["p1", "p2"])
    lexical = table_index({"m n": {"a": 0.0, "b": 0.0, "c": 0.0, "d": 3.0}})
    ranker = method(**{"alpha_retrieval": 1, "alpha_rerank": 1, **changes})
    return next(ranker.rank([QUERY], {"q": own}, retriever(index, lexical), 4)), index


def test_by_hand():
    # list 1: h(a) = 1+0+0, h(b) = .5+1+0, h(c) = .5, h(d) = 0+.5+1 -> b, d, a, c (b = d = 1.5: id); list 2: c, d, a, b
    found, _ = by_hand()
    assert ids(found) == ("b", "c", "d", "a")


def test_switch_no_anchors():
    # gamma = 0: list 1: b 1.5, a 1, c .5, d .5; list 2: c, a, b, d
    found, _ = by_hand(gamma=0)
    assert ids(found) == ("b", "c", "a", "d")


def test_switch_single_list_takes_each_skill_at_its_best_h():
    found, _ = by_hand(merge="single")
    assert ids(found) == ("b", "c", "d", "a")
    assert found.ranking.scores == pytest.approx((1.5, 1.5, 1.5, 1.0))


def test_switch_alpha_in_retrieval_only_and_in_rerank_only():
    # K_c = 1: without the query in d, proxy 1 picks b and proxy 2 picks c; with alpha 2 both pick by d = 2q + p
    found, index = by_hand(k_c=1, alpha_retrieval=0)
    assert ids(found) == ("b", "c")
    assert all(len(probe.parts) == 1 and probe.parts[0][1].text != "the query" for probe, _ in index.searched)
    # alpha 0 in rerank: list 1 is b 1, d .5+1, so d first
    found, _ = by_hand(alpha_rerank=0)
    assert ids(found)[0] == "d"


def test_gamma_zero_never_asks_for_bm25():
    index = table_index({"p1": {"a": 1.0}})
    own = plan(QUERY, ["c"], ["x"], ["p1"])
    assert ids(next(method(gamma=0).rank([QUERY], {"q": own}, retriever(index), 3))) == ("a",)
    own = plan(QUERY, ["c"], [], ["p1"])
    assert ids(next(method().rank([QUERY], {"q": own}, retriever(index), 3))) == ("a",)


@pytest.mark.parametrize(("role", "changes"), [("document", {}), ("query", {"proxy_role": "query"})])
def test_E02_proxies_are_encoded_in_the_role_that_the_config_states(role, changes):
    found, index = by_hand(**changes)
    for probe, _ in index.searched:
        (alpha, query), (beta, proxy) = probe.parts
        assert (query.role, proxy.role, alpha, beta) == ("query", role, 1, 1.0)
    assert {t.text: t.role for t in index.scored} == {"the query": "query", "p1": role, "p2": role}


def test_switch_no_psg_uses_the_capability_text_as_proxy():
    index = table_index({"c1": {"a": 0.1, "b": 0.9}})
    own = plan(QUERY, ["c1"], [], [])
    assert ids(next(method(pseudo_skills=False).rank([QUERY], {"q": own}, retriever(index), 2))) == ("b", "a")
    own = plan(QUERY, ["c1"], [], ["p1"])  # a plan with pseudo skills serves this ablation too
    assert ids(next(method(pseudo_skills=False).rank([QUERY], {"q": own}, retriever(index), 2))) == ("b", "a")


def test_switch_no_ci_uses_the_one_pseudo_skill():
    index = table_index({"p": {"a": 0.1, "b": 0.9}})
    own = plan(QUERY, [], [], ["p"])
    assert ids(next(method(capabilities=False).rank([QUERY], {"q": own}, retriever(index), 2))) == ("b", "a")


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({}, Plan("q", pseudo_skills=("p",))),
        ({}, Plan("q", ("c",))),
        ({"capabilities": False}, Plan("q", ("c",), (), ("p",))),
        ({}, Plan("q", ("c",), (), ("p",), notes=(EXPLICIT_ONLY,))),
        ({"implicit": False}, Plan("q", ("c",), (), ("p",))),
    ],
)
def test_a_plan_of_another_ablation_is_refused(changes, own):
    with pytest.raises(SkillbenchError, match="plan of query q"):
        next(method(**changes).rank([QUERY], {"q": own}, retriever(table_index({"p": {"a": 1.0}})), 2))


def test_B01_more_candidates_than_skills():
    index = table_index({"p": {"a": 0.1, "b": 0.9, "c": 0.5}})
    own = plan(QUERY, ["c"], [], ["p"])
    assert ids(next(method(k_c=100, k_r=100).rank([QUERY], {"q": own}, retriever(index), 50))) == ("b", "c", "a")


def test_B02_nothing_matches_is_an_empty_ranking_without_a_failure():
    lexical = words_index({"a": "one", "b": "two"})
    own = plan(QUERY, ["c"], ["zzz"], ["nothing in common"])
    found = next(method().rank([QUERY], {"q": own}, retriever(lexical, lexical), 5))
    assert ids(found) == () and found.ranking.failure is None and list(found.trace) == []


def test_B02_anchors_that_match_nothing_change_nothing():
    index = table_index({"p": {"a": 0.1, "b": 0.9, "c": 0.5}})
    lexical = words_index({"a": "one", "b": "two", "c": "three"})
    rankings = []
    for anchors in ([], ["zzz"]):
        own = plan(QUERY, ["c"], anchors, ["p"])
        rankings.append(ids(next(method().rank([QUERY], {"q": own}, retriever(index, lexical), 5))))
    assert rankings[0] == rankings[1]


def test_M03_no_repeats_and_the_freed_places_are_filled():
    row = {"a": 0.9, "b": 0.5, "c": 0.1}
    index = table_index({"p1": row, "p2": row, "p3": row})
    own = plan(QUERY, ["x", "y", "z"], [], ["p1", "p2", "p3"])
    assert ids(next(method().rank([QUERY], {"q": own}, retriever(index), 3))) == ("a", "b", "c")


@settings(max_examples=50, deadline=None)
@given(cases())
def test_M09_the_top_5_do_not_depend_on_how_deep_the_list_goes(case):
    names, query_row, rows, _, weights, sizes, _, _ = case
    proxies = [f"p{j}" for j in range(len(rows))]
    table = {QUERY.text: query_row, **dict(zip(proxies, rows, strict=True))}
    index = table_index({text: dict(zip(names, map(float, row), strict=True)) for text, row in table.items()})
    own = plan(QUERY, proxies, [], proxies)
    for merge in ("round_robin", "single"):
        ranker = method(**{**weights, "gamma": 0}, **sizes, merge=merge)
        short, long = (ids(next(ranker.rank([QUERY], {"q": own}, retriever(index), k))) for k in (5, 15))
        assert short == long[:5]


def test_failures_score_zero_or_fall_back_and_both_are_recorded():
    index = table_index({"the query": {"a": 0.1, "b": 0.9}, "p": {"a": 0.9}})
    failure = Failure("capabilities", "no JSON")
    queries = [QUERY, Query("r", "the query"), Query("s", "the query")]
    plans = {"q": Plan("q", failure=failure), "r": plan(queries[1], ["c"], [], ["p"])}
    zero = [r.ranking for r in method().rank(queries, plans, retriever(index), 5)]
    assert [r.query_id for r in zero] == ["q", "r", "s"]
    assert zero[0].skill_ids == () and zero[0].failure == failure
    assert zero[1].skill_ids != () and zero[1].failure is None
    assert zero[2].failure == Failure("plans", "no plan")
    direct = [r.ranking for r in method(on_failure="direct").rank(queries, plans, retriever(index), 5)]
    assert direct[0].skill_ids == ("b", "a") and direct[0].scores == (0.9, 0.1) and direct[0].failure == failure
    assert direct[1] == zero[1]


def test_trace_explains_every_candidate():
    found, _ = by_hand(k_c=3, k_r=2)
    rows = list(found.trace)
    assert len(rows) == 6 and {r["capability"] for r in rows} == {0, 1}
    first = [r for r in rows if r["capability"] == 0]
    # d = q + p: b 1.3, a .9, then c .5 before d .5 by id
    assert [(r["skill_id"], r["d"]) for r in first] == [
        ("b", pytest.approx(1.3)),
        ("a", pytest.approx(0.9)),
        ("c", pytest.approx(0.5)),
    ]
    for r in rows:
        assert r["h"] == pytest.approx(r["n_q"] + r["n_p"] + r["n_a"])
        assert r["d"] == pytest.approx(r["r_q"] + r["r_p"])
        assert r["rank"] == (ids(found).index(r["skill_id"]) + 1 if r["skill_id"] in ids(found) else None)
    # inside R_1 alone: h(b) = 0 + 1, h(a) = 1 + 0, a tie that the id decides
    assert [r["list_rank"] for r in first] == [2, 1, None]
    assert all(type(v) in (int, float, str, type(None)) for r in rows for v in r.values())


def test_many_queries_share_one_search_and_come_back_in_order():
    queries = [Query(f"q{i}", f"text {i}") for i in range(7)]
    index = table_index({f"p{i}": {f"s{i}": 1.0, "z": 0.5} for i in range(7)})
    plans = {q.id: plan(q, ["c"], [], [f"p{i}"]) for i, q in enumerate(queries)}
    found = list(method().rank(queries, plans, retriever(index), 1))
    assert [r.ranking.query_id for r in found] == [q.id for q in queries]
    assert [ids(r) for r in found] == [(f"s{i}",) for i in range(7)]


def random_gallery(n: int, dimensions: int, seed: int):
    rng = np.random.default_rng(seed)
    names = tuple(f"s{i:03}" for i in rng.permutation(n))
    unit = rng.normal(size=(n, dimensions))
    return names, (unit / np.linalg.norm(unit, axis=1, keepdims=True)).astype(np.float32), rng


@pytest.mark.parametrize("seed", range(5))
def test_the_fused_vector_of_a_dense_index_gives_the_same_order(seed):
    names, vectors, rng = random_gallery(60, 8, seed)
    texts = {"the query": None, "p0": None, "p1": None, "p2": None}
    for text in texts:
        v = rng.normal(size=8)
        texts[text] = (v / np.linalg.norm(v)).astype(np.float32)
    index = DenseIndex(names, vectors, lambda ts: np.stack([texts[t.text] for t in ts]), decimals=6, chunk=16)
    anchor = {s: float(rng.integers(0, 3)) for s in names}
    own = plan(QUERY, ["c0", "c1", "c2"], ["x"], ["p0", "p1", "p2"])
    lexical = ToyIndex(names, lambda text, s: anchor[s])
    found = next(method(k_c=15, k_r=9).rank([QUERY], {"q": own}, retriever(index, lexical), 12))

    def cosines(text: str) -> dict[str, float]:
        values = (vectors.astype(np.float64) * texts[text].astype(np.float64)).sum(axis=1)
        return dict(zip(names, np.round(values, 6).tolist(), strict=True))

    proxies = [cosines(f"p{j}") for j in range(3)]
    expected = literal_hsr(names, cosines("the query"), proxies, anchor, 2.0, 2.0, 1.0, 1.0, 15, 9, 12)
    assert ids(found) == expected


def test_works_unchanged_on_a_real_bm25_index():
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()
    rng = np.random.default_rng(3)
    skills = [Skill(f"s{i:02}", "n", " ".join(rng.choice(words, 6)), "b") for i in range(30)]
    backbone = BM25Backbone("bm25", DocumentText("{name} {description}"), "lucene", 1.5, 0.75, "none", "none", 0, 1, None)
    index = backbone.index(skills)
    query = Query("q", "alpha beta")
    own = plan(query, ["c0", "c1"], ["theta", "iota"], ["gamma gamma zeta", "kappa"])
    real = Retriever(index, lambda: index, {s.id: s for s in skills}, None)  # type: ignore[arg-type]
    found = next(method(k_c=8, k_r=6).rank([query], {"q": own}, real, 10))
    names = tuple(s.id for s in skills)

    def column(text: str, role: str = "query") -> dict[str, float]:
        return dict(zip(names, index.score([Text(text, role)], [names])[0].tolist(), strict=True))  # type: ignore[arg-type]

    expected = literal_hsr(
        names,
        column("alpha beta"),
        [column("gamma gamma zeta"), column("kappa")],
        column("theta iota"),
        2.0,
        2.0,
        1.0,
        1.0,
        8,
        6,
        10,
    )
    assert ids(found) == expected and len(expected) >= 6


@pytest.mark.parametrize(
    "changes",
    [
        {"merge": "zigzag"},
        {"proxy_role": "passage"},
        {"on_failure": "ignore"},
        {"k_c": 0},
        {"k_r": True},
        {"beta": -1},
        {"alpha_retrieval": 0, "beta": 0},
        {"gamma": float("nan")},
    ],
)
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(SkillbenchError):
        method(**changes)


@pytest.mark.parametrize(
    ("own", "switches", "says"),
    [
        ({"pseudo_skills": ["p"], "made_by": "hyde"}, {"capabilities": False}, "was made by hyde"),
        ({"pseudo_skills": ["p"], "made_by": "skilldreamer"}, {"capabilities": False}, "was made otherwise"),
        (
            {"capabilities": ["c"] * 10, "pseudo_skills": ["p"] * 10},
            {},
            "planner.max_capabilities=9, but the plan of query q has 10",
        ),
    ],
)
def test_a_plan_made_under_other_settings_is_refused(own, switches, says):
    made = Plan("q", **{name: tuple(value) if isinstance(value, list) else value for name, value in own.items()})
    with pytest.raises(SkillbenchError, match=says):
        next(method(**switches).rank([QUERY], {"q": made}, retriever(table_index({"p": {"a": 1.0}})), 2))
