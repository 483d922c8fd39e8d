"""Ids: what cannot change the program keeps the id, what can does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.store.identity import content_id, new_id, normalise_source
from kforecast.store.models import Kernel, Launch

C_SOURCE = """#include <stdio.h>
#define N 16

void f(const float* x, float* y) {
    const char* text = "a  // b";
    for (int i = 0; i < N; ++i) y[i] = x[i] * 2.0f;
}
"""


def same(first: str, second: str, language: str = "c") -> bool:
    return normalise_source(first, language) == normalise_source(second, language)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("#define", "// a remark, don't mind\n#define"),
        ("#define", '/* a\n longer "remark" */\n#define'),
        ("y[i] = x[i]", "y[i] =   x[i]"),
        ("y[i] = x[i]", "y[i] = /* why */ x[i]"),
        ("    for", "\tfor"),
        ("{\n", "{   \n\n\n"),
        ("\n", "\r\n"),
        ("#include <", "  #include <"),
        ("N 16", "N \\\n 16"),
        ("2.0f;", "2.0f; // doubled \\\n and this is still the remark"),
    ],
)
def test_comments_and_blanks_keep_the_program(old: str, new: str) -> None:
    changed = C_SOURCE.replace(old, new)
    assert changed != C_SOURCE
    assert same(C_SOURCE, changed)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('p("a  b");', 'p("a b");'),
        ('p("a // b");', 'p("a // c");'),
        ('p("a /* b */");', 'p("a /* c */");'),
        ('p("\\" // a");', 'p("\\" // b");'),
        ("char q = '\"'; // x\nint a;", "char q = '\"'; // x\nint b;"),
        ('p(R"(a\n   b)");', 'p(R"(a\nb)");'),
        ('p(R"(a\n\n\nb)");', 'p(R"(a\nb)");'),
        ('p(R"x(a )" // b)x");', 'p(R"x(a )" // c)x");'),
        ('p(u8R"(a  b)");', 'p(u8R"(a b)");'),
        ('p("a\\\n   b");', 'p("a\\\nb");'),
        ("#include <a//b.h>", "#include <a//c.h>"),
        ("#define A 1 \\\n\n+2", "#define A 1 \\\n+2"),
        ("#define F(x) x", "#define F (x) x"),
        ("#define A\nint b;", "#define A int b;"),
        ('n = 1\'000; /* \' " */ p("a  b");', 'n = 1\'000; /* \' " */ p("a b");'),
        ("a = b + c;", "a = b - c;"),
        ("a = b+ +c;", "a = b++c;"),
        ("int ab;", "int a b;"),
        ("int a/**/b;", "int ab;"),
        ("p('\x00', \"a  b\");", "p('\x00', \"a b\");"),
        ('\x00 p("a");', 'p("a") \x00;'),
    ],
)
@pytest.mark.parametrize("language", ["c", "cuda"])
def test_another_program_is_another_text(first: str, second: str, language: str) -> None:
    assert not same(first, second, language)


def test_slashes_in_a_string_start_no_comment() -> None:
    assert 'url("http://x/y");' in normalise_source('url("http://x/y"); // where', "c")


def test_python_indentation_counts_and_trailing_blanks_do_not() -> None:
    assert same("if a:\n    b()\n\nc()", "if a:   \n    b()\r\nc()\n\n", "triton")
    assert not same("if a:\n    b()\nc()", "if a:\n    b()\n    c()", "triton")
    assert not same("x = '# a  '", "x = '# a'", "torch")


@pytest.mark.parametrize("quote", ['"""', "'''"])
def test_python_literals_of_many_lines_stay_as_they_are(quote: str) -> None:
    assert not same(f"s = {quote}a  \n\nb{quote}", f"s = {quote}a\nb{quote}", "torch")
    assert same(f"# it's {quote}\ns = 1  \n", f"# it's {quote}\ns = 1", "torch")
    assert not same("x = 1 \\\n\n+2", "x = 1 \\\n+2", "triton")


@given(st.text(alphabet="ab1'\"\\/*#()<>R \t\n\x00", max_size=40), st.sampled_from(["c", "triton"]))
def test_normalising_loses_no_letter_outside_comments(source: str, language: str) -> None:
    """Total on any text, and nothing but blanks, comments and joined lines goes."""
    result = normalise_source(source, language)
    if language == "triton" or not set("/\\") & set(source):
        assert "".join(result.split()) == "".join(source.split())


@given(st.text(alphabet="ab1+;{}() \t\n", max_size=60))
def test_normalising_twice_is_normalising_once(source: str) -> None:
    once = normalise_source(source, "c")
    assert normalise_source(once, "c") == once


def kernel(source: str, **changes: object) -> Kernel:
    fields: dict[str, object] = {
        "language": "c",
        "name": "a.c",
        "source": source,
        "launches": (Launch(entry="f", args=("x", "y")),),
        "task_id": "t_1",
    }
    return Kernel.make(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_kernel_is_its_program_not_its_name_or_its_remarks() -> None:
    first = kernel(C_SOURCE)
    assert kernel("// mine\n" + C_SOURCE, name="b.c").id == first.id


@pytest.mark.parametrize(
    "changes",
    [
        {"source": C_SOURCE.replace("2.0f", "3.0f")},
        {"language": "cuda"},
        {"options": ("-O2",)},
        {"tunables": {"BLOCK": 128}},
        {"includes": {"a.h": "#define A 1"}},
        {"launches": (Launch(entry="f", args=("y", "x")),)},
        {"task_id": "t_2"},
    ],
)
def test_whatever_decides_what_runs_is_in_the_id(changes: dict[str, object]) -> None:
    first = kernel(C_SOURCE)
    other = kernel(**{"source": C_SOURCE, **changes})  # type: ignore[arg-type]
    assert other.id != first.id
    assert other.source_id != first.source_id


def test_the_toolchain_is_in_the_id_but_not_in_the_source_id() -> None:
    first, other = kernel(C_SOURCE, toolchain="gcc 12"), kernel(C_SOURCE, toolchain="gcc 13")
    assert first.id != other.id
    assert first.source_id == other.source_id


def test_order_of_keys_does_not_matter_to_a_content_id() -> None:
    assert content_id("x", {"a": 1, "b": 2}) == content_id("x", {"b": 2, "a": 1})
    assert content_id("x", {"a": 1}) != content_id("y", {"a": 1})


def test_random_ids_differ_and_carry_their_prefix() -> None:
    ids = {new_id("m") for _ in range(1000)}
    assert len(ids) == 1000
    assert all(one.startswith("m_") and len(one) == 22 for one in ids)
