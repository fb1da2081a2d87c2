"""What may be submitted: one number, or a short text. A number is found and read by the judge's own rule
(:func:`skillbench.judging.answer_text.exact_numbers`), so what is accepted here is graded as the same number.
"""

from __future__ import annotations

import re

from skillbench.judging.answer_text import exact_numbers, final_answer
from skillbench.judging.numbers import numbers_in

MAX_ANSWER = 200  # characters

# A form that was copied from a prompt ("<your answer>"); "<1, 2>" and "(b)" are answers.
_PLACEHOLDER = re.compile(
    r"[<\[{(]+[^<>\[\]{}()\d]*\b(?:your|answer|number|value|result|solution|text|option|choice|input|here)\b[^<>\[\]{}()\d]*[>\]})]+"
    r"|your (?:final )?answer(?: here)?",
    re.IGNORECASE,
)


class AnswerError(Exception):
    """Why a text cannot be submitted. ``kind`` is one of ANSWER_KINDS; the message says how to mend it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


ANSWER_KINDS = ("empty_answer", "long_answer", "placeholder", "no_number", "several_numbers", "unclear_number")


def check_text(text: str) -> str:
    """``text`` without outer blanks, if it is neither empty nor long nor a placeholder. Raises AnswerError."""
    answer = text.strip()
    if not answer:
        raise AnswerError("empty_answer", "the answer is empty; submit the answer itself.")
    if len(answer) > MAX_ANSWER:
        raise AnswerError(
            "long_answer", f"the answer has {len(answer)} characters, at most {MAX_ANSWER} are taken; submit it alone."
        )
    if _PLACEHOLDER.fullmatch(answer.strip("`\"'*_ .")):
        raise AnswerError("placeholder", f"{_shown(answer)} stands for an answer and is none; submit the answer itself.")
    return answer


def check_number(text: str) -> str:
    """``text`` without outer blanks, if it answers with exactly one number (a unit may stand beside it). Raises AnswerError.

    Whether the number is right is not looked at and not known here.
    """
    answer = text.strip()
    if not answer:
        raise AnswerError("empty_answer", 'the answer is empty; submit the number, for example "62".')
    if len(answer) > MAX_ANSWER:
        raise AnswerError("long_answer", f'the answer has {len(answer)} characters; submit the number alone, for example "62".')
    place = final_answer(answer)
    graded = exact_numbers(place)
    found = graded if place.marked else numbers_in(place.whole, short=True)
    if not graded or graded[-1] is None:
        raise AnswerError("no_number", f'{_shown(answer)} holds no number; submit a number in digits, for example "62".')
    if len(found) > 1:
        raise AnswerError(
            "several_numbers",
            f'{_shown(answer)} holds {len(found)} numbers; work the result out and submit it alone, for example "62".',
        )
    if found != graded:  # lines that together say another number than the one that is graded
        raise AnswerError(
            "unclear_number", f'{_shown(answer)} can be read in two ways; submit the number alone on one line, for example "62".'
        )
    return answer


def _shown(answer: str) -> str:
    return f'"{answer[:60]}"'
