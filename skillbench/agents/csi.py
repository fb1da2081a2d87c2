"""CSI: before each action the agent says what it needs, from the state of the task, and whether an offered skill teaches it.

An assessment is five lines ``LABEL: value``. It proposes; it does not act. With MATCH or PARTIAL_MATCH the skill is loaded, and
a further generation chooses the action with the text in view, so that no skill can bear on an action that was proposed before
it was read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from skillbench.agents.actions import BadReply

CHECK_EVERY = 5
"""A runtime check stands in the context after every so many executed actions."""

LABELS = ("SUBGOAL", "EVIDENCE", "CAPABILITY", "DECISION", "NEXT_ACTION")


class Decision(StrEnum):
    """The four words that a decision begins with."""

    MATCH = "MATCH"
    PARTIAL_MATCH = "PARTIAL_MATCH"
    NO_MATCH = "NO_MATCH"
    NOT_NEEDED = "NOT_NEEDED"


NAMING = (Decision.MATCH, Decision.PARTIAL_MATCH)
"""Decisions that name an offered skill."""

CSI_KINDS = ("line_count", "label", "empty_value", "capability_is_tool", "decision_word", "no_skill_named", "unknown_skill")


class Reason(StrEnum):
    """Why an assessment is made now."""

    START = "start"
    FAILURE = "failure"
    NEW_EVIDENCE = "new_evidence"
    ROUTINE = "routine"


@dataclass(frozen=True, slots=True)
class Assessment:
    """The five values. ``skill`` is the label of the offered skill that MATCH or PARTIAL_MATCH names, else ""."""

    subgoal: str
    evidence: str
    capability: str
    decision: Decision
    skill: str
    next_action: str


def parse_assessment(text: str, offered: Sequence[str], tools: Sequence[str]) -> Assessment:
    """Read a reply strictly. Raises BadReply with a kind of CSI_KINDS.

    Exactly five lines that are not blank, in the order of LABELS, each with a value; labels and decision words in capitals as they
    stand. The skill's name follows the decision word; what comes after the name is free. A capability that is no more than the
    name of a tool is refused: it must come from the state of the task.
    """
    values = _values(text)
    if values["CAPABILITY"].strip(" .`\"'").casefold() in {tool.casefold() for tool in tools}:
        raise _bad("capability_is_tool", "CAPABILITY names a tool; say what one must know or be able to do for the subgoal")
    decision, skill = _decision(values["DECISION"], offered)
    return Assessment(values["SUBGOAL"], values["EVIDENCE"], values["CAPABILITY"], decision, skill, values["NEXT_ACTION"])


def _values(text: str) -> dict[str, str]:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) != len(LABELS):
        raise _bad("line_count", f"your reply has {len(lines)} non-empty lines, not exactly {len(LABELS)}")
    values = {}
    for line, label in zip(lines, LABELS, strict=True):
        found, colon, value = line.partition(":")
        if found != label or not colon:
            raise _bad("label", f'the line "{line[:40]}" must begin with "{label}: "')
        if not value.strip():
            raise _bad("empty_value", f"{label} has no value")
        values[label] = value.strip()
    return values


def _decision(value: str, offered: Sequence[str]) -> tuple[Decision, str]:
    word, rest = re.match(r"([A-Z_]*)(.*)", value, re.DOTALL).groups()  # type: ignore[union-attr]
    if word not in Decision.__members__ or rest[:1].isalnum():
        raise _bad("decision_word", f"DECISION must begin with {', '.join(Decision)}")
    decision = Decision(word)
    if decision not in NAMING:
        return decision, ""
    named = rest.lstrip(" \t:,-–—<([*`\"'")
    if not named:
        raise _bad("no_skill_named", f"{word} must be followed by the name of an offered skill{_example(word, offered)}")
    matches = [label for label in offered if re.match(re.escape(label) + r"(?![\w-])", named, re.IGNORECASE)]
    if not matches:
        choices = f"on offer: {', '.join(offered)}" if offered else "no skill is on offer, so decide NO_MATCH or NOT_NEEDED"
        problem = f'after {word} comes the name of an offered skill and not "{named[:60]}"; {choices}{_example(word, offered)}'
        raise _bad("unknown_skill", problem)
    return decision, max(matches, key=len)


def _example(word: str, offered: Sequence[str]) -> str:
    return f". For example: DECISION: {word} {offered[0]}" if offered else ""


def _bad(kind: str, problem: str) -> BadReply:
    return BadReply(kind, f"Error ({kind}): {problem}.")
