"""What finish takes: the number that is graded later, or a text that is no placeholder. Errors are typed and say how to mend it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbench.agents.actions import Action
from skillbench.agents.answer import ANSWER_KINDS, AnswerError, check_number, check_text
from skillbench.agents.arithmetic import Arithmetic
from skillbench.agents.calculator import Calculator
from skillbench.gold import Check
from skillbench.judging.answer_text import exact_numbers, final_answer
from skillbench.judging.graders import grade
from skillbench.records import Task


def kind_of(text: str, check: object = check_number) -> str:
    with pytest.raises(AnswerError) as caught:
        check(text)  # type: ignore[operator]
    assert caught.value.kind in ANSWER_KINDS
    return caught.value.kind


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("18", "18"),
        (" $18.00 ", "18"),
        ("18 dollars", "18"),
        ("18\ndollars", "18"),
        ("18\n(dollars)", "18"),
        ("18\n\nThank you", "18"),
        ("18\n.", "18"),
        ("#### 18", "18"),
        ("The answer is 18.", "18"),
        ("16 - 3 + 5, so the answer is 18", "18"),
        ("\\boxed{18} of 20", "18"),
        ("70k", "70000"),
        ("$70K", "70000"),
        ("70_000", "70000"),
        ("$1M", "1000000"),
        ("minus 3", "-3"),
        ("negative 3", "-3"),
        ("1 1/2", "1.5"),
    ],
)
def test_what_is_accepted_is_graded_as_the_same_number(text: str, gold: str) -> None:
    verdict = grade(check_number(text), Check("t", "exact_number", gold))
    assert (verdict.correct, verdict.reason) == (True, "equal")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty_answer"),
        ("1" * 201, "long_answer"),
        ("eighteen", "no_number"),
        ("1/0", "no_number"),
        ("7_00", "no_number"),
        ("<your answer>", "no_number"),
        ("\\boxed{none} 18", "no_number"),
        ("3 + 4 = 7", "several_numbers"),
        ("18\n20 dollars", "several_numbers"),
        ("The answer is 3 or 4", "several_numbers"),
        ("-\n3", "unclear_number"),
        ("3\n1/2", "unclear_number"),
    ],
)
def test_what_is_refused(text: str, kind: str) -> None:
    assert kind_of(text) == kind


PARTS = st.sampled_from(
    [
        "18",
        "-",
        "3",
        "1/2",
        ".",
        "\n",
        " ",
        "k",
        "M",
        "%",
        "$",
        "_000",
        ",000",
        "answer is",
        "####",
        "\\boxed{",
        "}",
        "minus ",
        "million",
    ]
)


@given(st.one_of(st.lists(PARTS, max_size=8).map("".join), st.text(max_size=40)))
@settings(max_examples=400, deadline=None)
def test_no_accepted_text_is_graded_as_anything_else(text: str) -> None:
    """The number of the accepted text, written as a plain fraction, is right for it."""
    try:
        accepted = check_number(text)
    except AnswerError as error:
        assert error.kind in ANSWER_KINDS
        return
    (number,) = exact_numbers(final_answer(accepted))
    assert number is not None
    gold = f"{number.value.numerator}/{number.value.denominator}{'%' if number.percent else ''}"
    assert grade(accepted, Check("t", "exact_number", gold)).correct


@pytest.mark.parametrize(
    "text",
    ["<your answer>", "< Your Answer >", "`<answer>`", "[your answer]", "{answer}", "<the final answer here>", "your answer"],
)
def test_a_placeholder_is_no_answer(text: str) -> None:
    assert kind_of(text, check_text) == "placeholder"


@pytest.mark.parametrize(
    "text", ["(b)", "<1, 2>", "<x>", "[2, 3, 4]", "{1, 2}", "yes", "number of ways: n!", "n!/(2^k)", "(17 weeks, 2 days)"]
)
def test_answers_of_any_kind_are_kept(text: str) -> None:
    assert check_text(f" {text}\n") == text


def test_the_environment_returns_a_typed_error_and_goes_on() -> None:
    calculator = Calculator(max_length=200, max_depth=30, max_parts=100, max_bits=1024)
    session = Arithmetic(name="questions", calculator=calculator, answers="text").start(Task("t", "q", "What?"))
    refused = session.run(Action("finish", "<your answer>"))
    assert (refused.error, refused.answer) == ("placeholder", None)
    assert "Nothing was submitted" in refused.text
    assert session.run(Action("finish", "(b)")).answer == "(b)"
