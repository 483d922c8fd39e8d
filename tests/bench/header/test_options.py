"""Compiler options come from an allow-list, in one spelling, and become labels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.header.options import check_options, is_cpp, labels
from kforecast.store.errors import InputError
from kforecast.store.models import Language


@pytest.mark.parametrize(
    ("language", "given_options", "options", "said"),
    [
        ("c", [], (), ()),
        ("c", ["-ffast-math", "-O3", "-O3"], ("-O3", "-ffast-math"), ("fast-math",)),
        ("c", ["-O1", "-fopenmp", "-std=gnu11"], ("-O1", "-fopenmp", "-std=gnu11"), ("O1", "openmp")),
        ("c", ["-march=native", "-funroll-loops"], ("-funroll-loops", "-march=native"), ("unroll-loops",)),
        ("cuda", ["-use_fast_math"], ("--use_fast_math",), ("fast-math",)),
        ("cuda", ["--maxrregcount=64", "-lineinfo"], ("--maxrregcount=64", "-lineinfo"), ("maxrregcount=64",)),
        ("cuda", ["--std=c++17"], ("-std=c++17",), ()),
        ("triton", [], (), ()),
    ],
)
def test_allowed(language: Language, given_options: list[str], options: tuple[str, ...], said: tuple[str, ...]) -> None:
    assert check_options(given_options, language) == options
    assert labels(options, language) == said
    assert check_options(options, language) == options


@pytest.mark.parametrize(
    ("language", "option"),
    [
        ("c", "-O4"),
        ("c", "-Ofast"),
        ("c", "-DX=1"),
        ("c", "-I/etc"),
        ("c", "-include/etc/passwd"),
        ("c", "-fplugin=x.so"),
        ("c", "-march=native -o /tmp/x"),
        ("c", "-O3\n"),
        ("c", "@file"),
        ("c", "--use_fast_math"),
        ("c", "-std=c++98x"),
        ("c", ""),
        ("cuda", "-ffast-math"),
        ("cuda", "--maxrregcount=15"),
        ("cuda", "--maxrregcount=256"),
        ("cuda", "--maxrregcount=٦٤"),
        ("cuda", "--include-path=/"),
        ("triton", "-O3"),
    ],
)
def test_refused(language: Language, option: str) -> None:
    with pytest.raises(InputError) as caught:
        check_options([option], language)
    if language != "triton":
        assert "fast" in caught.value.next_step


def test_contradictions() -> None:
    for pair in (["-O1", "-O2"], ["-std=c11", "-std=c17"]):
        with pytest.raises(InputError, match="contradict"):
            check_options(pair, "c")


@given(st.text(max_size=30), st.sampled_from(["c", "cuda", "triton", "torch"]))
def test_only_listed_options_pass(option: str, language: Language) -> None:
    with pytest.raises(InputError):
        check_options(["-" + option + " "], language)


def test_options_alone_tell_c_from_cpp() -> None:
    assert is_cpp(["-O3", "-std=gnu++20"])
    assert not is_cpp(["-std=c17"])
    assert not is_cpp([])
