"""Mathematical expressions in plain text, read and evaluated without ``eval``: a small grammar with bounds on everything.

A model's answer is untrusted text. Nothing here runs code: a recursive-descent parser builds closures over arithmetic, and every
operation is bounded before it is computed (input length, depth, size of powers, factorials and sums).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

Value = Fraction | float  # exact where it can be
Point = Mapping[str, Value]
Node = Callable[[Point], Value]

_MAX_LENGTH, _MAX_DEPTH, _MAX_BITS, _MAX_FACTORIAL, _MAX_TERMS = 400, 40, 4096, 300, 1000
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-zπ]+(?:_\d+)?|∞)|(\*\*|[-+*/^!(),|_=]))")
_VARIABLE = re.compile(r"[A-Za-z](?:_\d+)?")
_BARE = ("ln", "log", "exp", "sin", "cos", "tan")  # functions that may stand without brackets
_CONSTANTS = {"pi": math.pi, "π": math.pi, "e": math.e}
_SHORT_WORDS = 3  # "xyz" is x*y*z; a longer word that is no function is prose


class NotAnExpression(ValueError):
    """The text is not an expression of this grammar."""


class Undefined(ValueError):
    """The expression has no value at a point: division by zero, a negative root, or a result beyond the bounds."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression: its variables in alphabetical order, and its value at a point."""

    variables: tuple[str, ...]
    node: Node

    def value(self, point: Point | None = None) -> Value:
        """A Fraction where the value is exact, else a finite float. Raises Undefined where there is none."""
        try:
            result = self.node(point or {})
        except (ZeroDivisionError, OverflowError, RecursionError) as error:
            raise Undefined(str(error)) from error
        if isinstance(result, float) and not math.isfinite(result):
            raise Undefined("not finite")
        return result


def parse_expression(text: str) -> Expression:
    """Parse ``text``: numbers, one-letter variables (``x``, ``a_0``), ``+ - * / ^ !``, ``|x|``, implicit products, sqrt, floor,
    ceil, log, ln, exp, sin, cos, tan, abs, max, min, gcd, ``C(n, k)`` and ``sum_(i=1)^n term``.

    ``pi`` and ``e`` are constants; ``log`` is natural; ``ln 2`` needs no brackets. Behind a bracket or a variable a number is a
    factor where a power follows it (``n(n+1)2^k``). ``a/bc`` is ``(a/b)*c``, as in code; the convention not chosen binds an
    implicit product tighter. ``-2^2`` is -4. Raises NotAnExpression.
    """
    if len(text) > _MAX_LENGTH:
        raise NotAnExpression("too long")
    parser = _Parser(_tokens(text))
    try:
        node = parser.whole()
    except RecursionError as error:
        raise NotAnExpression("nested too deep") from error
    return Expression(tuple(sorted(parser.variables)), node)


def constant(text: str) -> Value | None:
    """The value of ``text`` if it is an expression without variables that has one, else None."""
    try:
        expression = parse_expression(text)
        return None if expression.variables else expression.value()
    except (NotAnExpression, Undefined):
        return None


def _tokens(text: str) -> list[str]:
    tokens, at, text = [], 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotAnExpression(f"unexpected {text[at : at + 5]!r}")
        tokens.append((match[1] or match[2] or match[3]).replace("**", "^"))
        at = match.end()
    return tokens


class _Parser:
    """Recursive descent over the tokens; it owns the place it has reached, the depth, and the variables it has met."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0
        self._word_end = -1  # place after a word that was read as a product of letters
        self._bars = 0  # open |…|: inside one, a bar closes
        self.variables: set[str] = set()
        self._bound: list[str] = []

    def whole(self) -> Node:
        node = self._sum()
        if self._at != len(self._tokens):
            raise NotAnExpression(f"unexpected {self._peek()!r}")
        return node

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, expected: str = "") -> str:
        token = self._peek()
        if not token or (expected and token != expected):
            raise NotAnExpression(f"{expected or 'more'} expected at {token or 'the end'!r}")
        self._at += 1
        return token

    def _sum(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise NotAnExpression("nested too deep")
        node = self._signed()
        while self._peek() in ("+", "-"):
            node = _binary(_add if self._take() == "+" else _subtract, node, self._product())
        self._depth -= 1
        return node

    def _signed(self) -> Node:
        sign = self._take() if self._peek() in ("+", "-") else "+"
        node = self._product()
        return _unary(_negate, node) if sign == "-" else node

    def _product(self) -> Node:
        node = self._power()
        while True:
            token = self._peek()
            if token in ("*", "/"):
                node = _binary(_multiply if self._take() == "*" else _divide, node, self._power_or_negative())
            elif self._begins_factor():
                node = _binary(_multiply, node, self._power())
            else:
                return node

    def _begins_factor(self) -> bool:
        token = self._peek()
        if token == "|":
            return not self._bars
        if token[:1].isdigit():
            # Two numbers side by side ("3 4") are no product, and a bare number after a factor ("x 2") is prose; "x 2^k" is one.
            before, after = self._tokens[self._at - 1], self._tokens[self._at + 1 : self._at + 2]
            is_variable = _VARIABLE.fullmatch(before) is not None and self._at != self._word_end  # not the end of "We get 2^n"
            return after == ["^"] and (before in (")", "!") or is_variable)
        return token == "(" or token[:1].isalpha()

    def _power_or_negative(self) -> Node:
        if self._peek() in ("-", "+"):
            return _unary(_negate, self._power()) if self._take() == "-" else self._power()
        return self._power()

    def _power(self) -> Node:
        node = self._factorial()
        if self._peek() == "^":
            self._take()
            exponent = self._power_or_negative()  # right-associative
            node = _binary(_raise, node, exponent)
        return node

    def _factorial(self) -> Node:
        node = self._atom()
        while self._peek() == "!":
            self._take()
            node = _unary(_factorial, node)
        return node

    def _atom(self) -> Node:
        token = self._take()
        if token[0].isdigit() or token[0] == ".":
            return _literal(_number(token))
        if token == "(":
            bars, self._bars = self._bars, 0
            node = self._sum()
            self._bars = bars
            self._take(")")
            return node
        if token == "|" and not self._bars:
            self._bars += 1
            node = self._sum()
            self._take("|")
            self._bars -= 1
            return _unary(_absolute, node)
        if token[0].isalpha():
            return self._word(token)
        raise NotAnExpression(f"unexpected {token!r}")

    def _word(self, word: str) -> Node:
        lower = word.lower()
        if lower == "sum" and self._peek() == "_":
            return self._summation()
        if (lower in _FUNCTIONS or word == "C") and self._peek() == "(":
            return self._call(_FUNCTIONS["binom"] if word == "C" else _FUNCTIONS[lower])
        if lower in _CONSTANTS:
            return _literal(_CONSTANTS[lower])
        if lower in _BARE and self._peek()[:1].isalnum():
            return self._bare_call(_FUNCTIONS[lower])
        if _VARIABLE.fullmatch(word):
            return self._variable(word)
        if len(word) > _SHORT_WORDS or not word.isalpha() or lower in _FUNCTIONS or "π" in word:
            raise NotAnExpression(f"unknown word {word!r}")
        self._word_end = self._at + len(word) - 1
        self._tokens[self._at : self._at] = list(word[1:])  # letters of a product: what follows ("^2") binds to the last
        return self._variable(word[0])

    def _variable(self, name: str) -> Node:
        if name not in self._bound:
            self.variables.add(name)

        def read(point: Point) -> Value:
            return point[name]

        return read

    def _call(self, function: tuple[int, int, Callable[..., Value]]) -> Node:
        least, most, compute = function
        self._take("(")
        bars, self._bars = self._bars, 0
        arguments = [self._sum()]
        while self._peek() == ",":
            self._take()
            arguments.append(self._sum())
        self._bars = bars
        self._take(")")
        if not least <= len(arguments) <= most:
            raise NotAnExpression("wrong number of arguments")

        def call(point: Point) -> Value:
            return compute(*(argument(point) for argument in arguments))

        return call

    def _bare_call(self, function: tuple[int, int, Callable[..., Value]]) -> Node:
        """``ln 2``, ``sin x``: the argument is one factor. ``ln 2n`` may be either of two things and is refused."""
        is_number = self._peek()[0].isdigit()
        argument = self._power()
        if is_number and self._begins_factor():
            raise NotAnExpression(f"brackets expected before {self._peek()!r}")
        return _unary(function[2], argument)

    def _summation(self) -> Node:
        for expected in ("_", "("):
            self._take(expected)
        name = self._take()
        self._take("=")
        low = self._sum()
        for expected in (")", "^"):
            self._take(expected)
        high = self._factorial()
        self._bound.append(name)
        term = self._product()
        self._bound.pop()

        def total(point: Point) -> Value:
            first, last = _whole(low(point)), _whole(high(point))
            if last - first > _MAX_TERMS:
                raise Undefined("too many terms")
            result: Value = Fraction(0)
            for i in range(first, last + 1):
                result = _add(result, term({**point, name: Fraction(i)}))
            return result

        return total


def _number(token: str) -> Fraction:
    exponent = re.search(r"[eE]([+-]?\d+)$", token)
    if exponent and abs(int(exponent[1][:8])) > _MAX_BITS // 4:
        raise NotAnExpression("exponent too large")
    return Fraction(token.rstrip(".") if exponent is None else token)


def _literal(value: Value) -> Node:
    return lambda point: value


def _unary(compute: Callable[[Value], Value], node: Node) -> Node:
    return lambda point: compute(node(point))


def _binary(compute: Callable[[Value, Value], Value], left: Node, right: Node) -> Node:
    return lambda point: compute(left(point), right(point))


def _bounded(value: Value) -> Value:
    if isinstance(value, Fraction) and max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        raise Undefined("too large")
    return value


def _add(a: Value, b: Value) -> Value:
    return _bounded(a + b)


def _subtract(a: Value, b: Value) -> Value:
    return _bounded(a - b)


def _multiply(a: Value, b: Value) -> Value:
    return _bounded(a * b)


def _divide(a: Value, b: Value) -> Value:
    return _bounded(a / b)


def _absolute(a: Value) -> Value:
    return -a if a < 0 else a


def _negate(a: Value) -> Value:
    return -a


def _raise(base: Value, exponent: Value) -> Value:
    """Exact for a rational base and a whole exponent whose result stays within the bounds; a float otherwise."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        size = max(base.numerator.bit_length(), base.denominator.bit_length(), 1)
        if size * abs(exponent.numerator) > _MAX_BITS:
            raise Undefined("too large")
        return base**exponent.numerator
    if base < 0:
        raise Undefined("a fractional power of a negative number")
    result = float(base) ** float(exponent)
    return float(result)


def _whole(value: Value) -> int:
    if isinstance(value, float) and value == round(value) and abs(value) < 2**53:
        return round(value)
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    raise Undefined("not a whole number")


def _factorial(value: Value) -> Value:
    n = _whole(value)
    if not 0 <= n <= _MAX_FACTORIAL:
        raise Undefined("factorial out of bounds")
    return Fraction(math.factorial(n))


def _binomial(n: Value, k: Value) -> Value:
    top, bottom = _whole(n), _whole(k)
    if not 0 <= top <= _MAX_FACTORIAL:
        raise Undefined("binomial out of bounds")
    return Fraction(math.comb(top, bottom) if bottom >= 0 else 0)


def _square_root(value: Value) -> Value:
    if value < 0:
        raise Undefined("root of a negative number")
    if isinstance(value, Fraction):
        top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if top * top == value.numerator and bottom * bottom == value.denominator:
            return Fraction(top, bottom)
    return math.sqrt(value)


def _logarithm(value: Value, base: Value | None = None) -> Value:
    if value <= 0 or (base is not None and base <= 0):
        raise Undefined("logarithm of a number that is not positive")
    return math.log(value) if base is None else math.log(value) / math.log(base)


def _floating(compute: Callable[[float], float]) -> Callable[[Value], Value]:
    return lambda value: compute(float(value))


_FUNCTIONS: dict[str, tuple[int, int, Callable[..., Value]]] = {
    "sqrt": (1, 1, _square_root),
    "floor": (1, 1, lambda value: Fraction(math.floor(value))),
    "ceil": (1, 1, lambda value: Fraction(math.ceil(value))),
    "abs": (1, 1, _absolute),
    "max": (1, 9, max),
    "min": (1, 9, min),
    "gcd": (2, 2, lambda a, b: Fraction(math.gcd(_whole(a), _whole(b)))),
    "binom": (2, 2, _binomial),
    "binomial": (2, 2, _binomial),
    "factorial": (1, 1, _factorial),
    "log": (1, 2, _logarithm),
    "ln": (1, 1, _logarithm),
    "exp": (1, 1, _floating(math.exp)),
    "sin": (1, 1, _floating(math.sin)),
    "cos": (1, 1, _floating(math.cos)),
    "tan": (1, 1, _floating(math.tan)),
}


# Whole numbers to try variables with: n and N, which count, get the large ones, so that n! or C(n, 4) has a value and n - k is not
# negative.
_LARGE = (9, 12, 7, 14, 10, 13, 11, 16)
_SMALL = (3, 2, 5, 4, 6, 1, 7, 8)
_NEEDED = 3  # points at which both sides must have a value


def equivalent(a: Expression, b: Expression, rel_tol: float = 1e-9) -> bool:
    """True if two expressions agree at every one of 8 points of positive whole numbers at which either has a value (3 at least).

    Exact values must be equal; floats may differ by ``rel_tol``. This can hold for two expressions that differ elsewhere
    (``(-1)^(2n)`` and 1, which agree for whole n); the convention not chosen, symbolic simplification, needs an engine that
    evaluates text as code.
    """
    names = sorted({*a.variables, *b.variables})
    if not names:
        return _same_at(a, b, {}, rel_tol) is True
    outcomes = [_same_at(a, b, _point(names, trial), rel_tol) for trial in range(len(_LARGE))]
    return all(o is not False for o in outcomes) and sum(o is True for o in outcomes) >= _NEEDED


def _point(names: list[str], trial: int) -> dict[str, Value]:
    point: dict[str, Value] = {}
    for place, name in enumerate(names):
        values = _LARGE if name in ("n", "N") else _SMALL
        point[name] = Fraction(values[(trial + 3 * place) % len(values)])
    return point


def _same_at(a: Expression, b: Expression, point: Point, rel_tol: float) -> bool | None:
    """Whether the two agree at a point; None where neither has a value."""
    left, right = _value_or_none(a, point), _value_or_none(b, point)
    if left is None or right is None:
        return None if left is right else False
    return close(left, right, rel_tol)


def _value_or_none(expression: Expression, point: Point) -> Value | None:
    try:
        return expression.value(point)
    except Undefined:
        return None


def close(a: Value, b: Value, rel_tol: float) -> bool:
    """Equality of two exact values; a relative difference of at most ``rel_tol`` (of the larger) where either is a float. 0 equals
    0 alone, up to a float's rounding (1e-12).
    """
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a == b
    try:
        return math.isclose(a, b, rel_tol=rel_tol, abs_tol=1e-12 if not (a and b) else 0.0)
    except OverflowError:  # an exact value beyond the floats
        return False
