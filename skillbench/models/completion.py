"""Reading what an OpenAI-compatible endpoint sent: any body becomes a typed outcome, none an exception."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from skillbench.models.answers import Answer, read_answer, writable

_OVERFLOW = re.compile(
    r"context[_ ]length|context window|context[_ ]size|maximum context|max_model_len|prompt is too long|input is too long"
    r"|too many (?:input )?tokens|reduce the length",
    re.IGNORECASE,
)
_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Completion:
    """One attempt's result. Token counts are None where the endpoint did not say; ``model`` is the name it gave itself."""

    answer: Answer
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    model: str = ""
    retryable: bool = True


def read_completion(body: str) -> Completion:
    """Read the body of a 2xx answer.

    ``malformed`` is everything that is no chat completion: HTML, cut JSON, no choices, content of an unknown form. Some gateways
    report an error inside a 200; it counts by its own code.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return _malformed("the answer is no JSON", body)
    if not isinstance(value, dict):
        return _malformed("the answer is no JSON object", body)
    choices = value.get("choices")
    if value.get("error") and not choices:
        return read_error(_error_code(value["error"]), body)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return _malformed("the answer has no choices", body)
    return _read_choice(choices[0], value, body)


def read_error(status: int, body: str) -> Completion:
    """The outcome of an answer with HTTP ``status`` 400 or above (1xx and 3xx count as server errors)."""
    message, code = _error_message(body)
    detail = f"HTTP {status}: {message}"
    if status in (400, 413, 422, 500) and (status == 413 or _OVERFLOW.search(f"{code} {message}")):
        return Completion(Answer("overflow", "", _shortened(body), detail), 0, 0)
    if status in (400, 422, 500) and ("response_format" in message or "json_schema" in message):
        # llama-cpp-python answers 500 where others answer 400 or 422; asking again would not help.
        others = "json_object_schema, json_object or prompt"
        hint = f"the endpoint does not take llm.structured as set; try llm.strict_schema=false, or llm.structured={others}"
        return Completion(Answer("refused", "", _shortened(body), f"{detail} ({hint})"), 0, 0)
    if status == 429:
        return Completion(Answer("rate_limited", "", _shortened(body), detail), 0, 0, retryable=code != "insufficient_quota")
    if status == 408:
        return Completion(Answer("timeout", "", _shortened(body), detail), 0, 0)
    if status in (409, 425) or not 400 <= status < 500:
        return Completion(Answer("server_error", "", _shortened(body), detail), 0, 0)
    return Completion(Answer("refused", "", _shortened(body), detail), 0, 0)


def _read_choice(choice: dict[str, Any], value: dict[str, Any], body: str) -> Completion:
    message, finish = choice.get("message"), choice.get("finish_reason")
    if not isinstance(message, dict):
        return _malformed("the choice has no message", body)
    parts = _content(message.get("content"))
    if parts is None:
        return _malformed("the content is neither text, null nor a list of parts", body)
    content, thought = parts
    reasoning = thought or next((t for t in (_flatten(message.get(name)) for name in _REASONING_FIELDS) if t), "")
    answer = read_answer(content, reasoning, cut=finish == "length")
    refusal = message.get("refusal")
    if finish == "content_filter" or (isinstance(refusal, str) and refusal and not content):
        answer = Answer("declined", "", answer.raw or writable(str(refusal or "")), "declined by the model or its content rules")
    prompt_tokens, completion_tokens = _usage(value.get("usage"), wrote=bool(content or reasoning))
    model = value.get("model")
    return Completion(answer, prompt_tokens, completion_tokens, model if isinstance(model, str) else "")


def _content(content: Any) -> tuple[str, str] | None:
    """Text and reasoning of a message's content, or None for a form that is not known."""
    if content is None:
        return "", ""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, list) or not all(isinstance(part, dict | str) for part in content):
        return None
    thoughts = [part for part in content if isinstance(part, dict) and part.get("type") in ("thinking", "reasoning")]
    text = "".join(part if isinstance(part, str) else _flatten(part.get("text")) for part in content if part not in thoughts)
    return text, _flatten(thoughts)


def _flatten(value: Any) -> str:
    """The text in a reasoning field, whose form differs: a string, a list of parts, a part with text in one of several keys."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(_flatten, value))
    if isinstance(value, dict):
        return next(
            (t for t in (_flatten(value.get(key)) for key in ("text", "thinking", "reasoning", "content", "summary")) if t), ""
        )
    return ""


def _usage(usage: Any, wrote: bool) -> tuple[int | None, int | None]:
    """Token counts, None where unknown. A prompt of 0 tokens does not exist, nor a text of 0 tokens: such a 0 means unknown."""
    if not isinstance(usage, dict):
        return None, None
    prompt, completion = (_count(usage.get(key)) for key in ("prompt_tokens", "completion_tokens"))
    return prompt or None, None if completion == 0 and wrote else completion


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _malformed(what: str, body: str) -> Completion:
    start = " ".join(writable(body).split())[:80]
    return Completion(Answer("malformed", "", _shortened(body), f"{what}; it begins {start!r}"))


def _shortened(body: str) -> str:
    return writable(body[:_KEPT])


def _error_code(error: Any) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def _error_message(body: str) -> tuple[str, str]:
    """Message (one line, at most 300 characters) and error code of an error body of any form."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    error = value.get("error", value) if isinstance(value, dict) else None
    message: Any = error
    code = ""
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or error
        code = str(error.get("code") or error.get("type") or "")
    text = message if isinstance(message, str) else body
    return " ".join(writable(text).split())[:300], code
