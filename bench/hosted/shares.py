"""Whose kernels a Python program's GPU time goes to: those that its own text defines, or those of a library."""

from __future__ import annotations

import json
import math
import re
from importlib import resources

from ...store.models import Kernel
from ..lane import Inspection
from .watching import MARK, WATCHED

OUTPUT_BYTES = 1 << 20
_FUTURE = "from __future__ import annotations\n"
_SHOWN = 3
_DEFINES = re.compile(r"__global__|\.jit\b|@jit\b")
"""What a text with kernels of its own holds: CUDA's, or Triton's."""


def watched_kernel(kernel: Kernel) -> Kernel:
    """The program with its calls watched; `seen_in` reads what it prints."""
    (launch, *_) = kernel.launches
    text = resources.files(__package__).joinpath("watching.py").read_text(encoding="utf-8").replace(_FUTURE, "")
    source = f"{kernel.source}\n\n{text}\n\n{WATCHED} = watched({launch.entry})\n"
    return kernel.model_copy(update={"source": source, "launches": (launch.model_copy(update={"entry": WATCHED}),)})


def seen_in(output: str, kernel: Kernel) -> Inspection:
    """What a watched program printed, for readers: the share of the GPU's time in kernels that its own text defines. A
    program that defines kernels, none of which ran, is labelled `fallback`.
    """
    took = _last(output)
    total = sum(took.values())
    if not total:
        return Inspection(notes=("GPU time: no kernel was seen",))
    texts = [kernel.source, *kernel.includes.values()]
    words = {word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text)}
    own = {name: us for name, us in took.items() if _own_name(name) in words}
    others = {name: us for name, us in took.items() if name not in own}
    share = sum(own.values()) / total
    parts = [f"GPU time of one call: {share:.0%} in kernels that its own text defines{_listed(own, total)}"]
    if others:
        parts.append(f"{1 - share:.0%} in others{_listed(others, total)}")
    unused = not own and any(_DEFINES.search(text) for text in texts)
    return Inspection(notes=("; ".join(parts),), labels=("fallback",) if unused else ())


def _last(output: str) -> dict[str, float]:
    """The last line of ours; the program may have printed one like it, so nothing is taken for granted."""
    lines = [line.removeprefix(MARK) for line in output.splitlines() if line.startswith(MARK)]
    try:
        found = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: us for name, us in pairs if isinstance(us, int | float) and math.isfinite(us) and us > 0}


def _own_name(name: str) -> str:
    """A kernel's name without result, namespaces, template arguments and parameters, where it may be the text's own."""
    head = re.split(r"[<(]", name.removeprefix("void ").strip(), maxsplit=1)[0].strip()
    spaces, _, last = head.rpartition("::")
    return "" if spaces.startswith(("at::", "cub::", "cutlass", "cudnn", "c10")) or " " in last else last


def _listed(took: dict[str, float], total: float) -> str:
    most = sorted(took.items(), key=lambda item: -item[1])
    named = [f"{name[:60]} {us / total:.0%}" for name, us in most[:_SHOWN]]
    more = len(most) - _SHOWN
    return f" ({', '.join(named)}{f', and {more} more' if more > 0 else ''})" if named else ""
