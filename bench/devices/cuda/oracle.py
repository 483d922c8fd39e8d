"""The oracle process: makes inputs, poisons outputs, knows the answers, judges. Trusted; idle while anything is timed.

Started as `python -m kforecast.bench.devices.cuda.oracle FD ORDINAL SHARERS`. It owns the memory that the launcher
maps (the *slab*); pristine inputs, golden values and everything else stay in memory of its own, which the launcher's
context cannot address. SHARERS oracles in all may divide the device's memory. What it does is in `judging`.

    equip {cubin, kernels}   load the oracle's own kernels, before anything else
    reserve {bytes}          (re)allocate the slab -> {handle}
    begin {task_id, task, keep}  a new measurement on this task (null: told before): forget what other kernels than
                             `keep` computed. Nothing runs on the device for it
    fill {layouts, jobs}     inputs into place, outputs and scratch poisoned, red zones written
    check {layouts, sides, inputs, guards}  -> {answers, guard}: for the jobs of all sides, each [kernel, jobs], null or
                             what is wrong with what that kernel wrote, up to the first that is wrong; `inputs`: look at
                             them too; guard: as much for the slots of no call and the calls whose inputs are looked at
                             again
    memory {}                -> {free, total} bytes of the device

A job is {kind, case, set, layout, in, out}: contents number `set` of checked or timed case number `case`, its inputs
at offset `in` of the slab (null: they are there already), what the kernel writes at `out`, arranged as
`layouts[layout]` says.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from contextlib import suppress
from importlib import import_module
from threading import Thread

from .channel import Channel, ChannelClosed

_VERBS = ("equip", "reserve", "begin", "fill", "check", "memory")


def serve(channel: Channel, ordinal: int, sharers: int) -> int:
    """Answer messages until the other end closes. Returns the exit code."""
    warming = Thread(target=_warm_context, args=(ordinal,), name="kforecast-context", daemon=True)
    warming.start()
    import_module("cupy")
    from ....store.errors import KforecastError
    from .judging import Oracle

    warming.join()
    oracle = Oracle(ordinal, sharers)
    channel.send({"ready": os.getpid()})
    while True:
        try:
            message = channel.receive()
        except ChannelClosed:
            return 0
        verb = message["verb"]
        assert verb in _VERBS, verb
        try:
            channel.send(getattr(oracle, verb)(message))
        except KforecastError as error:
            channel.send({"input_error": error.as_dict()})


def _warm_context(ordinal: int) -> None:
    """Let the driver make the device's context, the one that cupy will use. It takes as long as the imports: both at
    once. What goes wrong goes wrong again with cupy, which says so.
    """
    with suppress(OSError):
        driver = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), ordinal) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def main() -> None:
    """Entry point of the process."""
    from ...processes import die_with_parent

    die_with_parent()
    fd, ordinal, sharers = map(int, sys.argv[1:])
    # Several oracles that each use every core for the same product of matrices take each longer than alone.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // sharers)))
    # Reductions through CUB take cupy seconds to compile, each; its own take a tenth, and speed is no matter here.
    os.environ["CUPY_ACCELERATORS"] = ""
    sys.exit(serve(Channel(socket.socket(fileno=fd)), ordinal, sharers))


if __name__ == "__main__":
    main()
