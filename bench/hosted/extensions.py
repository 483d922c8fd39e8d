"""Extensions that a program compiles itself (`load`, `load_inline`): built once, apart, and found again when it runs.

A process that is measured may start no program, so no compiler. The first time it asks for an extension that is not
there it says so and ends; the program is then run once in a building process that may start compilers, and what that
leaves in its cache folders is what the measured processes start with.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import compilers

_MARK, _ANSWERS = "kforecast-built", "answers.json"
_WHERE = ("build_directory", "sources", "verbose", "extra_include_paths")


def install(*, building: bool, need: Callable[[str], None]) -> None:
    """Put our own step before torch's compiler driver and before every other compiler, in the process that is going to
    load the program.

    need: called with what is not built and may not be, in words; does not return.
    """
    from torch.utils import cpp_extension

    compilers.install(Path(os.environ["TORCH_EXTENSIONS_DIR"]).parent / _ANSWERS, building=building, need=need)
    original: Any = cpp_extension._jit_compile
    signature = inspect.signature(original)

    def compile_or_find(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        folder = Path(os.environ["TORCH_EXTENSIONS_DIR"]) / _key(values)
        name = str(values["name"])
        if not (folder / _MARK).exists():
            if not building:
                need(f"the extension {name}")
            folder.mkdir(parents=True, exist_ok=True)
            values["build_directory"] = str(folder)
            result = original(*given.args, **given.kwargs)
            (folder / _MARK).touch()
            return result
        return cpp_extension._import_module_from_library(name, str(folder), values["is_python_module"])

    cpp_extension._jit_compile = compile_or_find


def _key(values: dict[str, Any]) -> str:
    """What an extension is made of: its sources' texts and every option, not where they happen to lie."""
    digest = hashlib.sha256()
    sources = values["sources"]
    for source in [sources] if isinstance(sources, str) else sources:
        digest.update(Path(source).read_bytes() + b"\0")
    rest = {name: value for name, value in values.items() if name not in _WHERE}
    digest.update(repr(sorted(rest.items(), key=lambda item: item[0])).encode())
    return digest.hexdigest()[:32]
