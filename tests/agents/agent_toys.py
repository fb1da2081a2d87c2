"""A scripted agent, a data set with canaries, and rows of our own in the layout of GSM8K. Importable by name, so that configs
can build them.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from skillbench.data.gsm8k import GSM8K
from skillbench.gold import Check, Qrels
from skillbench.interfaces import ChatReply, ChatRequest
from skillbench.models.sampling import Sampling
from skillbench.models.scripted import ScriptedChat
from skillbench.records import PublicData, Skill, Usage

CANARY_ANSWER, CANARY_SKILL, CANARY_CHECK = "zebrafinch", "quokkaguide", "okapiverifier"

QUESTIONS = (
    "A baker fills 48 trays of rolls and sells half of them before noon. How many trays are left?",
    "A tram ticket costs $3 and a day pass costs $11. What do 2 tickets and 1 pass cost in dollars?",
    "A pump moves 30 liters in 5 minutes. How many liters does it move in 12 minutes?",
    'A card reads {"k": 1} and {{ braces }}; it has 2 sides with 9 stars each. How many stars is that?',
    "Nora is 4 years older than Ben, who is 9. How old is Nora?",
    "A jar holds 120 beans; 25% are red. How many percent of the beans are not red?",
)
ANSWERS = ("24", "17", "72", "18", "13", "75")
ASKED: list[ChatRequest] = []  # every request of this process


def write_rows(folder: Path, canary: bool = False) -> Path:
    """A root for dataset=gsm8k: the six questions above, again and again to 24 rows."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number in range(24):
        question, answer = QUESTIONS[number % 6], ANSWERS[number % 6]
        reason = f"{CANARY_ANSWER} because of the {CANARY_ANSWER}.\n" if canary else "By arithmetic.\n"
        lines.append(json.dumps({"question": f"{question} (no. {number})", "answer": f"{reason}#### {answer}"}))
    for split in ("test", "train"):
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


class CanaryGSM8K(GSM8K):
    """GSM8K whose gold names a skill that no retriever can find, and whose checks carry a word that only the judge reads."""

    def load_public(self) -> PublicData:
        public = super().load_public()
        skill = Skill(CANARY_SKILL, CANARY_SKILL, "", "")
        return PublicData(public.name, (*public.skills, skill), public.queries, public.notes, public.source)

    def load_gold(self) -> Qrels:
        return Qrels.binary({task.query_id: (CANARY_SKILL,) for task in self.load_tasks()})

    def load_checks(self) -> Mapping[str, Check]:
        found = super().load_checks()
        more = {"note": CANARY_CHECK}
        return {i: Check(i, c.grader, c.answer, MappingProxyType({**c.options, **more})) for i, c in found.items()}


class Brain(ScriptedChat):
    """Answers planning prompts and plays an agent that goes through every kind of mistake before it submits.

    What it says depends on the messages alone, so runs can be cut and resumed. ``path`` names words of tasks that no model
    answers. Environment variables make it slow (``BRAIN_SECONDS`` a batch), and shorter for a third of the tasks
    (``BRAIN_UNEVEN``), so that episodes end in another order than that of the tasks.
    """

    def __init__(
        self,
        *,
        name: str = "brain",
        sampling: Sampling = Sampling(0.0, 1.0, 512),  # noqa: B008
        lines: Any = (),
        path: str = "",
        exact: Mapping[str, str] | None = None,
        reply: Any = None,
        default: str | None = None,
    ) -> None:
        super().__init__(name=name, sampling=sampling, reply=self._say)
        self.transport = path.split(",") if path else []

    def complete(self, requests: Any, on_reply: Any = None) -> list[ChatReply]:
        ASKED.extend(requests)
        crash_after(len(requests))
        time.sleep(float(os.environ.get("BRAIN_SECONDS", "0")))
        return super().complete(requests, on_reply)

    def describe(self) -> Mapping[str, Any]:
        return {"name": self.name, "identity": {"kind": "brain"}}

    def _say(self, request: ChatRequest) -> ChatReply:
        first = request.messages[0].content + (request.messages[1].content if len(request.messages) > 1 else "")
        if any(word in first for word in self.transport):
            return ChatReply("rate_limited", "", "", self.name, Usage(1, None, None, 0.0, None), "HTTP 429: slow down")
        text = agent_reply(request) if request.messages[0].role == "system" else planner_reply(request)
        return ChatReply("ok", text, text, self.name, Usage(1, 100 + len(request.messages), 20, 0.25, 0.001))


class Crash(BaseException):
    """Ends a run as a signal would: no ``except Exception`` sees it."""


CRASH = {"after": -1, "seen": 0}


def crash_after(requests: int) -> None:
    CRASH["seen"] += requests
    if 0 <= CRASH["after"] < CRASH["seen"]:
        raise Crash(f"after {CRASH['seen']} requests")


def planner_reply(request: ChatRequest) -> str:
    prompt = request.messages[0].content
    if "anchors" in prompt:
        return json.dumps({"anchors": ["stock", "balance"], "capabilities": ["keeping the balance of a stock of things"]})
    front = "---\nname: stock-keeping\ndescription: Keep a balance of things that come and go.\n---"
    return f"{front}\n\nAdd what comes in, subtract what goes out."


def offered_labels(request: ChatRequest) -> list[str]:
    task = request.messages[1].content
    listed = task.partition("Skills on offer (load_skill shows the text of one):\n")[2].partition("\n\n")[0]
    return re.findall(r"^- ([^:\n]+)", listed, re.M)


def agent_reply(request: ChatRequest) -> str:
    """Action number n of the script, or an assessment; n is the number of actions and wrong replies so far."""
    last = request.messages[-1].content
    said = [m.content for m in request.messages if m.role == "assistant"]
    if "Capability check" in last or last.startswith("Error (line_count)"):
        return assessment_reply(said, offered_labels(request))
    turn = sum(not text.startswith("SUBGOAL") for text in said)
    return action_reply(turn, request.messages[1].content, offered_labels(request))


def assessment_reply(said: list[str], labels: list[str]) -> str:
    made = sum(text.startswith("SUBGOAL") for text in said)
    if made == 1:
        return "SUBGOAL: this check is no check"  # a violation: one line
    decision = f"MATCH {labels[0]}" if labels and made == 0 else "NO_MATCH" if made == 3 else "NOT_NEEDED"
    if labels and made == 4:
        decision = f"PARTIAL_MATCH {labels[-1]}, in part"
    return "\n".join(
        (
            "SUBGOAL: find the number",
            f"EVIDENCE: {made} checks so far; the result is open",
            "CAPABILITY: keeping a balance",
            f"DECISION: {decision}",
            "NEXT_ACTION: one calculation",
        )
    )


def action_reply(turn: int, task: str, labels: list[str]) -> str:
    load = labels[1] if len(labels) > 1 else "inventory-balance"
    script = (
        {"thought": "look at a guide", "tool": "load_skill", "input": load},
        {"thought": "half of them", "tool": "calculator", "input": "48 / 2 = 24"},
        {"thought": "half of them", "tool": "calculator", "input": "48 / 2 = 24"},
        {"thought": "half of them", "tool": "calculator", "input": "48 / 2"},
        "I will now submit.",
        {"thought": "look it up", "tool": "search", "input": "trays"},
        {"thought": "submit", "tool": "finish", "input": "about the half"},
        {"thought": "submit", "tool": "finish", "input": f"{answer_to(task)}"},
    )
    if os.environ.get("BRAIN_UNEVEN") and int(task.split("(no. ")[1].split(")")[0]) % 3 == 1:
        turn += 5
    said = script[min(turn, len(script) - 1)]
    return said if isinstance(said, str) else json.dumps(said)


def answer_to(task: str) -> str:
    """Right for the first three questions, wrong for the others."""
    number = next((i for i, question in enumerate(QUESTIONS) if question in task), 0)
    return ANSWERS[number] if number < 3 else "1000000"


def command(rows: Path, outputs: Path) -> list[str]:
    """The overrides of an agent run with the scripted agent."""
    return [
        "task=agent",
        "dataset=gsm8k",
        f"dataset.root={rows}",
        "backbone=bm25",
        "llm=scripted",
        "llm._target_=agent_toys.Brain",
        "judge.resamples=50",
        f"paths.outputs={outputs}",
        "paths.cache=null",
    ]


ARMS = ("no_skills", "curated", "direct", "skilldreamer", "pseudo", "distractors", "forced", "retrieved")
