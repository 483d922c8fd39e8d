"""The one error hierarchy: every error says what happened, with which value, and what to do next."""

from __future__ import annotations

import errno


class KforecastError(Exception):
    """Root of every error kforecast raises on purpose.

    what: what happened, one sentence without the value; value: the offending value as text, or None;
    next_step: what the user can do now. `exit_code` is what the command line ends with.
    """

    exit_code = 70

    def __init__(self, what: str, *, value: object = None, next_step: str) -> None:
        self.what = what
        self.value = None if value is None else str(value)
        self.next_step = next_step
        super().__init__(str(self))

    def __str__(self) -> str:
        value = "" if self.value is None else f": {self.value}"
        return f"{self.what}{value}. {self.next_step}"

    def as_dict(self) -> dict[str, str | int | None]:
        """The error as plain data for `--json` and for agents."""
        return {
            "error": type(self).__name__,
            "what": self.what,
            "value": self.value,
            "next": self.next_step,
            "exit_code": self.exit_code,
        }


class InputError(KforecastError):
    """What the caller gave is wrong: a path, a header, a task, an option."""

    exit_code = 2


class StoreError(KforecastError):
    """The store cannot be read or written."""

    exit_code = 3


class DeviceError(KforecastError):
    """The machinery of a device failed: no compiler, no GPU, no broker to be started. Never a verdict on a kernel."""

    exit_code = 4


class UnsupportedError(KforecastError):
    """The request is well-formed, but this version, device or language cannot do it."""

    exit_code = 5


_REFUSALS = {
    errno.ENOSPC: "Free some space there, then try again.",
    errno.EDQUOT: "Free some space there, then try again.",
    errno.EROFS: "Choose another place, or make this one writable; `kforecast doctor` lists the places in use.",
    errno.EACCES: "Give yourself permission there; `kforecast doctor` lists the places in use.",
    errno.EPERM: "Give yourself permission there; `kforecast doctor` lists the places in use.",
    errno.EMFILE: "Raise the limit of open files (`ulimit -n`), then try again.",
    errno.ENFILE: "Close other programs, then try again.",
    errno.ENOMEM: "Free some memory, or use smaller cases, then try again.",
}


def refused_by_system(error: BaseException) -> DeviceError | None:
    """What a full disk, missing rights or missing memory did, as an error that its user can act on.

    None for all else: that is a fault of ours.
    """
    if isinstance(error, MemoryError):
        told = DeviceError("there is not enough memory", next_step=_REFUSALS[errno.ENOMEM])
    elif isinstance(error, OSError) and error.errno in _REFUSALS:
        step = _REFUSALS[error.errno]
        told = DeviceError(f"the system refused ({error.strerror})", value=error.filename, next_step=step)
    else:
        return None
    told.__cause__ = error
    return told
