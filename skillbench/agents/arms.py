"""Arms: where an agent's skills come from, and how they are given. A source and a presentation make an arm; a config names both.

Sources: :class:`Nothing`, :class:`Ranked` (the top of a ranking, whatever method made it), :class:`Imagined` (a plan's pseudo
skills), :class:`Curated` (gold) and :class:`WithDistractors` (gold plus the best-ranked wrong skills). The last two say
``uses_gold``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from skillbench.agents.offers import Limits, Offer, make_offer
from skillbench.data.skill_md import parse_skill_md
from skillbench.errors import SkillbenchError
from skillbench.records import Failure, Plan, Ranking, Skill, Task

PRESENTATIONS = ("offered", "in_context")


@dataclass(frozen=True, slots=True)
class Found:
    """What a source may take skills from. ``curated`` is empty unless the arm uses gold; ``limit`` is the number that is
    offered.
    """

    skills: Mapping[str, Skill]
    limit: int
    seed: int
    rankings: Mapping[str, Ranking] = field(default_factory=lambda: MappingProxyType({}))
    plans: Mapping[str, Plan] = field(default_factory=lambda: MappingProxyType({}))
    curated: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))


Choice = tuple[tuple[Skill, ...], Failure | None]


class Source(Protocol):
    """Skills for a task, best first, or why there are none. The three flags say what must be made before: rankings, plans, gold."""

    needs_rankings: bool
    needs_plans: bool
    uses_gold: bool

    def choose(self, task: Task, found: Found) -> Choice:
        """Deterministic in task, found and its seed."""
        ...


class Nothing:
    """No skills at all."""

    needs_rankings = needs_plans = uses_gold = False

    def choose(self, task: Task, found: Found) -> Choice:
        """Nothing, by design and not by failure."""
        return (), None


class Ranked:
    """The top of the task's ranking."""

    needs_rankings, needs_plans, uses_gold = True, False, False

    def choose(self, task: Task, found: Found) -> Choice:
        """At most ``found.limit`` skills; a query that failed or matched nothing has none, with the reason."""
        ranking = found.rankings.get(task.query_id)
        if ranking is None:
            return (), Failure("rankings", "no ranking for this task's query")
        failure = ranking.failure or (None if ranking.skill_ids else Failure("rankings", "nothing matched the query"))
        return _named(ranking.skill_ids[: found.limit], found, "the ranking"), failure


class Imagined:
    """The pseudo skills of the task's plan, as the paper's arm that measures exactly that. Nothing is retrieved."""

    needs_rankings, needs_plans, uses_gold = False, True, False

    def choose(self, task: Task, found: Found) -> Choice:
        """The pseudo skills in order, with name and description from their front matter where they have one."""
        plan = found.plans.get(task.query_id)
        if plan is None or plan.failure is not None:
            return (), plan.failure if plan else Failure("plans", "no plan for this task's query")
        made = [_imagined(number, text, plan) for number, text in enumerate(plan.pseudo_skills[: found.limit])]
        return tuple(made), None if made else Failure("plans", "the plan holds no pseudo skill")


class Curated:
    """The task's gold skills, in the data set's order: an upper bound, not a retrieval result. All are given, whatever the
    limit.
    """

    needs_rankings, needs_plans, uses_gold = False, False, True

    def choose(self, task: Task, found: Found) -> Choice:
        """Raises SkillbenchError for a task without gold skills, because the arm would silently be another one."""
        return _named(_gold(task, found), found, "the gold"), None


class WithDistractors:
    """Gold skills plus hard negatives: the best-ranked skills that are not gold, up to the limit and at least one. The seed
    shuffles them.
    """

    needs_rankings, needs_plans, uses_gold = True, False, True

    def choose(self, task: Task, found: Found) -> Choice:
        """Gold and negatives in an order that depends on the seed and the task alone."""
        gold = _gold(task, found)
        ranked = found.rankings[task.query_id].skill_ids if task.query_id in found.rankings else ()
        negatives = [skill_id for skill_id in ranked if skill_id not in gold][: max(1, found.limit - len(gold))]
        chosen = [*gold, *negatives]
        random.Random(f"{found.seed}:{task.id}").shuffle(chosen)
        lost = found.rankings[task.query_id].failure if task.query_id in found.rankings else None
        failure = None if negatives else lost or Failure("rankings", "no ranked skill that is not gold, so there is no distractor")
        return _named(chosen, found, "the gold or the ranking"), failure


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm of a comparison.

    ``presented``: ``offered`` lists names and descriptions and lets the agent load; ``in_context`` shows all texts from the start.
    ``method`` is the retrieval method that the arm's name promises, "" where any will do. ``csi`` is the arm's default.
    """

    name: str
    source: Source
    presented: str
    method: str
    csi: bool

    def __post_init__(self) -> None:
        if self.presented not in PRESENTATIONS:
            raise SkillbenchError(f"arm.presented={self.presented!r} must be one of {', '.join(PRESENTATIONS)}")

    @property
    def can_load(self) -> bool:
        """Whether a load rate means anything: skills are offered, and their text is not there already."""
        return self.presented == "offered" and not isinstance(self.source, Nothing)

    def check_method(self, method: str, where: str) -> None:
        """Raises SkillbenchError when the rankings at hand were made by another method than the arm's name says."""
        if self.method and method != self.method and (self.source.needs_rankings or self.source.needs_plans):
            raise SkillbenchError(
                f"arm={self.name} means skills by method={self.method}, but {where} {method}; "
                f"use arm=retrieved for the skills of any method, or method={self.method}"
            )

    def offer(self, task: Task, found: Found, limits: Limits) -> Offer:
        """What the agent is given for ``task``."""
        skills, failure = self.source.choose(task, found)
        return make_offer(skills, limits, self.presented == "in_context", failure)


def _named(skill_ids: tuple[str, ...] | list[str], found: Found, where: str) -> tuple[Skill, ...]:
    missing = [skill_id for skill_id in skill_ids if skill_id not in found.skills]
    if missing:
        raise SkillbenchError(f"skill {missing[0]}, which {where} names, is not in the gallery")
    return tuple(found.skills[skill_id] for skill_id in skill_ids)


def _gold(task: Task, found: Found) -> tuple[str, ...]:
    gold = found.curated.get(task.query_id, ())
    if not gold:
        raise SkillbenchError(f"task {task.id} has no curated skills; choose another arm")
    return gold


def _imagined(number: int, text: str, plan: Plan) -> Skill:
    parsed = parse_skill_md(text.encode(), f"pseudo skill {number + 1} of query {plan.query_id}")
    capability = plan.capabilities[number] if number < len(plan.capabilities) else ""
    name = parsed.name or f"imagined-skill-{number + 1}"
    return Skill(f"pseudo-{number + 1}", name, parsed.description or capability, parsed.body.strip() or text)
