"""Shared memory of the host-code lane: comparing and digesting what is in it."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.hosted import memory
from kforecast.bench.hosted.memory import SharedMemory, digest_of, same_bytes


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_the_same_bytes_and_no_others(one: bytes, other: bytes) -> None:
    assert same_bytes(memoryview(one), memoryview(other)) == (one == other)


@given(st.binary(min_size=1, max_size=200), st.integers(0, 199))
def test_one_changed_byte_is_another_digest(data: bytes, place: int) -> None:
    changed = bytearray(data)
    changed[place % len(data)] ^= 1
    assert digest_of([memoryview(data)]) == digest_of([memoryview(bytes(data))])
    assert digest_of([memoryview(data)]) != digest_of([memoryview(changed)])


def test_where_one_view_ends_and_the_next_begins_counts() -> None:
    data = memoryview(bytes(range(40)))
    assert digest_of([data[:10], data[10:]]) != digest_of([data[:20], data[20:]])


def test_pieces_are_read_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_PIECE", 8)
    data = bytes(range(20))
    pieces = b"".join(hashlib.blake2b(data[at : at + 8]).digest() for at in (0, 8, 16))
    assert digest_of([memoryview(data)]) == hashlib.blake2b(pieces + b"20").digest()


def test_views_are_let_go_of_so_that_the_memory_can_be_closed() -> None:
    area = SharedMemory("inputs", 1 << 16)
    with area.bytes_at(0, 1 << 16) as view:
        digest_of([view])
    area.close()
