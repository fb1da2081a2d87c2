"""ScriptedChat, NoChat, DryRunChat and the sampling record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_toys import SAMPLING, SCHEMA, asking, openai_chat

from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatMessage, ChatReply
from skillbench.models.cached import open_llm
from skillbench.models.dry_run import Estimate, largest_instance
from skillbench.models.none import NoChat
from skillbench.models.sampling import Sampling
from skillbench.models.scripted import Line, ScriptedChat
from skillbench.records import Usage


def test_scripted_lines_answer_by_pattern_in_order_and_repeat_their_last_reply() -> None:
    model = ScriptedChat(lines=[Line("weather", ("sun", "rain")), Line("", ("else",))])
    replies = model.complete(asking("weather?", "news?", "weather?", "weather?"))
    assert [reply.text for reply in replies] == ["sun", "else", "rain", "rain"]
    assert model.calls == 4 and [r.messages[0].content for r in model.asked][:2] == ["weather?", "news?"]
    assert model.stats()["outcome_ok"] == 4


def test_scripted_replies_are_read_like_a_models() -> None:
    model = ScriptedChat(exact={"a": "<think>x</think>42", "b": "<think>x"}, default="")
    assert [(r.outcome, r.text) for r in model.complete(asking("a", "b", "c"))] == [("ok", "42"), ("incomplete", ""), ("empty", "")]


def test_scripted_faults_functions_and_unmatched_requests() -> None:
    fault = ScriptedChat(lines=[{"match": "x", "reply": "", "outcome": "rate_limited"}])
    assert [r.outcome for r in fault.complete(asking("x", "y"))] == ["rate_limited", "refused"]
    made = ChatReply("length", "half", "half", "m", Usage())
    assert ScriptedChat(reply=lambda request: made).complete(asking("x")) == [made]
    assert ScriptedChat(reply=lambda request: request.messages[0].content.upper()).complete(asking("x"))[0].text == "X"


def test_scripted_reads_a_file_and_says_what_is_wrong_with_one(tmp_path: Path) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('{"match": "^a", "reply": ["1", "2"]}\n\n{"match": "b", "reply": "3", "outcome": "timeout"}\n')
    replies = ScriptedChat(path=str(path)).complete(asking("a", "a", "b"))
    assert [(r.outcome, r.text) for r in replies] == [("ok", "1"), ("ok", "2"), ("timeout", "")]
    for text, named in [
        ('{"match": "a"}\n', "line 1"),
        ("{", "script.jsonl"),
        ('{"match": "", "reply": "", "outcome": "no"}', "outcome"),
    ]:
        path.write_text(text)
        with pytest.raises(SkillbenchError, match=named):
            ScriptedChat(path=str(path))
    with pytest.raises(SkillbenchError, match=r"absent\.jsonl"):
        ScriptedChat(path=str(tmp_path / "absent.jsonl"))


def test_none_says_which_option_to_set() -> None:
    model = NoChat(SAMPLING)
    with pytest.raises(SkillbenchError, match=r"llm=openai.*plans=PATH"):
        model.complete(asking("a"))
    assert model.name == "none" and model.stats() == {} and json.dumps(model.describe())
    model.release()


@pytest.mark.parametrize("values", [(-0.1, 1.0, 5), (float("nan"), 1.0, 5), (0.0, 0.0, 5), (0.0, 1.1, 5), (0.0, 1.0, 0)])
def test_sampling_out_of_range_is_refused(values: tuple[float, float, int]) -> None:
    with pytest.raises(SkillbenchError, match="llm.sampling"):
        Sampling(*values)


def test_sampling_makes_requests() -> None:
    request = Sampling(0.5, 0.9, 10).request([ChatMessage("user", "a")], seed=3, schema=SCHEMA, sample=2)
    assert (request.temperature, request.top_p, request.max_tokens, request.seed, request.sample) == (0.5, 0.9, 10, 3, 2)


def test_a_dry_run_counts_estimates_and_calls_nothing() -> None:
    inner = ScriptedChat(reply=lambda request: pytest.fail("it was called"))
    model = open_llm(inner, None, dry_run=True)
    replies = model.complete(asking("x" * 400, "y" * 4, max_tokens=50))
    assert all(reply.ok for reply in replies) and inner.calls == 0
    assert Estimate.of(model.stats()) == Estimate(2, 0, 101, 100, 0.0)
    assert model.describe()["dry_run"]


def test_a_dry_run_prices_what_it_can_and_leaves_the_cache_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "db.sqlite"
    url = "http://127.0.0.1:9/v1"
    dry = open_llm(openai_chat(url, price_in=10.0, price_out=20.0), path, dry_run=True)
    dry.complete(asking("x" * 400, max_tokens=50))
    assert Estimate.of(dry.stats()) == Estimate(1, 0, 100, 50, pytest.approx(0.002)) and not path.exists()
    assert "at most 1 calls" in Estimate.of(dry.stats()).text() and "$0.0020" in Estimate.of(dry.stats()).text()
    unpriced = open_llm(openai_chat(url), None, dry_run=True)
    unpriced.complete(asking("x"))
    assert Estimate.of(unpriced.stats()).cost_usd is None and "cost unknown" in Estimate.of(unpriced.stats()).text()


def test_a_dry_run_does_not_count_what_the_cache_can_answer(tmp_path: Path) -> None:
    path = tmp_path / "db.sqlite"
    real = open_llm(ScriptedChat(default="known"), path)
    real.complete(asking("a", "b"))
    real.release()
    dry = open_llm(ScriptedChat(default="known"), path, dry_run=True)
    assert [r.text for r in dry.complete(asking("a", "c", "b"))] == ["known", "[1]", "known"]
    estimate = Estimate.of(dry.stats())
    assert (estimate.calls, estimate.cached) == (1, 2)
    dry.release()
    again = open_llm(ScriptedChat(default="known"), path)
    assert not again.complete(asking("c"))[0].cached  # the placeholder was not stored


def test_the_placeholder_is_the_largest_instance_of_the_schema() -> None:
    strings = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 5}
    other = {"type": "array", "items": {"enum": ["x", "y"]}}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "capabilities": strings,
            "other": other,
            "n": {"type": ["integer", "null"], "minimum": 3},
            "b": {"type": "boolean"},
            "c": {"const": 7},
            "d": {"anyOf": [{"type": "number"}, {"type": "string"}]},
        },
    }
    made = largest_instance(schema)
    assert made == {"capabilities": [f"placeholder {i}" for i in range(1, 6)], "other": ["x"], "n": 3, "b": False, "c": 7, "d": 0}
    model = open_llm(ScriptedChat(), None, dry_run=True)
    assert json.loads(model.complete(asking("a", schema=json.dumps(schema)))[0].text) == made
