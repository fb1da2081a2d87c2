"""A calculator for agents: one arithmetic expression in, its exact value or a typed error out. Nothing else can run.

The text is first held against a list of characters (digits, point, exponent letter, operators, round brackets, blanks), then
parsed, never compiled, and the tree is walked: only numbers, ``+ - * / // **`` and signs have a meaning. Every bound is checked
before the work that it bounds: length and bracket depth before parsing, depth and number of parts before evaluation, and the
size of each result before it is computed. Values are fractions, so 0.1 + 0.2 is 0.3. ``%`` is refused, because a model that
writes ``20% * 50`` means a percentage and Python would read a remainder.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from fractions import Fraction

from skillbench.errors import SkillbenchError

_ALLOWED = re.compile(r"[0-9.eE+\-*/() ]*")
_OPERATOR_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "\u2212": "-", "\u2013": "-"})
_SIGNIFICANT = 12  # digits of a value that is not whole
_WHOLE_DIGITS = 30  # a longer whole number is shown in scientific notation
_SHOWN = 60  # characters of the input that an error repeats


class CalculatorError(Exception):
    """Why an expression has no value. ``kind`` is one of KINDS; the message says what is wrong and how to mend it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


_MENDABLE = ("equals_sign", "comma", "currency", "percent", "caret", "words", "character", "syntax", "not_arithmetic")

KINDS = (
    "empty",
    "too_long",
    "equals_sign",
    "comma",
    "currency",
    "percent",
    "caret",
    "words",
    "character",
    "too_deep",
    "too_many_parts",
    "syntax",
    "not_arithmetic",
    "divide_by_zero",
    "too_large",
    "not_real",
)


@dataclass(frozen=True, slots=True)
class Calculator:
    """Bounds: characters of the input, depth of the expression, its parts, and bits of numerator plus denominator of every value.

    Raises SkillbenchError for a bound below 1 or above what keeps a call short (and below Python's own parser limits).
    """

    max_length: int
    max_depth: int
    max_parts: int
    max_bits: int

    def __post_init__(self) -> None:
        limits = {"max_length": 2_000, "max_depth": 60, "max_parts": 500, "max_bits": 8_192}
        for name, most in limits.items():
            if not 1 <= getattr(self, name) <= most:
                raise SkillbenchError(f"calculator.{name}={getattr(self, name)} must lie between 1 and {most}")

    def evaluate(self, expression: str) -> Fraction:
        """The exact value (an irrational power: its float). Raises CalculatorError and nothing else."""
        text = " ".join(expression.translate(_OPERATOR_SIGNS).split())
        try:
            return self._solve(text)
        except CalculatorError as error:
            if error.kind not in _MENDABLE:
                raise
            raise CalculatorError(error.kind, f"{error} {self._hint(text)}") from None

    def _solve(self, text: str) -> Fraction:
        self._check_text(text)
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise CalculatorError("syntax", f"{_shown(text)} is not a complete arithmetic expression.") from None
        self._check_tree(tree)
        return self._value(tree, text)

    def _check_text(self, text: str) -> None:
        if not text:
            raise CalculatorError("empty", "the input is empty; put an expression in it, for example 12 * 7 - 5")
        if len(text) > self.max_length:
            raise CalculatorError(
                "too_long", f"the input has {len(text)} characters, at most {self.max_length} are read; split the calculation."
            )
        if not _ALLOWED.fullmatch(text):
            kind, problem = _foreign(text)
            raise CalculatorError(kind, f"{_shown(text)} {problem}")
        if _bracket_depth(text) > self.max_depth:
            raise CalculatorError("too_deep", f"brackets are nested more than {self.max_depth} deep; split the calculation.")

    def _check_tree(self, tree: ast.expr) -> None:
        """Depth and number of parts, without recursion."""
        level: list[ast.AST] = [tree]
        parts = depth = 0
        while level:
            depth, parts = depth + 1, parts + len(level)
            if depth > self.max_depth:
                raise CalculatorError(
                    "too_deep", f"the expression is more than {self.max_depth} steps deep; split the calculation."
                )
            if parts > self.max_parts:
                raise CalculatorError(
                    "too_many_parts", f"the expression has more than {self.max_parts} parts; split the calculation."
                )
            level = [child for node in level for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]

    def _value(self, node: ast.expr, text: str) -> Fraction:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return self._literal(ast.get_source_segment(text, node) or repr(node.value))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
            value = self._value(node.operand, text)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left, text), self._value(node.right, text)
            return self._combined(node.op, left, right)
        raise CalculatorError(
            "not_arithmetic", f"only numbers, + - * / ** and brackets are known, not {_shown(ast.unparse(node))}."
        )

    def _literal(self, digits: str) -> Fraction:
        mantissa, _, exponent = digits.lower().partition("e")
        size = len(mantissa) + (abs(int(exponent)) if len(exponent) <= 6 and exponent else len(exponent) * self.max_bits)
        self._check_bits(size * 3.33)
        return Fraction(digits)

    def _combined(self, operator: ast.operator, a: Fraction, b: Fraction) -> Fraction:
        if isinstance(operator, ast.Pow):
            return self._power(a, b)
        if isinstance(operator, ast.Div | ast.FloorDiv) and not b:
            raise CalculatorError("divide_by_zero", "a division by zero has no value; check the divisor.")
        self._check_bits(_bits(a) + _bits(b) + 1)
        if isinstance(operator, ast.Add):
            return a + b
        if isinstance(operator, ast.Sub):
            return a - b
        if isinstance(operator, ast.Mult):
            return a * b
        if isinstance(operator, ast.Div):
            return a / b
        if isinstance(operator, ast.FloorDiv):
            return Fraction(a // b)
        raise CalculatorError("not_arithmetic", "only the operators + - * / // ** are known.")

    def _power(self, base: Fraction, exponent: Fraction) -> Fraction:
        if not base and exponent < 0:
            raise CalculatorError("divide_by_zero", "zero to a negative power is a division by zero; check the base.")
        if exponent.denominator == 1:
            self._check_bits(0 if abs(base) in (0, 1) else _bits(base) * abs(exponent.numerator))
            return Fraction(base**exponent.numerator)
        if base < 0:
            raise CalculatorError("not_real", "a root of a negative number is not a real number; check the sign of the base.")
        try:
            value = math.pow(base, exponent)
        except OverflowError:
            raise self._too_large() from None
        if not math.isfinite(value):
            raise self._too_large()
        return Fraction(value)

    def _check_bits(self, bits: float) -> None:
        if bits > self.max_bits:
            raise self._too_large()

    def _too_large(self) -> CalculatorError:
        return CalculatorError(
            "too_large", f"the result would have more than {self.max_bits} bits; check the numbers and the powers."
        )

    def _hint(self, text: str) -> str:
        """A mended form that was tried and has a value, else the form that is wanted."""
        for candidate in _mended(text):
            if candidate != text and self._has_value(candidate):
                return f"Send it like this: {candidate}"
        return "Send numbers, + - * / ** and brackets only, for example (12.5 + 3) * 4"

    def _has_value(self, text: str) -> bool:
        try:
            self._solve(text)
        except CalculatorError:
            return False
        return True


def format_value(value: Fraction) -> str:
    """A value as an agent sees it and the answer parser reads it: whole numbers in full up to 30 digits, others to 12
    significant digits.
    """
    if value.denominator == 1:
        digits = str(value.numerator)
        return digits if len(digits) <= _WHOLE_DIGITS else _scientific(value)
    if not Fraction(1, 10**4) <= abs(value) < 10**_SIGNIFICANT:
        return _scientific(value)
    return f"{float(value):.{_SIGNIFICANT}g}"


def _scientific(value: Fraction) -> str:
    """``1.23456e+45`` by whole-number arithmetic: a float would overflow at 1e308."""
    sign, top, below = "-" if value < 0 else "", abs(value.numerator), value.denominator
    exponent = len(str(top)) - len(str(below))
    if top * 10 ** max(0, -exponent) < below * 10 ** max(0, exponent):
        exponent -= 1
    shift = _SIGNIFICANT - 1 - exponent
    digits = str(round(Fraction(top * 10 ** max(0, shift), below * 10 ** max(0, -shift))))
    exponent += len(digits) - _SIGNIFICANT
    mantissa = f"{digits[0]}.{digits[1:_SIGNIFICANT]}".rstrip("0").rstrip(".")
    return f"{sign}{mantissa}e{exponent:+d}"


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


def _bracket_depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        depth += {"(": 1, ")": -1}.get(char, 0)
        deepest = max(deepest, depth)
    return deepest


def _foreign(text: str) -> tuple[str, str]:
    """What the first kind of foreign character means, the most telling first."""
    if "=" in text:
        return "equals_sign", 'holds "="; the calculator finds the result itself, so send only what stands before it.'
    if "%" in text:
        return "percent", 'holds "%"; write p percent of x as p / 100 * x, and the remainder of a by b as a - a // b * b.'
    if re.search(r"[$€£¥₹]", text):
        return "currency", "holds a currency sign; send bare numbers."
    if re.search(r"[0-9],", text):
        return "comma", "holds a comma; write 1,000 as 1000, and do one calculation at a time."
    if "^" in text:
        return "caret", 'holds "^"; write powers as **.'
    if re.search(r"[^\W\d_]", text):
        return "words", "holds words or names; put numbers in their place."
    return "character", "holds a character that is not part of arithmetic."


def _mended(text: str) -> list[str]:
    """Ways to mend an input without changing what it means, to be tried in this order; none where the meaning is not clear.

    A wrong hint is worse than none, for a model sends what it is shown. So a word goes only where it is a unit behind a number, and
    what has a value of its own ("half", "dozen", "log(3)", "100 - 20%", "0x10") is left to the model.
    """
    before, equals, after = text.partition("=")
    named = bool(equals) and _NAME.fullmatch(before.strip()) is not None and _MEANS.isdisjoint(before.lower().split())
    plain = _plain((after.partition("=")[0] if named else before).strip())
    if plain is None:
        return []
    bare = _without_units(plain)
    return [plain] if bare is None else [plain, bare]


_NAME = re.compile(r"(?:[^\W\d_]+(?:[ _][^\W\d_]+)*)?")  # what may stand before "=": nothing, "x", "total eggs"
_CURRENCY = re.compile(r"[$€£¥₹]")
_PERCENT = re.compile(r"(?<![+\-])(?<![+\-] )(?<![0-9.])(?P<number>[0-9]+(?:\.[0-9]+)?)(?:%(?= ?(?:[*/)]|$))|(?P<of> ?% ?of\b))")
_ROOT = re.compile(r"(?<![^\W_])(?:math\.)?sqrt *(?=\()")
_UNIT = re.compile(r"(?<=[0-9)]) ?(?P<unit>[^\W\d_]{2,}(?: [^\W\d_]{2,})*)")
# Words behind a number that do more than name what is counted.
_MEANS = frozenset(
    "half halves third thirds quarter quarters fifth fifths tenth tenths double doubled twice thrice triple tripled quadruple "
    "dozen dozens gross mil mill score scores couple couples pair pairs hundred hundreds thousand thousands million millions "
    "mio mn billion billions bn trillion trillions lakh lakhs crore crores grand percent pct percentage cent permille bps "
    "squared cubed square cube root roots sqrt cbrt power pow exp log ln lg sin cos tan abs floor ceil round max min "
    "factorial choose mod modulo div pi tau inf nan plus minus times multiplied divided over by of off into to than less more "
    "fewer and or as from negative".split()
)


def _plain(text: str) -> str | None:
    """``text`` with powers, products, percentages and roots as the calculator writes them; None where a sign's meaning is open."""
    if re.search(r"\b0[xob]", text, re.IGNORECASE):
        return None
    plain = re.sub(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))", "", text).replace("^", "**")
    plain = re.sub(r"(?<=[0-9)]) x (?=[0-9(])|(?<=[0-9])x(?=[0-9])", " * ", plain)
    return _percentages(_roots(" ".join(plain.split())))


def _percentages(text: str) -> str | None:
    """``20% of 50`` and ``80 * 20%`` written out; None for a ``%`` that may be a remainder, and beside plus and minus, where
    "100 - 20%" is 80 to most people.
    """
    if re.search(r"% ?of\b.*[+-]", re.sub(r"\([^()]*\)", "", text)):
        return None
    plain = _PERCENT.sub(lambda m: f"({m['number']} / 100){' *' if m['of'] else ''}", text)
    return None if "%" in plain else plain


def _roots(text: str) -> str:
    """``sqrt(a)`` as ``(a) ** 0.5``, in brackets where another power follows."""
    while found := _ROOT.search(text):
        close = _closing(text, found.end())
        if close < 0:
            return text
        root = f"{text[found.end() : close + 1]} ** 0.5"
        rest = text[close + 1 :]
        text = text[: found.start()] + (f"({root})" if rest.lstrip().startswith("**") else root) + rest
    return text


def _closing(text: str, opening: int) -> int:
    """Where the bracket at ``opening`` closes; -1 if it does not."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return -1


def _without_units(text: str) -> str | None:
    """``text`` without its units (words behind numbers, currency signs), if all are the same or the text is a product; else None.

    In sums and quotients different units would have to be converted first ("1 hour + 30 minutes").
    """
    names = [m["unit"].lower() for m in _UNIT.finditer(text)]
    units = {name.removesuffix("s") for name in names} | set(_CURRENCY.findall(text))
    bare = _CURRENCY.sub(" ", _UNIT.sub(" ", text))
    product = not re.search(r"[+\-/]", bare)
    if not units or (len(units) > 1 and not product) or any(not _MEANS.isdisjoint(name.split()) for name in names):
        return None
    return None if re.search(r"[^\W\d_]", bare) else " ".join(bare.replace("( ", "(").replace(" )", ")").split())


def _shown(text: str) -> str:
    return f'"{text[:_SHOWN]}{"…" if len(text) > _SHOWN else ""}"'
