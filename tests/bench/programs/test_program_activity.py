"""From the records that the injected library writes to the table that people read."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.programs.activity import demangled, read_activity


def record(kind: int, number: int = 0, start: int = 0, end: int = 0, size: int = 0, process: int = 1) -> bytes:
    return struct.pack("<IIIIQQQ", kind, process, number, 0, start, end, size)


def name(number: int, text: str, process: int = 1) -> bytes:
    return record(1, number, size=len(text), process=process) + text.encode()


def test_launches_are_summed_by_kernel_and_ranked_by_their_time() -> None:
    data = name(3, "short") + record(2, 3, 0, 1000) + name(9, "long") + record(2, 9, 0, 5000)
    data += record(2, 3, 2000, 4000) + record(3, 1, 0, 500, 4096) + record(4, 0, 0, 100, 64)
    found = read_activity(data)
    assert [(k.name, k.launches, k.total_us, k.mean_us, k.least_us, k.most_us) for k in found.kernels] == [
        ("long", 1, 5.0, 5.0, 5.0, 5.0),
        ("short", 2, 3.0, 1.5, 1.0, 2.0),
    ]
    assert found.kernels[0].spread_us is None
    assert found.kernels[1].spread_us == pytest.approx(0.7071, abs=1e-4)
    assert [(c.name, c.bytes) for c in found.copies] == [("copy, host to device", 4096), ("fill", 64)]
    assert found.kernel_us == 8.0
    assert (found.dropped, found.failures) == (0, ())


def test_two_processes_of_a_program_may_give_a_number_to_different_names() -> None:
    data = name(1, "ours") + name(1, "theirs", process=2) + record(2, 1, 0, 1000) + record(2, 1, 0, 2000, process=2)
    assert {kind.name: kind.total_us for kind in read_activity(data).kernels} == {"ours": 1.0, "theirs": 2.0}


def test_what_is_missing_or_odd_is_told() -> None:
    assert read_activity(record(5, size=12)).dropped == 12
    assert read_activity(record(6, size=2) + b"no").failures == ("CUPTI: no",)
    assert read_activity(record(2, 7, 0, 1000)[:20]).failures == ("the list of launches ends within a record",)
    odd = read_activity(record(2, 7, 0, 1000) + record(99))
    assert odd.failures == ("the list of launches holds something else",)
    assert odd.kernels[0].name == "(unnamed)"
    assert read_activity(b"").kernel_us == 0.0


@given(st.binary(max_size=300))
def test_no_file_is_too_odd(data: bytes) -> None:
    assert read_activity(data).kernel_us >= 0.0


def test_names_as_people_write_them_but_never_two_the_same() -> None:
    mangled = {"_Z5scaleIfEvPT_i": "scale<float>", "plain": "plain"}
    assert demangled(mangled) in (mangled, {key: key for key in mangled})  # without binutils they stay
    two = ["_Z1fi", "_Z1ff"]
    assert len(set(demangled(two).values())) == 2
