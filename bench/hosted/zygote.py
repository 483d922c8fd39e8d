"""The process that candidates are forked from: has torch imported and no CUDA context, meets no untrusted code itself.

One message a candidate on a SOCK_SEQPACKET socket, with its descriptors: control, inputs, mutable inputs, output file,
status. The status socket is answered with the process's number and, once it has ended, with its exit status.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
import warnings
from typing import Any

STATUS = struct.Struct("=Ii")
"""1 and the process's number once it is there; 2 and its wait status once it has ended."""
MESSAGE = 65536
DESCRIPTORS = 5


def preload() -> None:
    """Everything that a candidate's process needs, so that it is a fork away."""
    # cpp_extension asks whether there is a GPU. Asked of the driver, no fork of this process could use one any more.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    import numpy
    import torch

    available = torch.cuda.is_available
    # Importing this asks whether there is a GPU, which starts the driver: after that no fork of ours could use it.
    torch.cuda.is_available = lambda: True
    import torch.utils.cpp_extension

    torch.cuda.is_available = available
    from . import confine, extensions, worker

    assert numpy and confine and extensions and worker
    torch.set_grad_enabled(False)
    torch.backends.cudnn.allow_tf32 = False  # the declared precision is float32, for both sides
    if os.environ.get("KFORECAST_WITH_TRITON"):
        with contextlib.suppress(ImportError):
            import triton

            assert triton


def _also(modules: list[str]) -> None:
    """Import what the next candidate's first call would import for seconds, once for all that follow."""
    missing = [name for name in modules if name not in sys.modules]
    for name in missing:
        importlib.import_module(name)
    if missing:
        gc.collect()
        gc.freeze()


def main() -> None:
    """usage: zygote SOCKET_FD"""
    requests = socket.socket(fileno=int(sys.argv[1]))
    warnings.simplefilter("ignore")
    preload()
    gc.collect()
    gc.freeze()  # else the first collection of every fork would look at, and so copy, all of torch
    wake_out, wake_in = socket.socketpair()
    wake_out.setblocking(False)
    wake_in.setblocking(False)
    signal.set_wakeup_fd(wake_in.fileno())
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    requests.send(b"ready")
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    selector.register(wake_out, selectors.EVENT_READ)
    children: dict[int, socket.socket] = {}
    while True:
        for key, _ in selector.select():
            if key.fileobj is wake_out:
                with contextlib.suppress(BlockingIOError):
                    wake_out.recv(4096)
                _reap(children)
                continue
            message, files, _, _ = socket.recv_fds(requests, MESSAGE, DESCRIPTORS)
            if not message:
                return
            status = socket.socket(fileno=files[4])
            told = json.loads(message)
            _also(told["preload"])
            pid = os.fork()
            if pid == 0:
                _child(told, files)
            for file in files[:4]:
                os.close(file)
            children[pid] = status
            status.send(STATUS.pack(1, pid))


def _reap(children: dict[int, socket.socket]) -> None:
    while children:
        pid, code = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        status = children.pop(pid)
        with contextlib.suppress(OSError):  # whoever wanted to know is gone
            status.send(STATUS.pack(2, code))
        status.close()


def _child(message: dict[str, Any], files: list[int]) -> None:
    """Never returns. Keeps its own descriptors only."""
    from .worker import run

    code = 117
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        keep = {0, *files[:4]}
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
            if int(name) not in keep:
                with contextlib.suppress(OSError):  # the listing's own
                    os.close(int(name))
        os.dup2(files[3], 1)
        os.dup2(files[3], 2)
        os.close(files[3])
        code = run(message, files[0], files[1], files[2])
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
