"""The header's expression language: checked 64-bit integer arithmetic over names, never Python's `eval`.

    condition  = comparison { "and" comparison }            only where conditions are asked for (`when`)
    comparison = sum { ("<" | "<=" | ">" | ">=" | "==" | "!=") sum }
    sum        = term { ("+" | "-") term }
    term       = unary { ("*" | "//" | "%") unary }
    unary      = { "+" | "-" } atom
    atom       = integer | name | function "(" sum { "," sum } ")" | "(" condition ")"

`//` and `%` round towards minus infinity, as in Python. `cdiv(a, b)` is a / b rounded up; `pow2ceil(a)` is the smallest
power of two >= a (1 for a <= 1). Comparisons chain as in Python, and `and` stops at the first false comparison.
"""

from __future__ import annotations

import keyword
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ...store.errors import InputError

MAX_CHARACTERS = 200
MAX_NODES = 50
MAX_DEPTH = 50
"""Parentheses and signs nest at most this deep; they are bounded apart because parentheses are no nodes."""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_TOKEN = re.compile(r"[ \t]*(?:(?P<int>[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<op>//|<=|>=|==|!=|[-+*%(),<>]))")
_HINTS = {
    "**": "write the product out, or use pow2ceil",
    "<<": "multiply by a power of two instead",
    ">>": "divide with // by a power of two instead",
    "/": "write // to round down or cdiv(a, b) to round up",
    "=": "write == to compare",
    ".": "numbers are whole and names have no attributes",
    "\n": "an expression stands on one line",
}
_GENERAL_HINT = "an expression holds integers, names, + - * // %, parentheses and cdiv, min, max, pow2ceil"

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_FUNCTIONS: dict[str, tuple[int, int, Callable[..., int]]] = {
    # least arguments, most arguments, meaning
    "cdiv": (2, 2, lambda a, b: -(-a // b)),
    "min": (2, MAX_NODES, min),
    "max": (2, MAX_NODES, max),
    "pow2ceil": (1, 1, lambda a: 1 << max(a - 1, 0).bit_length()),
}
FUNCTION_NAMES: frozenset[str] = frozenset(_FUNCTIONS)


def is_name(text: str) -> bool:
    """Whether `text` can name a size, tensor or tunable: an ASCII identifier that is no keyword and no function."""
    return (
        re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) is not None
        and not keyword.iskeyword(text)
        and text not in FUNCTION_NAMES
    )


@dataclass(frozen=True, slots=True)
class _Node:
    """`op` is `int`, `name`, `neg`, `and`, an operator or a function; `leaf` is the integer or the name."""

    op: str
    children: tuple[_Node, ...] = ()
    leaf: int | str = 0

    @property
    def is_truth(self) -> bool:
        return self.op == "and" or self.op in _COMPARISONS


@dataclass(frozen=True)
class Expression:
    """A parsed expression. Make it with `Expression.parse`."""

    text: str
    root: _Node

    @classmethod
    def parse(cls, text: str, conditions: bool = False) -> Expression:
        """Parse `text`; with `conditions` it must be a comparison, or several joined by `and`.

        Raises InputError with the expression, the column and what to write instead.
        """
        return _parse(text, conditions)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names whose values `evaluate` needs."""
        found: set[str] = set()
        stack = [self.root]
        while stack:
            node = stack.pop()
            stack.extend(node.children)
            if node.op == "name":
                found.add(str(node.leaf))
        return frozenset(found)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value; 1 or 0 for a condition.

        Every step stays within 64 bits. Raises InputError, naming the expression and the values, for an unknown name, a
        division by zero or an overflow.
        """
        try:
            return int(_value(self.root, values))
        except _ArithmeticFailure as failure:
            raise InputError(
                failure.what,
                value=f"{self.text}{self.at(values)}",
                next_step=failure.next_step,
            ) from None

    def at(self, values: Mapping[str, int]) -> str:
        """` at N=7, BLOCK=256`: the values this expression uses, as errors print them; empty where it uses none."""
        return shown_values(self.names, values)


def shown_values(names: frozenset[str], values: Mapping[str, int]) -> str:
    """` at N=7, BLOCK=256`: the values of `names`, in the order of `values`; empty where there are none."""
    used = ", ".join(f"{name}={values[name]}" for name in values if name in names)
    return f" at {used}" if used else ""


def evaluate(
    expression: str | int,
    values: Mapping[str, int],
    *,
    what: str,
    minimum: int | None = None,
    case: str = "",
) -> int:
    """The value of an expression, or of a plain integer, which must be at least `minimum`.

    what: where the expression stands, for errors, e.g. `grid x of launch scan`; case: the case's name, if there is one.
    Raises InputError naming what, case, expression and values.
    """
    where = f"{what} of case {case}" if case else what
    if isinstance(expression, bool):
        raise InputError(f"{where} is not a number", value=expression, next_step="Write an integer or an expression.")
    try:
        parsed = Expression.parse(str(expression))
        result = parsed.evaluate(values)
    except InputError as error:
        raise InputError(f"{where}: {error.what}", value=error.value, next_step=error.next_step) from None
    if minimum is not None and result < minimum:
        raise InputError(
            f"{where} is {result}, but must be at least {minimum}",
            value=f"{parsed.text}{parsed.at(values)}",
            next_step="Correct the expression, or the case that makes it so small.",
        )
    return result


class _ArithmeticFailure(Exception):
    def __init__(self, what: str, next_step: str) -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step


def _checked(value: int, what: str) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise _ArithmeticFailure(f"{what} does not fit into 64 bits", "Keep every step between -2^63 and 2^63 - 1.")
    return value


def _value(node: _Node, values: Mapping[str, int]) -> int:
    if node.op == "int":
        return int(node.leaf)
    if node.op == "name":
        name = str(node.leaf)
        if name not in values:
            known = ", ".join(sorted(values)) or "none"
            raise _ArithmeticFailure(f"the name {name} has no value", f"Names known here: {known}.")
        return _checked(operator.index(values[name]), f"the value of {name}")
    if node.op == "and":
        return int(all(_value(child, values) for child in node.children))
    operands = [_value(child, values) for child in node.children]
    if node.op == "neg":
        return _checked(-operands[0], "a negation")
    if node.op in _COMPARISONS:
        return int(_COMPARISONS[node.op](*operands))
    if node.op in ("//", "%", "cdiv") and operands[1] == 0:
        raise _ArithmeticFailure("division by zero", f"The right side of {node.op} must not be 0.")
    meaning = _ARITHMETIC[node.op] if node.op in _ARITHMETIC else _FUNCTIONS[node.op][2]
    return _checked(meaning(*operands), f"the result of {node.op}")


@lru_cache(maxsize=4096)
def _parse(text: str, conditions: bool) -> Expression:
    return Expression(text, _Parser(text, conditions).parse())


class _Parser:
    """Recursive descent over the tokens of one expression; the grammar stands in the module's docstring."""

    def __init__(self, text: str, conditions: bool) -> None:
        self.text = text
        self.conditions = conditions
        self.depth = 0
        self.nodes = 0
        if len(text) > MAX_CHARACTERS:
            raise InputError(
                f"an expression of {len(text)} characters",
                value=f"{text[:40]!r}…",
                next_step=f"Use at most {MAX_CHARACTERS} characters.",
            )
        self.tokens = self._tokens()
        self.position = 0

    def parse(self) -> _Node:
        root = self._condition()
        if self._kind != "end":
            raise self._error(f"{self._token!r} does not continue the expression", _GENERAL_HINT)
        if self.conditions and not root.is_truth:
            raise self._error("a condition must compare something", "write for example BLOCK <= 1024", column=1)
        return root

    def _tokens(self) -> list[tuple[str, str, int]]:
        """Kind (`int`, `name`, `op`, `end`), text and 1-based column of every token."""
        tokens: list[tuple[str, str, int]] = []
        end = len(self.text.rstrip(" \t"))
        at = 0
        while at < end:
            match = _TOKEN.match(self.text, at)
            if match is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip(" \t"))
                wrong = next((sign for sign in _HINTS if self.text.startswith(sign, at)), self.text[at])
                raise self._error(f"{wrong!r} has no meaning here", _HINTS.get(wrong, _GENERAL_HINT), column=at + 1)
            kind = match.lastgroup or ""
            token, column = match[kind], match.start(kind) + 1
            at = match.end()
            if kind == "op" and (token + self.text[at : at + 1]) in ("**", "<<", ">>"):
                raise self._error(f"{token * 2!r} has no meaning here", _HINTS[token * 2], column=column)
            tokens.append((kind, token, column))
        tokens.append(("end", "", end + 1))
        return tokens

    @property
    def _kind(self) -> str:
        return self.tokens[self.position][0]

    @property
    def _token(self) -> str:
        return self.tokens[self.position][1]

    def _take(self) -> str:
        token = self._token
        self.position += 1
        return token

    def _expect(self, token: str) -> None:
        if self._kind != "op" or self._token != token:
            raise self._error(f"{token!r} is missing", _GENERAL_HINT)
        self._take()

    def _node(self, op: str, children: tuple[_Node, ...] = (), leaf: int | str = 0) -> _Node:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self._error("the expression is too long", f"use at most {MAX_NODES} numbers, names and operators")
        if op not in ("and", "int", "name") and any(child.is_truth for child in children):
            raise self._error("a comparison is no number", "join comparisons with `and`, nothing else")
        return _Node(op, children, leaf)

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error("the expression nests too deep", f"nest at most {MAX_DEPTH} parentheses and signs")

    def _condition(self) -> _Node:
        node = self._comparison()
        while self._kind == "name" and self._token == "and":
            if not self.conditions:
                raise self._error("`and` has no meaning here", "conditions belong in `when`")
            self._take()
            other = self._comparison()
            if not (node.is_truth and other.is_truth):
                raise self._error("`and` joins comparisons", "write for example A <= 4 and B <= 8")
            node = self._node("and", (node, other))
        return node

    def _comparison(self) -> _Node:
        left = self._sum()
        parts: list[_Node] = []
        while self._kind == "op" and self._token in _COMPARISONS:
            if not self.conditions:
                raise self._error(f"{self._token!r} has no meaning here", "comparisons belong in `when`")
            op = self._take()
            right = self._sum()
            parts.append(self._node(op, (left, right)))
            left = right
        if not parts:
            return left
        return parts[0] if len(parts) == 1 else self._node("and", tuple(parts))

    def _sum(self) -> _Node:
        node = self._term()
        while self._kind == "op" and self._token in ("+", "-"):
            op = self._take()
            node = self._node(op, (node, self._term()))
        return node

    def _term(self) -> _Node:
        node = self._unary()
        while self._kind == "op" and self._token in ("*", "//", "%"):
            op = self._take()
            node = self._node(op, (node, self._unary()))
        return node

    def _unary(self) -> _Node:
        if self._kind != "op" or self._token not in ("+", "-"):
            return self._atom()
        self._deeper()
        sign = self._take()
        operand = self._unary()
        self.depth -= 1
        if operand.is_truth:
            raise self._error("a comparison is no number", "join comparisons with `and`, nothing else")
        return self._node("neg", (operand,)) if sign == "-" else operand

    def _atom(self) -> _Node:
        kind, token = self._kind, self._token
        if kind == "int":
            return self._integer(self._take())
        if kind == "name":
            if token in FUNCTION_NAMES:
                return self._call(self._take())
            if keyword.iskeyword(token):
                raise self._error(f"{token!r} has no meaning here", _GENERAL_HINT)
            self._take()
            if self._kind == "op" and self._token == "(":
                raise self._error(f"there is no function {token!r}", "the functions are cdiv, min, max and pow2ceil")
            return self._node("name", leaf=token)
        if kind == "op" and token == "(":
            self._deeper()
            self._take()
            node = self._condition()
            self._expect(")")
            self.depth -= 1
            return node
        if kind == "end":
            raise self._error("the expression ends too early", "an integer, a name or a parenthesis must follow")
        raise self._error(f"{token!r} cannot stand here", "an integer, a name or a parenthesis must stand here")

    def _integer(self, digits: str) -> _Node:
        self.position -= 1
        if len(digits) > 1 and digits.startswith("0"):
            raise self._error("a number starts with 0", "numbers are decimal, without leading zeros")
        if int(digits) > INT64_MAX:
            raise self._error("a number does not fit into 64 bits", "the largest is 9223372036854775807")
        self.position += 1
        return self._node("int", leaf=int(digits))

    def _call(self, function: str) -> _Node:
        least, most, _ = _FUNCTIONS[function]
        self._expect("(")
        self._deeper()
        arguments = [self._sum()]
        while self._kind == "op" and self._token == ",":
            self._take()
            arguments.append(self._sum())
        self._expect(")")
        self.depth -= 1
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"at least {least}"
            raise self._error(f"{function} takes {wanted} arguments, not {len(arguments)}", "correct the call")
        return self._node(function, tuple(arguments))

    def _error(self, what: str, hint: str, column: int | None = None) -> InputError:
        column = column or self.tokens[self.position][2]
        shown = self.text if self.text.isprintable() else repr(self.text)
        return InputError(
            f"{what} (column {column} of the expression)",
            value=shown,
            next_step=f"{hint[0].upper()}{hint[1:]}.",
        )
