"""Fencing the calling process, for forked children that start no program: Landlock and seccomp by plain ctypes.

The same rules as `devices/cpu/confine.h` sets for programs that are started. Sources: Documentation/userspace-api/
landlock.rst and seccomp_filter.rst of Linux. Works on Linux 5.13 and later; elsewhere nothing is reached, and said so.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import struct
from collections.abc import Sequence

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_EXECUTE, _WRITE, _READ, _READ_FOLDER, _REFER, _TRUNCATE, _IOCTL = (1 << bit for bit in (0, 1, 2, 3, 13, 14, 15))
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_PR_SET_NO_NEW_PRIVS = 38
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _MISSING = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS

# What no compiler has any use for, by number. From 424 on all architectures agree.
_RECENT = (*range(424, 435), 438, 440, 442, 448)
_NEVER: dict[str, tuple[int, tuple[int, ...]]] = {
    # ptrace, process_vm_*, bpf, perf, userfaultfd, keys, kexec, mount, umount, pivot_root, chroot, setns, unshare,
    # setpriority, sched_setscheduler
    "x86_64": (
        0xC000003E,
        (101, 310, 311, 321, 298, 323, 248, 249, 250, 246, 165, 166, 155, 161, 308, 272, 141, 144, *_RECENT),
    ),
    "aarch64": (
        0xC00000B7,
        (117, 270, 271, 280, 241, 282, 217, 218, 219, 104, 40, 39, 41, 51, 268, 97, 140, 119, *_RECENT),
    ),
}


# What code needs that starts programs, signals others or leaves its group: kill, tkill, tgkill, rt_sigqueueinfo,
# rt_tgsigqueueinfo, execve, execveat, setsid, setpgid, and where there are such calls fork and vfork. clone stays for
# threads, clone3 is said not to exist.
_NEVER_ALONE: dict[str, tuple[int, ...]] = {
    "x86_64": (62, 200, 234, 129, 297, 59, 322, 112, 109, 57, 58),
    "aarch64": (129, 130, 131, 138, 240, 221, 281, 157, 154),
}
_FIRST, _SECOND = 16, 24  # where a call's arguments lie
_SOCKET, _CONNECT = {"x86_64": 41, "aarch64": 198}, {"x86_64": 42, "aarch64": 203}
_LOCAL, _WITHOUT_CONNECTION = 1, 2  # AF_UNIX; a bit of SOCK_DGRAM and SOCK_RAW, not of SOCK_STREAM and SOCK_SEQPACKET
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3, _CLONE_VFORK, _CLONE_THREAD = 435, 0x00004000, 0x00010000
# What one who is stopped between calls could continue himself by: a signal of a timer (timer_create), of a queue
# (mq_notify), of a descriptor (fcntl), of the thread that started him (prctl).
_CONTINUING = {"x86_64": (222, 244), "aarch64": (107, 184)}
_FCNTL, _F_SETSIG = {"x86_64": 72, "aarch64": 25}, 10
_PRCTL, _PR_SET_PDEATHSIG = {"x86_64": 157, "aarch64": 167}, 1
_SECCOMP, _SPEC_ALLOW = {"x86_64": 317, "aarch64": 277}, 1 << 2


def fence_this_process(
    readable: Sequence[str],
    writable: Sequence[str],
    *,
    devices: Sequence[str] = (),
    alone: bool = False,
    files: bool = True,
    calls: bool = True,
) -> str:
    """Give up everything else, for good: files below `readable` can be read and executed, files below `writable` can be
    everything; no sockets, no other processes. Returns in words what was reached: `Landlock 7, seccomp`, or `process`.

    devices: files that can be read, written and controlled; where there are any, a local socket to be waited at is
    possible, and none to be connected to: a CUDA driver makes one for the processes that share its memory. alone: no
    new processes either, only threads, and no signals, to itself neither. files, calls: whether to set either part at
    all.
    Call it in a process of one thread: others would stay outside.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return "process"
    version = _fence_files(libc, readable, writable, devices) if files else 0
    words = [f"Landlock {version}"] if version else []
    words += ["seccomp"] if calls and _fence_calls(libc, alone, bool(devices)) else []
    return ", ".join(words) or "process"


def landlock_version() -> int:
    """The Landlock version of the running kernel, 0 where it has none or it is turned off."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return max(0, int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def _fence_files(libc: ctypes.CDLL, readable: Sequence[str], writable: Sequence[str], devices: Sequence[str]) -> int:
    version = landlock_version()
    if version < 1:
        return 0
    every = (1 << 13) - 1
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL)):
        every |= right if version >= since else 0
    network, scopes = 3 if version >= 4 else 0, 3 if version >= 6 else 0
    attributes = struct.pack("=QQQ", every, network, scopes)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = int(libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))
    if rules < 0:
        return 0
    try:
        rights = [(place, _READ | _READ_FOLDER | _EXECUTE) for place in readable]
        rights += [(place, every) for place in writable]
        rights += [(place, _READ | _WRITE | _TRUNCATE) for place in ("/dev/null", "/dev/zero", "/dev/full")]
        rights += [(place, _READ | _READ_FOLDER | _WRITE | _IOCTL) for place in devices]
        for place, allowed in rights:
            _allow(libc, rules, place, allowed & every)
        return version if libc.syscall(_RESTRICT_SELF, rules, 0) == 0 else 0
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, place: str, allowed: int) -> None:
    try:
        file = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    try:
        if not stat.S_ISDIR(os.fstat(file).st_mode):
            allowed &= _OF_FILES
        libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", allowed, file), 0)
    finally:
        os.close(file)


class _Program(ctypes.Structure):
    _fields_ = (("size", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _fence_calls(libc: ctypes.CDLL, alone: bool, driver: bool) -> bool:
    known = _NEVER.get(platform.machine())
    if known is None:
        return False
    architecture, numbers = known

    def step(code: int, k: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("=HBBI", code, yes, no, k)

    code = [step(_LOAD, 4), step(_EQUAL, architecture, 1, 0), step(_RETURN, _REFUSE), step(_LOAD, 0)]
    if platform.machine() == "x86_64":
        code += [step(_AT_LEAST, 0x40000000, 0, 1), step(_RETURN, _REFUSE)]  # the x32 numbers of the same calls
    for number in (*numbers, *(_NEVER_ALONE[platform.machine()] if alone else ())):
        code += [step(_EQUAL, number, 0, 1), step(_RETURN, _REFUSE)]
    socket, connect = _SOCKET[platform.machine()], _CONNECT[platform.machine()]
    if driver:
        code += [step(_EQUAL, connect, 0, 1), step(_RETURN, _REFUSE)]
        code += [step(_EQUAL, socket, 0, 6), step(_LOAD, _FIRST), step(_EQUAL, _LOCAL, 0, 2)]
        code += [step(_LOAD, _SECOND)]
        code += [step(_ANY_BIT, _WITHOUT_CONNECTION, 0, 1), step(_RETURN, _REFUSE), step(_LOAD, 0)]
    else:
        code += [step(_EQUAL, socket, 0, 1), step(_RETURN, _REFUSE)]
    if alone and not driver:  # on a device nothing is stopped between calls
        for number in _CONTINUING[platform.machine()]:
            code += [step(_EQUAL, number, 0, 1), step(_RETURN, _REFUSE)]
        # The low half of an argument; both architectures are little-endian.
        for number, argument, value in (
            (_FCNTL[platform.machine()], _SECOND, _F_SETSIG),
            (_PRCTL[platform.machine()], _FIRST, _PR_SET_PDEATHSIG),
        ):
            code += [step(_EQUAL, number, 0, 4), step(_LOAD, argument), step(_EQUAL, value, 0, 1)]
            code += [step(_RETURN, _REFUSE), step(_LOAD, 0)]
    if alone:
        code += [step(_EQUAL, _CLONE3, 0, 1), step(_RETURN, _MISSING)]
        # Its flags. A stop that is handed to a thread that sleeps for the one it made (VFORK) reaches nobody.
        code += [step(_EQUAL, _CLONE[platform.machine()], 0, 5), step(_LOAD, _FIRST)]
        code += [step(_ANY_BIT, _CLONE_VFORK, 1, 0), step(_ANY_BIT, _CLONE_THREAD, 1, 0)]
        code += [step(_RETURN, _REFUSE), step(_RETURN, _ALLOW)]
    code.append(step(_RETURN, _ALLOW))
    program = _Program(len(code), b"".join(code))
    # SPEC_ALLOW: on older kernels a filter would otherwise turn off speculation and slow down what is timed.
    for flags in (_SPEC_ALLOW, 0):
        if libc.syscall(_SECCOMP[platform.machine()], 1, ctypes.c_ulong(flags), ctypes.byref(program)) == 0:
            return True
    return False
