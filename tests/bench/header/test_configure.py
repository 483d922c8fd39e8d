"""Tunables: which configurations a header allows, and how the user picks one."""

from __future__ import annotations

from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.header.configure import Tune, configurations, configure, parse_settings
from kforecast.store.errors import InputError

TUNE = Tune(values={"BM": (128, 64, 256), "BN": (128, 64), "S": (1, 2)}, when=("BM + BN <= 256", "BM <= SMEM_MAX"))


def test_configurations_are_those_that_every_condition_allows() -> None:
    found = list(configurations(TUNE))
    wanted = [
        {"BM": bm, "BN": bn, "S": s}
        for bm, bn, s in product(*TUNE.values.values())
        if bm + bn <= 256
    ]  # fmt: skip
    assert found == wanted
    assert found[0] == configure(TUNE)
    assert list(configurations(TUNE, {"SMEM_MAX": 100})) == [entry for entry in wanted if entry["BM"] <= 100]


@given(
    st.dictionaries(
        st.sampled_from("ABCD"), st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), max_size=4
    ),
    st.lists(st.sampled_from(["A < B", "A * B == 6", "C <= 4 and D > 0", "A % 2 == 0", "D == 7"]), max_size=3),
)
def test_pruning_loses_nothing(values: dict[str, list[int]], conditions: list[str]) -> None:
    tune = Tune(values={name: tuple(listed) for name, listed in values.items()}, when=tuple(conditions))
    usable = [text for text in conditions if {name for name in "ABCD" if name in text} <= values.keys()]
    chosen = (dict(zip(values, combination, strict=True)) for combination in product(*values.values()))
    assert list(configurations(tune)) == [entry for entry in chosen if all(eval(text, {}, entry) for text in usable)]


def test_configurations_come_lazily_and_skip_what_conditions_exclude() -> None:
    huge = Tune(values={f"T{i}": tuple(range(100)) for i in range(20)}, when=("T0 == 99", "T1 == 98"))
    assert [(entry["T0"], entry["T1"], entry["T19"]) for entry in islice(configurations(huge), 2)] == [
        (99, 98, 0),
        (99, 98, 1),
    ]


def test_settings_take_the_place_of_defaults() -> None:
    assert configure(TUNE, {"BM": 64, "S": 2}) == {"BM": 64, "BN": 128, "S": 2}
    assert configure(Tune()) == {}


@pytest.mark.parametrize(
    ("tune", "settings", "constants", "says"),
    [
        (TUNE, {"BK": 1}, {}, "Did you mean B"),
        (TUNE, {"BM": 65}, {}, "Listed: 128, 64, 256"),
        (TUNE, {"BM": 256}, {}, "BM + BN <= 256 at BM=256, BN=128"),
        (TUNE, {}, {"SMEM_MAX": 100}, "BM <= SMEM_MAX at SMEM_MAX=100, BM=128"),
        (Tune(values={"A": (3, 1)}, when=("A < 2",)), {}, {}, "default configuration"),
        (Tune(values={"A": (0, 1)}, when=("8 % A == 0",)), {}, {}, "division by zero"),
    ],
)
def test_refused(tune: Tune, settings: dict[str, int], constants: dict[str, int], says: str) -> None:
    with pytest.raises(InputError) as caught:
        configure(tune, settings, constants)
    assert says in str(caught.value)


def test_parse_settings() -> None:
    assert parse_settings(["BM=64", " BN = -2 ", "S=+3"]) == {"BM": 64, "BN": -2, "S": 3}
    for wrong in ("", "BM", "BM=", "=3", "BM=1.5", "BM=0x10", "BM=1_0", "BM=٣", "B M=1", "BM=1;2", "BM=" + "9" * 30):
        with pytest.raises(InputError, match="not a setting"):
            parse_settings([wrong])
    with pytest.raises(InputError, match="set twice"):
        parse_settings(["BM=64", "BM=64"])
