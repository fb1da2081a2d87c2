from __future__ import annotations

import itertools
import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from method_toys import AnswerLLM, ids, plan, reply, retriever, table_index

from skillbench.errors import SkillbenchError
from skillbench.models.dry_run import DryRunChat
from skillbench.planning.asking import Generation, is_transport
from skillbench.planning.rivals import DocumentPlanner
from skillbench.planning.templates import load_prompt
from skillbench.records import Failure, Plan, Query, Skill
from skillbench.retrieval.expansion import HyDE
from skillbench.retrieval.llm_rerank import (
    ListwiseRerank,
    LLMSelect,
    PairwiseRerank,
    card,
    most_pairs,
    sort_rounds,
    windows,
    winner,
)
from skillbench.retrieval.methods import Direct

COLD = Generation(64, 0.0, 1.0, 3)
QUERY = Query("q", "the {task}")
NAMES = [f"s{i:02}" for i in range(12)]


def first_stage(n: int = 12):
    """Skills s00, s01, … in this order."""
    return table_index({QUERY.text: {s: 1.0 - i / 100 for i, s in enumerate(NAMES[:n])}})


SHARED = {
    "first": Direct("direct"),
    "depth": 12,
    "generation": COLD,
    "description_chars": 300,
    "body_chars": 0,
    "on_failure": "zero",
    "queries_at_once": 64,
}


def listwise(**changes) -> ListwiseRerank:
    return ListwiseRerank(**{"name": "listwise", "prompt": "listwise", "window": 4, "step": 2, **SHARED, **changes})


def pairwise(**changes) -> PairwiseRerank:
    return PairwiseRerank(**{"name": "pairwise", "prompt": "pairwise", **SHARED, **changes})


def select(**changes) -> LLMSelect:
    return LLMSelect(**{"name": "select", "prompt": "select", "max_picks": 5, "keep_rest": True, **SHARED, **changes})


def shown(prompt: str) -> list[tuple[int, str]]:
    """Numbers and skill ids that a listing prompt shows."""
    return [(int(n), s) for n, s in re.findall(r"^\[(\d+)\] name-(s\d\d):", prompt, re.MULTILINE)]


def sorts_by(key):
    """A model that orders what it is shown by ``key(skill id)``."""
    return lambda prompt: " > ".join(f"[{n}]" for n, s in sorted(shown(prompt), key=lambda pair: key(pair[1])))


def run(method, llm, k=12, index=None, plans=None):
    return next(method.rank([QUERY], plans or {}, retriever(index or first_stage(), llm=llm), k))


def test_windows_move_from_the_end_and_always_reach_the_top():
    assert windows(12, 4, 2) == [(8, 12), (6, 10), (4, 8), (2, 6), (0, 4)]
    assert windows(25, 20, 10) == [(5, 25), (0, 15)]
    assert windows(3, 20, 10) == [(0, 3)]
    assert windows(1, 20, 10) == windows(0, 20, 10) == []


@given(st.integers(2, 60), st.integers(2, 20), st.data())
def test_windows_cover_every_place_and_end_at_the_top(n, window, data):
    step = data.draw(st.integers(1, window - 1))
    spans = windows(n, window, step)
    assert spans[0][1] == n and spans[-1][0] == 0
    assert set(itertools.chain.from_iterable(range(a, b) for a, b in spans)) == set(range(n))
    assert all(b - a <= window for a, b in spans)


def test_listwise_lifts_the_best_from_the_bottom_to_the_top():
    llm = AnswerLLM(sorts_by(lambda s: -int(s[1:])))
    found = run(listwise(), llm)
    assert ids(found)[:2] == ("s11", "s10")
    assert set(ids(found)) == set(NAMES) and len(llm.requests) == 5
    assert llm.prompts[0].count("name-s") == 4 and "the {task}" in llm.prompts[0]
    trace = {r["skill_id"]: r for r in found.trace}
    assert (trace["s11"]["first_rank"], trace["s11"]["rank"], trace["s11"]["left_out"]) == (12, 1, 0)


def test_listwise_one_window_is_a_full_sort():
    found = run(listwise(window=20, step=10), AnswerLLM(sorts_by(lambda s: (int(s[1:]) % 3, -int(s[1:])))))
    assert ids(found) == tuple(sorted(NAMES, key=lambda s: (int(s[1:]) % 3, -int(s[1:]))))


def test_M03_listwise_repeats_and_inventions_are_dropped_and_the_left_out_follow():
    found = run(listwise(window=20, step=10), AnswerLLM(lambda p: "[3] > [3] > [99] > [0] > [1]"))
    assert ids(found) == ("s02", "s00", "s01", *NAMES[3:])
    assert found.trace[0]["left_out"] == 10


@pytest.mark.parametrize(
    ("answer", "stage"),
    [("no idea", "rerank"), ("[77]", "rerank"), (reply("", "timeout"), "transport"), (reply("", "empty"), "rerank")],
)
@pytest.mark.parametrize("build", [listwise, pairwise, select])
def test_a_failed_reranking_scores_zero_or_keeps_the_first_stage_and_is_recorded(build, answer, stage):
    zero = run(build(), AnswerLLM(lambda p: answer)).ranking
    assert zero.skill_ids == () and zero.failure.stage == stage
    kept = run(build(on_failure="first"), AnswerLLM(lambda p: answer)).ranking
    assert kept.skill_ids == tuple(NAMES) and kept.failure == zero.failure
    assert is_transport(kept.failure) == (stage == "transport")


def test_listwise_failure_in_a_later_window_stops_that_query_alone():
    queries = [QUERY, Query("r", "the {task}")]
    calls = itertools.count()

    def answer(prompt):
        return reply("", "timeout") if next(calls) == 2 else sorts_by(lambda s: s)(prompt)

    llm = AnswerLLM(answer)
    index = first_stage()
    found = [r.ranking for r in listwise().rank(queries, {}, retriever(index, llm=llm), 12)]
    assert llm.batches == [2, 2, 1, 1, 1]
    assert found[0].failure is not None and found[1].failure is None and len(found[1].skill_ids) == 12


@pytest.mark.parametrize("build", [listwise, pairwise, select])
def test_M09_only_depth_candidates_are_reranked_and_the_rest_follow_in_order(build):
    reverse = {
        "listwise": sorts_by(lambda s: -int(s[1:])),
        "pairwise": lambda p: prefer(p, lambda s: -int(s[1:])),
        "select": lambda p: '{"guides": [4, 3, 2, 1]}',
    }
    rankings = [ids(run(build(depth=4), AnswerLLM(reverse[build().name]), k)) for k in (2, 4, 12)]
    assert rankings[2] == ("s03", "s02", "s01", "s00", *NAMES[4:])
    assert rankings[0] == rankings[2][:2] and rankings[1] == rankings[2][:4]


def prefer(prompt: str, key) -> str:
    a, b = re.search(r"Guide A: name-(s\d\d)", prompt)[1], re.search(r"Guide B: name-(s\d\d)", prompt)[1]
    return "A" if key(a) < key(b) else "B"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=20), st.booleans())
def test_sort_rounds_is_a_stable_sort_within_its_bound(keys, reverse):
    items = [f"{i}" for i in range(len(keys))]
    sort, compared = sort_rounds(items), 0
    try:
        pairs = next(sort)
        while True:
            compared += len(pairs)
            wins = [keys[int(b)] > keys[int(a)] if reverse else keys[int(b)] < keys[int(a)] for a, b in pairs]
            pairs = sort.send(wins)
    except StopIteration as stop:
        assert stop.value == sorted(items, key=lambda i: -keys[int(i)] if reverse else keys[int(i)])
    n = len(items)
    assert compared <= n * (n - 1).bit_length() if n > 1 else compared == 0


def test_pairwise_sorts_by_the_models_preference():
    llm = AnswerLLM(lambda p: prefer(p, lambda s: (int(s[1:]) % 4, -int(s[1:]))))
    found = run(pairwise(), llm)
    assert ids(found) == tuple(sorted(NAMES, key=lambda s: (int(s[1:]) % 4, -int(s[1:]))))
    assert llm.batches[0] == 12 and len(llm.requests) % 2 == 0  # 6 pairs of the first level at once, each in both orders
    assert found.trace[0]["ties"] == 0


def test_pairwise_contradictions_are_ties_that_keep_the_first_stage():
    found = run(pairwise(), AnswerLLM(lambda p: "A"))  # whoever stands first wins: pure position bias
    assert ids(found) == tuple(NAMES) and found.ranking.failure is None and found.trace[0]["ties"] > 0


def test_pairwise_unclear_replies_are_ties_but_not_all_of_them():
    calls = itertools.count()
    found = run(pairwise(), AnswerLLM(lambda p: "A" if next(calls) == 0 else "hard to say"))
    assert ids(found) == tuple(NAMES) and found.ranking.failure is None
    nothing = run(pairwise(), AnswerLLM(lambda p: reply("", "reasoning_only"))).ranking
    assert nothing.failure == Failure("rerank", "no reply named a winner")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("A", "A"), (" b. ", "B"), ("**B**", "B"), ("Guide A", "A"), ("Answer: B", "B"), ("B\n\nGuide A lacks the formulas.", "B"),
     ("B. Guide A is about PDFs, not spreadsheets.", "B"), ("The better guide is B.", "B"), ("I would take guide B, since", None),
     ("A guide is useful", None), ("Guide A is better than guide B", None), ("Guide A lacks the formulas", None), ("", None),
     ("AB", None), ("neither", None)],
)  # fmt: skip
def test_winner(text, expected):
    assert winner(text) == expected


def test_select_puts_the_picks_first_in_the_models_order():
    llm = AnswerLLM(lambda p: 'Sure: ```json\n{"guides": [5, 2, 5, 99]}\n```')
    found = run(select(), llm)
    assert ids(found) == ("s04", "s01", "s00", "s02", "s03", *NAMES[5:])
    assert [r["picked"] for r in found.trace][:3] == [False, True, False]
    schema = json.loads(llm.requests[0].schema)
    assert schema["properties"]["guides"]["maxItems"] == 5
    assert ids(run(select(keep_rest=False), llm)) == ("s04", "s01")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [('{"guides": []}', ()), ("[2]", ("s01",)), ('{"guides": 3}', ("s02",)), ('{"guides": [1, 2, 3, 4, 5, 6]}', tuple(NAMES[:5]))],
)
def test_select_reads_what_is_an_answer(answer, expected):
    found = run(select(keep_rest=False), AnswerLLM(lambda p: answer)).ranking
    assert found.skill_ids == expected and found.failure is None


@pytest.mark.parametrize(
    "answer", ['{"guides": ["1"]}', '{"guides": [true]}', '{"picks": [1]}', '{"guides": [99]}', '{"guides": [1']
)
def test_select_never_guesses(answer):
    assert run(select(), AnswerLLM(lambda p: answer)).ranking.failure.stage == "rerank"


def test_B02_nothing_found_asks_nothing():
    index = table_index({"other": {"a": 1.0}})
    index._only_positive = True
    for build in (listwise, pairwise, select):
        found = next(build().rank([QUERY], {}, retriever(index), 5)).ranking
        assert found.skill_ids == () and found.failure is None


def test_needs_of_the_first_stage_are_passed_on():
    hyde = HyDE("hyde", DocumentPlanner("hyde", 1, COLD, 64), True, "zero")
    for build in (listwise, pairwise, select):
        assert build().needs_llm and not build().needs_plans
        stacked = build(first=hyde)
        assert stacked.needs_plans and set(stacked.prompt_hashes()) == {"hyde", build().name}
        assert stacked.prompt_hashes()["hyde"] == load_prompt("hyde").sha256
        llm = AnswerLLM(lambda p: "a document")
        assert next(stacked.plan([QUERY], llm)).pseudo_skills == ("a document",)


def test_rerankers_stack_and_keep_the_first_stages_failure():
    hyde = HyDE("hyde", DocumentPlanner("hyde", 1, COLD, 64), True, "zero")
    failure = Failure("document", "why")
    found = run(listwise(first=hyde), AnswerLLM(sorts_by(lambda s: s)), plans={"q": Plan("q", failure=failure)}).ranking
    assert found.skill_ids == () and found.failure == failure
    fallen = HyDE("hyde", DocumentPlanner("hyde", 1, COLD, 64), True, "direct")
    found = run(listwise(first=fallen), AnswerLLM(sorts_by(lambda s: -int(s[1:]))), plans={"q": Plan("q", failure=failure)}).ranking
    assert found.skill_ids[0] == "s11" and found.failure == failure
    llm = AnswerLLM(lambda p: '{"guides": [2]}' if "JSON" in p else sorts_by(lambda s: s)(p))
    both = run(select(first=listwise(first=hyde)), llm, plans={"q": plan(QUERY, pseudo_skills=["x"])}).ranking
    assert both.skill_ids[:2] == ("s01", "s00") and both.failure is None


def test_a_skill_is_shown_on_one_line_within_its_limits():
    skill = Skill("a", "na\nme", "de\n\nscription " + "x" * 50, "bo\tdy " + "y" * 50)
    assert card(skill, 20, 0) == "na me: de scription xxxxxxx"
    assert card(skill, 20, 6) == "na me: de scription xxxxxxx | bo dy "
    assert card(Skill("b", "n", " ", "only\nbody"), 6, 3) == "n: only b"


@pytest.mark.parametrize(
    "build",
    [
        lambda: listwise(step=4),
        lambda: listwise(step=0),
        lambda: listwise(depth=0),
        lambda: pairwise(on_failure="direct"),
        lambda: select(max_picks=0),
        lambda: select(description_chars=0),
    ],
)
def test_settings_out_of_range_are_refused(build):
    with pytest.raises(SkillbenchError):
        build()


@pytest.mark.parametrize("text", ["I cannot rank these 20 guides without more context.", "There are 3 of them.", "no idea"])
def test_digits_in_a_sentence_are_no_order(text):
    assert run(listwise(window=20, step=10), AnswerLLM(lambda p: text)).ranking.failure.stage == "rerank"


@pytest.mark.parametrize("text", ["3 > 1 > 2", "Order: 3, 1, 2", "3\n1\n2", "I would say [3], then [1]; [2] is off."])
def test_numbers_alone_or_in_brackets_are_an_order(text):
    assert ids(run(listwise(window=20, step=10), AnswerLLM(lambda p: text)))[:3] == ("s02", "s00", "s01")


def test_only_the_picks_are_ranked_also_where_the_list_goes_deeper_than_the_reranker():
    llm = AnswerLLM(lambda p: '{"guides": [2]}')
    assert ids(run(select(depth=4, keep_rest=False), llm, k=12)) == ("s01",)
    assert ids(run(select(depth=4), llm, k=12)) == ("s01", "s00", "s02", "s03", *NAMES[4:])
    failed = select(depth=4, keep_rest=False, on_failure="first")
    assert ids(run(failed, AnswerLLM(lambda p: "no"), k=12)) == tuple(NAMES)


@pytest.mark.parametrize("n", range(1, 40))
def test_most_pairs_is_reached_and_never_passed(n):
    """Sorting what interleaves at every merge takes the most comparisons; no order takes more."""
    draws = random.Random(n)

    def comparisons(order):
        rank, asked = {item: place for place, item in enumerate(order)}, 0
        sort = sort_rounds([str(i) for i in range(n)])
        try:
            pairs = next(sort)
            while True:
                asked += len(pairs)
                pairs = sort.send([rank[b] < rank[a] for a, b in pairs])
        except StopIteration:
            return asked

    counts = [comparisons(draws.sample([str(i) for i in range(n)], n)) for _ in range(200 if n > 6 else 0)]
    if n <= 6:
        counts = [comparisons([str(i) for i in order]) for order in itertools.permutations(range(n))]
        assert max(counts) == most_pairs(n)
    assert max(counts) <= most_pairs(n) <= n * (n - 1) // 2


@pytest.mark.parametrize(("build", "calls"), [(listwise, 5), (pairwise, 2 * 33), (select, 1)])
def test_a_dry_run_counts_as_many_calls_as_there_can_be(build, calls):
    """12 candidates: five windows of 4; merges with 6, 9, 7 and 11 comparisons, each asked in both orders."""
    dry = DryRunChat(AnswerLLM(lambda p: ""))
    found = run(build(), dry)
    assert (dry.stats()["calls"], found.ranking.failure) == (calls, None)
