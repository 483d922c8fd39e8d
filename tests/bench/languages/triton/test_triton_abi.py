"""How PTX entries are called, read from the text."""

from __future__ import annotations

import pytest

from kforecast.bench.languages.build import FormParameter
from kforecast.bench.languages.triton.abi import read_abi, renamed, trailing_pointers, without_lines

NEW = """
.version 9.4
.target sm_90a
.address_size 64
	// .globl	softmax                 // -- Begin function softmax
.extern .shared .align 16 .b8 global_smem[];
.global .align 1 .b8 $str[4] = {97, 98, 99, 0};
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0
)
;
.visible .entry softmax(
	.param .u64 .ptr .global .align 1 softmax_param_0,
	.param .u32 softmax_param_1,
	.param .u64 .ptr .global .align 1 softmax_param_2,
	.param .u64 .ptr .global .align 1 softmax_param_3
)
.reqntid 128
.explicitcluster
.reqnctapercluster 2
{
	ld.param.b64 	%rd1, [softmax_param_0];
	mov.b64 	%rd2, $str;
	call.uni (%r1), softmax_helper, (%rd1);
	ret;
}
.func  (.param .b32 func_retval0) softmax_helper(
	.param .b64 softmax_helper_param_0
)
{
	ret;
}
"""
POINTER, NUMBER = FormParameter(None), FormParameter("i32")


def test_parameters_threads_and_cluster() -> None:
    abi = read_abi(NEW)
    assert (abi.symbol, abi.bits, abi.threads, abi.ctas, abi.target) == ("softmax", (64, 32, 64, 64), 128, 2, "sm_90a")


def test_older_text_says_maxntid_and_may_say_nothing_of_a_cluster() -> None:
    text = NEW.replace(".reqntid 128\n.explicitcluster\n.reqnctapercluster 2", ".maxntid 64, 2, 1")
    assert (read_abi(text).threads, read_abi(text).ctas) == (128, 1)
    assert read_abi(text.replace(".maxntid 64, 2, 1", "")).threads is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        NEW.replace(".target sm_90a", ""),
        NEW + NEW.replace(".target sm_90a", ""),
        NEW.replace(".param .u64 .ptr .global .align 1 softmax_param_0", ".param .align 64 .b8 softmax_param_0[128]"),
    ],
)
def test_what_cannot_be_called_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="its PTX"):
        read_abi(text)


def test_pointers_that_follow_the_arguments() -> None:
    abi = read_abi(NEW)
    assert trailing_pointers(abi, [POINTER, NUMBER]) == 2
    assert trailing_pointers(abi, [POINTER, NUMBER, POINTER]) == 1
    assert trailing_pointers(abi, [POINTER, FormParameter("i32", equals=1), NUMBER]) == 2
    for wrong in ([POINTER], [NUMBER, POINTER], [POINTER, FormParameter("i64")], [POINTER] * 5):
        with pytest.raises(ValueError, match="bits"):
            trailing_pointers(abi, wrong)


def test_line_tables_and_comments_go() -> None:
    lined = NEW.replace("	mov.b64", "	.loc	1 7 3 // /tmp/gone/kernel.py:7:3\n$L__tmp0:\n	mov.b64") + (
        '	.file	1 "/tmp/gone" "kernel.py"\n	.section	.debug_abbrev\n	{\n.b8 1\n.b8 0\n	}\n'
        "	.section	.debug_macinfo	{	}\n"
    )
    assert without_lines(lined) == without_lines(NEW)
    assert "gone" not in without_lines(lined) and "//" not in without_lines(lined)
    assert read_abi(without_lines(lined)) == read_abi(NEW)


def test_what_a_text_defines_is_renamed_and_nothing_else() -> None:
    text = renamed(NEW, "__3")
    for name in (".entry softmax__3(", "softmax_helper__3(", "), softmax_helper__3,", "$str__3[4]", "%rd2, $str__3;"):
        assert name in text
    for name in ("softmax_param_0", "global_smem[]", "vprintf\n", "softmax_helper_param_0"):
        assert name in text
    assert read_abi(text).symbol == "softmax__3"
    assert renamed("no definitions", "__3") == "no definitions"
