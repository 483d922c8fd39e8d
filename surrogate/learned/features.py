"""What the learned forecaster sees of one kernel: numbers from its text, its launches' shape and its facts.

All are relative to what the device or the compiler can give, or logarithms of counts, so that they mean the same on
another GPU. Facts that are not known read as 0, with a flag.
"""

from __future__ import annotations

import math

import numpy as np

from ...store.models import Facts, Kernel
from ..density import Array
from ..structure import plain, tokens, traits

_MOST_REGISTERS = 255
_SHARED_UNIT = 48 * 1024
_MIX = ("load", "store", "shared", "fma", "mma", "branch", "barrier", "atomic", "special", "convert")
"""Kinds of instructions, matched as parts of the names in `Facts.instruction_mix`."""
_PARTS: dict[str, tuple[str, ...]] = {
    "load": ("ldg", "ld.global", "load"), "store": ("stg", "st.global", "store"), "shared": ("lds", "sts", ".shared"),
    "fma": ("ffma", "fma", "fmul", "fadd"), "mma": ("mma", "hmma", "dot"), "branch": ("bra", "jmp", "branch"),
    "barrier": ("bar",), "atomic": ("atom", "red"), "special": ("mufu", "ex2", "rcp", "rsqrt"),
    "convert": ("cvt", "f2f"),
}  # fmt: skip
_FLAGS = ("--use_fast_math", "-ffast-math", "-fopenmp", "-funroll-loops", "-march=native")


def features(kernel: Kernel, facts: Facts | None = None) -> dict[str, float]:
    """The features by name; the same names for every kernel."""
    text = plain(kernel)
    values = {f"trait_{name}": math.log2(1 + count) for name, count in traits(kernel).items()}
    values["tokens"] = math.log2(1 + len(tokens(kernel)))
    values["lines"] = math.log2(1 + text.count("\n"))
    values["launches"] = float(len(kernel.launches))
    values["scratch"] = float(len(kernel.scratch))
    values["dynamic_shared"] = float(any(launch.smem != "0" for launch in kernel.launches))
    values["dimensions"] = float(max((len(launch.block) for launch in kernel.launches), default=0))
    values["tunables"] = sum(math.log2(max(1, value)) for value in kernel.tunables.values())
    values |= {f"option_{flag.lstrip('-')}": float(flag in kernel.options) for flag in _FLAGS}
    return values | _of_facts(facts)


def vector(kernel: Kernel, facts: Facts | None = None) -> Array:
    """The features in the order of `NAMES`, (d,)."""
    values = features(kernel, facts)
    return np.array([values[name] for name in NAMES])


def _of_facts(facts: Facts | None) -> dict[str, float]:
    entries = () if facts is None or not facts.ok else facts.entries
    mix = {} if facts is None else facts.instruction_mix
    occupancy = [entry.occupancy for entry in entries if entry.occupancy is not None]
    values = {
        "facts_known": float(bool(entries)),
        "registers": max((entry.registers or 0 for entry in entries), default=0) / _MOST_REGISTERS,
        "spills": math.log2(1 + sum(entry.spill_bytes or 0 for entry in entries)),
        "shared": max((entry.shared_bytes or 0 for entry in entries), default=0) / _SHARED_UNIT,
        "occupancy": min(occupancy, default=0.0),
        "code": 0.0 if facts is None else math.log2(1 + (facts.code_bytes or 0)),
    }
    for kind in _MIX:
        count = sum(number for name, number in mix.items() if any(part in name.lower() for part in _PARTS[kind]))
        values[f"mix_{kind}"] = math.log2(1 + count)
    return values


def _names() -> tuple[str, ...]:
    nothing = Kernel.make(language="c", name="", source="", launches=(), task_id="")
    return tuple(sorted(features(nothing)))


NAMES: tuple[str, ...] = _names()
"""The features' order in every array of a model."""
