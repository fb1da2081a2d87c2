"""The number parser: one rule for gold and prediction, a table of verdicts, and FIELD-FAULTS G01, G03, G04."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbench.gold import Check
from skillbench.judging.graders import grade
from skillbench.judging.numbers import Number, numbers_in, parse_number, same_number

YES, NO = True, False

# (gold, prediction, percent rule, right?)
TABLE = [
    # G01: separators, currency, units, full stop
    ("29", "$29.00", "hundredth", YES),
    ("29", "29.", "hundredth", YES),
    ("29", "29 dollars", "hundredth", YES),
    ("29", "USD 29", "hundredth", YES),
    ("29", "29.0", "hundredth", YES),
    ("29", "2.9e1", "hundredth", YES),
    ("29", "129", "hundredth", NO),
    ("29", "29%", "hundredth", NO),
    ("29", "29%", "unit", YES),
    ("0.5", "50%", "hundredth", YES),
    ("0.5", "50%", "unit", NO),
    ("50%", "0.5", "hundredth", YES),
    ("50%", "50 percent", "hundredth", YES),
    ("60", "60 per cent", "unit", YES),
    ("60", "60 \\%", "unit", YES),
    ("60", "0.6", "unit", NO),
    ("60", "60pct", "unit", YES),
    ("72", "It is 72 pens, in all.", "hundredth", YES),
    ("8000", "\\boxed{8,000}", "hundredth", YES),
    ("9500", "\\boxed{$9{,}500}", "hundredth", YES),
    ("1234", "#### 1,234", "hundredth", YES),
    ("4", "scores 3 4", "hundredth", YES),
    ("34", "scores 3 4", "hundredth", NO),
    ("8000", "000", "hundredth", NO),
    ("8000", "8\u202f000", "hundredth", YES),
    ("8000", "8\u00a0000", "hundredth", YES),
    ("8000", "8\\,000", "hundredth", YES),
    ("1234567", "1,234,567", "hundredth", YES),
    ("1234567.5", "$1,234,567.50", "hundredth", YES),
    ("29", "USD29", "hundredth", YES),
    ("29", "US$29", "hundredth", YES),
    ("29", "\u20ac 29", "hundredth", YES),
    ("29", "\u00a329.00", "hundredth", YES),
    ("29", "Rs. 29", "hundredth", YES),
    ("29", "29 EUR", "hundredth", YES),
    ("29", "**29**", "hundredth", YES),
    ("29", "`29`", "hundredth", YES),
    ("29", "x = 29", "hundredth", YES),
    ("29", "(29)", "hundredth", YES),
    ("29", "29!", "hundredth", YES),
    ("29", "29, as required", "hundredth", YES),
    ("29", "twenty-nine", "hundredth", NO),
    ("29", "", "hundredth", NO),
    ("29", "   ", "hundredth", NO),
    ("29", "no number", "hundredth", NO),
    ("29", "291", "hundredth", NO),
    ("29", "2 9", "hundredth", NO),
    ("29", "29 out of 30", "hundredth", NO),
    ("30", "29 out of 30", "hundredth", YES),
    ("29", "room H29", "hundredth", NO),
    ("29", "29kg", "hundredth", YES),
    ("29", "29 cm^2", "hundredth", YES),
    ("29", "29 m^{3}", "hundredth", YES),
    ("29", "29 m\u00b2", "hundredth", YES),
    ("60", "60 miles/hour", "hundredth", YES),
    ("5", "$5/hour", "hundredth", YES),
    ("2500000", "$2.5 million", "hundredth", YES),
    ("2500", "2.5 thousand", "hundredth", YES),
    ("2", "2 millionaires", "hundredth", YES),
    ("5000", "5k", "hundredth", YES),
    ("5", "5k", "hundredth", NO),
    ("70000", "$70K", "hundredth", YES),
    ("70000", "70K dollars", "hundredth", YES),
    ("70000", "70 k", "hundredth", YES),
    ("70", "70k", "hundredth", NO),
    ("1000000", "$1M", "hundredth", YES),
    ("1500000", "1.5M", "hundredth", YES),
    ("2500000000", "$2.5bn", "hundredth", YES),
    ("5000000", "$5m", "hundredth", YES),
    ("5", "5m", "hundredth", YES),  # metres
    ("5", "$5 m$", "hundredth", YES),  # metres in LaTeX
    ("5", "5 km", "hundredth", YES),
    ("5", "5kg", "hundredth", YES),
    ("-70000", "-$70k", "hundredth", YES),
    ("70000", "70_000", "hundredth", YES),
    ("70", "70_000", "hundredth", NO),
    ("1234567", "1_234_567", "hundredth", YES),
    ("7", "7_00", "hundredth", NO),
    ("700", "7_00", "hundredth", NO),
    ("0.29", ".29", "hundredth", YES),
    ("1.2", "version 1.2", "hundredth", YES),
    ("2024", "12/25/2024", "hundredth", YES),
    # where the answer stands
    ("18", "She has 16 - 3 - 4 = <<16-3-4=9>>9 eggs.\n#### 18", "hundredth", YES),
    ("18", "#### 9\nno, wait\n#### 18", "hundredth", YES),
    ("18", "#### 18\nThat took 3 steps.", "hundredth", YES),
    ("18", "####", "hundredth", NO),
    ("18", "#### none\n18", "hundredth", NO),
    ("18", "\\boxed{18} after 2 steps", "hundredth", YES),
    ("18", "\\boxed{9} and then \\boxed{18}", "hundredth", YES),
    ("18", "\\boxed{\\text{18 eggs}}", "hundredth", YES),
    ("18", "\\fbox{18} of 20", "hundredth", YES),
    ("18", "\\boxed{18", "hundredth", YES),
    ("0.5", "\\boxed{\\frac{1}{2}}", "hundredth", YES),
    ("18", "18\n\n", "hundredth", YES),
    ("18", "18\ndollars", "hundredth", YES),
    ("18", "18\n(dollars)", "hundredth", YES),
    ("18", "18\n\nThank you", "hundredth", YES),
    ("18", "18\n.", "hundredth", YES),
    ("18", "Answer: none\n18", "hundredth", NO),
    ("9", "18 in all\n9 in each box", "hundredth", YES),
    ("18", "18 in all\n9 in each box", "hundredth", NO),
    # G03: signs
    ("#### -3", "-3", "hundredth", YES),
    ("#### -3", "\u22123", "hundredth", YES),
    ("#### -3", "- 3", "hundredth", YES),
    ("#### -3", "3", "hundredth", NO),
    ("#### -3", "\u20133", "hundredth", YES),
    ("#### -3", "-$3", "hundredth", YES),
    ("#### -3", "$-3", "hundredth", YES),
    ("#### -3", "-$ 3.00", "hundredth", YES),
    ("#### -3", "USD -3", "hundredth", YES),
    ("#### -3", "the answer is -3", "hundredth", YES),
    ("#### -3", "answer: - 3", "hundredth", YES),
    ("#### -3", "x = -3.", "hundredth", YES),
    ("#### -3", "(-3)", "hundredth", YES),
    ("2", "5-3 = 2", "hundredth", YES),
    ("3", "5-3", "hundredth", YES),
    ("-3", "5-3", "hundredth", NO),
    ("3", "5 - 3", "hundredth", YES),
    ("3", "(2+6)-3", "hundredth", YES),
    ("3", "50%-3", "hundredth", YES),
    ("4", "+4", "hundredth", YES),
    ("3", "(3)", "hundredth", YES),
    ("-3", "(3)", "hundredth", NO),
    ("-3", "minus 3", "hundredth", YES),
    ("3", "minus 3", "hundredth", NO),
    ("-3", "negative 3", "hundredth", YES),
    ("-3", "Negative $3", "hundredth", YES),
    ("-3", "The balance is minus 3 dollars", "hundredth", YES),
    ("-3", "x = minus 3", "hundredth", YES),
    ("3", "5 minus 3", "hundredth", YES),
    ("3", "the total minus 3", "hundredth", YES),
    ("3", "non-negative 3", "hundredth", YES),
    ("19", "COVID-19", "hundredth", YES),
    ("3", "the total - 3", "hundredth", YES),
    ("5", "3\u20135", "hundredth", YES),
    ("0", "-0", "hundredth", YES),
    # G04: fractions, mixed numbers, near values
    ("1/2", "0.5", "hundredth", YES),
    ("3/6", "1/2", "hundredth", YES),
    ("1 1/2", "1.5", "hundredth", YES),
    ("\\frac{2}{3}", "2/3", "hundredth", YES),
    ("0.333", "1/3", "hundredth", NO),
    ("1e-9", "2e-9", "hundredth", NO),
    ("1000000.4", "1000000", "hundredth", NO),
    ("1/2", "1", "hundredth", NO),
    ("1/2", "2", "hundredth", NO),
    ("1/2", "1 / 2", "hundredth", YES),
    ("1/2", "\u00bd", "hundredth", YES),
    ("3/2", "1\u00bd", "hundredth", YES),
    ("3/2", "1\\frac{1}{2}", "hundredth", YES),
    ("-2/3", "-\\frac{2}{3}", "hundredth", YES),
    ("-2/3", "-2/3", "hundredth", YES),
    ("-3/2", "-1 1/2", "hundredth", YES),
    ("2/3", "\\dfrac{2}{3}", "hundredth", YES),
    ("1/3", "0.33333333333", "hundredth", YES),
    ("1/3", "0.3333", "hundredth", NO),
    ("0", "1e-12", "hundredth", NO),
    ("0", "0.0", "hundredth", YES),
    ("29", "inf", "hundredth", NO),
    ("29", "nan", "hundredth", NO),
    ("29", "1/0", "hundredth", NO),
    ("29", "29 or 1/0", "hundredth", NO),
    ("29", "2.9 x 10^1", "hundredth", YES),
    ("29", "2.9 \\times 10^{1}", "hundredth", YES),
    ("0.0029", "2.9 \u00d7 10^{-3}", "hundredth", YES),
    ("29", "2.9E+1", "hundredth", YES),
    ("29", "1e999", "hundredth", NO),
    ("1e20", "100000000000000000000", "hundredth", YES),
    ("1e20", "100000000000000000001", "hundredth", YES),
    ("0.1", "0.1000000000000000055", "hundredth", YES),
    ("3.8", "3 4/5", "hundredth", YES),
    ("2", "3 4/2", "hundredth", YES),
]


@pytest.mark.parametrize(("gold", "prediction", "percent", "right"), TABLE)
def test_table_g01_g03_g04(gold: str, prediction: str, percent: str, right: bool) -> None:
    """Through the grader, which finds the answer's place and reads the number."""
    assert grade(prediction, Check("t", "exact_number", gold, {"percent": percent})).correct is right


def test_the_table_is_large_enough() -> None:
    assert len(TABLE) >= 120 and len(set(TABLE)) == len(TABLE)
    assert sum(row[3] for row in TABLE) >= 60 and sum(not row[3] for row in TABLE) >= 30


@pytest.mark.parametrize("text", ["inf", "nan", "1/0", "-inf", "Infinity", "1e999", "9" * 401, "", "\ud800"])
def test_what_is_no_answer_g04(text: str) -> None:
    assert parse_number(text) is None


def test_values_are_exact() -> None:
    assert parse_number("0.1") == Number(Fraction(1, 10))
    assert parse_number("1/3 %") == Number(Fraction(1, 3), percent=True)
    assert [n and n.value for n in numbers_in("2, -3 and 4/0 of 1 1/2")] == [2, -3, None, Fraction(3, 2)]


def test_short_scales_are_units_outside_word_problems_unless_money_is_meant() -> None:
    for text, value in (("300 K", 300), ("0.5 M", Fraction(1, 2)), ("70k", 70), ("$70K", 70_000), ("USD 3.6M", 3_600_000)):
        found = parse_number(text)
        assert found is not None and found.value == value, text
    assert [n and (n.value, n.scale) for n in numbers_in("70k and 2.5 million", short=True)] == [
        (70_000, "thousand"),
        (2_500_000, "million"),
    ]


def test_a_rule_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="percent rule"):
        same_number(Number(Fraction(1)), Number(Fraction(1)), "ratio")


@given(st.integers(-(10**12), 10**12))
@settings(deadline=None)
def test_whole_numbers_in_any_dress(value: int) -> None:
    for text in (
        f"{value}",
        f"{value:,}",
        f"{value}.0",
        f"#### {value:,}",
        f"\\boxed{{{value}}}",
        f"The answer is {value}.",
        f"${value:,}",
    ):
        found = parse_number(text)
        assert found is not None and found.value == value, text


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6))
@settings(deadline=None)
def test_fractions_and_their_decimals(top: int, below: int) -> None:
    found = parse_number(f"{top}/{below}")
    assert found is not None and found.value == Fraction(top, below)
    decimal = parse_number(f"{top / below:.15f}")
    assert decimal is not None
    if abs(top / below) > 1e-3:
        assert same_number(found, decimal)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
@settings(deadline=None)
def test_python_floats_are_read_as_they_are_written(value: float) -> None:
    found = parse_number(repr(value))
    assert found is not None and float(found.value) == value


@given(st.floats(min_value=1e-200, max_value=1e200), st.floats(-1e-6, 1e-6))
@settings(deadline=None)
def test_tolerance_is_relative_and_symmetric(value: float, gap: float) -> None:
    a, b = Number(Fraction(value)), Number(Fraction(value) * (1 + Fraction(gap)))
    assert same_number(a, b) is same_number(b, a)
    if not math.isclose(abs(gap), 1e-9, rel_tol=1e-3):
        assert same_number(a, b) is (abs(gap) <= 1e-9)


@given(st.text(max_size=200))
@settings(deadline=None)
def test_any_text_gives_a_number_or_none(text: str) -> None:
    found = parse_number(text)
    assert found is None or isinstance(found.value, Fraction)


@pytest.mark.parametrize(
    "text", ["1 " * 5000, "1," * 5000, "1" * 10_000, "\\frac{" * 3000, "(" * 10_000, "1/" * 5000, "-" * 10_000, "1" + " " * 9000]
)
def test_hostile_lengths_take_no_time(text: str) -> None:
    started = time.thread_time()
    parse_number(text)
    assert time.thread_time() - started < 1.0
