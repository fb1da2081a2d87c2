"""Graders of question answering: pure functions from a prediction and a :class:`Check` to a :class:`Verdict`.

A check names its grader; :func:`grade` looks the name up in one table. Where the answer stands in the prediction is decided by one
rule for all (:func:`skillbench.judging.answer_text.final_answer`). A gold answer that its grader cannot read is an error, never a
wrong answer.

| grader | right is | options |
|---|---|---|
| ``exact_number`` | the same number, to one part in 10^9 | ``percent``: ``hundredth`` (10 % is 0.1) or ``unit`` (10 % is 10) |
| ``integer`` | the same whole number; arithmetic counts by its value | |
| ``number`` | within ``rel_tol`` of gold (of gold's size; 0 needs 0) | ``rel_tol``, ``percent``, ``scale``: the question's unit |
| ``number_list`` | as many numbers, pairwise within ``rel_tol`` (whole gold numbers exactly) | ``rel_tol``, ``ordered`` |
| ``boolean`` | true/yes or false/no | |
| ``option`` | the letter | |
| ``choice`` | ``choice_N``, its number, or its text | ``choice_1`` …: the texts |
| ``range`` | within ``lower`` and ``upper``, ends included | ``lower``, ``upper`` |
| ``date`` | the same day | |
| ``weeks_days`` | the same weeks and days | |
| ``free_form`` | see :mod:`skillbench.judging.free_form` | |

TheoremQA's own grader rounds a prediction before it compares it with a whole number, allows 4 % on others, and sorts both lists.
The tolerance and the sorting are kept (``rel_tol=0.04``, ``ordered=false``: [6, -1] equals [-1, 6], also where the question asks
for an order); the rounding is not: 17.6 is not 18.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TypeVar

from skillbench.errors import SkillbenchError
from skillbench.gold import Check
from skillbench.judging import answer_text
from skillbench.judging.answer_text import Answer, PercentRule, final_answer
from skillbench.judging.expressions import Value, close
from skillbench.judging.free_form import match_free_form
from skillbench.judging.numbers import same_number


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a prediction is right, why (``equal``, ``different``, ``no answer``, ``not a …``), and what was read as it."""

    correct: bool
    reason: str
    parsed: str


T = TypeVar("T")
Grader = Callable[[Answer, Check], Verdict]


def grade(prediction: str | None, check: Check) -> Verdict:
    """Grade one prediction. ``None`` and blank text are "no answer", which is wrong.

    Raises SkillbenchError for a grader that does not exist, and for gold that its grader cannot read.
    """
    grader = _GRADERS.get(check.grader)
    if grader is None:
        raise SkillbenchError(
            f"check of task {check.task_id}: there is no grader {check.grader!r}; there are {', '.join(sorted(_GRADERS))}"
        )
    answer = final_answer(prediction or "")
    return grader(answer, check) if answer.text else Verdict(False, "no answer", "")


def check_gold(check: Check) -> Check:
    """``check``, if its own gold answer is right by its own grader. Raises SkillbenchError otherwise."""
    verdict = grade(check.answer, check)
    if not verdict.correct:
        raise SkillbenchError(
            f"check of task {check.task_id}: gold answer {check.answer!r} fails its own grader {check.grader} ({verdict.reason})"
        )
    return check


def _bad_gold(check: Check, what: str) -> SkillbenchError:
    return SkillbenchError(
        f"check of task {check.task_id}: the gold answer {check.answer!r} is not {what}, which grader {check.grader} needs"
    )


def _verdict(correct: bool, parsed: str) -> Verdict:
    return Verdict(correct, "equal" if correct else "different", parsed)


def _shown(value: Value) -> str:
    return str(value.numerator) if isinstance(value, Fraction) and value.denominator == 1 else f"{float(value):.12g}"


def _option(check: Check, name: str) -> str:
    if name not in check.options:
        raise SkillbenchError(f"check of task {check.task_id}: grader {check.grader} needs the option {name}")
    return check.options[name]


def _gold_number(check: Check, text: str) -> Value:
    value = answer_text.number(text)
    if value is None:
        raise _bad_gold(check, "a number")
    return value


def _exact_number(answer: Answer, check: Check) -> Verdict:
    """By :func:`skillbench.judging.answer_text.exact_numbers`, by which an arithmetic environment also accepts an answer."""
    gold, value = ((answer_text.exact_numbers(a) or [None])[-1] for a in (final_answer(check.answer), answer))
    if gold is None:
        raise _bad_gold(check, "a number")
    if value is None:
        return Verdict(False, "not a number", answer.text)
    return _verdict(same_number(gold, value, check.options.get("percent", "hundredth")), _shown(value.value))


def _integer(answer: Answer, check: Check) -> Verdict:
    gold, value = _gold_number(check, check.answer), answer_text.number_in(answer)
    if value is None:
        return Verdict(False, "not a number", answer.text)
    return _verdict(close(gold, value, 1e-9), _shown(value))


def _number(answer: Answer, check: Check) -> Verdict:
    percent: PercentRule = "unit" if check.options.get("percent") == "unit" else "hundredth"
    gold, value = _gold_number(check, check.answer), answer_text.number_in(answer, percent, check.options.get("scale", ""))
    if value is None:
        return Verdict(False, "not a number", answer.text)
    return _verdict(_within(gold, value, float(_option(check, "rel_tol"))), _shown(value))


def _within(gold: Value, value: Value, rel_tol: float) -> bool:
    """``|value - gold| <= rel_tol * |gold|``: relative to gold alone, so that a tolerance does not grow with a wild prediction."""
    if not gold:
        return close(gold, value, 0.0)
    try:
        return abs(float(value) - float(gold)) <= rel_tol * abs(float(gold)) * (1 + 1e-12)
    except OverflowError:
        return False


def _number_list(answer: Answer, check: Check) -> Verdict:
    gold = answer_text.numbers(check.answer)
    if gold is None:
        raise _bad_gold(check, "a list of numbers")
    values = answer_text.numbers(answer.text)
    if values is None:
        return Verdict(False, "not a list of numbers", answer.text)
    parsed = f"[{', '.join(map(_shown, values))}]"
    if len(values) != len(gold):
        return Verdict(False, f"{len(values)} numbers, {len(gold)} expected", parsed)
    in_order = check.options.get("ordered", "true") == "true"
    pairs = zip(gold, values, strict=True) if in_order else zip(sorted(gold), sorted(values), strict=True)
    tolerance = float(_option(check, "rel_tol"))
    return _verdict(all(_same_item(g, v, tolerance) for g, v in pairs), parsed)


def _same_item(gold: Value, value: Value, rel_tol: float) -> bool:
    whole = isinstance(gold, Fraction) and gold.denominator == 1
    return close(gold, value, 1e-9) if whole else _within(gold, value, rel_tol)


def _boolean(answer: Answer, check: Check) -> Verdict:
    gold, value = answer_text.yes_no(check.answer), _first_of(answer, answer_text.yes_no)
    if gold is None:
        raise _bad_gold(check, "yes, no, true or false")
    return _verdict(gold is value, str(value).lower()) if value is not None else Verdict(False, "not a yes or a no", answer.text)


def _first_of(answer: Answer, read: Callable[[str], T | None]) -> T | None:
    """What the answer's line says; where no marker named it and it says nothing, what the reply says without contradiction."""
    value = read(answer.text)
    return read(answer.whole) if value is None and not answer.marked else value


def _letter(answer: Answer, check: Check) -> Verdict:
    gold, letter = answer_text.option_letter(check.answer), _first_of(answer, answer_text.option_letter)
    if gold is None:
        raise _bad_gold(check, "an option such as (a)")
    return _verdict(gold == letter, letter) if letter is not None else Verdict(False, "not one option", answer.text)


def _choice(answer: Answer, check: Check) -> Verdict:
    gold = answer_text.choice_number(check.answer)
    if gold is None:
        raise _bad_gold(check, "a choice such as choice_1")
    number = _first_of(answer, answer_text.choice_number)
    if number is None:
        number = _by_text(answer.text, check.options)
    return _verdict(gold == number, f"choice_{number}") if number is not None else Verdict(False, "not one choice", answer.text)


def _by_text(text: str, options: Mapping[str, str]) -> int | None:
    """The number of the only choice whose text the answer repeats."""
    said = _words(text)
    found = [int(key.rpartition("_")[2]) for key, words in options.items() if key.startswith("choice_") and _words(words) == said]
    return found[0] if len(found) == 1 else None


def _words(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


def _range(answer: Answer, check: Check) -> Verdict:
    ends = sorted(_gold_number(check, _option(check, end)) for end in ("lower", "upper"))
    value = answer_text.number_in(answer, percent="unit")  # the question names the unit, percent included
    if value is None:
        return Verdict(False, "not a number", answer.text)
    if ends[0] <= value <= ends[1]:
        return Verdict(True, "within the range", _shown(value))
    return Verdict(False, "outside the range", _shown(value))


def _date(answer: Answer, check: Check) -> Verdict:
    gold, day = answer_text.calendar_date(check.answer), _first_of(answer, answer_text.calendar_date)
    if gold is None:
        raise _bad_gold(check, "a date (MM/DD/YYYY)")
    return _verdict(gold == day, day.isoformat()) if day is not None else Verdict(False, "not one date", answer.text)


def _weeks_days(answer: Answer, check: Check) -> Verdict:
    gold, age = answer_text.weeks_and_days(check.answer), _first_of(answer, answer_text.weeks_and_days)
    if gold is None:
        raise _bad_gold(check, "weeks and days")
    return (
        _verdict(gold == age, f"{age[0]} weeks {age[1]} days")
        if age is not None
        else Verdict(False, "not weeks and days", answer.text)
    )


def _free_form(answer: Answer, check: Check) -> Verdict:
    match = match_free_form(check.answer, answer.text)
    return Verdict(match.equal, f"{'equal' if match.equal else 'different'} ({match.kind})", answer.text)


_GRADERS: Mapping[str, Grader] = MappingProxyType(
    {
        "integer": _integer,
        "number": _number,
        "exact_number": _exact_number,
        "number_list": _number_list,
        "boolean": _boolean,
        "option": _letter,
        "choice": _choice,
        "range": _range,
        "date": _date,
        "weeks_days": _weeks_days,
        "free_form": _free_form,
    }
)
