r"""One parser for the numbers in answers. Gold, prediction and what an environment accepts go through it alike, so that none can be
read by a kinder rule.

Where an answer stands in a reply is decided before, by :func:`skillbench.judging.answer_text.final_answer`. In what stands there:

1. *Which number.* The last one. ``3 4`` are two numbers; ``1 1/2`` is a mixed number.
2. *Form.* Thousands separators are commas, underscores, LaTeX ``{,}`` or ``\,`` and thin or no-break spaces, in groups of three
   (``7_00`` is no number); a plain blank parts two numbers. The decimal sign is a point. ``2.9e1``, ``2.9 x 10^1``, ``1/2``,
   ``\frac{1}{2}``, ``½`` and "2.5 million" are numbers; a final full stop is none. A slash with zero below it, infinity, and a
   number of more than 400 digits are no answer.
3. *Short scales.* Behind an amount of money ``k``, ``m`` or ``mn``, ``b`` or ``bn`` are thousand, million and billion (``$70K``).
   With ``short=True``, for word problems, so are ``k``, ``K``, ``M``, ``B`` and ``bn`` behind any number (``70k``); elsewhere they
   are units, for 300 K is a temperature.
4. *Sign.* Any minus (ASCII, Unicode, dash) counts when it stands before the number or its currency, blanks allowed:
   ``-3``, ``- 3``, ``-$3``, ``$-3``. It is an operator or a range after a digit, a closing bracket or a percent sign
   (``5-3``), a hyphen when a letter touches it (``COVID-19``), and a dash when a word goes before it and blanks stand on both
   sides. "negative 3" is -3, and so is "minus 3" at the beginning, after a sign or "is"; "the total minus 3" is 3, as with a dash.
   Brackets alone do not negate: ``(3)`` is 3 (not chosen: the accountants' convention).
5. *Units* around the number are ignored: currency signs and codes, words, ``cm^2``. Digits that follow a letter (``H2O``) are
   no number.
6. *Percent.* ``same_number`` takes the rule: ``hundredth`` (N % is N/100) or ``unit`` (the sign is dropped, for questions that
   ask for a percentage). Not chosen: dropping every percent sign, which makes "29 %" equal to 29 dollars.

Two numbers are the same when they differ by at most one part in 10^9 of the larger; there is no absolute tolerance, so that 1e-9
and 2e-9 differ. Arithmetic is exact (fractions).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

RELATIVE_TOLERANCE = Fraction(1, 10**9)
PERCENT_RULES = ("hundredth", "unit")

_MAX_TEXT = 10_000  # characters that are read, from the end
_MAX_DIGITS = 400
_CURRENCY = r"(?:US\$|[$€£¥₹]|(?:USD|EUR|GBP|JPY|CNY|INR|AUD|CAD|CHF)|Rs\.?)"
_GROUPED = r"[0-9]{1,3}(?:(?:,[0-9]{3})+|(?:_[0-9]{3})+)(?![0-9])"
_PLAIN = rf"(?:(?:{_GROUPED}|[0-9]+)(?:\.[0-9]+)?|(?<![0-9.])\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![0-9]|_[0-9])"
# A digit that touches a letter, digit or exponent sign on its left belongs to that, unless the letters are a currency code.
_STARTS = r"(?:(?<![A-Za-z0-9_^])|(?<=USD)|(?<=EUR)|(?<=GBP)|(?<=JPY)|(?<=CNY)|(?<=INR)|(?<=AUD)|(?<=CAD)|(?<=CHF)|(?<=Rs))"
_NUMBER = re.compile(
    _STARTS
    + rf"""(?:
        (?P<whole>[0-9]+)\s+(?P<top>[0-9]+)\s*/\s*(?P<below>[0-9]+)(?![0-9.])
      | (?<!/)(?P<numerator>{_PLAIN})\s*/\s*(?P<denominator>{_PLAIN})(?![0-9])(?!\s*/\s*[0-9])
      | (?P<plain>{_PLAIN})
    )
    (?:\s*(?P<percent>%|percent\b|per\ cent\b|pct\b))?
    (?:\s+(?P<scale>thousand|million|billion|trillion)\b|(?P<short>\s?(?:k|mn?|bn?))(?![\w-]))?""",
    re.VERBOSE | re.IGNORECASE,
)
SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SHORT = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion"}
_SHORT_WITHOUT_CURRENCY = re.compile(r"\s?[kKM]|B|\s?bn")
_SIGN = re.compile(rf"(?P<sign>[-+])(?P<gap>\s*)(?:{_CURRENCY}\s*)?$")
_SIGN_WORD = re.compile(rf"(?<![\w-])(?P<word>minus|negative)\s+(?:{_CURRENCY}\s*)?$", re.IGNORECASE)
_BEFORE_SIGN = re.compile(
    r"(?:^|[^\w\s)%\]]|\b(?:is|are|was|were|be|equals?|to|of|about|approximately|exactly|or|and))\s*$", re.IGNORECASE
)
_CURRENCY_END = re.compile(rf"{_CURRENCY}\s*$")
_TIMES_TEN = re.compile(r"([0-9])\s*(?:[×x*·]|\\times|\\cdot)\s*10\s*\^\s*\{?\s*([-+]?[0-9]+)\s*\}?")
_EXPONENT = re.compile(r"\^\s*(?:\{[^{}]*\}|[-+]?[A-Za-z0-9]+)")
_FRACTION = re.compile(r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\s*\{([^{}]*)\}")
_THIN = re.compile("(?<=[0-9])(?:\\{,\\}|\\\\,|[\u00a0\u2009\u202f])(?=[0-9]{3}(?![0-9]))")
MATH = re.compile(r"(?<!\\)\$([^$]*)(?<!\\)\$(?!\s?[0-9])")  # "$5 m$" is no amount of money
_MINUS = str.maketrans(dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d", "-"))
_VULGAR = {
    "½": "1/2",
    "⅓": "1/3",
    "⅔": "2/3",
    "¼": "1/4",
    "¾": "3/4",
    "⅕": "1/5",
    "⅖": "2/5",
    "⅗": "3/5",
    "⅘": "4/5",
    "⅙": "1/6",
    "⅛": "1/8",
}


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written: ``value`` exact and with its sign; ``percent`` tells that a percent sign or word followed it, ``scale``
    by which word of thousand, million, … it was multiplied ("" for none).
    """

    value: Fraction
    percent: bool = False
    scale: str = ""


def parse_number(text: str) -> Number | None:
    """The last number of ``text``, or None where it has none or that one is none. Never raises."""
    found = numbers_in(text)
    return found[-1] if found else None


def same_number(gold: Number, prediction: Number, percent: str = "hundredth") -> bool:
    """Whether two numbers are equal within the tolerance, by the percent rule named (see PERCENT_RULES)."""
    a, b = (_scaled(number, percent) for number in (gold, prediction))
    return abs(a - b) <= RELATIVE_TOLERANCE * max(abs(a), abs(b))


def _scaled(number: Number, percent: str) -> Fraction:
    if percent not in PERCENT_RULES:
        raise ValueError(f"percent rule {percent!r} is none of {PERCENT_RULES}")
    return number.value / 100 if number.percent and percent == "hundredth" else number.value


def numbers_in(text: str, short: bool = False) -> list[Number | None]:
    """Every number of ``text`` from left to right; None for what has the form of one but is none (``1/0``, too many digits).

    ``short``: ``70k`` is seventy thousand (rule 3).
    """
    plain = _plain(text[-_MAX_TEXT:])
    return [_read(plain, match, short) for match in _NUMBER.finditer(plain)]


def _plain(text: str) -> str:
    """LaTeX, vulgar fractions and Unicode minus signs in their ASCII form; exponents of units gone."""
    text = text.translate(_MINUS)
    for sign, ascii_form in _VULGAR.items():
        text = text.replace(sign, f" {ascii_form}")
    text = _THIN.sub(",", MATH.sub(r"\1", text).replace("\\$", "$").replace("\\%", "%").replace("\\ ", " "))
    text = _TEXT_COMMAND.sub(r" \1", text)
    text = _FRACTION.sub(r" \1/\2", text)
    text = _TIMES_TEN.sub(r"\1e\2", text)
    return _EXPONENT.sub("", text)


def _read(text: str, match: re.Match[str], short: bool) -> Number | None:
    part = match.groupdict()
    try:
        if part["whole"] is not None:
            value = _mixed(int(part["whole"]), int(part["top"]), int(part["below"]))
        elif part["numerator"] is not None:
            value = _exact(part["numerator"]) / _exact(part["denominator"])
        else:
            value = _exact(part["plain"])
    except (ValueError, ZeroDivisionError):
        return None
    before = text[: match.start()]
    scale = (part["scale"] or _short_scale(part["short"], before, short)).lower()
    value *= 10 ** SCALES.get(scale, 0)
    return Number(-value if _is_negative(before) else value, bool(part["percent"]), scale)


def _short_scale(letters: str | None, before: str, anywhere: bool) -> str:
    """The word that the letters behind a number stand for, "" where they are a unit or there are none."""
    counts = letters and (_CURRENCY_END.search(before[-40:]) or (anywhere and _SHORT_WITHOUT_CURRENCY.fullmatch(letters)))
    return _SHORT[letters.strip().lower()] if letters and counts else ""


def _mixed(whole: int, top: int, below: int) -> Fraction:
    """``1 1/2`` is 1.5; with an improper fraction (``2 10/5``) the first number is one of its own, and the fraction counts."""
    return Fraction(top, below) + (whole if top < below else 0)


def _exact(digits: str) -> Fraction:
    """Raises ValueError for a number of more than _MAX_DIGITS digits, written out."""
    mantissa, _, exponent = digits.replace(",", "").replace("_", "").lower().partition("e")
    if len(mantissa) > _MAX_DIGITS or (exponent and (len(exponent) > 5 or abs(int(exponent)) > _MAX_DIGITS)):
        raise ValueError("too many digits")
    return Fraction(f"{mantissa}e{exponent}" if exponent else mantissa)


def _is_negative(before: str) -> bool:
    """Whether the text before a number ends in its minus sign; see rule 4 of the module."""
    near = before[-80:]
    if word := _SIGN_WORD.search(near):
        return word["word"].lower() == "negative" or _BEFORE_SIGN.search(near[: word.start()]) is not None
    sign = _SIGN.search(before[-40:])
    if sign is None or sign["sign"] == "+":
        return False
    rest = before[-40:][: sign.start()]
    rest = _CURRENCY_END.sub("", rest)
    touching, last = rest[-1:], rest.rstrip()[-1:]
    if last.isdigit() or last in (")", "%", "]") or touching.isalpha():
        return False
    return not (sign["gap"] and last.isalpha())
