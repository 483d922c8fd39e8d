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
from pathlib import Path
from typing import Any

from ...store.errors import KforecastError
from ...store.models import Case, Mismatch, Task
from ..devices.cuda.channel import Channel, ChannelClosed
from .judge import Reference, around
from .learning import Opened, content_of, copy_of, gate_of, judge_tensors, learn_case, wrong_by_check
from .pinning import pin, unpin
from .problems import CannotRun, GpuModeDefinition, TensorDefinition, array_of, define
from .trees import flatten, form, placed, view_at
from .wire import form_of

READY = "ready"
_MEMORY_SHARE = 0.6
_TOO_LARGE = "the problem needs more memory than there is: inputs, float64 golden values and null kernels together"


class Oracle:
    """Answers the parent's messages, one method a verb."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._tasks: dict[str, Opened] = {}
        self._maps: dict[str, mmap.mmap] = {}
        self._pinned: set[str] = set()
        self._current: Opened | None = None

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
            opened = self._tasks[task_id] = Opened(parsed, definition, folder, [], seed)
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
            known = opened.learned[parsed.name] = learn_case(opened, parsed, seed, other_seed)
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
            opened.contents[key] = content_of(opened.definition.inputs(parsed, seed))
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
            text = wrong_by_check(definition, content, learned.output_tree, tensors)
            return {"refused": f"in case {parsed.name} the problem's check says: {text.strip()[:600]}"} if text else {}
        if isinstance(definition, TensorDefinition):
            found = judge_tensors(definition, parsed, content, tensors)
            return {} if found is None else {"mismatch": found.model_dump(mode="json")}
        if content.gate is None:
            assert learned.gate is not None
            declared = Reference.of(definition.run(copy_of(content).inputs, opened.init, opened.weight_seed))
            content.gate = around(learned.gate, parsed.name, declared)
        wrong = content.gate.check(tensors)
        if wrong is None:
            return {}
        # Before it is called wrong it is held against golden values of this very content.
        content.gate = gate_of(opened, parsed, content, learned.terms)[0]
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

    def _opened(self) -> Opened:
        assert self._current is not None
        return self._current


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
