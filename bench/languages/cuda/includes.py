"""What a kernel may include: its own headers, the toolchain's, the roots the user named, stand-ins for host headers.

The check reads directives before a compiler does. It is one of two walls: the other is the process the compiler runs
in.
"""

from __future__ import annotations

import os
import posixpath
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate
from pathlib import Path

# NVRTC has no host headers; nvcc takes ten times as long. libcu++ has the types and limits, the compiler the functions.
_MATH = """#pragma once
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
#ifndef M_SQRT2
#define M_SQRT2 1.41421356237309504880
#endif
#ifndef M_SQRT1_2
#define M_SQRT1_2 0.70710678118654752440
#endif
"""
# libcu++ has these macros under NVRTC only since CUDA 13.1 or so. Values: IEEE 754.
_FLOAT = """#ifndef FLT_MAX
#define FLT_RADIX 2
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX 3.40282346638528859812e+38F
#define FLT_MIN 1.17549435082228750797e-38F
#define FLT_EPSILON 1.19209289550781250000e-7F
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#define DBL_MAX 1.79769313486231570815e+308
#define DBL_MIN 2.22507385850720138309e-308
#define DBL_EPSILON 2.22044604925031308085e-16
#endif
"""
_STD_MATH = re.findall(
    r"\w+",
    "acos asin atan atan2 ceil cos cosh exp fabs floor fmod log log10 pow sin sinh sqrt tan tanh "
    "acosh asinh atanh cbrt erf erfc exp2 expm1 fdim fma fmax fmin hypot ldexp lgamma log1p log2 nearbyint remainder "
    "rint round tgamma trunc acosf asinf atanf atan2f ceilf cosf expf exp2f fabsf floorf fmaf fmaxf fminf fmodf logf "
    "log2f powf "
    "rintf roundf sinf sqrtf tanf tanhf truncf isnan isinf isfinite signbit abs",
)
_LIBCUXX = "#pragma once\n#include <cuda/std/{0}>\n"
_LIBCUXX_AS_STD = _LIBCUXX + "namespace std {{ using namespace cuda::std; }}\n"
_USING = "".join(f"using ::{name};\n" for name in _STD_MATH)

STAND_INS: dict[str, str] = {
    **dict.fromkeys(("stdint.h", "inttypes.h"), _LIBCUXX.format("cstdint")),
    "cstdint": _LIBCUXX_AS_STD.format("cstdint"),
    **dict.fromkeys(("float.h", "cfloat"), _LIBCUXX.format("cfloat") + _FLOAT),
    **dict.fromkeys(("limits.h", "climits"), _LIBCUXX.format("climits")),
    **dict.fromkeys(("assert.h", "cassert"), _LIBCUXX.format("cassert")),
    "limits": _LIBCUXX_AS_STD.format("limits"),
    "type_traits": _LIBCUXX_AS_STD.format("type_traits"),
    "math.h": _MATH,
    "cmath": _MATH + "namespace std {\n" + _USING + "}\n",
    "stddef.h": "#pragma once\n",
    "cstddef": "#pragma once\n"
    "namespace std { using ::size_t; using ::ptrdiff_t; using nullptr_t = decltype(nullptr); }\n",
    **dict.fromkeys(("stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h", "cstring"), "#pragma once\n"),
}
"""Stand-ins for host headers under NVRTC, by the name an `#include` spells; what they lack, the nvcc path has."""

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_DIRECTIVE = re.compile(
    r"^[ \t\f\v]*(?:\#|%:|\?\?=)[ \t\f\v]*(?P<word>include_next|include|import|embed)\b[ \t\f\v]*(?P<rest>[^\n]*)",
    re.MULTILINE,
)
_TARGET = re.compile(r'<(?P<angle>[^>\n]*)>|"(?P<quote>[^"\n]*)"')


def refused_include(name: str, text: str, roots: Iterable[Path], own: Collection[str] = ()) -> str | None:
    """The first include of `text` that may not be compiled, as a compiler-style message; None where all may.

    name: the file's, relative to the kernel's folder as are those of `own`, the kernel's own headers, which may be
    included from anywhere among them. Refused: an absolute path outside `roots`, a path that leaves its folder by
    `..`, an include whose name is a macro (it could spell any path), `#embed`, `#import`. Directives are looked for
    with and without comments removed, so that neither a comment before a `#` nor a quote that swallows one hides
    anything.
    """
    allowed = [os.path.realpath(root) for root in roots]
    for line, word, rest in _directives(text):
        match = _TARGET.match(rest)
        where = f"{name}({line}): error: "
        if word in ("import", "embed"):
            return f"{where}#{word} is not allowed in a kernel"
        if match is None:
            return f"{where}#{word} {rest.strip()}: the name of an included file must be written out, not be a macro"
        target = match.group("angle") if match.group("angle") is not None else match.group("quote")
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        if beside not in own and _escapes(target, allowed):
            return (
                f'{where}#{word} of "{target}": outside the kernel\'s headers; list the file under include in the '
                "kernel header, or name its folder with -I"
            )
    return None


def _directives(text: str) -> Iterator[tuple[int, str, str]]:
    for variant in (text, _COMMENT.sub(_blank, text)):
        joined, splices = _joined(variant)
        for match in _DIRECTIVE.finditer(joined):
            start = match.start()
            line = 1 + joined.count("\n", 0, start) + bisect_right(splices, start)
            yield line, match.group("word"), match.group("rest")


def _joined(text: str) -> tuple[str, list[int]]:
    """The text with spliced lines joined, and where in it the joints are."""
    parts = _SPLICE.split(text)
    return "".join(parts), list(accumulate(len(part) for part in parts))[:-1]


def _blank(match: re.Match[str]) -> str:
    return " " + "\n" * match.group().count("\n")


def _escapes(target: str, allowed: list[str]) -> bool:
    if target.startswith(("/", "~")) or "\\" in target:
        path = os.path.realpath(target)
        return not any(path.startswith(root + os.sep) for root in allowed)
    return os.path.normpath(target).split("/")[0] == ".."
