"""The header is found where it may stand, and mistakes are reported in the user's own line numbers."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.header.block import find_header
from kforecast.store.errors import InputError

HEADER = '/* kforecast 1\ntask = "scan"\n[[launch]]\nentry = "scan"\nargs = ["x"]\n*/\n'
CODE = 'void scan(const float* x) { const char* s = "/* kforecast 1"; }\n'
TABLE = {"task": "scan", "launch": [{"entry": "scan", "args": ["x"]}]}
PYTHON = '# /// kforecast 1\n# task = "scan"\n#\n# [[launch]]\n# entry = "scan"\n# args = ["x"]\n# ///\n'


@pytest.mark.parametrize("before", ["", "\n \t\n", "\ufeff", "\ufeff\r\n", "#include <stdint.h>\n", "\r\n\r\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_c_header_is_found(before: str, newline: str) -> None:
    block = find_header(before + (HEADER + CODE).replace("\n", newline), "c")
    assert block is not None
    assert block.table == TABLE
    assert block.first_line == 1 + before.count("\n")


@pytest.mark.parametrize(
    "before", ["", "\n", "\ufeff", "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n", '"""doc"""\n']
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_python_header_is_found(before: str, newline: str) -> None:
    block = find_header(before + (PYTHON + "import triton\n").replace("\n", newline), "triton")
    assert block is not None
    assert block.table == TABLE


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ("", "c"),
        ("int x;", "c"),
        (CODE, "c"),
        ("/* a kernel for kforecast */\n" + CODE, "cuda"),
        ("/* kforecast measures this */\n", "cuda"),
        ("// see kforecast\n", "c"),
        ('s = """\n# /// kforecast 1\n# ///\n"""\n', "torch"),
        ("# /// script\n# dependencies = []\n# ///\nkforecast = 1\n", "torch"),
    ],
)
def test_bare_files_have_none(source: str, language: str) -> None:
    assert find_header(source, language) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (HEADER + HEADER, "second kernel header on line 7"),
        (HEADER + CODE + "/*kforecast 1 */", "second kernel header on line 8"),
        ("// licence\n" + HEADER, "on line 2 is not the file's first comment"),
        (HEADER.replace("kforecast 1", "kforecast 2"), "unknown kernel header version on line 1: 2"),
        (HEADER.replace("kforecast 1", "kforecast 1.5"), "unknown kernel header version on line 1: 1.5"),
        (HEADER.replace("kforecast 1", "kforecast 10"), "version on line 1: 10"),
        (HEADER.replace("/* k", "/*k"), "exactly `/* kforecast 1`"),
        (HEADER.replace("/* k", "/** K"), "exactly `/* kforecast 1`"),
        (HEADER.replace(" 1\n", " v1\n"), "exactly `/* kforecast 1`"),
        (HEADER.replace(" 1\n", "\n"), "exactly `/* kforecast 1`"),
        (HEADER.replace(" 1\n", " 1 "), "exactly `/* kforecast 1`"),
        ("// kforecast 1\n", "exactly `/* kforecast 1`"),
        (HEADER.replace("*/", ""), "does not end"),
        ("/* kforecast 1", "does not end"),
        ("/* kforecast 1/", "exactly"),
        ("\n\n" + HEADER.replace("[[launch]]", "[[launch]"), "line 5"),
        ("\n\n" + HEADER.replace('"scan"\n[', '"scan\n['), "line 4"),
        (HEADER.replace("task", "task task"), "line 2, column 6"),
        ("/* kforecast 1\nx = " + "[" * 5000 + "\n*/", "nests too deep"),
        ("/* kforecast 1\nx = " + "[" * 60 + "]" * 60 + "\n*/", "nests too deep"),
        ("/* kforecast 1\n" + "a." * 32_000 + "a = 1\n*/", "nests too deep"),
        ("/* kforecast 1\n" + '"a" . ' * 9_000 + "a = 1\n*/", "nests too deep"),
        ("/* kforecast 1\nx = " + "9" * 5000 + "\n*/", "too many digits"),
        ("/* kforecast 1\n" + "x" * 70000 + " = 1\n*/", "too long"),
    ],
)
def test_mistakes_in_c(source: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        find_header(source, "c")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (PYTHON + PYTHON, "second kernel header on line 8"),
        ("# licence\n" + PYTHON, "on line 2 is not the file's first comment"),
        (PYTHON.replace("kforecast 1", "kforecast 3"), "unknown kernel header version on line 1: 3"),
        (PYTHON.replace("# ///\n", ""), "does not end"),
        (PYTHON.replace("# args", "args"), "line 6 is no comment line"),
        (PYTHON.replace("# /// k", "# // k"), "exactly `# /// kforecast 1`"),
        ("\n" + PYTHON.replace("entry =", "entry"), "line 6, column 9"),
    ],
)
def test_mistakes_in_python(source: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        find_header(source, "triton")
    assert message in str(caught.value)


@given(st.text(alphabet="/* kforecast1\n\"'\\#R()[]=", max_size=80))
def test_any_c_text_has_a_header_or_none_or_an_error(source: str) -> None:
    for text in (source, HEADER + source):
        try:
            block = find_header(text, "cuda")
        except InputError as error:
            assert error.next_step
        else:
            assert block is None or block.table == TABLE or tomllib.loads(block.text) == block.table


@given(st.text(alphabet="# /kforecast1\n\"'\\=([", max_size=80))
def test_any_python_text_has_a_header_or_none_or_an_error(source: str) -> None:
    for text in (source, PYTHON + source):
        try:
            find_header(text, "torch")
        except InputError as error:
            assert error.next_step


def test_lines_of_keys() -> None:
    block = find_header("\n" + HEADER, "c")
    assert block is not None
    assert [block.line_of(key) for key in ("task", "launch", "entry", "args", "absent")] == [3, 4, 5, 6, None]
