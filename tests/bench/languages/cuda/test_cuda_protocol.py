from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.languages.cuda.protocol import PREFIX, FrameError, decode, encode, read_frame, write_all

headers = st.dictionaries(
    st.text(max_size=8), st.one_of(st.integers(), st.text(max_size=20), st.booleans()), max_size=4
)
blobs = st.dictionaries(st.text(max_size=8), st.binary(max_size=200), max_size=4)


@given(headers, blobs)
def test_frames_come_back_as_they_were_sent(header: dict[str, object], parts: dict[str, bytes]) -> None:
    assert decode(encode(header, parts)[PREFIX:]) == (header, parts)


@given(headers, blobs, st.data())
def test_a_cut_frame_is_an_error(header: dict[str, object], parts: dict[str, bytes], data: st.DataObject) -> None:
    body = encode(header, parts)[PREFIX:]
    with pytest.raises(FrameError):
        decode(body[: data.draw(st.integers(0, len(body) - 1))])


@given(st.binary(max_size=60))
def test_noise_is_an_error_and_nothing_else(noise: bytes) -> None:
    with pytest.raises(FrameError):
        decode(noise)


def test_frames_over_a_pipe_and_the_size_limit() -> None:
    reader, writer = os.pipe()
    write_all(writer, encode({"a": 1}) + encode({"b": 2}, {"x": b"12"}))
    first = read_frame(reader, 1000)
    assert first is not None
    assert decode(first) == ({"a": 1}, {})
    with pytest.raises(FrameError, match="more than the 10 allowed"):
        read_frame(reader, 10)
    os.close(writer)
    os.close(reader)
    reader, writer = os.pipe()
    os.close(writer)
    assert read_frame(reader, 10) is None
    os.close(reader)
