"""A kernel's options and tunables as flags that NVRTC and nvcc both take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ....store.errors import InputError
from ...header.options import check_options

_ARCH = re.compile(r"sm_\d{2,3}[af]?")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TEMPLATE = re.compile(r"\btemplate\s*<([^<>;{}]*)>")
_DECLARED = re.compile(r"(\w+)\s*(?=[,>=])")
_MACRO = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def check_arch(arch: str) -> str:
    """The architecture as given. Raises InputError unless it names a real one (`sm_90`, `sm_90a`)."""
    if not _ARCH.fullmatch(arch):
        raise InputError("not a CUDA architecture", value=arch, next_step="Write it as sm_90 or sm_90a.")
    return arch


def template_parameters(source: str) -> set[str]:
    """The names that template heads of a source declare."""
    names = set()
    for head in _TEMPLATE.findall(_COMMENT.sub(" ", source)):
        names.update(_DECLARED.findall(head + ">"))
    return names


def compiler_flags(options: Sequence[str], tunables: Mapping[str, int]) -> list[str]:
    """Tunables by `-D`, then the options that the header's allow-list admits. Raises InputError for any other."""
    for name in tunables:
        if not _MACRO.fullmatch(name):
            raise InputError("a tunable's name is no macro name", value=name, next_step="Rename it to a C identifier.")
    flags = [f"-D{name}={value}" for name, value in sorted(tunables.items())]
    for option in check_options(options, "cuda"):
        # NVRTC has no -O of its own: optimisation levels are ptxas's.
        flags.append(f"--ptxas-options={option}" if re.fullmatch(r"-O[0-3]", option) else option)
    return flags


def arch_specific(arch: str) -> str | None:
    """The variant of an architecture with its own instructions (`sm_90a` of `sm_90`); None where there is none."""
    digits = arch.removeprefix("sm_")
    return f"{arch}a" if digits.isdigit() and int(digits) >= 90 else None
