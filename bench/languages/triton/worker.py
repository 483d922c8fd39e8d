"""The Triton worker: a small process that holds Triton and forks a child for every job.

Started as `python -m kforecast.bench.languages.triton.worker FD TRITON` with a socket to its client and the path of
Triton's `__init__.py`. A Triton file is a Python program: it runs in the child, once the child has given up files,
network, programs and signals (`cuda.worker.confine`), and whatever it does there, all that comes out is text: PTX, some
numbers, a log. The client assembles the PTX itself (job kind `recipe` tells how this Triton would), so that what is
said of a cubin is said of the one that runs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ..cuda.worker import FORK_AHEAD, Blobs, Job, serve
from .explain import explain
from .stand_in import Nothing, StandIn

MODULE = "kforecast_kernel"
_PRINTED_BYTES = 65536
_NO_LINES = "TRITON_DISABLE_LINE_INFO"
NUMBERS = ("shared", "num_ctas", "global_scratch_size", "profile_scratch_size", "tmem_size")
FLAGS = ("launch_cooperative_grid", "launch_pdl")

_WARM_UP = """
import triton
import triton.language as tl

@triton.jit
def warm(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.exp(tl.load(x + at, mask=at < n)), mask=at < n)
"""
_WARM_UNIT = {
    "entry": "warm",
    "names": ["x", "n"],
    "types": ["*fp32", "i32"],
    "ones": [],
    "multiples": [0],
    "constants": {"BLOCK": 128},
}


def main() -> None:
    """Serve jobs until the client closes its end."""
    os.environ[_NO_LINES] = "1"
    from triton import knobs

    _remember_answers()
    for tool in (knobs.nvidia.ptxas, getattr(knobs.nvidia, "ptxas_blackwell", None)):
        assert tool is None or tool.version
    fork_ahead = FORK_AHEAD in sys.argv[3:]
    if not fork_ahead:
        with _folder():
            _compile(_import_text(_WARM_UP), _WARM_UNIT, {}, arch=90)
        del sys.modules[MODULE]
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1 and not fork_ahead:
        # Forking beside a thread is not safe. Then each job's child is forked ahead and warms up by itself.
        os.execv(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:], FORK_AHEAD])
    if threads != 1:
        raise RuntimeError(f"{threads} threads in the Triton worker: forking would not be safe")
    serve(int(sys.argv[1]), _do, _warm_up if fork_ahead else None)


def _remember_answers() -> None:
    """Triton asks ptxas for its version, for every architecture and in some versions for every kernel. The answers are
    had here, once, as children start no programs.
    """
    ask: Callable[..., bytes] = subprocess.check_output
    answers: dict[tuple[str, ...], bytes] = {}

    def remembered(argv: list[str], **named: Any) -> bytes:
        key = tuple(argv)
        if key not in answers:
            answers[key] = ask(argv, **named)
        return answers[key]

    subprocess.check_output = remembered  # type: ignore[assignment]


def _warm_up() -> None:
    """In a child, behind its fence, where no program can be started: as far as PTX."""
    os.environ["TRITON_CACHE_DIR"] = str(Path("triton-cache").absolute())
    tempfile.tempdir = None
    _leave_cubins_out()
    _compile(_import_text(_WARM_UP), _WARM_UNIT, {}, arch=90)
    del sys.modules[MODULE]


def _do(job: Job, blobs: Blobs) -> tuple[Job, Blobs]:
    os.environ["TRITON_CACHE_DIR"] = str(Path("triton-cache").absolute())
    tempfile.tempdir = None  # it remembers where the parent's temporary files went
    if job["kind"] == "recipe":
        recipe = {"argv": _recipe(int(job["arch"]))}
        return {"ok": True, "log": "", "symbols": {}}, {"recipe": json.dumps(recipe).encode()}
    path = Path(f"{MODULE}.py").absolute()
    del os.environ[_NO_LINES]  # errors of the later stages have lines then; the client takes them out of the PTX
    # Files that also hold a PyTorch wrapper import torch and ask for the GPU; neither is part of a kernel.
    sys.meta_path.insert(0, StandIn("torch"))
    sys.path.insert(0, str(path.parent))
    _stand_in_for_gpu(int(job["arch"]))
    _leave_cubins_out()
    try:
        module = _import(path)
        texts, numbers = [], []
        for unit in job["units"]:
            ptx, found = _ptx(module, unit, job["options"], arch=int(job["arch"]))
            texts.append(ptx)
            numbers.append(found)
    except BaseException as error:  # noqa: BLE001  the file's own code raises what it likes, SystemExit included
        said = explain(error, path.parent, [path.name, *job["includes"]], _printed())
        return {"ok": False, "log": said, "symbols": {}}, {}
    files = {f"{number}.ptx": text.encode() for number, text in enumerate(texts)}
    return {"ok": True, "log": "", "symbols": {}}, files | {"numbers": json.dumps(numbers).encode()}


def _import(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    return module


def _import_text(text: str) -> ModuleType:
    Path("warm.py").write_text(text)
    return _import(Path("warm.py").absolute())


@contextlib.contextmanager
def _folder() -> Iterator[None]:
    """A folder of its own to work in, with Triton's cache in it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="kforecast-triton-") as folder:
        os.chdir(folder)
        os.environ["TRITON_CACHE_DIR"] = folder
        try:
            yield
        finally:
            os.chdir(before)


class NoKernel(Exception):
    """The file, once run, does not hold what its text shows."""


def _ptx(module: ModuleType, unit: dict[str, Any], options: dict[str, int], *, arch: int) -> tuple[str, dict[str, Any]]:
    """The PTX of one form of an entry, and the numbers that a launch needs."""
    compiled = _compile(module, unit, options, arch=arch)
    metadata = compiled.metadata
    numbers: dict[str, Any] = {name: int(getattr(metadata, name, None) or 0) for name in NUMBERS}
    numbers |= {name: bool(getattr(metadata, name, False)) for name in FLAGS}
    return str(compiled.asm["ptx"]), numbers


def _compile(module: ModuleType, unit: dict[str, Any], options: dict[str, int], *, arch: int) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.jit import JITFunction

    function: Any = getattr(module, unit["entry"], None)
    while not isinstance(function, JITFunction) and hasattr(function, "fn"):
        function = function.fn  # autotune, heuristics: their choices are made by [tune]
    if not isinstance(function, JITFunction):
        raise NoKernel(
            f"{unit['entry']} is no triton.jit function once the file has run, but {type(function).__name__}"
        )
    signature, constants = _signature(function, unit)
    positions = {name: position for position, name in enumerate(function.arg_names)}
    attributes = {(positions[unit["names"][i]],): [["tt.divisibility", 16]] for i in unit["multiples"]}
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=dict(options))


def _stand_in_for_gpu(arch: int) -> None:
    """A driver that names the architecture and answers nothing else."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    class Driver(Nothing):
        def get_current_target(self) -> GPUTarget:
            return GPUTarget("cuda", arch, 32)

    driver.set_active(Driver())


def _leave_cubins_out() -> None:
    """Assembling is the client's part; this process, about to run a stranger's file, goes as far as PTX."""
    from triton.backends.nvidia.compiler import CUDABackend

    CUDABackend.make_cubin = lambda *_: b""


def _signature(function: Any, unit: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Triton's signature and constants: types by name in the function's order, and the values of what is constant."""
    types = dict(zip(unit["names"], unit["types"], strict=True))
    constants: dict[str, Any] = {unit["names"][i]: 1 for i in unit["ones"]}
    for parameter in function.params:
        if parameter.is_constexpr:
            value = unit["constants"].get(parameter.name, parameter.default if parameter.has_default else None)
            constants[parameter.name] = value
    wanted = [parameter.name for parameter in function.params if not parameter.is_constexpr]
    if wanted != unit["names"]:
        shown = ", ".join(unit["names"])
        raise NoKernel(
            f"{unit['entry']} takes ({', '.join(wanted)}) once the file has run, but its text says ({shown})"
        )
    signature = {name: "constexpr" if name in constants else types[name] for name in function.arg_names}
    return signature, constants


class _Recorded(BaseException):
    """Ends a compilation once ptxas would have been called."""


def _recipe(arch: int) -> list[str]:
    """The command line by which this Triton calls ptxas for an architecture, without its input and output files."""
    found: list[str] = []

    def record(argv: list[str], **_: object) -> None:
        found[:] = argv
        raise _Recorded

    subprocess.run = record  # type: ignore[assignment]  # this process ends after the job
    with contextlib.suppress(_Recorded):
        _compile(_import_text(_WARM_UP), _WARM_UNIT, {}, arch=arch)
    if "-o" not in found:
        raise RuntimeError("this Triton does not call ptxas as others do")
    output = found.index("-o")
    return [word for word in found[:output] + found[output + 2 :] if not word.endswith(".ptx")]


def _printed() -> str:
    """What the file printed so far: this process's own output goes to a file."""
    with contextlib.suppress(OSError, ValueError):  # the file may be full, or the file has closed it
        sys.stdout.flush()
        sys.stderr.flush()
        with Path(f"/proc/self/fd/{sys.stderr.fileno()}").open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _PRINTED_BYTES, 0))
            return file.read(_PRINTED_BYTES).decode(errors="replace")
    return ""


if __name__ == "__main__":
    main()
