"""What the LLM's JSON must be to become capabilities and anchors. Strict: what is missing is a failure, never made up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skillbench.models.replies import Unparsed, extract_json
from skillbench.planning.asking import beginning, one_line


class BadReply(Exception):
    """A reply that answers in the wrong form. The message is one line and becomes the reason of the recorded failure."""


@dataclass(frozen=True, slots=True)
class Inferred:
    """Capability requirements (1 to the maximum, distinct, not blank), anchors (distinct, not blank) and the cuts made."""

    capabilities: tuple[str, ...]
    anchors: tuple[str, ...]
    notes: tuple[str, ...]


def capability_schema(max_capabilities: int, max_anchors: int) -> str:
    """The JSON schema of the reply, as canonical JSON text (an empty one would mean free text)."""
    strings = {"type": "string"}  # no minLength: strict endpoints refuse it, and blank ones are dropped by the rule below
    schema = {
        "type": "object",
        "properties": {
            # Anchors first: a small model that has just named what the task holds names more fitting capabilities.
            "anchors": {"type": "array", "items": strings, "maxItems": max_anchors},
            "capabilities": {"type": "array", "items": strings, "minItems": 1, "maxItems": max_capabilities},
        },
        "required": ["anchors", "capabilities"],
        "additionalProperties": False,
    }
    return json.dumps(schema, sort_keys=True, separators=(",", ":"))


def parse_capabilities(text: str, max_capabilities: int) -> Inferred:
    """Capabilities and anchors from the first complete JSON value of ``text``. Raises BadReply.

    The one rule, in this order. The value must be an object with the key ``capabilities``. A string in place of a list counts as
    a list of one. An element of ``capabilities`` that is no text is a failure. Blank elements and repeats (compared without
    case and with white space collapsed) are dropped with a note. Nothing left is a failure. Of more than ``max_capabilities``
    the first ones are kept with a note. Anchors follow the same rule, but may be absent or empty, have no maximum, and an
    element that is no text is dropped with a note. Outer blanks are removed from every string; nothing else is changed.
    """
    value = _object(text)
    capabilities, notes = _strings(value["capabilities"], "capability", strict=True)
    if not capabilities:
        raise BadReply("no capability in the reply" + beginning(text))
    if len(capabilities) > max_capabilities:
        notes = (*notes, f"{len(capabilities)} capabilities, kept the first {max_capabilities}")
    anchors, anchor_notes = _strings(value.get("anchors"), "anchor", strict=False)
    if not anchors:
        anchor_notes = (*anchor_notes, "no anchors")
    return Inferred(capabilities[:max_capabilities], anchors, notes + anchor_notes)


def parse_queries(text: str, max_queries: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sub-queries and notes from ``{"queries": [...]}`` or a bare list, by the rule of parse_capabilities. Raises BadReply."""
    value = _json(text)
    if isinstance(value, dict):
        value = value.get("queries")
    queries, notes = _strings(value, "query", strict=True)
    if not queries:
        raise BadReply("no query in the reply" + beginning(text))
    if len(queries) > max_queries:
        notes = (*notes, f"{len(queries)} queries, kept the first {max_queries}")
    return queries[:max_queries], notes


def query_schema(max_queries: int) -> str:
    """The JSON schema of a reply with sub-queries, as canonical JSON text."""
    items = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": max_queries}
    schema = {"type": "object", "properties": {"queries": items}, "required": ["queries"], "additionalProperties": False}
    return json.dumps(schema, sort_keys=True, separators=(",", ":"))


def _object(text: str) -> dict[str, Any]:
    value = _json(text)
    if not isinstance(value, dict):
        raise BadReply(f"a JSON {_kind(value)} where an object was asked for" + beginning(text))
    if "capabilities" not in value:
        raise BadReply(f"the JSON object has no key capabilities (it has {', '.join(map(repr, value)) or 'none'})"[:200])
    return value


def _json(text: str) -> Any:
    found = extract_json(text)
    if isinstance(found, Unparsed):
        raise BadReply(one_line(found.reason + beginning(text)))
    return found.value


def _strings(value: Any, what: str, *, strict: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The distinct non-blank strings of ``value`` in order, and a note for each kind of element that was dropped."""
    if value is None:
        return (), ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise BadReply(f"{what} must be a list of strings, not a JSON {_kind(value)}")
    texts = [item for item in items if isinstance(item, str) and _writable(item)]
    if strict and len(texts) < len(items):
        raise BadReply(f"{len(items) - len(texts)} of {len(items)} elements of the {what} list are no text")
    kept: dict[str, str] = {}
    for text in filter(str.strip, texts):
        kept.setdefault(" ".join(text.split()).casefold(), text.strip())
    distinct = tuple(kept.values())
    return distinct, _dropped(what, items, texts, distinct)


def _dropped(what: str, items: Sequence[Any], texts: Sequence[str], distinct: Sequence[str]) -> tuple[str, ...]:
    blank = sum(not t.strip() for t in texts)
    counts = {"no text": len(items) - len(texts), "blank": blank, "repeated": len(texts) - blank - len(distinct)}
    return tuple(f"{what}: dropped {n} {why}" for why, n in counts.items() if n)


def _writable(text: str) -> bool:
    """JSON may escape a lone surrogate, which no file of ours can hold."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _kind(value: Any) -> str:
    return {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")
