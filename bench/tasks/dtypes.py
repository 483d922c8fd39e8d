"""Element types: their names here, in numpy, in C and in CUDA; widening and rounding on numpy or cupy.

`xp` is the module numpy or cupy. bf16 arrays are `ml_dtypes.bfloat16` on numpy; cupy has no such type, so there (and
wherever else an array says `uint16`) the raw bits travel. Who only asks for a measurement never loads numpy: it is
imported where arrays are.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from ...store.errors import InputError
from .nearest import nearest_text

if TYPE_CHECKING:
    import numpy as np

Array = Any
"""A numpy or cupy array."""
ArrayModule = Any
"""The module numpy or cupy."""

_C = {
    "f64": "double",
    "f32": "float",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "i64": "int64_t",
    "i32": "int",
    "i16": "int16_t",
    "i8": "int8_t",
    "u64": "uint64_t",
    "u32": "uint32_t",
    "u16": "uint16_t",
    "u8": "uint8_t",
}
_CUDA = {**_C, "f16": "__half", "bf16": "__nv_bfloat16"}
_SIGNIFICAND_BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
_LARGEST = {
    "f64": sys.float_info.max,
    "f32": (2 - 2.0**-23) * 2.0**127,
    "f16": 65504.0,
    "bf16": (2 - 2.0**-7) * 2.0**127,
}

DTYPE_NAMES: tuple[str, ...] = tuple(_C)


def check_dtype(name: str) -> str:
    """The name itself. Raises InputError, naming the nearest dtype, if there is no such dtype."""
    if name not in _C:
        raise InputError("unknown dtype", value=name, next_step=nearest_text(name, DTYPE_NAMES))
    return name


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a dtype name; bf16 is `ml_dtypes.bfloat16`. Raises InputError for an unknown name."""
    return _numpy_dtypes()[check_dtype(name)]


@cache
def _numpy_dtypes() -> dict[str, np.dtype[Any]]:
    import ml_dtypes
    import numpy as np

    # Their names there are ours with the size in bytes: f4, i8, u2.
    found = {name: np.dtype(f"{name[0]}{item_bytes(name)}") for name in _C if name != "bf16"}
    return {**found, "bf16": np.dtype(ml_dtypes.bfloat16)}


def carrier_dtype(name: str, xp: ArrayModule) -> np.dtype[Any]:
    """The dtype that arrays of `name` have on `xp`: numpy's, except bf16 on cupy, whose raw bits travel as uint16."""
    return numpy_dtype("u16" if name == "bf16" and not is_numpy(xp) else name)


def is_numpy(xp: ArrayModule) -> bool:
    """Whether `xp` is the module numpy."""
    return xp is sys.modules.get("numpy")


def item_bytes(name: str) -> int:
    """Bytes an element takes."""
    return int(check_dtype(name).lstrip("bfiu")) // 8


def is_float(name: str) -> bool:
    """Whether the dtype is a floating-point one."""
    return name in _SIGNIFICAND_BITS


def c_type(name: str) -> str:
    """The C element type of a kernel parameter; 16-bit floats are raw bits, `uint16_t`."""
    return _C[check_dtype(name)]


def cuda_type(name: str) -> str:
    """The CUDA C++ element type of a kernel parameter."""
    return _CUDA[check_dtype(name)]


def unit_roundoff(name: str) -> float:
    """Largest relative error of rounding a normal number to this float dtype: 2 to the minus its significand bits."""
    return float(2.0 ** -_SIGNIFICAND_BITS[name])


def largest(name: str) -> float:
    """The largest finite number of this floating-point dtype."""
    return _LARGEST[name]


def to_float(array: Array, name: str, xp: ArrayModule, wide: Any = float) -> Array:
    """The array of dtype `name` as a fresh or shared array of dtype `wide` (float64 or float32), of the same shape.

    Exact where `wide` holds the dtype, which float64 does for all but 64-bit integers.
    """
    if name == "bf16" and array.dtype == xp.uint16:
        return (array.astype(xp.uint32) << 16).view(xp.float32).astype(wide, copy=False)
    return array.astype(wide, copy=False)


def round_to(array: Array, name: str, xp: ArrayModule) -> Array:
    """Floats rounded to nearest-even into the dtype `name`, as `xp` carries it (float64 to bf16 through float32)."""
    if name != "bf16" or is_numpy(xp):
        import numpy as np

        with np.errstate(all="ignore"):
            return array.astype(numpy_dtype(name), copy=False)
    return bf16_bits(array.astype(xp.float32, copy=False), xp)


def bf16_bits(array: Array, xp: ArrayModule) -> Array:
    """float32 values rounded to nearest-even bf16, as uint16 bits; a NaN stays a NaN."""
    bits = array.view(xp.uint32)
    rounded = ((bits + (((bits >> 16) & 1) + xp.uint32(0x7FFF))) >> 16).astype(xp.uint16)
    quiet = ((bits >> 16) | xp.uint32(0x0040)).astype(xp.uint16)
    return xp.where(xp.isnan(array), quiet, rounded)


def round_significand(array: Array, bits: int, xp: ArrayModule) -> Array:
    """float32 or float64 values rounded to nearest-even to `bits` significand bits, the leading one counted.

    The exponent keeps its range. 11 bits are TF32's significand, 4 are FP8 E4M3's. Infinities and NaNs stay.
    """
    word, stored = (xp.uint32, 23) if array.dtype == xp.float32 else (xp.uint64, 52)
    shift = stored + 1 - bits
    raw = array.view(word)
    half = word((1 << (shift - 1)) - 1)
    kept = (raw + (((raw >> word(shift)) & word(1)) + half)) & ~word((1 << shift) - 1)
    return xp.where(xp.isfinite(array), kept.view(array.dtype), array)


def raw_bits(array: Array) -> Array:
    """The array's bytes seen as unsigned integers of the element's size, for comparing bit by bit."""
    import numpy as np

    return array.view(np.dtype(f"u{array.dtype.itemsize}"))
