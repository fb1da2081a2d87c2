"""The agent loop, whole. An episode is a generator: it yields a request and is sent the reply, so that a driver can run many at
once.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from dataclasses import dataclass

from skillbench.agents.actions import Action, BadReply, Tool, action_schema, example_action, parse_action
from skillbench.agents.budget import Budget, Meter
from skillbench.agents.csi import CHECK_EVERY, Assessment, Reason, parse_assessment
from skillbench.agents.endings import Ended, Ending
from skillbench.agents.environment import Environment, Session
from skillbench.agents.offers import Offer
from skillbench.agents.templates import AgentPrompts
from skillbench.agents.transcript import Transcript, usable
from skillbench.errors import SkillbenchError
from skillbench.interfaces import ChatReply, ChatRequest
from skillbench.models.sampling import Sampling
from skillbench.records import Episode, Task

log = logging.getLogger(__name__)

LOAD = Tool("load_skill", "shows the full text of a skill on offer. The input is its name.", "name-of-the-skill")

Playing = Generator[ChatRequest, ChatReply, None]


@dataclass(frozen=True, slots=True)
class Rules:
    """What is the same for every episode of a run."""

    arm: str
    seed: int
    csi: bool
    budget: Budget
    sampling: Sampling
    environment: Environment
    prompts: AgentPrompts

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The environment's tools and the loading of skills: the same list for every arm."""
        return (*self.environment.tools, LOAD)


def attempt(task: Task, offer: Offer, rules: Rules, meter: Meter) -> Generator[ChatRequest, ChatReply, Episode]:
    """One episode, from the task to its ending; yields every request and returns the record.

    Every stop condition is an ``Ended``. An exception of any other kind is a fault of the harness: the episode ends as ``crashed``
    and is tried again on resume, and the other episodes go on.
    """
    talk = Transcript(meter, rules.sampling, rules.seed)
    try:
        yield from _play(task, offer, rules, talk)
    except Ended as end:
        ended = end
    except SkillbenchError:
        raise  # the user can mend it: no reason to go through all tasks first
    except Exception as error:
        log.exception("episode of task %s crashed", task.id)
        ended = Ended(Ending.CRASHED, f"{type(error).__name__}: {error}")
    talk.note("end", ending=str(ended.ending), detail=ended.detail)
    offered = tuple(skill.skill_id for skill in offer.skills)
    loaded = tuple(talk.loaded)
    return Episode(task.id, rules.arm, rules.seed, offered, loaded, tuple(talk.steps), ended.answer, str(ended.ending), talk.usage)


def _play(task: Task, offer: Offer, rules: Rules, talk: Transcript) -> Playing:
    session = rules.environment.start(task)
    _open(task, offer, rules, talk)
    while True:
        if rules.csi:
            yield from _assess(offer, rules, talk)
        else:
            talk.say("Reply with your next action.")
        action = yield from _next_action(rules, talk)
        _act(action, session, offer, rules, talk)


def _open(task: Task, offer: Offer, rules: Rules, talk: Transcript) -> None:
    caps = {"max_actions": rules.budget.max_actions, "max_calls": rules.budget.max_calls}
    example = example_action("calculator", "12 * 7 - 5")
    talk.system(rules.prompts.render("system", {"tools": rules.tools, "example": example, **caps}))
    shown = [
        {"skill": s.skill_id, "label": s.label, "description_cut": s.description_cut, "text_cut": s.text_cut} for s in offer.skills
    ]
    talk.note("offer", skills=shown, in_context=offer.in_context, failure=offer.failure.reason if offer.failure else None)
    talk.say(rules.prompts.render("task", {"prompt": task.prompt, "skills": offer.skills, "in_context": offer.in_context}))


def _next_action(rules: Rules, talk: Transcript) -> Generator[ChatRequest, ChatReply, Action]:
    """Ask until a reply is an action; each that is none goes back as an error and costs a call."""
    while True:
        reply = yield from talk.ask("action", action_schema(rules.tools))
        try:
            return parse_action(usable(reply))
        except BadReply as error:
            talk.violation("action", error)
            talk.say(str(error))


def _act(action: Action, session: Session, offer: Offer, rules: Rules, talk: Transcript) -> None:
    """Carry out one action, or say why not. An action that was done before is answered with its earlier result."""
    names = [tool.name for tool in rules.tools]
    if action.tool not in names:
        text = f'Error (unknown_tool): there is no tool "{action.tool[:40]}"; the tools are {", ".join(names)}.'
        talk.action(action, "unknown_tool", text, "unknown_tool")
    elif action.key in talk.done:
        text = _again(action, talk)
        talk.action(action, "repeated", text)
    elif action.tool == LOAD.name:
        text, error = _load(action.input, offer, rules, talk, by="action")
        talk.action(action, "error" if error else "ok", text, error)
        talk.done[action.key] = f"the skill {action.input.strip()} was loaded" if not error else text
    else:
        seen = session.run(action)
        text = seen.text
        talk.action(action, "error" if seen.error else "ok", text, seen.error)
        talk.done[action.key] = text
        if seen.answer is not None:
            raise Ended(Ending.SUBMITTED, answer=seen.answer)
    talk.say(text)


def _again(action: Action, talk: Transcript) -> str:
    talk.repeats[action.key] = times = talk.repeats.get(action.key, 1) + 1
    earlier = talk.done[action.key]
    failed = earlier.startswith("Error")
    hint = (
        "Send a mended action, or a different one."
        if failed
        else "Use that result in a new step, or submit the answer with finish."
    )
    return f"You have sent this action {times} times; the result is the same: {earlier}\n{hint}"


def _load(name: str, offer: Offer, rules: Rules, talk: Transcript, by: str) -> tuple[str, str]:
    """What the agent is shown for a load, and the kind of the error, if it is one. Only the first load of a skill shows its
    text.
    """
    skill = offer.find(name)
    if skill is None:
        choices = f"on offer: {', '.join(offer.labels)}" if offer.skills else "no skill is on offer; go on without one"
        talk.note("load", by=by, name=name, skill=None, status="unknown")
        return f'Error (unknown_skill): there is no skill "{name[:60]}"; {choices}.', "unknown_skill"
    if offer.in_context or skill.skill_id in talk.loaded:
        talk.note("load", by=by, name=name, skill=skill.skill_id, status="again")
        return f"The text of {skill.label} stands above already.", ""
    talk.loaded[skill.skill_id] = skill.label
    talk.note("load", by=by, name=name, skill=skill.skill_id, status="loaded")
    return rules.prompts.render("loaded", {"label": skill.label, "text": skill.text}), ""


def _assess(offer: Offer, rules: Rules, talk: Transcript) -> Playing:
    """The capability check: five lines, then the load that they ask for. What acts is the generation after it.

    It is left out when a single call remains, because that call must be the action.
    """
    if _check_is_due(talk):
        talk.say(rules.prompts.render("runtime_check", {"actions": talk.meter.actions}))
        talk.note("check", actions=talk.meter.actions)
    reason = _reason(talk)
    form = rules.prompts.render("csi_format", {"labels": offer.labels})
    found = None
    if talk.meter.calls_left >= 2:
        # The format in full stands in the first check, and after a violation; a prompt that repeats it each time doubles in length.
        talk.say(rules.prompts.render("assess", {"reason": str(reason), "format": "" if talk.was_checked else form}))
        found = yield from _assessment(offer, rules, talk, form)
        _record(found, reason, offer, talk)
    if found and found.skill:
        talk.say(_load(found.skill, offer, rules, talk, by="assessment")[0])
    talk.say(f"Now reply with the next action, one JSON object: {example_action('<tool>', '<input>', '<thought>')}")


def _assessment(offer: Offer, rules: Rules, talk: Transcript, form: str) -> Generator[ChatRequest, ChatReply, Assessment | None]:
    """Ask for the five lines. A violation goes back to the model once, if a call for the action remains after that."""
    names = [tool.name for tool in rules.tools]
    for last in (False, True):
        reply = yield from talk.ask("assessment")
        try:
            return parse_assessment(usable(reply), offer.labels, names)
        except BadReply as error:
            talk.violation("assessment", error)
            if last or talk.meter.calls_left < 2:
                talk.say(f"{error} Go on without the check.")
                return None
            talk.say(f"{error} {form}")
    return None


def _record(found: Assessment | None, reason: Reason, offer: Offer, talk: Transcript) -> None:
    values = {"subgoal": "", "evidence": "", "capability": "", "decision": None, "skill": None, "next_action": ""}
    if found:
        skill = offer.find(found.skill) if found.skill else None
        values = {part: getattr(found, part) for part in values} | {
            "decision": str(found.decision),
            "skill": skill.skill_id if skill else None,
        }
    talk.note("assessment", reason=str(reason), **values)


def _check_is_due(talk: Transcript) -> bool:
    """After every CHECK_EVERY executed actions, once."""
    actions = talk.meter.actions
    checked = any(step["kind"] == "check" and step["actions"] == actions for step in talk.steps)
    return actions > 0 and actions % CHECK_EVERY == 0 and not checked


def _reason(talk: Transcript) -> Reason:
    """What the last action brought; a failure and new evidence force a fresh look, an action that was not run does neither."""
    last = next((step for step in reversed(talk.steps) if step["kind"] == "action"), None)
    if last is None:
        return Reason.START
    if last["status"] in ("error", "unknown_tool"):
        return Reason.FAILURE
    is_evidence = last["status"] == "ok" and last["tool"] != LOAD.name  # a loaded skill is guidance, not evidence
    return Reason.NEW_EVIDENCE if is_evidence else Reason.ROUTINE
