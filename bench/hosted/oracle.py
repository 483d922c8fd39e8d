"""The oracle's process: trusted, has torch; makes inputs, holds references, judges. It never meets a candidate.

It writes inputs into shared memory that candidates can only read, and reads outputs that the parent took out of a
stopped candidate. References are computed after the outputs were taken, or before the process that could want them was
started; either way in this process alone.
"""

from __future__ import annotations

import mmap
import os
import resource
import socket
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...store.errors import KforecastError
from ...store.models import Case, Mismatch, Task
from ..devices.cuda.channel import Channel, ChannelClosed
from .judge import Gate, Reference, around, gate, lower_inputs, null_outputs
from .pinning import pin, unpin
from .problems import CannotRun, Definition, GpuModeDefinition, TensorDefinition, array_of, define
from .trees import dense_clone, flatten, form, placed, unflatten, view_at
from .wire import TensorForm, form_of

READY = "ready"
_MEMORY_SHARE = 0.6
_TOO_LARGE = "the problem needs more memory than there is: inputs, float64 golden values and null kernels together"


@dataclass
class _Learned:
    """One case as its reference shows it. `mutable`: numbers of the inputs that the reference changes."""

    tree: Any
    forms: list[TensorForm]
    mutable: set[int]
    output_tree: Any
    output_forms: list[TensorForm]
    aliases: list[int | None]
    gate: Gate | None
    notes: list[str]
    passing: list[str]
    terms: float = 1.0


@dataclass
class _Content:
    """One content of a case's inputs, and what is known of the right answer to it."""

    inputs: Any
    tensors: list[Any]
    gate: Gate | None = None


@dataclass
class _Opened:
    task: Task
    definition: Definition
    folder: tempfile.TemporaryDirectory[str]
    init: Any
    weight_seed: int
    learned: dict[str, _Learned] = field(default_factory=dict)
    contents: dict[tuple[str, int], _Content] = field(default_factory=dict)


class Oracle:
    """Answers the parent's messages, one method a verb."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._tasks: dict[str, _Opened] = {}
        self._maps: dict[str, mmap.mmap] = {}
        self._pinned: set[str] = set()
        self._current: _Opened | None = None

    # -- tasks ---------------------------------------------------------------------------------------------------

    def open(self, task_id: str, task: dict[str, Any] | None, seed: int) -> dict[str, Any]:
        """Make a task the current one. seed: for the weights and what modules are constructed with."""
        self._unmap()
        opened = self._tasks.get(task_id)
        if opened is None:
            if task is None:
                return {"unknown": True}
            while len(self._tasks) >= 4:  # the oldest: its tensors may be large
                self._tasks.pop(next(iter(self._tasks))).folder.cleanup()
            parsed = Task.model_validate(task)
            folder = tempfile.TemporaryDirectory(prefix="kforecast-problem-")
            definition = define(parsed, self._device, Path(folder.name))
            opened = self._tasks[task_id] = _Opened(parsed, definition, folder, [], seed)
        opened.contents.clear()
        opened.weight_seed = seed
        opened.init = opened.definition.init_inputs(seed)
        self._current = opened
        tensors: list[Any] = []
        tree = flatten(opened.init, tensors)
        forms = [form(tensor.contiguous()) for tensor in tensors]
        offsets, size = placed(forms)
        return {
            "tree": tree,
            "forms": [one.as_data() for one in forms],
            "offsets": offsets,
            "bytes": size,
            "weighted": opened.definition.weighted,
        }

    def write_init(self, path: str, start: int) -> dict[str, Any]:
        """Write the tensors that modules are constructed with."""
        assert self._current is not None
        tensors: list[Any] = []
        flatten(self._current.init, tensors)
        with Path(path).open("r+b") as file:
            for offset, tensor in zip(placed([form(t.contiguous()) for t in tensors])[0], tensors, strict=True):
                file.seek(start + offset)
                file.write(array_of(tensor).tobytes())
        return {}

    def learn(self, case: dict[str, Any], seed: int, other_seed: int) -> dict[str, Any]:
        """What inputs and outputs of a case look like, and whether it can tell right from wrong."""
        opened = self._opened()
        parsed = Case.model_validate(case)
        known = opened.learned.get(parsed.name)
        if known is None:
            known = opened.learned[parsed.name] = self._learn(opened, parsed, seed, other_seed)
        offsets, ends = [], [0, 0]
        for number, one in enumerate(known.forms):
            area = int(number in known.mutable)
            (offset,), ends[area] = placed([one], ends[area])
            offsets.append(offset)
        return {
            "tree": known.tree,
            "forms": [one.as_data() for one in known.forms],
            "areas": [int(number in known.mutable) for number in range(len(known.forms))],
            "offsets": offsets,
            "bytes": ends,
            "output_tree": known.output_tree,
            "output_forms": [one.as_data() for one in known.output_forms],
            "aliases": known.aliases,
            "notes": known.notes,
            "passing": known.passing,
        }

    def _learn(self, opened: _Opened, case: Case, seed: int, other_seed: int) -> _Learned:
        definition = opened.definition
        content = _content(definition.inputs(case, seed))
        tree = flatten(content.inputs, [])
        forms = [form(tensor) for tensor in content.tensors]
        if isinstance(definition, TensorDefinition):
            return _learn_tensors(definition, case, tree, forms)
        used = _copy(content)
        first = Reference.of(definition.run(used.inputs, opened.init, opened.weight_seed))
        mutable = {
            number
            for number, (before, after) in enumerate(zip(content.tensors, used.tensors, strict=True))
            if not _same(before, after)
        }
        aliases = [_shares(tensor, used.tensors) for tensor in first.tensors]
        found = _Learned(tree, forms, mutable, first.tree, [form(t) for t in first.tensors], aliases, None, [], [])
        right = Reference(first.tree, tuple(dense_clone(tensor) for tensor in first.tensors))
        other = definition.inputs(case, other_seed)
        previous = Reference.of(definition.run(other, opened.init, opened.weight_seed))
        nulls = null_outputs(content.inputs, right, previous)
        if isinstance(definition, GpuModeDefinition):
            nulls["NaN everywhere"] = [_poisoned(tensor) for tensor in right.tensors]
            for name, tensors in nulls.items():
                if not self._wrong_by_check(definition, content, right.tree, tensors):
                    found.passing.append(name)
            if text := self._wrong_by_check(definition, content, right.tree, list(right.tensors)):
                raise CannotRun(f"check_implementation refuses what the reference itself returned: {text[:200]}")
            return found
        found.terms = _terms(opened, content, right)
        found.gate, note = self._gate(opened, case, content, found.terms, right)
        found.notes += [note] if note else []
        for name, tensors in nulls.items():
            if found.gate.accepts(tensors):
                found.passing.append(name)
        rounded, bits = lower_inputs(content.inputs)
        if bits:
            lower = Reference.of(definition.run(rounded, opened.init, opened.weight_seed, bits=bits))
            if found.gate.accepts(lower.tensors):
                found.notes.append("its outputs do not tell the declared precision from the next lower one")
        return found

    def _gate(
        self, opened: _Opened, case: Case, content: _Content, terms: float, declared: Reference | None = None
    ) -> tuple[Gate, str]:
        definition, init, seed = opened.definition, opened.init, opened.weight_seed
        if declared is None:
            declared = Reference.of(definition.run(_copy(content).inputs, init, seed))
        golden, note = None, ""
        try:
            golden = Reference.of(definition.run(_copy(content).inputs, init, seed, wide=True))
        except CannotRun as error:
            note = f"no float64 golden values, so the reference's own are the measure ({error})"
        rounded, bits = lower_inputs(content.inputs)
        lower = None
        if bits:
            lower = Reference.of(definition.run(_copy(_content(rounded)).inputs, init, seed, bits=bits))
        return gate(case.name, golden, declared, lower, terms=terms), note

    @staticmethod
    def _wrong_by_check(definition: GpuModeDefinition, content: _Content, tree: Any, tensors: list[Any]) -> str:
        outputs = unflatten(tree, [tensor.clone() for tensor in tensors], sequence=tuple)
        try:
            return definition.verdict(_copy(content).inputs, outputs)
        except CannotRun as error:
            return str(error)

    # -- contents ------------------------------------------------------------------------------------------------

    def fill(
        self, case: dict[str, Any], number: int, seed: int | None, paths: list[str], write: bool
    ) -> dict[str, Any]:
        """Write one content of a case into shared memory; `seed`: make it anew under this number first."""
        opened = self._opened()
        parsed = Case.model_validate(case)
        learned = opened.learned[parsed.name]
        key = parsed.name, number
        if seed is not None:
            opened.contents[key] = _content(opened.definition.inputs(parsed, seed))
        if not write:
            return {}
        content = opened.contents[key]
        ends = [0, 0]
        for place, (tensor, expected) in enumerate(zip(content.tensors, learned.forms, strict=True)):
            if form(tensor) != expected:
                raise CannotRun(f"its inputs change their shapes between seeds: {expected}, then {form(tensor)}")
            area = int(place in learned.mutable)
            (offset,), ends[area] = placed([expected], ends[area])
            view_at(self._map(paths[area]), offset, expected).copy_(tensor)
        return {}

    def judge(
        self, case: dict[str, Any], number: int, path: str, tree: Any, forms: list[Any], offsets: list[int]
    ) -> dict[str, Any]:
        """Whether outputs in shared memory are right for a content: a mismatch, or none."""
        opened = self._opened()
        parsed = Case.model_validate(case)
        learned = opened.learned[parsed.name]
        content = opened.contents[parsed.name, number]
        view = self._map(path)
        tensors = [
            view_at(view, offset, form_of(one)).to(self._device) for offset, one in zip(offsets, forms, strict=True)
        ]
        values = _plain_values(tree)
        if values != _plain_values(learned.output_tree):
            mismatch = _plain_mismatch(parsed.name, values, _plain_values(learned.output_tree))
            return {"mismatch": mismatch.model_dump(mode="json")}
        definition = opened.definition
        if isinstance(definition, GpuModeDefinition):
            text = self._wrong_by_check(definition, content, learned.output_tree, tensors)
            return {"refused": f"in case {parsed.name} the problem's check says: {text.strip()[:600]}"} if text else {}
        if isinstance(definition, TensorDefinition):
            found = _judge_tensors(definition, parsed, content, tensors)
            return {} if found is None else {"mismatch": found.model_dump(mode="json")}
        if content.gate is None:
            assert learned.gate is not None
            declared = Reference.of(definition.run(_copy(content).inputs, opened.init, opened.weight_seed))
            content.gate = around(learned.gate, parsed.name, declared)
        wrong = content.gate.check(tensors)
        if wrong is None:
            return {}
        # Before it is called wrong it is held against golden values of this very content.
        content.gate = self._gate(opened, parsed, content, learned.terms)[0]
        wrong = content.gate.check(tensors)
        return {} if wrong is None else {"mismatch": wrong.model_dump(mode="json")}

    # -- memory --------------------------------------------------------------------------------------------------

    def _map(self, path: str) -> mmap.mmap:
        if path not in self._maps:
            file = os.open(path, os.O_RDWR)
            try:
                self._maps[path] = mmap.mmap(file, 0)
            finally:
                os.close(file)
            if self._device != "cpu" and pin(self._maps[path], writable=True):
                self._pinned.add(path)
        return self._maps[path]

    def _unmap(self) -> None:
        for path, area in self._maps.items():
            if path in self._pinned:
                unpin(area)
            area.close()
        self._maps.clear()
        self._pinned.clear()

    def map(self, paths: list[str]) -> dict[str, Any]:
        """Map shared memory for writing, before its parent seals it."""
        for path in paths:
            self._map(path)
        return {}

    def release(self) -> dict[str, Any]:
        """Let go of what the last session needed: shared memory, contents, their memory on the GPU."""
        self._unmap()
        if self._current is not None:
            self._current.contents.clear()
            self._current.definition.release()
        if self._device != "cpu":
            import torch

            torch.cuda.empty_cache()
            if "cupy" in sys.modules:
                sys.modules["cupy"].get_default_memory_pool().free_all_blocks()
        return {}

    def _opened(self) -> _Opened:
        assert self._current is not None
        return self._current


def _content(inputs: Any) -> _Content:
    """Inputs as made, each tensor with memory of its own and no gaps, and these tensors in the order of their tree."""
    return _copy(_Content(inputs, []))


def _copy(content: _Content) -> _Content:
    """The same values in memory of their own, for code that may change them; tuples and lists as they were."""
    tensors: list[Any] = []
    copied = _copied(content.inputs, tensors)
    return _Content(copied, tensors)


def _copied(value: Any, tensors: list[Any]) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        tensors.append(dense_clone(value))
        return tensors[-1]
    if isinstance(value, list | tuple):
        return type(value)(_copied(entry, tensors) for entry in value)
    if isinstance(value, dict):
        return {key: _copied(entry, tensors) for key, entry in value.items()}
    return value


def _same(one: Any, other: Any) -> bool:
    """Whether two tensors of one form hold the same bits, compared where they lie."""
    import torch

    return bool(torch.equal(_raw(one), _raw(other)))


def _raw(tensor: Any) -> Any:
    import torch

    flat = tensor.detach().contiguous().reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    return flat.view(torch.uint8)


def _shares(tensor: Any, inputs: list[Any]) -> int | None:
    """The number of the input whose memory a tensor shares."""
    mine = tensor.untyped_storage().data_ptr()
    for number, other in enumerate(inputs):
        if mine and other.untyped_storage().data_ptr() == mine:
            return number
    return None


def _poisoned(tensor: Any) -> Any:
    import torch

    return torch.full_like(tensor, float("nan")) if tensor.is_floating_point() else torch.full_like(tensor, 85)


def _terms(opened: _Opened, content: _Content, right: Reference) -> float:
    """Terms of the longest sum behind an output element, as far as counting tells."""
    from torch.utils.flop_counter import FlopCounterMode

    given = sum(tensor.numel() for tensor in content.tensors)
    made = max(sum(tensor.numel() for tensor in right.tensors), 1)
    counter = FlopCounterMode(display=False)
    with counter:
        opened.definition.run(_copy(content).inputs, opened.init, opened.weight_seed)
    return max(1.0, float(given / made), float(counter.get_total_flops() / (2 * made)))


def _learn_tensors(definition: TensorDefinition, case: Case, tree: Any, forms: list[TensorForm]) -> _Learned:
    roles = [tensor.role for tensor in definition.task.tensors]
    outputs = [number for number, role in enumerate(roles) if role != "in"]
    tensors: Any = [{"tensor": place} for place in range(len(outputs))]
    output_tree = tensors if len(outputs) > 1 else tensors[0]
    aliases: list[int | None] = [*outputs]
    output_forms = [forms[number] for number in outputs]
    return _Learned(tree, forms, set(outputs), output_tree, output_forms, aliases, None, [], [])


def _judge_tensors(definition: TensorDefinition, case: Case, content: _Content, tensors: list[Any]) -> Mismatch | None:
    from ..correctness.gate import expect

    task = definition.task
    arrays = {
        t.name: array_of(value) for t, value in zip(task.tensors, content.tensors, strict=True) if t.role != "out"
    }
    outputs = {
        tensor.name: array_of(value)
        for tensor, value in zip([t for t in task.tensors if t.role != "in"], tensors, strict=True)
    }
    return expect(task, case, arrays).check(outputs)


def _plain_values(tree: Any) -> list[Any]:
    if isinstance(tree, list):
        return [value for entry in tree for value in _plain_values(entry)]
    if isinstance(tree, dict) and "dict" in tree:
        return [value for entry in tree["dict"].values() for value in _plain_values(entry)]
    return [tree["value"]] if isinstance(tree, dict) and "value" in tree else []


def _plain_mismatch(case: str, got: list[Any], want: list[Any]) -> Mismatch:
    return Mismatch(
        case=case, tensor="output", index=(), got=str(got)[:80], want=str(want)[:80], error=None, limit=None,
        wrong=1, total=1, explanation="A plain value among the outputs is another one.",
    )  # fmt: skip


def serve(channel: Channel, device: str) -> None:
    """Answer messages until the parent is gone."""
    oracle = Oracle(device)
    channel.send({READY: True})
    while True:
        message = channel.receive()
        verb = message.pop("verb")
        try:
            answer = getattr(oracle, verb)(**message)
        except CannotRun as error:
            answer = {"cannot_run": str(error)}
        except MemoryError:
            answer = {"cannot_run": _TOO_LARGE}
        except TypeError as error:
            answer = {"cannot_run": f"the problem holds what cannot travel: {error}"}
            traceback.print_exc()
        except KforecastError as error:
            answer = {"input_error": {"what": error.what, "value": str(error.value), "next": error.next_step}}
        except Exception as error:  # noqa: BLE001  the parent is told, and says it with a next step
            traceback.print_exc()
            text = f"{type(error).__name__}: {error}"[:500]
            answer = {"cannot_run": _TOO_LARGE} if "memory" in text.lower() else {"error": text}
        channel.send(answer)


def _limit_memory() -> None:
    """A problem too large for this machine fails here, instead of whatever the kernel would kill."""
    most = int(_MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def main() -> None:
    """usage: oracle CONTROL_FD DEVICE"""
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    device = sys.argv[2]
    # cupy's default, reductions by CUB templates, takes seconds of compiling for each array kernel.
    os.environ["CUPY_ACCELERATORS"] = ""
    try:
        import torch

        if device == "cpu":
            _limit_memory()

        torch.backends.cudnn.allow_tf32 = False  # the declared precision is float32, for both sides
        torch.set_grad_enabled(False)
        if device != "cpu":
            torch.cuda.set_device(device)
            torch.zeros(1, device=device)
        serve(channel, device)
    except ChannelClosed:
        return
    except Exception as error:  # noqa: BLE001
        channel.send({"error": f"{type(error).__name__}: {error}"[:500]})


if __name__ == "__main__":
    main()
