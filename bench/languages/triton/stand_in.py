"""Modules that answer to every name and do nothing, for what a Triton file imports but its kernels do not use."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any


class _Anything(type):
    """A class that has every attribute, is its own instance's type, can be called, decorate, and be inherited from."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (Nothing,), {})

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        # As a decorator it leaves what it decorates as it is.
        if len(arguments) == 1 and not named and callable(arguments[0]):
            return arguments[0]
        return super().__call__()


class Nothing(metaclass=_Anything):
    """What every attribute of a stand-in is a subclass of."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (Nothing,), {})

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else self


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (Nothing,), {})


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder for `name` and all below it, to be put first into `sys.meta_path`."""

    def __init__(self, name: str) -> None:
        self._name = name
        for loaded in [key for key in sys.modules if key.partition(".")[0] == name]:
            del sys.modules[loaded]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != self._name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""
