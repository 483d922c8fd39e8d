"""Expressions agree with Python's own arithmetic where they are defined, and refuse everything else."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.header.expression import (
    INT64_MAX,
    INT64_MIN,
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_NODES,
    Expression,
    evaluate,
    is_name,
)
from kforecast.store.errors import InputError

VALUES = {"N": 4097, "BLOCK": 256, "M": 3, "zero": 0, "neg": -7}


def ceil_division(a: int, b: int) -> int:
    return -(-a // b)


def power_above(a: int) -> int:
    power = 1
    while power < a:
        power *= 2
    return power


PYTHON: dict[str, Callable[..., int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "cdiv": ceil_division,
    "min": min,
    "max": max,
}

Sample = tuple[str, Callable[[], int]]
"""An expression with its value by Python's own arithmetic, which may raise ZeroDivisionError or OverflowError."""


def within(value: int) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise OverflowError
    return value


def leaf() -> st.SearchStrategy[Sample]:
    numbers = st.integers(0, INT64_MAX) | st.integers(0, 9)
    return numbers.map(lambda n: (str(n), lambda: n)) | st.sampled_from(sorted(VALUES)).map(
        lambda name: (name, lambda: VALUES[name])
    )


def grow(parts: st.SearchStrategy[Sample]) -> st.SearchStrategy[Sample]:
    def binary(op: str, left: Sample, right: Sample) -> Sample:
        text = f"{op}({left[0]}, {right[0]})" if op.isalpha() else f"({left[0]}) {op} ({right[0]})"
        return text, lambda: within(PYTHON[op](left[1](), right[1]()))

    return (
        st.builds(binary, st.sampled_from(sorted(PYTHON)), parts, parts)
        | parts.map(lambda part: (f"-({part[0]})", lambda: within(-part[1]())))
        | parts.map(lambda part: (f"pow2ceil({part[0]})", lambda: within(power_above(part[1]()))))
    )


@given(st.recursive(leaf(), grow, max_leaves=12).filter(lambda sample: len(sample[0]) <= MAX_CHARACTERS))
def test_agrees_with_python(sample: Sample) -> None:
    text, python = sample
    expression = Expression.parse(text)
    try:
        wanted = python()
    except ZeroDivisionError:
        with pytest.raises(InputError, match="division by zero"):
            expression.evaluate(VALUES)
    except OverflowError:
        with pytest.raises(InputError, match="64 bits"):
            expression.evaluate(VALUES)
    else:
        assert expression.evaluate(VALUES) == wanted


FLAT = st.lists(st.tuples(st.sampled_from(["+", "-", "*", "//", "%"]), st.integers(1, 99)), max_size=12)


@given(st.integers(1, 99), FLAT)
def test_precedence_is_pythons(first: int, rest: list[tuple[str, int]]) -> None:
    text = str(first) + "".join(f" {op} {number}" for op, number in rest)
    try:
        wanted = eval(text, {"__builtins__": {}})
    except ZeroDivisionError:
        with pytest.raises(InputError, match="division by zero"):
            Expression.parse(text).evaluate({})
        return
    if abs(wanted) < 2**40:
        assert Expression.parse(text).evaluate({}) == wanted


@given(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3))
def test_conditions_agree_with_python(a: int, b: int, c: int) -> None:
    values = {"a": a, "b": b, "c": c}
    for text in ("a < b", "a <= b < c", "a == b and b != c", "(a > b) and (b >= c and c > -2)", "a * b % 4 == c"):
        assert Expression.parse(text, conditions=True).evaluate(values) == int(eval(text, {}, values))


def test_and_stops_at_the_first_false_comparison() -> None:
    assert Expression.parse("zero > 0 and 1 % zero == 0", conditions=True).evaluate(VALUES) == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n",
        "1\n+ 1",
        "1\x00",
        "٣",
        "１",
        "Ｎ",
        "ñ",
        "1_000",
        "0x10",
        "007",
        "1.0",
        "1e3",
        "N ** 2",
        "2 << 3",
        "8 >> 1",
        "N / 2",
        "N & 1",
        "N | 1",
        "N ^ 1",
        "~N",
        "not N",
        "N or 1",
        "N if 1 else 2",
        "N if N",
        "lambda: 1",
        "f'{N}'",
        "'a'",
        "N.real",
        "N[0]",
        "[1]",
        "(1, 2)",
        "N := 1",
        "N = 1",
        "N < 1",
        "N and 1",
        "(N < 1)",
        "__import__('os')",
        "__import__(1)",
        "abs(1)",
        "cdiv",
        "cdiv(1)",
        "cdiv(1, 2, 3)",
        "min(1)",
        "min()",
        "pow2ceil()",
        "pow2ceil(1, 2)",
        "pow2ceil(a=1)",
        "max(*N)",
        "1 2",
        "1 +",
        "* 1",
        "(1",
        "1)",
        "()",
        "1;1",
        "#1",
        "1 # one",
        "N\\",
        "None",
        "True",
        "9223372036854775808",
        "9" * 190,
        "(" * 99 + "1" + ")" * 99,
        "-" * 199 + "1",
        "+".join(["1"] * (MAX_NODES // 2 + 1)),
        "1 + " * 50,
        "1" + " " * MAX_CHARACTERS,
    ],
)
def test_refuses_everything_else(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Expression.parse(text)
    assert caught.value.next_step.endswith(".")


@pytest.mark.parametrize(
    "text", ["N", "N and M", "N < 1 and M", "(N < 1) == (M < 1)", "-(N < 1)", "min(N < 1, 2)", "N <"]
)
def test_refuses_conditions_that_do_not_compare(text: str) -> None:
    with pytest.raises(InputError):
        Expression.parse(text, conditions=True)


@given(st.text(max_size=220))
def test_any_text_is_a_value_or_an_error(text: str) -> None:
    for conditions in (False, True):
        try:
            result = Expression.parse(text, conditions).evaluate(VALUES)
        except InputError as error:
            assert error.what
            assert error.next_step
        else:
            assert INT64_MIN <= result <= INT64_MAX


@given(st.text(alphabet="N1 ()+-*/%,<=>and cdivmx", max_size=60))
def test_near_expressions_are_a_value_or_an_error(text: str) -> None:
    for conditions in (False, True):
        try:
            Expression.parse(text, conditions).evaluate(VALUES)
        except InputError as error:
            assert error.next_step


def test_limits_are_inclusive() -> None:
    assert Expression.parse("1" + "+1" * 24).evaluate({}) == 25
    assert Expression.parse("(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH).evaluate({}) == 1
    assert Expression.parse("1".rjust(MAX_CHARACTERS)).evaluate({}) == 1
    assert Expression.parse(str(INT64_MAX)).evaluate({}) == INT64_MAX


def test_names_are_those_it_needs() -> None:
    assert Expression.parse("cdiv(N, BLOCK) + max(N, 4) - 2").names == {"N", "BLOCK"}
    assert Expression.parse("1 + 2").names == frozenset()


def test_errors_name_expression_case_and_values() -> None:
    with pytest.raises(InputError) as caught:
        evaluate("M // (N - 4097)", VALUES, what="grid x of launch scan", minimum=1, case="N=4097 M=3")
    message = str(caught.value)
    for part in ("grid x of launch scan", "case N=4097 M=3", "division by zero", "M // (N - 4097)", "N=4097, M=3"):
        assert part in message

    with pytest.raises(InputError, match=r"smem is -4093, but must be at least 0.*4 - N at N=4097"):
        evaluate("4 - N", VALUES, what="smem", minimum=0)
    with pytest.raises(InputError, match=r"the name K has no value: K \+ 1.*Names known here: BLOCK"):
        evaluate("K + 1", VALUES, what="grid x")
    with pytest.raises(InputError, match=r"64 bits.*N=9223372036854775807"):
        evaluate("N + 1", {"N": INT64_MAX}, what="args 2")
    with pytest.raises(InputError, match="the value of N does not fit into 64 bits"):
        evaluate("N - N", {"N": 2**70}, what="args 2")


def test_plain_integers_need_no_text() -> None:
    assert evaluate(7, {}, what="block x", minimum=1) == 7
    assert evaluate(-7, {}, what="args 1") == -7
    for wrong in (0, True):
        with pytest.raises(InputError, match="block x"):
            evaluate(wrong, {}, what="block x", minimum=1)


@pytest.mark.parametrize(("text", "good"), [("N", True), ("_x9", True), ("9x", False), ("min", False), ("and", False)])
def test_names(text: str, good: bool) -> None:
    assert is_name(text) is good
    assert not is_name(text + "\n")
