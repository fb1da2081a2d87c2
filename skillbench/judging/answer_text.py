r"""From what a model wrote to the answer it means: one rule for where the answer stands, one for each kind of value.

**Where the answer stands.** Reasoning blocks are cut off first (an unclosed one leaves no answer). Of all markers, the one that
begins last counts: ``\boxed{…}``, ``####``, or "answer:" / "answer is" (also "final answer", in bold or capitals), with what
follows on its line, or on the next line that holds anything. Without a marker it is the last line that holds more than a full
stop. Where a number is wanted and that line holds none, the whole reply is read. The convention not chosen, the first marker, would
take a draft that the model corrected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from math import isclose
from typing import Literal

from skillbench.judging.expressions import NotAnExpression, Value, constant, parse_expression
from skillbench.judging.numbers import MATH, SCALES, Number, numbers_in
from skillbench.models.replies import split_reasoning

PercentRule = Literal["hundredth", "unit"]

_MAX_TEXT = 20_000  # characters of a reply that are read, from its end
_MAX_ANSWER = 600  # of a longer answer line: the beginning after a marker, else the end
_MAX_PROSE = 4_000  # of a reply that is searched for its last number
_MAX_LEADING = 80  # of arithmetic before a unit
_MAX_PARTS = 4  # places after an equals sign that are tried, from the last
_MARKER = re.compile(r"\\boxed\s*\{|\\fbox\s*\{|####|\banswer\b[*_`\"']*\s*(?:\bis\b\s*:?|:|=)", re.IGNORECASE)
_DECORATION = " \t\r\n*_`\"'"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer's own text, the whole reply without reasoning, and whether a marker named the answer."""

    text: str
    whole: str
    marked: bool


def final_answer(reply: str) -> Answer:
    """Find the answer in a reply by the rule above. ``text`` is "" where there is none."""
    reasoned = split_reasoning(reply[-_MAX_TEXT:])
    whole = reasoned.answer if reasoned.complete else ""
    found = None
    for found in _MARKER.finditer(whole):  # noqa: B007 - the last one is wanted
        pass
    if found is not None and (text := _after(whole, found)):
        return Answer(text[:_MAX_ANSWER], whole, marked=True)
    lines = [text for line in whole.splitlines() if (text := _trim(line))]
    return Answer(lines[-1][-_MAX_ANSWER:] if lines else "", whole, marked=False)


def _after(whole: str, marker: re.Match[str]) -> str:
    if marker[0].endswith("{"):
        return _trim(_braced(whole, marker.end() - 1))
    return next((text for line in whole[marker.end() :].splitlines() if (text := _trim(line))), "")


def _trim(text: str) -> str:
    text = text.strip(_DECORATION)
    return text[:-1].rstrip(_DECORATION) if text.endswith(".") and not text.endswith("..") else text


def _braced(text: str, opening: int) -> str:
    """What stands between the brace at ``opening`` and its partner; "" if there is none."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[opening + 1 : at]
    return ""


_SYMBOLS = {
    **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013", "-"), **dict.fromkeys("\u00d7\u22c5\u00b7", "*"),
    **dict.fromkeys("\u00f7\u2044", "/"),
    "\u2264": "<=", "\u2265": ">=", "\u2260": "!=", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u221e": " infinity ",
    "\u00bd": " 1/2", "\u00bc": " 1/4", "\u00be": " 3/4", "\u2153": " 1/3", "\u2154": " 2/3",
    "\\%": "%", "\\$": "$", "\\!": "", "\\,": " ", "\\;": " ", "\\:": " ", "\\ ": " ", "~": " ", "\\{": "{", "\\}": "}",
    **dict.fromkeys(("\\(", "\\)", "\\[", "\\]", "$"), ""),
}  # fmt: skip
_COMMANDS = {
    **dict.fromkeys(("cdot", "times"), "*"), **dict.fromkeys(("le", "leq"), "<="), **dict.fromkeys(("ge", "geq"), ">="),
    **dict.fromkeys(("ne", "neq"), "!="), **dict.fromkeys(("to", "rightarrow"), "->"),
    **dict.fromkeys(("ldots", "cdots", "dots"), "..."), **dict.fromkeys(("quad", "qquad"), " "),
    **{name: f" {name}" for name in ("ln", "log", "exp", "sin", "cos", "tan", "sum", "sqrt")},
    "div": "/", "pm": "±", "approx": "≈", "lt": "<", "gt": ">", "pi": " pi ", "infty": " infinity ",
    "lfloor": "floor(", "rfloor": ")", "lceil": "ceil(", "rceil": ")",
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿ", "0123456789-n")
_BINARY_COMMANDS = re.compile(r"\\(?:[dt]?frac|[dt]?binom)(?![a-zA-Z])\s*")


def plain_math(text: str) -> str:
    r"""LaTeX and typographic notation as plain text: ``\frac{a}{b}`` becomes ``((a)/(b))``, ``x²`` becomes ``x^2``, ``{,}`` a
    comma.
    """
    text = re.sub(
        r"\\begin\{[bpv]?(?:matrix|array)\}(?:\{[^{}]*\})?(.*?)\\end\{[bpv]?(?:matrix|array)\}",
        _matrix,
        text.strip(),
        flags=re.DOTALL,
    )
    text = re.sub(r"(?:\^\s{0,4})?\{?\s{0,4}\\circ(?![a-zA-Z])(?:\s{0,4}\})?", "°", text.replace("{,}", ","))
    for symbol, replacement in _SYMBOLS.items():
        text = text.replace(symbol, replacement)
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿ]+", lambda m: f"^({m[0].translate(_SUPERSCRIPTS)})", text)
    text = re.sub(r"√\s*(\d+(?:\.\d+)?|\w|(?=\())", r" sqrt(\1)", text).replace("sqrt()(", "sqrt(")
    text = re.sub(r"\\(?:text|mathrm|mathbf|operatorname|textbf|mbox)\s*\{([^{}]*)\}", r" \1 ", text)
    text = re.sub(r"\\(?:left|right|displaystyle|Big|big|bigl|bigr)(?![a-zA-Z])", "", text)
    text = _two_arguments(text)
    text = re.sub(r"\\sqrt\s*\[([^\[\]]*)\]\s*\{([^{}]*)\}", r"((\2)^(1/(\1)))", text)
    text = re.sub(r"\\([a-zA-Z]+)", lambda m: _COMMANDS.get(m[1], m[1]), text)
    text = re.sub(r"([\^_]|sqrt)\s*\{([^{}]*)\}", r"\1(\2)", text)
    text = re.sub(r"([\^_]|sqrt)\s*\{([^{}]*)\}", r"\1(\2)", text)  # one level deeper
    text = re.sub(r"sqrt\s*(\d+|[a-z]\b)", r"sqrt(\1)", text)
    return re.sub(r"_\((\w+)\)", r"_\1", text).strip()


def _matrix(match: re.Match[str]) -> str:
    return "[" + ", ".join(cell.strip() for cell in re.split(r"\\\\|&", match[1]) if cell.strip()) + "]"


def _two_arguments(text: str) -> str:
    r"""``\frac`` and ``\binom`` with braced or one-character arguments, innermost last."""
    for _ in range(20):
        matches = list(_BINARY_COMMANDS.finditer(text))
        if not matches:
            return text
        match = matches[-1]
        first, at = _argument(text, match.end())
        second, end = _argument(text, at)
        made = f"C({first},{second})" if "binom" in match[0] else f"(({first})/({second}))"
        # "1\frac{1}{2}" is one and a half, and so written for number() to see.
        gap = " " if text[: match.start()].rstrip()[-1:].isdigit() else ""
        text = text[: match.start()] + gap + made + text[end:]
    return text


def _argument(text: str, at: int) -> tuple[str, int]:
    while at < len(text) and text[at] == " ":
        at += 1
    if text[at : at + 1] == "{":
        inner = _braced(text, at)
        return inner, at + len(inner) + 2
    return text[at : at + 1], at + 1


_LITERAL = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+(?![\w.]))?"
_ARITHMETIC = re.compile(rf"(?:{_LITERAL}|pi\b|π|[-+*/^()!\s])+")
_RANGE = re.compile(rf"{_LITERAL}\s?-\s?{_LITERAL}")
_SEVERAL = re.compile(rf"[-+]?\s?{_LITERAL}\s*(?:,|;|\bor\b|\band\b|\bto\b|±|<|>)\s*[-+]?\s*\(?\s*[\d.]")
_OPEN = re.compile(rf"[-+]?\s?{_LITERAL}\s*[-+^]\s*\(?-?[a-zA-Z]\b")  # "1-x", "3^k": no number with a unit
_TWICE = re.compile(rf"([-+]?\s?{_LITERAL})\s*\((.+)\)")
_MIXED = re.compile(r"[-+]?\s*\d+\s+\(\(\d+\)/\(\d+\)\)")  # a mixed number in LaTeX, which is no product
_ABOUT = r"approximately|approx\.?|about|around|roughly|exactly|nearly|equal to|estimated (?:at|to be)"
# What may stand between "is" and a number, and how a number begins.
_NUMBER_AHEAD = (
    rf"(?=[\s*_:~$(]{{0,6}}(?:(?:{_ABOUT})\b[\s*_:~$(]{{0,6}}){{0,2}}(?:(?:minus|negative)\s|[-+\u2212\u2013])?"
    r"[\s$€£¥₹(\\]{0,6}(?:\d|\.\d|[√π]|(?:[dt]?frac|sqrt|pi|ln|log|exp)(?![a-z])))"
)
_EQUALS = re.compile(
    rf"(?<![<>!])=|≈|\\approx(?![a-zA-Z])|\b(?:is|are|was|were)\b{_NUMBER_AHEAD}|(?<=[a-zA-Z)\]*_]):(?=\s){_NUMBER_AHEAD}",
    re.IGNORECASE,
)
_HEDGE = re.compile(rf"^(?:(?:is|it is|it's|{_ABOUT}|equals?|the|value|of)\b\.?\s*|[~:]\s*)+", re.IGNORECASE)
# "per 1.73 m²" of body surface belongs to the unit, in whatever way it is written.
_BODY_SURFACE = re.compile(r"(?:/|\bper\b)[\s({]*1\.73(?!\d)(?=[\s)}\\]*(?:(?:text|mathrm|rm|mbox)[\s{]*)?(?:m|sq))", re.IGNORECASE)
_FUNCTION = r"(?:ln|log|lg|exp|sqrt|sin|cos|tan)(?![a-zA-Z])(?:_\w+)?"
_TIMES_FUNCTION = re.compile(rf"[-+\s]*{_LITERAL}\s*\*?\s*{_FUNCTION}", re.IGNORECASE)  # "2 log_2 8" begins with no statement of 2
_IN_FUNCTION = re.compile(rf"\b{_FUNCTION}[\s(]*[-+]?\s?{_LITERAL}[^\d]*$", re.IGNORECASE)  # "the entropy ln 2n" ends in none


def number(text: str, percent: PercentRule = "hundredth", scale: str = "") -> Value | None:
    r"""The number that an answer states, or None. The same parser reads gold and prediction.

    Arithmetic without variables has its value (``sqrt(2)/2``, ``2\pi``, ``10^{-3} m``); everything else is read by
    :mod:`skillbench.judging.numbers`, with its rules for separators, signs, units, mixed numbers and percent (``hundredth`` or
    ``unit``). ``scale`` is a word (thousand, million, billion) that the question takes as the unit, so that "3.6 million" is 3.6.

    What stands after the last ``=``, ``≈``, colon, "is" or "are" before a number counts. A text that begins with a number states
    that one ("25.2 mL/min (stage 4)"), in other prose the last one counts; "per 1.73 m²" is a unit. "3 or 4", "5-7", "n + 1" and
    "log_2 8" state none.
    """
    text = _BODY_SURFACE.sub("", MATH.sub(r"\1", text))
    if re.search(r"=[^=]*\bor\b[^=]*=", text):  # "x = 3 or x = 4"
        return None
    for part in [*reversed(_EQUALS.split(text)[-_MAX_PARTS:]), text]:
        stated = _HEDGE.sub("", part.strip(_DECORATION).rstrip(_DECORATION + "$.,;")).strip()
        if (value := _stated(stated, percent, scale)) is not None:
            return value
        if _SEVERAL.match(plain_math(stated)):
            return None
    return None


def _stated(text: str, percent: PercentRule, scale: str) -> Value | None:
    if _is_grouped(text):
        text = re.sub(r"(?<=\d)(?:,|[ \u00a0\u2009\u202f]|\{,\}|\\,)(?=\d{3}(?!\d))", "", text)
    math = plain_math(text)
    if not _MIXED.match(math):
        if (value := _restated(math)) is not None:
            return value
        if (value := constant(math)) is not None:
            return None if _RANGE.fullmatch(math) else value
        if _SEVERAL.match(math) or _OPEN.match(math) or _TIMES_FUNCTION.match(math) or _has_variables(math):
            return None
        if (value := _leading_arithmetic(math)) is not None:
            return value
    found = numbers_in(text)
    begins = re.match(r"(?:(?:minus|negative)\s)?[-+$€£¥₹\s\\(]*[\d.]", text, re.IGNORECASE) is not None
    if not found or (not begins and _IN_FUNCTION.search(math)):
        return None
    return _scaled(found[0 if begins else -1], percent, scale)


def _restated(math: str) -> Value | None:
    """The number of "0.693 (ln 2)", which says one value twice and is no product."""
    match = _TWICE.fullmatch(math)
    first, second = (constant(match[1]), constant(match[2])) if match else (None, None)
    if first is None or second is None:
        return None
    try:
        return first if isclose(float(first), float(second), rel_tol=0.05) else None
    except OverflowError:
        return None


def _is_grouped(text: str) -> bool:
    """True for "1,234" and "10 000", not for "3 400 and 2"."""
    return (
        re.fullmatch(r"\D*\d{1,3}(?:,\d{3}|[ \u00a0\u2009\u202f]\d{3}|\{,\}\d{3}|\\,\d{3})+(?:\.\d+)?(?:[^\d,]*|\s.*)", text)
        is not None
    )


def _has_variables(math: str) -> bool:
    """True for an expression in variables ("n + 1", "x"). One that begins with a number may be a number with a unit ("5 m^2") and
    is none here.
    """
    if re.match(r"[-+\s]*[\d.]", math):
        return False
    try:
        return bool(parse_expression(math).variables)
    except NotAnExpression:
        return False


def _leading_arithmetic(math: str) -> Value | None:
    """The value of the longest beginning that is arithmetic with a power, product, factorial or pi ("10^(-3) m"); None for a plain
    number.
    """
    match = _ARITHMETIC.match(math[:_MAX_LEADING])
    end = match.end() if match else 0
    while end:
        part = math[:end].strip()
        if part and (value := constant(part)) is not None:
            return value if re.search(r"[*^!(π]|pi", part) else None
        end -= 1
    return None


def _scaled(found: Number | None, percent: PercentRule, scale: str) -> Value | None:
    if found is None:
        return None
    value = found.value / 10 ** SCALES[scale] if scale and found.scale == scale else found.value
    return value / 100 if found.percent and percent == "hundredth" else value


def number_in(answer: Answer, percent: PercentRule = "hundredth", scale: str = "") -> Value | None:
    """The number of an answer; where its line holds none and no marker named it, the last number of the whole reply."""
    value = number(answer.text, percent, scale)
    return (
        number(answer.whole[-_MAX_PROSE:], percent, scale)
        if value is None and not answer.marked and not re.search(r"\d", answer.text)
        else value
    )


def exact_numbers(answer: Answer) -> list[Number | None]:
    """The numbers of an answer to a word problem, of which the last one is graded: those of its line; where it holds none and no
    marker named it, those of the whole reply. Read by :mod:`skillbench.judging.numbers` alone, without arithmetic.
    """
    found = numbers_in(answer.text, short=True)
    return found if found or answer.marked else numbers_in(answer.whole[-_MAX_PROSE:], short=True)


_ITEMS = re.compile(r",|;|->|→|\band\b")
_BRACKETS = {"[": "]", "(": ")", "{": "}", "<": ">"}


def items(text: str) -> list[str]:
    """The parts of a list, ``[a, b]``, ``(a, b)``, ``{a, b}`` or bare, split at commas, semicolons, arrows and "and" outside
    brackets.
    """
    text = plain_math(text).strip(_DECORATION)
    text = re.split(r"(?<![<>!])=\s*(?=[\[({])", text)[-1].strip()
    if text and _BRACKETS.get(text[0]) == text[-1] and _closes_at_end(text):
        text = text[1:-1]
    parts, start, depth = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and (separator := _ITEMS.match(text, at)) and (separator[0] != "and" or not text[at - 1 : at].isalnum()):
            parts.append(text[start:at])
            start = separator.end()
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _closes_at_end(text: str) -> bool:
    depth = 0
    for at, character in enumerate(text):
        depth += (character == text[0]) - (character == _BRACKETS[text[0]])
        if depth == 0:
            return at == len(text) - 1
    return False


_OTHER_SEPARATOR = re.compile(r",\s|;|->|→|\band\b")


def numbers(text: str) -> tuple[Value, ...] | None:
    """A list of numbers, or None if a part of it is no number.

    "[1,234]" is the list 1, 234. Where something else parts the numbers, a comma between digits without a blank groups them:
    "[1,000, 2,000]" is 1000, 2000.
    """
    bracketed = re.findall(r"[\[({][^\[\](){}]*[\])}]", plain_math(text))
    source = bracketed[-1] if bracketed and not text.strip().startswith(("[", "(", "{", "$", "\\")) else text
    plain = plain_math(source)
    if _OTHER_SEPARATOR.search(plain):
        plain = re.sub(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?![\d,]*\d)", lambda m: m[0].replace(",", ""), plain)
    values = [number(part) for part in items(plain)]
    return None if not values or None in values else tuple(v for v in values if v is not None)


def _leaders(found: list[re.Match[str]], text: str) -> list[re.Match[str]]:
    """The mentions that count: all of them, or the first alone where the text begins with it ("(b) since (a) fails"), unless "or"
    follows.
    """
    if len(found) < 2 or text[: found[0].start()].strip(_DECORATION + "([{:"):
        return found
    between = text[found[0].end() : found[1].start()]
    return found if re.fullmatch(r"\W*(?:or|and|/|,)?\W*", between, re.IGNORECASE) else found[:1]


_YES_NO = re.compile(r"\b(not\s+|isn't\s+)?(yes|no|true|false)\b", re.IGNORECASE)


def yes_no(text: str) -> bool | None:
    """True for yes and true, False for no and false; None where the text holds none of them or contradicts itself.

    A text that begins with one of the words means that word, whatever its explanation says. "not true" is False.
    """
    found = list(_YES_NO.finditer(text))
    if not found:
        return None
    values = {(m[2].lower() in ("yes", "true")) != bool(m[1]) for m in _leaders(found, text)}
    return values.pop() if len(values) == 1 else None


_OPTION = re.compile(r"\(\s*([a-h])\s*\)|\b(?:option|choice)\s*:?\s*([a-h])\b|^\s*([a-h])\s*(?:[).:,]|$)", re.IGNORECASE)


def option_letter(text: str) -> str | None:
    """The letter of an option, lower case: ``(c)``, ``c)``, ``C.``, ``option c``; None for none or for several different ones.

    A text that begins with an option means that one ("(b) since (a) fails").
    """
    text = plain_math(text)
    letters = {(m[1] or m[2] or m[3]).lower() for m in _leaders(list(_OPTION.finditer(text)), text)}
    return letters.pop() if len(letters) == 1 else None


_CHOICE = re.compile(r"\b(?:choice|option|answer)[\s_]*\(?(\d{1,3})\b|^\s*\(?(\d{1,3})\)?\s*(?:[.:]|$)", re.IGNORECASE)


def choice_number(text: str) -> int | None:
    """The number of a choice: ``choice_3``, ``option 3``, ``3``, ``(3)``; None for none or for several different ones."""
    text = text.replace("\\_", "_")
    chosen = {int(m[1] or m[2]) for m in _leaders(list(_CHOICE.finditer(text)), text)}
    return chosen.pop() if len(chosen) == 1 else None


_DATE = re.compile(
    r"\b(\d{1,2}/\d{1,2}/\d{4}|\d{4}-\d{1,2}-\d{1,2}|[A-Za-z]{3,9}\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4}"
    r"|\d{1,2}(?:st|nd|rd|th)? [A-Za-z]{3,9}\.?,? \d{4})\b"
)
_DATE_FORMATS = ("%m/%d/%Y", "%Y-%m-%d", "%B %d %Y", "%b %d %Y", "%d %B %Y", "%d %b %Y")


def calendar_date(text: str) -> date | None:
    """The one date that a text names, or None: ``MM/DD/YYYY`` (month first, as MedCalc-Bench writes it), ``YYYY-MM-DD``, ``March 5,
    2020``.
    """
    dates = {_date(found) for found in _DATE.findall(text)}
    return dates.pop() if len(dates) == 1 else None


def _date(text: str) -> date | None:
    text = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", text).replace(",", "").replace(".", "")
    for form in _DATE_FORMATS:
        try:
            return datetime.strptime(text, form).date()
        except ValueError:
            continue
    return None


_WEEKS_DAYS = re.compile(
    r"(\d{1,3})\s*(?:weeks?|wks?|w)\W*(?:and)?\W*(\d{1,2})\s*(?:days?|d)\b|\(\s*(\d{1,3})\s*,\s*(\d{1,2})\s*\)", re.IGNORECASE
)


def weeks_and_days(text: str) -> tuple[int, int] | None:
    """A gestational age: ``('17 weeks', '2 days')``, ``17 weeks and 2 days``, ``17w2d``, ``(17, 2)``; "17 weeks" is 17 and 0."""
    if found := _WEEKS_DAYS.search(text):
        weeks, days = int(found[1] or found[3]), int(found[2] or found[4])
        return (weeks, days) if days < 7 else None
    alone = re.search(r"\b(\d{1,3})\s*weeks?\b", text, re.IGNORECASE)
    return (int(alone[1]), 0) if alone else None
