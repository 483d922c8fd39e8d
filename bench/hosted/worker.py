"""What a candidate's process does after its fork: confine itself, load one program, run it when told to.

Everything from `_load` on shares an address space with untrusted code: it decides nothing. The parent owns clock, seeds
and verdict, looks at the outputs itself, and treats what is said here as a hint of where to look.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import socket
import sys
import time
import traceback
import types
from pathlib import Path
from typing import Any

from .confine import confine, die_with_parent, enter_namespaces, limit, stay_readable
from .pinning import pin
from .trees import flatten, form, placed, unflatten, view_at
from .wire import (
    CALL,
    COMMAND,
    CONFINED,
    DONE,
    END,
    FETCH,
    FETCH_INPUTS,
    GLANCE,
    GROUP,
    NEEDS,
    PLACES,
    PREPARE,
    RAISED,
    READY,
    REFUSED,
    REPLY,
    TEXT,
    contiguous,
    form_of,
)

SUBMISSION = "submission"
_MESSAGE = 8000
"""Characters of an exception's text: a compiler's errors come in it."""


class _Worker:
    def __init__(self, spec: dict[str, Any], control: socket.socket, inputs: int, mutable: int) -> None:
        self._spec = spec
        self._control = control
        self._device = str(spec["device"])
        self._cases = spec["cases"]
        self._areas = [
            mmap.mmap(inputs, 0, prot=mmap.PROT_READ),
            mmap.mmap(mutable, 0, prot=mmap.PROT_READ | mmap.PROT_WRITE),
        ]
        os.close(inputs)
        os.close(mutable)
        self._function: Any = None
        self._inputs: list[Any] = []
        self._synchronize: Any = None
        self._arguments: list[Any] = []
        self._destinations: list[Any] = []
        self._outputs: Any = None
        self._tensors: list[Any] = []

    def say(self, kind: int, sequence: int = 0, number: int = 0, text: str = "") -> None:
        data = text.encode(errors="replace")[:TEXT]
        self._control.send(REPLY.pack(kind, sequence, number, len(data), data))

    # -- loading -------------------------------------------------------------------------------------------------

    def load(self) -> None:
        spec = self._spec
        if self._device != "cpu":
            import torch

            torch.cuda.set_device(self._device)
            torch.zeros(1, device=self._device)
            self._synchronize = torch.cuda.synchronize
            for area, writable in zip(self._areas, (False, True), strict=True):
                pin(area, writable=writable)
        if spec["entry"] is None:
            return
        sys.path.insert(0, str(Path.cwd() / "program"))
        module = types.ModuleType(SUBMISSION)
        module.__file__ = str(Path.cwd() / "program" / spec["file"])
        sys.modules[SUBMISSION] = module
        exec(compile(spec["source"], module.__file__, "exec"), module.__dict__)
        entry = getattr(module, spec["entry"])
        self._function = self._module(entry) if isinstance(entry, type) else entry

    def _module(self, entry: Any) -> Any:
        """A module, made with the session's seed: equal programs get equal weights, as KernelBench has it."""
        import random

        import numpy as np
        import torch

        init = self._spec["init"]
        tensors = [
            view_at(self._areas[0], offset, form_of(one)).clone()
            for offset, one in zip(init["offsets"], init["forms"], strict=True)
        ]
        given = unflatten(init["tree"], tensors)
        arguments, named = (given, {}) if isinstance(given, list) else ([], given)
        seed = self._spec["weight_seed"]
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        made = entry(*arguments, **named)
        return made.to(self._device) if isinstance(made, torch.nn.Module) else made

    # -- commands ------------------------------------------------------------------------------------------------

    def prepare(self, case: dict[str, Any]) -> None:
        """Drop the last call's outputs and make new tensor objects on the inputs as they are now."""
        self._outputs = None
        self._tensors.clear()
        areas, device = self._areas, self._device
        tensors = [
            view_at(areas[area], offset, form_of(one))
            for area, offset, one in zip(case["areas"], case["offsets"], case["forms"], strict=True)
        ]
        self._inputs.clear()
        if self._spec["entry"] is None:
            self._function = _nothing(case["returns"], device)
        elif device != "cpu":
            self._inputs = tensors = [tensor.to(device, copy=True) for tensor in tensors]
        self._arguments = unflatten(case["arguments"], tensors, sequence=tuple)
        self._destinations = [tensors[number] for number in case["destinations"]]
        if device != "cpu":
            self._flush()
            self._synchronize()

    def _flush(self) -> None:
        """Push the inputs out of the L2 cache, and leave poison in memory that the allocator may hand out."""
        import torch

        size = int(self._spec["flush_bytes"])
        torch.full((max(size // 4, 1),), float("nan"), device=self._device)

    def call(self) -> str:
        """Run the program once; what it returned, as JSON."""
        returned = self._function(*self._arguments)
        if self._destinations and returned is None:
            returned = self._destinations if len(self._destinations) > 1 else self._destinations[0]
        if self._synchronize is not None:
            self._synchronize()
        self._outputs = returned
        tensors = self._tensors
        tree = flatten(returned, tensors)
        told = [
            {**form(t).as_data(), "type": type(t).__name__, "device": str(t.device), "address": t.data_ptr()}
            for t in tensors
        ]
        return json.dumps({"tree": tree, "tensors": told})

    def glance(self, places: tuple[int, ...]) -> str:
        """Some elements of the first output as they are now, as hexadecimal bytes."""
        import torch

        first = self._tensors[0]
        if first.element_size() == 1:
            first = first.view(torch.uint8)  # not every 8-bit type can be indexed
        flat = first.as_strided((max(form(first).span_bytes // first.element_size(), 1),), (1,))
        wanted = torch.tensor(places, dtype=torch.int64, device=first.device)
        return bytes(flat[wanted].cpu().view(torch.uint8).numpy()).hex()

    def fetch(self, tensors: list[Any]) -> None:
        """Copy tensors from the GPU into the mutable area, one after another, contiguous."""
        forms = [contiguous(form(tensor)) for tensor in tensors]
        offsets, _ = placed(forms, int(self._spec["fetch_offset"]))
        for tensor, offset, one in zip(tensors, offsets, forms, strict=True):
            view_at(self._areas[1], offset, one).copy_(tensor)

    def serve(self) -> int:
        """Answer commands until the parent is done."""
        control, cases = self._control, self._cases
        while True:
            data = control.recv(COMMAND.size + PLACES.size)
            if len(data) < COMMAND.size:
                return 0
            operation, sequence, number = COMMAND.unpack_from(data)
            if operation == END:
                return 0
            text = ""
            begin = time.perf_counter_ns()
            try:
                if operation == CALL:
                    text = self.call()
                elif operation == PREPARE:
                    self.prepare(cases[number])
                elif operation == FETCH:
                    self.fetch(self._tensors)
                elif operation == GLANCE:
                    text = self.glance(PLACES.unpack_from(data, COMMAND.size))
                elif operation == FETCH_INPUTS:
                    self.fetch(self._inputs)
            except Exception as error:  # noqa: BLE001  whatever a program raises is its own doing
                self.say(RAISED, sequence, 0, _told(error))
                continue
            self.say(DONE, sequence, time.perf_counter_ns() - begin, text)


def _nothing(forms: list[dict[str, Any]], device: str) -> Any:
    """The empty program of ours: returns tensors of the right forms, made before."""
    import torch

    told = [form_of(one) for one in forms]
    kept = [torch.empty_strided(one.shape, one.strides, dtype=getattr(torch, one.dtype), device=device) for one in told]
    returned = kept if len(kept) != 1 else kept[0]
    return lambda *arguments: returned


def _told(error: BaseException) -> str:
    """An exception for its author: the sentence, a line, and where in the program it was raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/program/" in f.filename]
    where = "".join(f'  File "{Path(f.filename).name}", line {f.lineno}, in {f.name}\n' for f in frames[-8:])
    try:
        first = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  its own __str__ may raise too
        first = type(error).__name__
    return f"{first[:_MESSAGE]}\n{where}"


def _look_for_extensions(worker: _Worker, *, building: bool) -> None:
    """Have the program's own extensions built where that may be, and found where they are."""
    from .extensions import install

    def need(name: str) -> None:
        worker.say(NEEDS, 0, 0, name)
        os._exit(123)

    install(building=building, need=need)


def run(message: dict[str, Any], control_fd: int, inputs: int, mutable: int) -> int:
    """The forked child's whole life; returns its exit code. message: see `process.CandidateProcess`."""
    control = socket.socket(fileno=control_fd)
    on: dict[str, bool] = message["defences"]
    home = str(message["home"])

    def say(kind: int, number: int = 0, text: str = "") -> None:
        data = text.encode()[:TEXT]
        control.send(REPLY.pack(kind, 0, number, len(data), data))

    die_with_parent()
    isolated = enter_namespaces(lambda group: say(GROUP, group), wanted=on["namespaces"] and not message["gpu"])
    die_with_parent()
    stay_readable()
    os.chdir(home)
    os.environ.clear()
    os.environ.update(message["environment"])
    spec = json.loads((Path(home) / "spec.json").read_text())
    (Path(home) / "spec.json").unlink()  # it may be large, and it is of no use to the program
    worker = _Worker(spec, control, inputs, mutable)
    if on["limits"]:
        memory = None if message["gpu"] else int(message["memory"])
        limit(memory=memory, output=int(message["output"]), own_users=isolated)
    words = confine(
        message["readable"],
        message["writable"],
        message["devices"],
        isolated=isolated,
        files=on["landlock"],
        calls=on["seccomp"],
        alone=not message["building"],
    )
    say(CONFINED, os.getpid(), words)
    try:
        _look_for_extensions(worker, building=bool(message["building"]))
        worker.load()
    except BaseException as error:  # noqa: BLE001  SystemExit too is what loading it came to
        say(REFUSED, 0, _told(error))
        return 120
    gc.collect()
    gc.freeze()
    say(READY)
    return worker.serve()
