"""A minimal ctypes binding of NVRTC: one program in, cubin, PTX, log and lowered names out.

ctypes rather than cuda-core: the eight functions below are all that is needed, they have been stable since CUDA 11.1,
and the process that compiles then imports nothing but the standard library. (NVRTC user guide, "Basic Usage".)
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_COMPILATION_ERROR = 6


@dataclass(frozen=True)
class Program:
    """What one compilation gave. `cubin` and `ptx` are empty where `ok` is false."""

    ok: bool
    log: str
    cubin: bytes = b""
    ptx: bytes = b""
    symbols: dict[str, str] = field(default_factory=dict)
    """Lowered symbol of each name expression."""


class NvrtcError(Exception):
    """NVRTC refused a call for a reason that is not the program's text."""


class Nvrtc:
    """The loaded library. A plain dlopen of a wheel's libnvrtc cannot find its builtins, so those are loaded first."""

    def __init__(self, library: str, builtins: str) -> None:
        self._builtins = ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(library)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def compile(
        self,
        source: str,
        *,
        name: str,
        options: Sequence[str],
        headers: Mapping[str, str],
        entries: Sequence[str],
    ) -> Program:
        """Compile for a real architecture (`--gpu-architecture=sm_…`): one pass yields both the cubin and the PTX.

        name: the file name that messages carry; headers: texts by the name an `#include` spells; entries: name
        expressions to lower. A program with errors is a Program with `ok` false; NvrtcError for anything else.
        """
        program = ctypes.c_void_p()
        texts = _strings(list(headers.values()))
        names = _strings(list(headers))
        self._call(
            "nvrtcCreateProgram",
            ctypes.byref(program),
            source.encode(),
            name.encode(),
            ctypes.c_int(len(headers)),
            texts,
            names,
        )
        try:
            for entry in entries:
                self._call("nvrtcAddNameExpression", program, entry.encode())
            arguments = (program, ctypes.c_int(len(options)), _strings(options))
            code = int(self._library.nvrtcCompileProgram(*arguments))
            log = self._text(program, "ProgramLog").decode(errors="replace")
            if code == _COMPILATION_ERROR:
                return Program(False, log)
            if code != 0:
                raise NvrtcError(f"{self._reason(code)}\n{log}".strip())
            return Program(
                True,
                log,
                cubin=self._bytes(program, "CUBIN"),
                ptx=self._text(program, "PTX"),
                symbols={entry: self._lowered(program, entry) for entry in entries},
            )
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _call(self, function: str, *arguments: object) -> None:
        code = int(getattr(self._library, function)(*arguments))
        if code != 0:
            raise NvrtcError(f"{function}: {self._reason(code)}")

    def _reason(self, code: int) -> str:
        return str(self._library.nvrtcGetErrorString(code).decode())

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        self._call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw[: size.value]

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        return self._bytes(program, what).rstrip(b"\0")

    def _lowered(self, program: ctypes.c_void_p, entry: str) -> str:
        symbol = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", program, entry.encode(), ctypes.byref(symbol))
        return (symbol.value or b"").decode()


def _strings(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))
