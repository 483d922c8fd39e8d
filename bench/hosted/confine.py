"""What a forked candidate gives up before it meets untrusted code: namespaces, limits, files, system calls."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ..landlock import fence_this_process

_NEWUSER, _NEWPID, _NEWIPC = 0x10000000, 0x20000000, 0x08000000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def die_with_parent() -> None:
    """SIGKILL when the process that forked this one ends."""
    _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def stay_readable() -> None:
    """Entering a user namespace hides a process's memory from its parent, which has to read outputs there."""
    _libc().prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def enter_namespaces(say_group: Callable[[int], None], *, wanted: bool) -> bool:
    """Go into new user, pid and ipc namespaces and a process group of its own; whether there are any.

    As `candidate.c` does it: this process and the namespace's first one only pass the exit status on, the candidate is
    the third. say_group: told the group to signal, before untrusted code runs.
    """
    os.setsid()
    uid, gid = os.getuid(), os.getgid()
    gate_out, gate_in = os.pipe()
    if not wanted or _libc().unshare(_NEWUSER | _NEWPID | _NEWIPC):
        os.close(gate_out)
        os.close(gate_in)
        say_group(os.getpid())
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with suppress(OSError):  # unmapped ids only change what `whoami` prints inside
            Path(f"/proc/self/{name}").write_text(text)
    first = os.fork()
    if first:
        # A group of its own, without this process: killed with the rest it could not reap the namespace.
        os.setpgid(first, first)
        say_group(first)
        os.close(gate_out)
        os.close(gate_in)
        _pass_on(first)
    die_with_parent()
    os.close(gate_in)
    os.read(gate_out, 1)  # until the group is made and told
    os.close(gate_out)
    second = os.fork()
    if second:
        _pass_on(second)
    return True


def _pass_on(child: int) -> None:
    """Close everything and end as the child ends. Never returns."""
    os.closerange(0, 4096)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def limit(*, memory: int | None, output: int, own_users: bool) -> None:
    """Ceilings of this process. memory: bytes it may map beyond what it has; None: any, as CUDA reserves a lot."""
    fixed = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NICE, 0),
        (resource.RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_FSIZE, output),
    ]
    if memory is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        fixed.append((resource.RLIMIT_AS, pages * resource.getpagesize() + memory))
        fixed.append((resource.RLIMIT_MEMLOCK, 8 << 20))
    if own_users:
        fixed.append((resource.RLIMIT_NPROC, 1024))
    for which, value in fixed:
        _, most = resource.getrlimit(which)
        lower = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(which, (lower, lower))


def confine(
    readable: Sequence[str],
    writable: Sequence[str],
    devices: Sequence[str],
    *,
    isolated: bool,
    files: bool,
    calls: bool,
    alone: bool,
) -> str:
    """The last step before untrusted code; says in words what was reached, namespaces included."""
    words = fence_this_process(readable, writable, devices=devices, alone=alone, files=files, calls=calls)
    first = "namespaces user+pid+ipc" if isolated else "process"
    return first if words == "process" else f"{first}, {words}"


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
