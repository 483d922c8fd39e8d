"""Which forms a task's cases need: every case runs one whose assumptions are true of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.header.plan import PlannedLaunch, PointerArg, ScalarArg
from kforecast.bench.header.signature import signatures
from kforecast.bench.languages.build import Build, Form, FormParameter
from kforecast.bench.languages.triton.specialise import MOST_FORMS, MOST_TIMED_FORMS, Forms, described, forms_for, holds
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.store.errors import InputError
from kforecast.store.models import Facts, Kernel, Launch

TASK = builtin_task("vector_add")
Cases = Sequence[tuple[int, ...]]
SOURCE = "@triton.jit{}\ndef k(x, n, m, BLOCK: tl.constexpr): ...\n"


def forms(timed: Cases, checked: Cases, jit: str = "") -> Forms:
    source = SOURCE.format(jit)
    launch = Launch(entry="k", args=("a", "N", "N"))
    kernel = Kernel.make(language="triton", name="k", source=source, launches=(launch,), task_id=TASK.id)

    def planned(values: Cases) -> list[tuple[PlannedLaunch, ...]]:
        return [(planned_one(one),) for one in values]

    return forms_for(kernel, TASK, signatures(source, "triton"), planned(timed), planned(checked))


def planned_one(values: tuple[int, ...]) -> PlannedLaunch:
    """Two numbers, and a third that is a constant of the case."""
    scalars = [ScalarArg(value, "int64_t", "i64") for value in values[:2]]
    return PlannedLaunch("k", "k", (PointerArg("a"), *scalars), constexpr=tuple(("BLOCK", v) for v in values[2:]))


SIZES = st.sampled_from([0, 1, 2, 7, 16, 17, 32, 4096, 2**31 - 1, 2**31, 2**40])
CASES = st.lists(st.tuples(SIZES, SIZES, st.sampled_from([16, 32, 64])), max_size=6)


@given(CASES, CASES)
def test_every_case_has_a_form_that_holds(timed: Cases, checked: Cases) -> None:
    if not timed and not checked:
        return
    found = forms(timed, checked)
    (units,), (special,) = found.units, found.timed
    blocks = {values[2] for values in (*timed, *checked)}
    assert 1 <= special <= MOST_TIMED_FORMS * len(blocks)
    assert len(units) <= special + len(blocks)
    assert len(set(units)) == len(units)
    for values in (*timed, *checked):
        serving = [unit for unit in units if holds(unit, planned_one(values))]
        assert serving
        assert serving[0].constexpr == (("BLOCK", values[2]),)
        for parameter, value in zip(serving[0].parameters[1:], values[:2], strict=True):
            assert parameter.equals in (None, value)
            assert value % parameter.multiple == 0
            assert parameter.dtype == "i64" or value < 2**31
    for values in timed:
        assert any(holds(unit, planned_one(values)) for unit in units[:special])
    assert all(unit.types == units[0].types for unit in units)


def test_the_timed_case_gets_what_the_jit_would_assume() -> None:
    found = forms([(4096, 1)], [(4096, 1), (33, 1)])
    first, second = found.units[0]
    assert first.parameters[1:] == (FormParameter("i32", multiple=16), FormParameter("i32", equals=1))
    assert second.parameters[1:] == (FormParameter("i32"), FormParameter("i32", equals=1))
    assert first.types == ("*fp32", "i32", "i32")
    assert described(first) == "n is a multiple of 16, m is 1"


def test_checked_cases_that_a_timed_form_holds_for_need_no_other() -> None:
    assert len(forms([(4096, 16)], [(32, 64), (0, 16)]).units[0]) == 1


def test_a_constant_of_the_case_makes_a_form_of_its_own() -> None:
    found = forms([(4096, 16, 64)], [(4096, 16, 64), (33, 5, 64), (33, 16, 32), (32, 16, 32)])
    assert [(dict(unit.constexpr)["BLOCK"], described(unit)) for unit in found.units[0]] == [
        (64, "BLOCK is 64, n is a multiple of 16, m is a multiple of 16"),
        (64, "BLOCK is 64"),
        (32, "BLOCK is 32, m is a multiple of 16"),
    ]
    assert found.timed == (1,)


def test_too_many_constants_are_refused() -> None:
    forms([(1, 1, 16)], [(1, 1, block) for block in range(MOST_FORMS)])
    with pytest.raises(InputError, match="too many values"):
        forms([(1, 1, 160)], [(1, 1, block) for block in range(MOST_FORMS)])


def test_many_timed_forms_become_one() -> None:
    found = forms([(16, 3), (1, 3), (3, 16), (16, 16)], [])
    assert found.timed == (1,)
    assert found.units[0][0].parameters[1:] == (FormParameter("i32"), FormParameter("i32"))


@pytest.mark.parametrize(
    ("jit", "first", "second"),
    [
        ('(do_not_specialize=["n"])', FormParameter("i32"), FormParameter("i32", equals=1)),
        ("(do_not_specialize=[1, 2])", FormParameter("i32"), FormParameter("i32")),
        ('(do_not_specialize_on_alignment=["n", "m"])', FormParameter("i32"), FormParameter("i32", equals=1)),
        ("(noinline=True)", FormParameter("i32", multiple=16), FormParameter("i32", equals=1)),
    ],
)
def test_what_the_decorator_forbids_is_not_assumed(jit: str, first: FormParameter, second: FormParameter) -> None:
    assert forms([(4096, 1)], [], jit).units[0][0].parameters[1:] == (first, second)


def test_a_launch_is_placed_in_its_form() -> None:
    special = Form(0, "k", 256, 1024, 2, (FormParameter(None), FormParameter("i32", 1), FormParameter("i32")), 2)
    general = Form(0, "k__1", 128, 0, 1, (FormParameter(None), FormParameter("i32"), FormParameter("i64")), 1)
    build = Build(None, Facts(ok=True), {"k": "k"}, "", (special, general))
    launch = planned_one((1, 5))
    ((symbol, placed),) = build.placed([launch])
    assert (symbol, placed.block, placed.smem, placed.grid) == ("k", (256, 1, 1), 1024, (2, 1, 1))
    assert placed.args == (
        PointerArg("a"),
        ScalarArg(5, "int64_t", "i32"),
        ScalarArg(0, "void*", "u64"),
        ScalarArg(0, "void*", "u64"),
    )
    ((symbol, placed),) = build.placed([planned_one((2, 5))])
    assert symbol == "k__1" and len(placed.args) == 4
