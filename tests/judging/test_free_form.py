"""CHAMP's free-form answers: every form that its gold answers take, right and wrong predictions of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbench.judging.free_form import match_free_form

RIGHT = [
    ("239", "239 strings", "number"),
    ("2001000", "2,001,000", "number"),
    ("3/2", "1.5", "number"),
    ("sqrt(3)/3, or equivalently 1/sqrt(3)", "\\frac{\\sqrt{3}}{3}", "number"),
    ("sqrt(3)", "1.7321", "number"),
    ("C(10, 5), or equivalently 252", "252", "number"),
    ("(20*10^15-2)/17, or equivalently 1176470588235294", "1176470588235294", "number"),
    ("5/14, or approximately 35.7%", "0.357", "number"),
    ("5/14, or approximately 35.7%", "10/28", "number"),
    ("100 (i.e., all values)", "100", "number"),
    ("98 values", "98", "number"),
    ("2 inequalities", "2", "number"),
    ("0 pairs", "0", "number"),
    ("At least 1 number", "at least 1", "number"),
    ("At most 0 values (i.e., no such values)", "0", "number"),
    ("0 is the only possible value", "0", "number"),
    ("The only possible value for the limit is 4", "4", "number"),
    ("The limit exists and is equal to 2/3", "the limit is 2/3", "number"),
    ("f(x)=0", "0", "number"),
    ("2^n", "$2^{n}$", "formulas"),
    ("2^n", "We get 2^n.", "formulas"),
    ("n(n+1)*2^(n-2)", "n(n+1)2^{n-2}", "formulas"),
    ("n!", "n! ways", "formulas"),
    ("n(n-3)/2", "\\frac{n(n-3)}{2}", "formulas"),
    ("C(n, 4), or an equivalent form such as n(n-1)(n-2)(n-3)/4!", "n(n-1)(n-2)(n-3)/24", "formulas"),
    ("sum_(k=1)^n 1/k", "\\sum_{k=1}^{n} \\frac{1}{k}", "formulas"),
    ("2^floor(n/2)*floor(n/2)!", "2^{\\lfloor n/2 \\rfloor} \\cdot \\lfloor n/2 \\rfloor!", "formulas"),
    ("((-1)^(n+1)+n+1)/(n+2) (i.e., 1 if for odd n, and n/(n+2) for even n)", "(n+1-(-1)^n)/(n+2)", "formulas"),
    ("a(1±sqrt(2)), a(1±sqrt(5))/2", "a(1+√2), a(1-√2), a(1+√5)/2, a(1-√5)/2", "formulas"),
    ("(x^2+x+1)(x^2-x+1)", "x^4+x^2+1", "formulas"),
    ("376 and 625", "625, 376", "formulas"),
    ("1, 4 and 9", "{1,4,9}", "formulas"),
    ("Yes", "Yes, always", "yes_no"),
    ("No", "No, it is impossible", "yes_no"),
    ("No integer solutions", "There are no integer solutions.", "nothing"),
    ("No such values", "none", "nothing"),
    ("The limit does not exist", "The limit does not exist", "nothing"),
    ("x=2, y=1", "(2, 1)", "solutions"),
    ("x=2, y=1", "y = 1, x = 2", "solutions"),
    ("x=0, y=2 and x=9, y=11", "(x,y) = (9, 11) or (0, 2)", "solutions"),
    ("x=0, y=2 and x=9, y=11", "(y, x) = (11, 9), (2, 0)", "solutions"),
    ("(x=8, y=2), (x=2, y=8)", "x=2, y=8 or x=8, y=2", "solutions"),
    ("x=±1, ±2, ±1/2", "1, -1, 2, -2, 0.5, -0.5", "solutions"),
    ("[-1, 1]", "-1 ≤ x ≤ 1", "interval"),
    ("Monotonically increasing", "monotonically increasing", "text"),
    ("x(x-1)(x-2)...(x-2022)", "x (x-1)(x-2) ... (x-2022)", "text"),
]


@pytest.mark.parametrize(("gold", "prediction", "kind"), RIGHT)
def test_right_answers(gold: str, prediction: str, kind: str) -> None:
    match = match_free_form(gold, prediction)
    assert (match.equal, match.kind) == (True, kind)


WRONG = [
    ("239", "240"),
    ("239", "239.4"),
    ("239", "239 or 240"),
    ("1/3", "0.333"),
    ("4", "x=3 or x=4"),
    ("5/14, or approximately 35.7%", "0.36"),
    ("5/14, or approximately 35.7%", "35.7"),
    ("100 (i.e., all values)", "all values"),
    ("0 is the only possible value", "0 and 1"),
    ("2^n", "2^n - 1"),
    ("2^n", "2n"),
    ("4^n", "4^k"),
    ("1, 4 and 9", "1, 4"),
    ("1, 4 and 9", "1, 4, 9, 16"),
    ("Yes", "No"),
    ("No", "0"),
    ("No integer solutions", "x=1"),
    ("No integer solutions", "0"),
    ("x=2, y=1", "x=1, y=2"),
    ("x=2, y=1", "(1, 2)"),
    ("x=0, y=2 and x=9, y=11", "x=0, y=2"),
    ("x=0, y=2 and x=9, y=11", "(0, 2, 9)"),
    ("[-1, 1]", "(-1, 1)"),
    ("[-1, 1]", "[-1, 2]"),
    ("[-1, 1]", "1"),
    ("Monotonically increasing", "Monotonically decreasing"),
    ("3/2", "no such value"),
]


@pytest.mark.parametrize(("gold", "prediction"), WRONG)
def test_wrong_answers(gold: str, prediction: str) -> None:
    assert not match_free_form(gold, prediction).equal


@given(st.sampled_from([gold for gold, _, _ in RIGHT]), st.text(max_size=80))
def test_any_prediction_is_read_without_an_exception(gold: str, prediction: str) -> None:
    match_free_form(gold, prediction)


@given(st.sampled_from([gold for gold, _, _ in RIGHT]))
def test_gold_equals_itself(gold: str) -> None:
    assert match_free_form(gold, gold).equal
