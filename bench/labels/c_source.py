"""Findings in C, C++ and CUDA sources, over their tokens: comments and texts in quotes say nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...store.errors import InputError
from ...store.models import Language, Task
from ..header.block import find_header
from ..header.header import Header, parse_header
from ..header.tokens import Token, tokens
from .label import Label
from .precision import low_precision

_LIBRARY = re.compile(
    r"(?:cublas|cudnn|cusparse|cusolver|cufft|nvblas|cutensor)[A-Z]\w*|cblas_\w+|[sdcz](?:gemm|gemv|axpy|dot|nrm2)_?|mkl_\w+"
    r"|vml\w+|dnnl_\w+"
)
_LIBRARY_HEADER = re.compile(r"cub/|thrust/|cutlass/|cute/|cublas|cudnn|cblas|mkl|dnnl|openblas|Eigen/", re.IGNORECASE)
_FAST = {
    *("__expf", "__exp10f", "__logf", "__log2f", "__log10f", "__sinf", "__cosf", "__sincosf", "__tanf", "__powf"),
    *("__fdividef", "__tanhf", "_mm256_rcp_ps", "_mm256_rsqrt_ps", "_mm512_rcp14_ps", "_mm512_rsqrt14_ps"),
    *("_mm_rcp_ps", "_mm_rsqrt_ps", "_mm512_rcp28_ps", "_mm512_rsqrt28_ps"),
}
_FAST_ASSEMBLY = re.compile(r"\b(?:ex2|lg2|rcp|rsqrt|sqrt|div|sin|cos|tanh)\.approx\b")
FAST_OPTION = re.compile(r"-?-?(?:use_fast_math|ffast-math|Ofast)|\b(?:fast-math|Ofast|unsafe-math-optimizations)\b")
_STREAMS = re.compile(r"cu(?:da)?Stream(?:Create|BeginCapture|WaitEvent)\w*")
_GRAPHS = re.compile(r"cu(?:da)?Graph(?:Launch|Instantiate|ExecUpdate)\w*")
_THREADS = {"pthread_create", "thrd_create", "jthread", "async", "clone", "fork"}
_RUN_TIME = {
    "dlopen",
    "dlsym",
    "system",
    "popen",
    "execve",
    "execl",
    "execlp",
    "execvp",
    "mprotect",
    "nvrtcCompileProgram",
}
_HALVES = {
    "__bf16": "bf16",
    "_Float16": "f16",
    "_mm512_dpbf16_ps": "bf16",
    "_mm256_dpbf16_ps": "bf16",
}
_ASSEMBLY = {"asm", "__asm__", "__asm"}
_DECLARATION = 40
"""Tokens within which a declaration says whether it is a variable."""
_LEAST = 32
"""A size compared with less than this is a bound, a tail or a vector's width."""


def of_c(source: str, language: Language, task: Task | None) -> list[Label]:
    """Every finding in one source."""
    header = _header(source, language)
    stream = [token for token in tokens(source) if token.kind != "comment"]
    found = [
        Label("fast-math", f"compiled with {o}") for o in (header.options if header else ()) if FAST_OPTION.search(o)
    ]
    for token in stream:
        found += _of_directive(token) if token.kind == "directive" else _of_text(token, task, language)
    found += _assembly(stream)
    found += _specialised(stream, _sizes(header, task))
    if language == "c":
        found += _static(stream)
    return found


def _header(source: str, language: Language) -> Header | None:
    """The header, where the source has one that can be read: errors in it are for whoever loads the kernel to tell."""
    try:
        block = find_header(source, language)
        return None if block is None else parse_header(block)
    except InputError:
        return None


def _of_directive(token: Token) -> Iterator[Label]:
    words = token.text.split()
    if re.match(r"#\s*include(?:_next)?\b", token.text):
        target = re.search(r'[<"]([^>"]+)[>"]', token.text)
        if target is None:
            yield Label("foreign-include", "includes what a macro names", token.line)
        elif target.group(1).startswith(("/", "~")) or ".." in target.group(1).split("/"):
            yield Label("foreign-include", f"includes {target.group(1)}, outside its folder", token.line)
        elif _LIBRARY_HEADER.match(target.group(1)):
            yield Label("library", f"includes {target.group(1)}", token.line)
    elif "pragma" in words[0] + "".join(words[1:2]) and FAST_OPTION.search(token.text):
        yield Label("fast-math", "a pragma asks for it", token.line)


def _of_text(token: Token, task: Task | None, language: str) -> Iterator[Label]:
    name = token.text
    if token.kind == "text":
        if FAST_OPTION.search(name):
            yield Label("fast-math", "an attribute asks for it", token.line)
        return
    if token.kind != "name":
        return
    if _LIBRARY.fullmatch(name):
        yield Label("library", f"calls {name}", token.line)
    elif name in _FAST:
        yield Label("fast-math", f"uses {name}", token.line)
    elif _STREAMS.fullmatch(name):
        yield Label("streams", f"calls {name}", token.line)
    elif _GRAPHS.fullmatch(name):
        yield Label("graphs", f"calls {name}", token.line)
    elif name in _THREADS and language == "c":
        yield Label("threads", f"uses {name}", token.line)
    elif name in _RUN_TIME and language == "c":
        yield Label("run-time-code", f"calls {name}", token.line)
    elif name in _HALVES and language == "c":
        yield from low_precision(_HALVES[name], "it computes with", task, token.line)


def _assembly(stream: Sequence[Token]) -> Iterator[Label]:
    for place, token in enumerate(stream):
        if token.kind != "name" or token.text not in _ASSEMBLY:
            continue
        yield Label("assembly", "has instructions of its own", token.line)
        depth = 0
        for inner in stream[place + 1 :]:
            depth += (inner.text == "(") - (inner.text == ")")
            if inner.kind == "text" and _FAST_ASSEMBLY.search(inner.text):
                yield Label("fast-math", "an approximate instruction in its assembly", inner.line)
            if inner.text == ";" and depth <= 0:
                break


def _sizes(header: Header | None, task: Task | None) -> set[str]:
    """Names that may hold a size of the task inside the kernel."""
    names = set(task.size_names) if task is not None else set()
    if header is not None:
        names |= {
            argument for launch in header.launches for argument in launch.args if re.fullmatch(r"[A-Z]\w*", argument)
        }
    return names


def _specialised(stream: Sequence[Token], sizes: set[str]) -> Iterator[Label]:
    """A size that must equal one number: `if (N == 4096)`. A bound (`N <= 1024`) and a remainder are none."""
    for before, sign, second, after in zip(stream, stream[1:], stream[2:], stream[3:], strict=False):
        if (sign.text, second.text) not in (("=", "="), ("!", "=")) or second.start != sign.end:
            continue
        for name, number in ((before, after), (after, before)):
            if name.kind == "name" and name.text in sizes and number.kind == "number" and _value(number.text) >= _LEAST:
                yield Label("specialised", f"compares {name.text} with {number.text}", name.line)


def _value(text: str) -> int:
    digits = text.replace("'", "").rstrip("uUlL")
    try:
        return int(digits, 0)
    except ValueError:
        return 0


def _static(stream: Sequence[Token]) -> Iterator[Label]:
    """Variables with static storage that are no constants. Functions and their declarations are none."""
    for place, token in enumerate(stream):
        if token.kind != "name" or token.text not in ("static", "_Thread_local", "thread_local"):
            continue
        words: list[str] = []
        for inner in stream[place + 1 : place + _DECLARATION]:
            if inner.text in ("(", ";", "=", "{", "[", ","):
                break
            words.append(inner.text)
        if inner.text in (";", "=", "[", ",") and len(words) >= 2 and not {"const", "constexpr"} & set(words):
            yield Label("stateful", f"keeps {words[-1]} between calls", token.line)
