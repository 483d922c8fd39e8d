"""What the names of a header may be, and which of them an expression may use."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from ...store.errors import InputError
from ...store.models import Task
from .expression import FUNCTION_NAMES, is_name

CONSTANTS = ("SMEM_MAX", "SM_COUNT", "WARP")
"""Names every expression may use: the most dynamic shared memory of a block in bytes, multiprocessors, warp size."""

_C_WORD = re.compile(
    r"auto|bool|break|case|catch|char|class|const|constexpr|continue|decltype|default|delete|do|"
    r"double|else|enum|explicit|extern|false|float|for|friend|goto|half|if|inline|int|int8_t|"
    r"int16_t|int32_t|int64_t|long|main|mutable|namespace|new|nullptr|operator|private|protected|"
    r"public|register|restrict|return|short|signed|size_t|sizeof|static|static_assert|struct|switch|"
    r"template|this|throw|true|try|typedef|typeid|typename|uint8_t|uint16_t|uint32_t|uint64_t|"
    r"union|unsigned|using|virtual|void|volatile|while|blockDim|blockIdx|gridDim|threadIdx|warpSize"
)
"""A tunable becomes a macro of the compiler, and these as macros would change the language under the kernel."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None where none is like it."""
    candidates = list(known)
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    found = difflib.get_close_matches(name, candidates, n=1, cutoff=0.5)
    return found[0] if found else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """A next step for an unknown name: the nearest right one, and all of them."""
    names = sorted(known)
    close = nearest(name, names)
    listed = f"Known: {', '.join(names) or 'none'}."
    return f"Did you mean {close}? {listed}" if close else listed


def check_clashes(task: Task, scratch: Iterable[str], tunables: Iterable[str]) -> None:
    """Every name of a header means one thing. Raises InputError for a clash or a name that is none."""
    owner: dict[str, str] = dict.fromkeys(CONSTANTS, "a device constant")
    for kind, names in (
        ("a size of the task", task.size_names),
        ("a tensor of the task", tuple(tensor.name for tensor in task.tensors)),
        ("scratch memory", tuple(scratch)),
        ("a tunable", tuple(tunables)),
    ):
        for name in names:
            if name in FUNCTION_NAMES or not is_name(name):
                raise InputError(
                    f"{kind} cannot have this name",
                    value=name,
                    next_step="Use ASCII letters, digits and _, starting with a letter, and no reserved word.",
                )
            if kind == "a tunable" and (_C_WORD.fullmatch(name) or re.match(r"_[A-Z_]", name)):
                raise InputError(
                    "a tunable cannot have this name, because the compiler gives it a meaning",
                    value=name,
                    next_step="Rename the tunable, for example in capitals.",
                )
            if name in owner:
                raise InputError(
                    f"the name is both {owner[name]} and {kind}",
                    value=name,
                    next_step=f"Rename {kind.removeprefix('a ')} {name}, or the other one.",
                )
            owner[name] = kind


def check_known(names: Iterable[str], known: Mapping[str, object] | Iterable[str], where: str) -> None:
    """Raises InputError for the alphabetically first of `names` that is not known, with the nearest right one."""
    known_names = set(known)
    for name in sorted(names):
        if name not in known_names:
            raise InputError(f"{where} uses an unknown name", value=name, next_step=suggestion(name, known_names))
