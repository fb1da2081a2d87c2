"""Where the answer stands in a reply, and what a number, a list, a date or a choice in it means."""

from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbench.judging.answer_text import (
    calendar_date,
    choice_number,
    final_answer,
    items,
    number,
    number_in,
    numbers,
    option_letter,
    plain_math,
    weeks_and_days,
    yes_no,
)

PLACES = [
    ("42", "42", False),
    ("First 7.\nThen 42.", "Then 42", False),
    ("Answer: 41\nNo, wait.\nAnswer: 42", "42", True),
    ("The answer is 41. Therefore, the answer is 42.", "42", True),
    ("**Final Answer:** 42", "42", True),
    ("### Answer\n42", "42", False),
    ("Answer:\n\n42\n", "42", True),
    ("\\boxed{41} and then\nANSWER: 42", "42", True),
    ("Answer: see \\boxed{42} above", "42", True),
    ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}", True),
    ("it costs 3\n#### 42", "42", True),
    ("<think>Answer: 41</think>Answer: 42", "42", True),
    ("draft 41</think>\n42", "42", False),
    ("<think>Answer: 41", "", False),
    ("", "", False),
    ("  \n \n", "", False),
    ("unanswered: 5", "unanswered: 5", False),
    ("18\n.", "18", False),
    ("Answer: .\n18", "18", True),
]


@pytest.mark.parametrize(("reply", "text", "marked"), PLACES)
def test_where_the_answer_stands(reply: str, text: str, marked: bool) -> None:
    """A02: a draft inside a reasoning block is never the answer, and an unclosed block leaves none."""
    answer = final_answer(reply)
    assert (answer.text, answer.marked) == (text, marked)


NUMBERS = [
    ("It is 72 pens, in all.", 72),
    ("8,000", 8000),
    ("$9{,}500", 9500),
    ("1,234,567.5", Fraction(2469135, 2)),
    ("10 000 kg", 10000),
    ("scores 3 4", 4),
    ("$29.00", 29),
    ("29.", 29),
    ("29 dollars", 29),
    ("USD 29", 29),
    ("2.9e1", 29),
    ("29%", Fraction(29, 100)),
    ("50 percent", Fraction(1, 2)),
    ("\u22123", -3),
    ("- 3", -3),
    ("5-3 = 2", 2),
    ("+4", 4),
    ("(3)", 3),
    ("1/2", Fraction(1, 2)),
    ("1 1/2", Fraction(3, 2)),
    ("1\\frac{1}{2}", Fraction(3, 2)),
    ("\\frac{2}{3}", Fraction(2, 3)),
    ("-\\frac{3}{2}", Fraction(-3, 2)),
    ("x = 5", 5),
    ("x = \\frac{1}{2} m", Fraction(1, 2)),
    ("25.2 mL/min/1.73 m^2", Fraction(126, 5)),
    ("9.6 m/s", Fraction(48, 5)),
    ("2.5 \\times 10^{-3} J", Fraction(1, 400)),
    ("9.18 × 10⁻³", Fraction(918, 100000)),
    ("10^{-36} C", Fraction(1, 10**36)),
    ("5 x 10^3", 5000),
    ("2^{10}", 1024),
    ("3!", 6),
    ("45^\\circ", 45),
    ("about 3.5 kg", Fraction(7, 2)),
    ("$\\approx 0.33$", Fraction(33, 100)),
    ("100 (i.e., all values)", 100),
    ("12-hour", 12),
    ("2.5 million", 2_500_000),
    ("It is 72 pens in 3 boxes", 72),
    ("so the total was about 72 (or 6 dozen)", 72),
    ("minus 3 m/s in 5 s", -3),
    ("0.5 (1/2)", Fraction(1, 2)),
    ("3 (10)", 30),
    ("25.2 mL/min per 1.73 m²", Fraction(126, 5)),
    ("GFR 25.2 mL/min/1.73 m²", Fraction(126, 5)),
    ("45/1.73", Fraction(4500, 173)),
]


@pytest.mark.parametrize(("text", "value"), NUMBERS)
def test_g01_g03_g04_numbers(text: str, value: int | Fraction) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "inf",
        "nan",
        "1/0",
        "3 or 4",
        "x = 3 or x = 4",
        "-5 to 5",
        "5-7",
        "5 ± 0.1",
        "n + 1",
        "1-x",
        "3^k",
        "x",
        "H2O",
        "none",
        "3, 4",
        "x = 3 or 4",
        "k is 3 or 4",
        "log_2 8",
        "the entropy, log_2 8",
        "2 log_2 8",
    ],
)
def test_what_is_no_number(text: str) -> None:
    assert number(text) is None


def test_the_percent_rule_both_ways() -> None:
    """G01: a percent sign divides by 100, or is a unit where the question asks for a percentage."""
    assert number("50%") == Fraction(1, 2)
    assert number("50%", percent="unit") == 50
    assert number("$7.5\\%$", percent="unit") == Fraction(15, 2)


def test_an_unmarked_last_line_without_digits_leaves_the_whole_reply() -> None:
    assert number_in(final_answer("It is 72.\nI hope this helps!")) == 72
    assert number_in(final_answer("Answer: unknown\n")) is None
    assert number_in(final_answer("It was 72.\nAnswer: unknown")) is None


LISTS = [
    ("[4, 1, 2, 0]", (4, 1, 2, 0)),
    ("(8,-14)", (8, -14)),
    ("{1, 4, 9}", (1, 4, 9)),
    ("1, 4 and 9", (1, 4, 9)),
    ("\\begin{bmatrix} 4 \\\\ 2 \\end{bmatrix}", (4, 2)),
    ("x=-1, y=4", (-1, 4)),
    ("4 -> 1 -> 2 -> 0", (4, 1, 2, 0)),
    ("0 → 5", (0, 5)),
    ("x = [1/3, 1/4]", (Fraction(1, 3), Fraction(1, 4))),
    ("The eigenvalues are [1, 6].", (1, 6)),
    ("$[0, 5]$", (0, 5)),
    ("[0.333, 0.25]", (Fraction(333, 1000), Fraction(1, 4))),
    ("7", (7,)),
    ("[1,000, 2,000]", (1000, 2000)),
    ("[1,234]", (1, 234)),
    ("[0,100, 5]", (0, 100, 5)),
]


@pytest.mark.parametrize(("text", "values"), LISTS)
def test_lists(text: str, values: tuple[int, ...]) -> None:
    assert numbers(text) == values


@pytest.mark.parametrize("text", ["", "[]", "[a, b]", "[1, two]", "none"])
def test_what_is_no_list(text: str) -> None:
    assert numbers(text) is None


def test_items_stay_whole_inside_brackets() -> None:
    assert items("C(n, 2), (1, 2) and x") == ["C(n, 2)", "(1, 2)", "x"]
    assert items("sandbox") == ["sandbox"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("True", True),
        ("no", False),
        ("**Yes**, because it is not true that it fails", True),
        ("not true", False),
        ("(yes)", True),
        ("cannot", None),
        ("yes or no", None),
        ("it is true, it is false", None),
        ("nothing", None),
    ],
)
def test_yes_and_no(text: str, value: bool | None) -> None:
    assert yes_no(text) is value


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("(c)", "c"),
        ("C)", "c"),
        ("c", "c"),
        ("B.", "b"),
        ("option d", "d"),
        ("The correct option is (a)", "a"),
        ("(b) since (a) fails", "b"),
        ("(a) or (b)", None),
        ("a good one", None),
        ("$(d)$", "d"),
    ],
)
def test_options(text: str, letter: str | None) -> None:
    assert option_letter(text) == letter


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("choice_3", 3),
        ("Choice 3: he stays", 3),
        ("choice\\_2", 2),
        ("3", 3),
        ("(4)", 4),
        ("option 1", 1),
        ("choice_1 or choice_2", None),
        ("choice_1, since choice_2 fails", 1),
        ("he stays", None),
    ],
)
def test_choices(text: str, chosen: int | None) -> None:
    assert choice_number(text) == chosen


@pytest.mark.parametrize(
    "text", ["05/03/2020", "5/3/2020", "2020-05-03", "May 3, 2020", "3rd May 2020", "It is 05/03/2020.", "03 May 2020"]
)
def test_dates_are_month_first(text: str) -> None:
    assert calendar_date(text) == date(2020, 5, 3)


@pytest.mark.parametrize("text", ["13/45/2020", "05/03/2020 or 05/04/2020", "2020", "May", ""])
def test_what_is_no_date(text: str) -> None:
    assert calendar_date(text) is None


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("('17 weeks', '2 days')", (17, 2)),
        ("17 weeks and 2 days", (17, 2)),
        ("17w2d", (17, 2)),
        ("(17, 2)", (17, 2)),
        ("17 weeks", (17, 0)),
        ("17 weeks, 9 days", None),
        ("119 days", None),
    ],
)
def test_weeks_and_days(text: str, age: tuple[int, int] | None) -> None:
    assert weeks_and_days(text) == age


@pytest.mark.parametrize(
    ("latex", "plain"),
    [
        ("\\frac{n(n-3)}{2}", "((n(n-3))/(2))"),
        ("\\dfrac12", "((1)/(2))"),
        ("\\binom{n+1}{2m+1}", "C(n+1,2m+1)"),
        ("2^{\\lfloor n/2 \\rfloor}", "2^(floor( n/2 ))"),
        ("\\sqrt{3}", "sqrt(3)"),
        ("\\sqrt[3]{8}", "((8)^(1/(3)))"),
        ("x²", "x^(2)"),
        ("\\text{yes}", "yes"),
        ("a_{1}", "a_1"),
    ],
)
def test_latex_in_plain_text(latex: str, plain: str) -> None:
    assert plain_math(latex) == plain


@given(st.text(max_size=200))
def test_no_reader_raises(text: str) -> None:
    answer = final_answer(text)
    for read in (number, numbers, yes_no, option_letter, choice_number, calendar_date, weeks_and_days, plain_math):
        read(answer.text)
    number_in(answer)


@given(
    st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=1000),
    st.sampled_from(["{}", "Answer: {}", "\\boxed{{{}}}", "so x = {}", "The final answer is **{}**."]),
)
def test_a_fraction_survives_every_place(value: Fraction, place: str) -> None:
    assert number_in(final_answer(place.format(value))) == value


@given(st.integers(-(10**12), 10**12))
def test_separators_and_signs_do_not_change_a_number(value: int) -> None:
    for text in (
        f"{value:,}",
        f"{value:,}".replace(",", "{,}"),
        f"${value}$",
        f"{value}.0",
        str(value).replace("-", "\u2212"),
        f"{value:,} dollars",
    ):
        assert number(text) == value, text
