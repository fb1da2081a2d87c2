from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbench.errors import SkillbenchError
from skillbench.planning.plan_rows import load_plans, plan_from_row, plan_to_row
from skillbench.records import Failure, Plan, Query, Usage

RECORDED = Path(__file__).parents[3] / "shared/data/skillusage/plans_qwen2.5-coder-1.5b.jsonl"
GOOD = {"query_id": "q1", "capabilities": ["a"], "anchors": ["x"], "pseudo_skills": ["s"], "failure": None}


def write(path: Path, *rows: object, end: str = "\n") -> Path:
    path.write_bytes(("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + end).encode())
    return path


texts = st.lists(st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip), max_size=4).map(tuple)
counts = st.one_of(st.none(), st.integers(0, 10**9))


@given(texts, texts, counts, counts, st.floats(0, 1e9), st.booleans())
def test_a_plan_survives_its_row(skills, anchors, prompt, completion, seconds, failed):
    failure = Failure("capabilities", "why") if failed or not skills else None
    plan = Plan("q", skills, anchors, skills, failure, "m", Usage(3, prompt, completion, seconds, None), ("note",), "hyde")
    assert plan_from_row(json.loads(json.dumps(plan_to_row(plan))), "f:1") == plan


def test_rows_of_other_tools_load_and_unknown_counts_stay_unknown():
    plan = plan_from_row({**GOOD, "model": "m", "usage": {"prompt_tokens": 5, "completion_tokens": 6}}, "f:1")
    assert plan.usage == Usage(0, 5, 6, 0.0, None)
    assert plan_from_row(GOOD, "f:1").usage == Usage(0, None, None, 0.0, None)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"capabilities": "a"}, "capabilities must be a list"),
        ({"capabilities": ["a", 1]}, "capabilities must be a list"),
        ({"pseudo_skills": ["  "]}, "blank"),
        ({"pseudo_skills": ["a", "b"]}, "1 capabilities but 2 pseudo skills"),
        ({"capabilities": [], "pseudo_skills": []}, "neither capabilities nor pseudo skills"),
        ({"anchors": None}, "anchors must be a list"),
        ({"failure": "why"}, "failure must be null"),
        ({"failure": {"stage": "x"}}, "failure must be null"),
        ({"failure": {"stage": "x", "reason": 3}}, "failure must be null"),
        ({"usage": {"tokens": 3}}, "usage must be an object"),
        ({"usage": {"calls": None}}, "usage.calls"),
        ({"usage": {"seconds": -1}}, "usage.seconds"),
        ({"usage": {"seconds": True}}, "usage.seconds"),
        ({"usage": {"seconds": float("inf")}}, "usage.seconds"),
        ({"model": None}, "model must be text"),
        ({"made_by": 3}, "made_by must be text"),
        ({"notes": [1]}, "notes must be a list"),
        ({"query_id": " q"}, "query id"),
        ({"query_id": 7}, "query id"),
        ({"gold": ["a"]}, "unknown keys gold"),
        ({"anchors": ["\ud800"]}, "UTF-8"),
    ],
)
def test_a_wrong_row_is_refused_with_its_place(change, says):
    with pytest.raises(SkillbenchError, match=f"^plans.jsonl:3: .*{says}"):
        plan_from_row({**GOOD, **change}, "plans.jsonl:3")


@pytest.mark.parametrize("key", list(GOOD))
def test_a_missing_key_is_named(key):
    with pytest.raises(SkillbenchError, match=f"f:1: the plan lacks {key}"):
        plan_from_row({k: v for k, v in GOOD.items() if k != key}, "f:1")


@pytest.mark.parametrize("row", [None, [], "x", 3])
def test_a_row_that_is_no_object(row):
    with pytest.raises(SkillbenchError, match="f:1: a plan is a JSON object"):
        plan_from_row(row, "f:1")


def test_an_absent_plan_is_a_recorded_failure_with_one_warning(tmp_path, caplog):
    path = write(tmp_path / "p.jsonl", GOOD, {**GOOD, "query_id": "other"})
    with caplog.at_level(logging.WARNING):
        plans = load_plans(path, [Query("q0", "x"), Query("q1", "x"), Query("q2", "x")])
    assert list(plans) == ["q0", "q1", "q2"]
    assert plans["q1"].failure is None and plans["q0"].failure == plans["q2"].failure == Failure("plans", "no plan in p.jsonl")
    assert len(caplog.records) == 1 and "2 of 3" in caplog.text


def test_a_file_for_other_data_is_refused(tmp_path):
    with pytest.raises(SkillbenchError, match="no plan for any of 1 queries"):
        load_plans(write(tmp_path / "p.jsonl", GOOD), [Query("z", "x")])


def test_repeated_and_broken_rows_are_refused_with_file_and_line(tmp_path):
    queries = [Query("q1", "x")]
    with pytest.raises(SkillbenchError, match=r"p\.jsonl:2: query q1 has a plan already"):
        load_plans(write(tmp_path / "p.jsonl", GOOD, GOOD), queries)
    with pytest.raises(SkillbenchError, match=r"p\.jsonl:1: not JSON"):
        load_plans(write(tmp_path / "p.jsonl", '{"query_id": NaN}', GOOD), queries)
    with pytest.raises(SkillbenchError, match="cannot be read"):
        load_plans(tmp_path / "none.jsonl", queries)
    (tmp_path / "latin.jsonl").write_bytes(b'{"query_id": "\xe9"}\n')
    with pytest.raises(SkillbenchError, match="not UTF-8"):
        load_plans(tmp_path / "latin.jsonl", queries)


def test_A06_a_half_written_last_line_is_dropped(tmp_path, caplog):
    path = write(tmp_path / "p.jsonl", "\ufeff" + json.dumps(GOOD), '{"query_id": "q2", "capab', end="")
    with caplog.at_level(logging.WARNING):
        plans = load_plans(path, [Query("q1", "x"), Query("q2", "x")])
    assert plans["q1"].failure is None and plans["q2"].failure.stage == "plans"
    assert "half-written last line" in caplog.text


def test_the_recorded_plans_load():
    if not RECORDED.is_file():
        pytest.skip("the recorded plans are not beside this checkout")
    ids = [json.loads(line)["query_id"] for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    plans = load_plans(RECORDED, [Query(i, "x") for i in ids])
    assert len(plans) == 60 and sum(p.failure is not None for p in plans.values()) == 2
    assert all(1 <= len(p.capabilities) <= 5 for p in plans.values() if p.failure is None)


def test_a_plan_that_failed_in_transport_elsewhere_cannot_be_asked_for_again_here(tmp_path):
    lost = {**GOOD, "capabilities": [], "pseudo_skills": [], "failure": {"stage": "transport", "reason": "capabilities: timeout"}}
    plans = load_plans(write(tmp_path / "plans.jsonl", lost), [Query("q1", "a")])
    assert plans["q1"].failure == Failure("plans", "no model answered when it was made: capabilities: timeout")
