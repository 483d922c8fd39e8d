"""What passes between the parent and a candidate process: packets of fixed size, and what they say of tensors.

The parent sends commands; the candidate sends replies, each the same size, whose text is JSON at most. Nothing from a
candidate is ever unpickled, and nothing it says is believed: it names addresses, the parent looks there itself.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

COMMAND = struct.Struct("=III")
"""Operation, sequence number, number of the case."""
GLANCES = 64
PLACES = struct.Struct(f"={GLANCES}Q")
"""Behind a GLANCE: elements of the first output, as offsets in its memory."""
TEXT = 16384
REPLY = struct.Struct(f"=IIqI{TEXT}s")
"""Kind, sequence number, a number, the text's length, the text."""

PREPARE, CALL, FETCH, FETCH_INPUTS, GLANCE, END = 1, 2, 3, 4, 5, 6
GROUP, CONFINED, READY, DONE, RAISED, REFUSED, NEEDS = 1, 2, 3, 4, 5, 6, 7
"""Replies: the process group; what holds the process; loaded; done; the program raised; it cannot be loaded; it needs
an extension that has to be built first.
"""

ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16, "int64": 8, "int32": 4,
    "int16": 2, "int8": 1, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1, "float8_e4m3fn": 1,
    "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1,
}  # fmt: skip
"""torch's dtypes by name."""
MOST_DIMENSIONS = 16
ALIGNMENT = 256


@dataclass(frozen=True)
class TensorForm:
    """Shape, strides (both in elements) and dtype of a tensor of a tree."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span_bytes(self) -> int:
        """Bytes from the first to the last element, both included."""
        if math.prod(self.shape) == 0:
            return 0
        last = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * ITEM_BYTES[self.dtype]

    @property
    def dense(self) -> bool:
        """Whether no two elements share memory and none lies between them: contiguous, or a permutation of it."""
        expected = 1
        for stride, extent in sorted((s, e) for e, s in zip(self.shape, self.strides, strict=True) if e > 1):
            if stride != expected:
                return False
            expected *= extent
        return True

    @property
    def overlaps_itself(self) -> bool:
        """Whether some memory is more than one element: an expanded tensor."""
        reach = 1
        for stride, extent in sorted((s, e) for e, s in zip(self.shape, self.strides, strict=True) if e > 1):
            if stride < reach:
                return True
            reach = stride * (extent - 1) + reach
        return False

    def as_data(self) -> dict[str, Any]:
        """The form as JSON data."""
        return {"dtype": self.dtype, "shape": list(self.shape), "strides": list(self.strides)}

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


def contiguous(form: TensorForm) -> TensorForm:
    """The form of the same tensor laid out row-major."""
    strides: list[int] = []
    step = 1
    for extent in reversed(form.shape):
        strides.insert(0, step)
        step *= extent
    return TensorForm(form.dtype, form.shape, tuple(strides))


def form_of(data: Any) -> TensorForm:
    """The form that JSON data say. Raises ValueError where they are none: they may come from a candidate."""
    dtype, shape, strides = (data[key] for key in ("dtype", "shape", "strides"))
    if dtype not in ITEM_BYTES:
        raise ValueError(f"dtype {str(dtype)[:40]}")
    if not isinstance(shape, list) or not isinstance(strides, list) or len(shape) != len(strides):
        raise ValueError("shape and strides")
    if len(shape) > MOST_DIMENSIONS or not all(type(n) is int and 0 <= n < 2**48 for n in (*shape, *strides)):
        raise ValueError("shape or strides out of range")
    return TensorForm(dtype, tuple(shape), tuple(strides))


@dataclass(frozen=True)
class Returned:
    """What a call returned, as the candidate tells it: the tree with a number for each tensor, and of each tensor its
    form, its type's name, its device and the address of its first element in the candidate.
    """

    tree: Any
    forms: tuple[TensorForm, ...]
    types: tuple[str, ...]
    devices: tuple[str, ...]
    addresses: tuple[int, ...]


def returned_of(text: str) -> Returned:
    """Read a reply's text. Raises ValueError where it is not what the worker writes."""
    try:
        data = json.loads(text)
        tensors = data["tensors"]
        forms = tuple(form_of(tensor) for tensor in tensors)
        types = tuple(str(tensor["type"])[:80] for tensor in tensors)
        devices = tuple(str(tensor["device"])[:20] for tensor in tensors)
        addresses = tuple(int(tensor["address"]) for tensor in tensors)
        return Returned(data["tree"], forms, types, devices, addresses)
    except (KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error


def leaves(tree: Any) -> Iterator[int]:
    """The numbers of a tree's tensors, in order."""
    if isinstance(tree, list):
        for entry in tree:
            yield from leaves(entry)
    elif isinstance(tree, dict) and "dict" in tree:
        for entry in tree["dict"].values():
            yield from leaves(entry)
    elif isinstance(tree, dict) and "tensor" in tree:
        yield tree["tensor"]


def same_shape(tree: Any, other: Any) -> bool:
    """Whether two trees have the same nesting, tensors and plain values in the same places (the values may differ)."""
    if isinstance(tree, list) and isinstance(other, list):
        return len(tree) == len(other) and all(map(same_shape, tree, other))
    if not isinstance(tree, dict) or not isinstance(other, dict) or tree.keys() != other.keys():
        return False
    if "dict" in tree:
        mine, theirs = tree["dict"], other["dict"]
        return mine.keys() == theirs.keys() and all(same_shape(mine[key], theirs[key]) for key in mine)
    return tree.get("tensor") == other.get("tensor")
