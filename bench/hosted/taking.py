"""What a call returned, taken out of its process into memory of the parent's, and whether it had settled by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...store.models import Mismatch
from ..faults import KernelFault
from ..timing.samples import Side
from .forms import KnownCase, no_form, row_major
from .memory import SharedMemory, digest_of, same_bytes
from .process import CandidateProcess
from .trees import placed
from .wire import GLANCES, ITEM_BYTES, Returned, TensorForm, contiguous, form_of

_SPARE = 4096
_KEPT_BYTES = 64 << 20
"""Outputs of up to so many bytes are kept as they are, larger ones as a digest."""
_LATE_NS = 1_000_000
"""What copying outputs from a GPU may take longer than expected before it says anything."""
_LATE_CALLS, _FEWEST_LATE = 5, 3
"""So many calls in a row must all be late; where fewer were made, all of them, but this many."""
_FETCH_S = 20.0


@dataclass(frozen=True)
class Areas:
    """The memory of a session: inputs, which candidates only read; what they may change, behind which lies what is
    fetched from a GPU; outputs, which they never see.
    """

    inputs: SharedMemory
    mutable: SharedMemory
    outputs: SharedMemory
    fetched_at: int
    """Where in `mutable` fetched outputs begin, and in the checks all inputs."""

    @classmethod
    def for_cases(cls, cases: Sequence[KnownCase], init_bytes: int, *, gpu: bool) -> Areas:
        """Memory that holds the largest case. init_bytes: of what modules are constructed with."""
        ends = [max(int(case.told["bytes"][area]) for case in cases) for area in (0, 1)]
        room = max(case.size for case in cases)
        fetched = room + ends[0] + ends[1] + _SPARE if gpu else 0
        made: list[SharedMemory] = []
        try:
            for name, size in (
                ("inputs", ends[0] + init_bytes), ("mutable", ends[1] + fetched), ("outputs", 2 * room + _SPARE)
            ):  # fmt: skip
                made.append(SharedMemory(name, size))
        except BaseException:
            for one in made:
                one.close()
            raise
        inputs, mutable, outputs = made
        return cls(inputs, mutable, outputs, ends[1])

    @property
    def paths(self) -> list[str]:
        """How the oracle opens them."""
        return [self.inputs.path, self.mutable.path, self.outputs.path]

    def close(self) -> None:
        for one in (self.inputs, self.mutable, self.outputs):
            one.close()


@dataclass(frozen=True)
class Taken:
    """Outputs in the parent's memory: forms and places there, and their bytes for comparing with an equal call's."""

    forms: tuple[TensorForm, ...]
    offsets: list[int]
    kept: bytes


class Taking:
    """Takes outputs out of candidates. late: whether an answer that came before the work was done is looked for."""

    def __init__(self, areas: Areas, random: np.random.Generator, *, gpu: bool, late: bool, deadline_s: float) -> None:
        self._areas = areas
        self._random = random
        self._gpu = gpu
        self._late = late
        self._deadline_s = deadline_s + _FETCH_S

    def places(self, forms: Sequence[TensorForm]) -> list[int]:
        """On a GPU: elements of the first output to look at when a call has answered, as offsets in its memory."""
        if not self._gpu or not forms or not forms[0].span_bytes:
            return []
        shape = self._random.integers(forms[0].shape, size=(GLANCES, len(forms[0].shape)))
        return [int(place) for place in shape @ np.array(forms[0].strides, dtype=np.int64)] or []

    def take(
        self,
        process: CandidateProcess,
        side: Side,
        case: KnownCase,
        returned: Returned,
        nanoseconds: int,
        glanced: tuple[Sequence[int], bytes],
    ) -> Taken:
        """Copy what a call returned. nanoseconds: the call's; glanced: places that were looked at right after it, and
        what was there. Raises KernelFault: `tampered` for an answer before the work was done, `incorrect` for too much.
        """
        forms = tuple(map(contiguous, returned.forms)) if self._gpu else returned.forms
        offsets, end = placed(list(forms))
        if end > self._areas.outputs.size:
            raise KernelFault("incorrect", "what it returned lies in more memory than its elements need")
        if self._gpu:
            self._fetch(process, side, case, forms, offsets, nanoseconds)
        else:
            process.read(returned, self._areas.outputs, offsets)
        places, seen = glanced
        if places:
            self._settled(returned.forms[0], offsets[0], places, seen)
        return Taken(forms, offsets, self._bytes(forms, offsets))

    def fetch_ns(self, process: CandidateProcess) -> int:
        """What copying the last call's outputs from the GPU takes."""
        return process.fetch(self._deadline_s)

    def changed_input(self, process: CandidateProcess, case: KnownCase) -> Mismatch | None:
        """Whether the program changed, on the GPU, an input that the reference leaves alone. (On the cpu it cannot.)"""
        process.fetch(self._deadline_s, inputs=True)
        told = case.told
        forms = [form_of(one) for one in told["forms"]]
        flat = [contiguous(one) for one in forms]
        starts, _ = placed(flat, self._areas.fetched_at)
        for number, (one, area, offset) in enumerate(zip(forms, told["areas"], told["offsets"], strict=True)):
            if area or one != contiguous(one):
                continue
            before = self._areas.inputs.bytes_at(offset, one.span_bytes)
            with before, self._areas.mutable.bytes_at(starts[number], one.span_bytes) as after:
                same = same_bytes(before, after)
            if not same:
                return no_form(case, "changed", "as it was", "It changed an input.", f"input {number}")
        return None

    def _fetch(
        self,
        process: CandidateProcess,
        side: Side,
        case: KnownCase,
        forms: Sequence[TensorForm],
        offsets: Sequence[int],
        nanoseconds: int,
    ) -> None:
        took = process.fetch(self._deadline_s)
        late = case.late_ns.setdefault(side, [])
        if case.fetch_ns:  # known once the checks are done
            late.append(took - 2 * case.fetch_ns - max(_LATE_NS, nanoseconds // 2))
        if len(late) >= _FEWEST_LATE and min(late[-_LATE_CALLS:]) > 0 and self._late:
            milliseconds = min(late[-_LATE_CALLS:]) / 1e6
            raise KernelFault(
                "tampered",
                f"it answered before it was done: its outputs took {milliseconds:.3g} ms longer to arrive than "
                "copying them explains",
            )
        for one, offset in zip(forms, offsets, strict=True):
            source = self._areas.mutable.bytes_at(self._areas.fetched_at + offset, one.span_bytes)
            with source, self._areas.outputs.bytes_at(offset, one.span_bytes) as target:
                target[:] = source

    def _settled(self, form: TensorForm, offset: int, places: Sequence[int], seen: bytes) -> None:
        """Raise KernelFault `tampered` where elements have changed since they were looked at."""
        width = ITEM_BYTES[form.dtype]
        strides, flat = form.strides, contiguous(form).strides
        with self._areas.outputs.bytes_at(offset, contiguous(form).span_bytes) as view:
            for number, place in enumerate(places):
                at = row_major(place, form.shape, strides, flat)
                if bytes(view[at * width : (at + 1) * width]) != seen[number * width : (number + 1) * width]:
                    raise KernelFault("tampered", "it answered before it was done: an output changed after the answer")

    def _bytes(self, forms: Sequence[TensorForm], offsets: Sequence[int]) -> bytes:
        outputs = self._areas.outputs
        views = [outputs.bytes_at(offset, form.span_bytes) for form, offset in zip(forms, offsets, strict=True)]
        total = sum(view.nbytes for view in views)
        kept = digest_of(views) if total > _KEPT_BYTES else b"".join(views)
        for view in views:
            view.release()
        return kept
