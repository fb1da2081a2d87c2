"""Bodies of every shape end as a typed outcome: FIELD-FAULTS A03 and A11."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fault_server import Canned, chat, html, no_choices, null_content, overflow, reasoning_only, status, truncated_json
from hypothesis import given
from hypothesis import strategies as st

from skillbench.models.completion import read_completion, read_error
from skillbench.models.outcomes import OUTCOMES


@pytest.mark.parametrize(
    ("canned", "outcome", "text"),
    [
        (chat("fine"), "ok", "fine"),
        (null_content(), "empty", ""),
        (reasoning_only("reasoning"), "reasoning_only", ""),
        (reasoning_only("reasoning_content"), "reasoning_only", ""),
        (chat(None, reasoning_details=[{"type": "x", "text": "hm"}]), "reasoning_only", ""),
        (chat([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ok", "ab"),
        (chat([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "b"}]), "ok", "b"),
        (chat(17), "malformed", ""),
        (no_choices(), "malformed", ""),
        (html(), "malformed", ""),
        (truncated_json(), "malformed", ""),
        (Canned(body="[]"), "malformed", ""),
        (Canned(body=""), "malformed", ""),
        (Canned(body='{"choices": [null]}'), "malformed", ""),
        (Canned(body='{"choices": [{"message": null}]}'), "malformed", ""),
        (chat("half", finish_reason="length"), "length", "half"),
        (chat("", finish_reason="content_filter"), "declined", ""),
        (chat(None, refusal="I will not."), "declined", ""),
        (Canned(body='{"error": {"code": 429, "message": "slow down"}}'), "rate_limited", ""),
        (Canned(body='{"error": {"code": "503", "message": "busy"}}'), "server_error", ""),
        (Canned(body='{"error": "odd"}'), "server_error", ""),
    ],
)
def test_a03_every_body_has_an_outcome(canned: Canned, outcome: str, text: str) -> None:
    done = read_completion(canned.body)
    assert (done.answer.outcome, done.answer.text) == (outcome, text), done


def test_a03_what_came_is_kept_and_named() -> None:
    done = read_completion(html().body)
    assert done.answer.raw == html().body and "<html>" in done.answer.detail


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ((10, 5), (10, 5)),
        ("absent", (None, None)),
        (None, (None, None)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (None, None)),
        ({"prompt_tokens": "10", "completion_tokens": -1}, (None, None)),
        ({"prompt_tokens": 7}, (7, None)),
    ],
)
def test_a11_unknown_usage_is_never_zero(usage: Any, expected: tuple[int | None, int | None]) -> None:
    done = read_completion(chat("text", usage=usage).body)
    assert (done.prompt_tokens, done.completion_tokens) == expected


@pytest.mark.parametrize(
    ("code", "body", "outcome"),
    [
        (429, status(429).body, "rate_limited"),
        (500, status(500).body, "server_error"),
        (503, "<html>", "server_error"),
        (408, "", "timeout"),
        (409, "", "server_error"),
        (401, status(401).body, "refused"),
        (404, status(404).body, "refused"),
        (400, overflow().body, "overflow"),
        (400, '{"message": "prompt is too long: 9 tokens > 8 maximum"}', "overflow"),
        (400, '{"error": {"code": 400, "message": "the request exceeds the available context size"}}', "overflow"),
        (413, "", "overflow"),
        (400, status(400, message="temperature is out of range").body, "refused"),
        (302, "", "server_error"),
    ],
)
def test_a11_http_errors_have_distinct_outcomes(code: int, body: str, outcome: str) -> None:
    assert read_error(code, body).answer.outcome == outcome


def test_an_empty_purse_is_not_asked_again() -> None:
    assert read_error(429, status(429).body).retryable
    assert not read_error(429, status(429, error_code="insufficient_quota").body).retryable


@pytest.mark.parametrize("code", [400, 422, 500])
def test_a_refused_schema_says_what_to_set_and_is_not_asked_again(code: int) -> None:
    message = "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'json_object'\"}]"
    done = read_error(code, status(code, message=message).body)
    assert (
        done.answer.outcome == "refused" and "llm.structured" in done.answer.detail and "json_object_schema" in done.answer.detail
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=6
)


@given(st.dictionaries(st.sampled_from(["choices", "error", "usage", "model"]), VALUES), VALUES, VALUES, VALUES)
def test_a03_no_body_raises(top: dict[str, Any], content: Any, reasoning: Any, finish: Any) -> None:
    message = {"content": content, "reasoning": reasoning, "refusal": reasoning}
    for body in (top, top | {"choices": [{"message": message, "finish_reason": finish}]}):
        assert read_completion(json.dumps(body)).answer.outcome in OUTCOMES
