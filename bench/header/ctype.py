"""C and CUDA type names as the store's dtypes, for the data model of 64-bit Linux (LP64, signed char)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...store.models import Dtype

BUILTIN_WORDS = frozenset(
    ("unsigned", "signed", "short", "long", "int", "char", "float", "double", "void", "bool", "_Bool")
)
"""Words that make up a type by themselves; any other identifier may be a type or a name."""

_NAMED: dict[str, Dtype] = {
    "half": "f16",
    "__half": "f16",
    "_Float16": "f16",
    "__fp16": "f16",
    "__nv_bfloat16": "bf16",
    "nv_bfloat16": "bf16",
    "__bf16": "bf16",
    "size_t": "u64",
    "ssize_t": "i64",
    "ptrdiff_t": "i64",
    "intptr_t": "i64",
    "uintptr_t": "u64",
    "uint": "u32",
    "uchar": "u8",
    "ushort": "u16",
    "ulong": "u64",
    "int8_t": "i8",
    "int16_t": "i16",
    "int32_t": "i32",
    "int64_t": "i64",
    "uint8_t": "u8",
    "uint16_t": "u16",
    "uint32_t": "u32",
    "uint64_t": "u64",
}

_VECTOR_ELEMENTS: dict[str, Dtype] = {
    "char": "i8",
    "uchar": "u8",
    "short": "i16",
    "ushort": "u16",
    "int": "i32",
    "uint": "u32",
    "long": "i64",
    "ulong": "u64",
    "longlong": "i64",
    "ulonglong": "u64",
    "float": "f32",
    "double": "f64",
    "half": "f16",
    "__half": "f16",
    "__nv_bfloat16": "bf16",
    "nv_bfloat16": "bf16",
}
_VECTOR = re.compile(rf"(?P<element>{'|'.join(sorted(_VECTOR_ELEMENTS, key=len, reverse=True))})(?P<width>[1-4])")

_RAW: dict[Dtype, Dtype] = {"bf16": "u16", "f16": "u16"}


def scalar_dtype(words: Iterable[str]) -> Dtype | None:
    """The dtype of a scalar type, given as its words in any order (`long unsigned`); None where it is none."""
    spelled = sorted(word.removeprefix("::").removeprefix("std::").removeprefix("cuda::std::") for word in words)
    if len(spelled) == 1 and spelled[0] in _NAMED:
        return _NAMED[spelled[0]]
    if not spelled or not set(spelled) <= BUILTIN_WORDS:
        return None
    unsigned = "unsigned" in spelled
    rest = [word for word in spelled if word not in ("signed", "unsigned")]
    signs = len(spelled) - len(rest)
    plain: dict[str, Dtype] = {"float": "f32", "double": "f64", "bool": "u8", "_Bool": "u8"}
    if len(rest) == 1 and rest[0] in plain:
        return plain[rest[0]] if signs == 0 else None
    if signs > 1:
        return None
    integer = " ".join(word for word in rest if word != "int" or rest == ["int"])
    integers: dict[str, tuple[Dtype, Dtype]] = {
        "": ("i32", "u32"),
        "int": ("i32", "u32"),
        "char": ("i8", "u8"),
        "short": ("i16", "u16"),
        "long": ("i64", "u64"),
        "long long": ("i64", "u64"),
    }
    if rest.count("int") > 1 or (integer == "char" and "int" in rest) or integer not in integers:
        return None
    return integers[integer][unsigned]


def element_dtype(words: Iterable[str]) -> Dtype | None:
    """As `scalar_dtype`, and for vector types (`float4`, `half2`) the dtype of their elements."""
    spelled = list(words)
    vector = _VECTOR.fullmatch(spelled[0]) if len(spelled) == 1 else None
    return scalar_dtype(spelled) if vector is None else _VECTOR_ELEMENTS[vector["element"]]


def holds(pointee: Dtype, tensor: Dtype) -> bool:
    """Whether memory of dtype `tensor` may be passed as pointer to `pointee`: equal, or 16-bit floats as raw bits."""
    return pointee == tensor or _RAW.get(tensor) == pointee


def fits(value: int, dtype: Dtype) -> bool:
    """Whether a 64-bit integer is exactly representable in the scalar type."""
    if dtype[0] in "iu":
        bits = int(dtype[1:])
        low = -(1 << (bits - 1)) if dtype[0] == "i" else 0
        return low <= value < low + (1 << bits)
    significand = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}[dtype]
    magnitude = abs(value)
    odd_part = magnitude // max(magnitude & -magnitude, 1)
    return odd_part.bit_length() <= significand and (dtype != "f16" or magnitude < 65536)


def c_type(dtype: Dtype, *, cuda: bool) -> str:
    """How kernels write the dtype as a parameter's type: bf16 is `uint16_t` in C, where it travels as raw bits."""
    if dtype in ("f16", "bf16") and not cuda:
        return "uint16_t"
    names: dict[Dtype, str] = {"f64": "double", "f32": "float", "f16": "__half", "bf16": "__nv_bfloat16", "i32": "int"}
    return names.get(dtype) or f"{'u' if dtype[0] == 'u' else ''}int{dtype[1:]}_t"
