"""A case as the oracle has learned it, and what is wrong with what a call returned before any element is looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...store.models import Case, Mismatch
from ..devices.cpu.deck import Deck
from ..timing.samples import Side
from .process import CandidateProcess
from .wire import Returned, TensorForm, leaves, same_shape


@dataclass
class KnownCase:
    """A case as the oracle learned it."""

    case: Case
    index: int
    told: dict[str, Any]
    forms: list[TensorForm]
    aliases: list[int | None]
    offsets: list[int]
    size: int
    fetch_ns: int = 0
    """What copying the outputs from the GPU takes a process that computed nothing."""
    late_ns: dict[Side, list[int]] = field(default_factory=dict)
    """By how much each call's outputs took longer to copy than that explains."""
    decks: dict[Side, Deck] = field(default_factory=dict)
    estimate_ns: dict[Side, int] = field(default_factory=dict)
    last: dict[Side, int] = field(default_factory=dict)
    verified: dict[tuple[Side, int], bytes] = field(default_factory=dict)


def wrong_form(
    process: CandidateProcess, form: KnownCase, returned: Returned, *, device: str, types: bool
) -> Mismatch | None:
    """What is wrong before any element is looked at: nesting, types, shapes, dtypes, devices, memory."""
    numbers = list(leaves(returned.tree))
    if not same_shape(returned.tree, form.told["output_tree"]) or numbers != list(range(len(form.forms))):
        return no_form(
            form,
            f"{len(returned.forms)} tensors, nested {_nesting(returned.tree)}",
            f"{len(form.forms)}, nested {_nesting(form.told['output_tree'])}",
            "What it returned is nested otherwise than what the reference returns.",
        )
    for number in range(len(form.forms)):
        name = "output" if len(form.forms) == 1 else f"output {number}"
        wrong = _wrong_tensor(process, form, number, returned, device=device, types=types)
        if wrong is not None:
            return no_form(form, *wrong, name)
    return None


def _wrong_tensor(
    process: CandidateProcess, form: KnownCase, number: int, returned: Returned, *, device: str, types: bool
) -> tuple[str, str, str] | None:
    """What came, what was wanted, and a sentence; None for a tensor of the right form."""
    want, got, kind = form.forms[number], returned.forms[number], returned.types[number]
    where = returned.devices[number]
    wrong = None
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        wrong = str(got), str(want), "The output has another shape or dtype than the reference's."
    elif not types:
        pass
    elif kind not in ("Tensor", "Parameter"):
        wrong = kind, "Tensor", "It returned a subclass of Tensor, which may compute later."
    elif where.partition(":")[0] != device.partition(":")[0]:
        wrong = where, device, "The output is on another device."
    elif got.overlaps_itself and not want.overlaps_itself:
        text = "Several elements of the output share memory: it was expanded, not computed."
        wrong = f"strides {list(got.strides)}", f"strides {list(want.strides)}", text
    elif form.aliases[number] is None and process.aliases_input(got, returned.addresses[number]):
        wrong = "memory of an input", "memory of its own", "The output is memory of an input: it was not computed."
    return wrong


def row_major(place: int, shape: Sequence[int], strides: Sequence[int], flat: Sequence[int]) -> int:
    """The row-major number of the element at an offset of a tensor without overlaps."""
    found = 0
    for dimension in sorted(range(len(shape)), key=lambda n: -strides[n]):
        if shape[dimension] > 1 and strides[dimension]:
            index, place = divmod(place, strides[dimension])
            found += index * flat[dimension]
    return found


def no_form(form: KnownCase, got: str, want: str, explanation: str, name: str = "output") -> Mismatch:
    """A mismatch of everything at once, in words: what came, what was wanted, and a sentence."""
    total = sum(math.prod(one.shape) for one in form.forms)
    return Mismatch(
        case=form.case.name, tensor=name, index=(), got=got, want=want, error=None, limit=None, wrong=total,
        total=total, explanation=explanation,
    )  # fmt: skip


def _nesting(tree: Any) -> str:
    if isinstance(tree, list):
        return f"({', '.join(map(_nesting, tree))[:80]})"
    if isinstance(tree, dict) and "dict" in tree:
        return f"dict of {', '.join(tree['dict'])[:80]}"
    return "tensor" if isinstance(tree, dict) and "tensor" in tree else "value"
