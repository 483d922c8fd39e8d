"""A scalar argument as the eight bytes that a launch passes."""

from __future__ import annotations

import struct

from ...store.models import Dtype
from ..header.plan import ScalarArg

_CODES: dict[Dtype, str] = {
    "f64": "d", "f32": "f", "f16": "e", "i64": "q", "i32": "i", "i16": "h", "i8": "b",
    "u64": "Q", "u32": "I", "u16": "H", "u8": "B",
}  # fmt: skip


def scalar_bits(argument: ScalarArg) -> int:
    """The argument's bytes, little-endian, padded with zeros to 64 bits; whether it fits was checked when it was
    planned.
    """
    if argument.dtype == "bf16":
        return int.from_bytes(struct.pack("<f", float(argument.value)), "little") >> 16
    code = _CODES[argument.dtype]
    value = float(argument.value) if code in "dfe" else argument.value
    return int.from_bytes(struct.pack(f"<{code}", value).ljust(8, b"\0"), "little")
