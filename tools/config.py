"""The one configuration file: device, effort, model and the rest. Flags win over environment, that over the file."""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..store.errors import InputError
from ..store.paths import CONFIG_VARIABLE, config_path

Origin = Literal["environment", "file", "default"]

EXAMPLE = """\
# kforecast: what every command takes where no flag and no environment variable says otherwise.
# device = "cpu"          # where to measure; default: the kernel's language decides (c: cpu, cuda: cuda:0)
# effort = "normal"       # quick, normal or claim
# model = "openai/gpt-5"  # who forecasts where no agent does and nothing is trained: litellm's name of a model
# api_base = "http://localhost:8000/v1"   # where the model is served; default: its provider
# max_usd = 5.0           # what all processes together may spend on models a day (UTC), US dollars; default: anything
# alpha = 0.1             # share of trusted answers that may be wrong
# roots = ["~/kernels"]   # folders, besides its working directory, that an agent may name kernel files in
# theme = "kforecast"     # colours of `kforecast tui`
# keys = { down = "j,down", quit = "Q" }  # its keys, by the names that docs/tui.md lists
"""


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a non-empty text")
    return value.strip()


def _effort(value: object) -> str:
    if value not in ("quick", "normal", "claim"):
        raise ValueError("quick, normal or claim")
    return str(value)


def _alpha(value: object) -> float:
    try:
        alpha = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else 0.0
    except ValueError:
        alpha = 0.0
    if not 0 < alpha < 0.5:
        raise ValueError("a number between 0 and 0.5")
    return alpha


def _dollars(value: object) -> float:
    try:
        dollars = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else -1.0
    except ValueError:
        dollars = -1.0
    if not 0 <= dollars < math.inf:
        raise ValueError("an amount of US dollars, e.g. 5.0")
    return dollars


def _roots(value: object) -> tuple[Path, ...]:
    parts = value.split(os.pathsep) if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) and part for part in parts):
        raise ValueError("a list of folders")
    try:
        return tuple(Path(part).expanduser().absolute() for part in parts)
    except RuntimeError:  # `~NAME/...` of a user that there is not
        raise ValueError("a list of folders, each of a user that there is") from None


def _keys(value: object) -> dict[str, str]:
    if isinstance(value, str):
        pairs = [part.strip().partition("=") for part in value.split(";") if part.strip()]
        value = {name.strip(): keys.strip() for name, _, keys in pairs}
    if not isinstance(value, dict) or not all(isinstance(key, str) and key for pair in value.items() for key in pair):
        raise ValueError('a table such as { down = "j,down", quit = "Q" }, in the environment down=j,down;quit=Q')
    return value


@dataclass(frozen=True)
class _Key:
    read: Callable[[object], Any]
    default: Any
    environment: str


KEYS: dict[str, _Key] = {
    "device": _Key(_text, None, "KFORECAST_DEVICE"),
    "effort": _Key(_effort, "normal", "KFORECAST_EFFORT"),
    "model": _Key(_text, None, "KFORECAST_MODEL"),
    "api_base": _Key(_text, None, "KFORECAST_API_BASE"),
    "max_usd": _Key(_dollars, None, "KFORECAST_MAX_USD"),
    "alpha": _Key(_alpha, 0.1, "KFORECAST_ALPHA"),
    "roots": _Key(_roots, (), "KFORECAST_ROOTS"),
    "theme": _Key(_text, None, "KFORECAST_THEME"),
    "keys": _Key(_keys, {}, "KFORECAST_KEYS"),
}


@dataclass(frozen=True)
class Config:
    """The settings in force, and for each where it came from. A flag is the caller's business and wins over these."""

    path: Path
    exists: bool
    device: str | None = None
    effort: Literal["quick", "normal", "claim"] = "normal"
    model: str | None = None
    api_base: str | None = None
    max_usd: float | None = None
    alpha: float = 0.1
    roots: tuple[Path, ...] = ()
    theme: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, Origin] = field(default_factory=dict)


def load_config() -> Config:
    """Read the file and the environment. Raises InputError for text that is not TOML, an unknown key, a bad value."""
    path = config_path()
    table = _read(path)
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for name, key in KEYS.items():
        if os.environ.get(key.environment):
            values[name] = _value(key, os.environ[key.environment], key.environment)
            origins[name] = "environment"
        elif table is not None and name in table:
            values[name] = _value(key, table[name], f"{name} in {path}")
            origins[name] = "file"
        else:
            values[name] = key.default
            origins[name] = "default"
    return Config(path=path, exists=table is not None, origins=origins, **values)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if os.environ.get(CONFIG_VARIABLE):
            step = f"Write the file, or unset {CONFIG_VARIABLE}."
            raise InputError(
                f"{CONFIG_VARIABLE} names a file that does not exist", value=path, next_step=step
            ) from None
        return None
    except (OSError, UnicodeDecodeError) as error:
        step = f"Make it a readable UTF-8 text file, or name another one in {CONFIG_VARIABLE}."
        raise InputError(f"the configuration file cannot be read ({error})", value=path, next_step=step) from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        step = "Correct that line; `kforecast doctor` shows which file is read."
        raise InputError(f"the configuration file is not TOML ({error})", value=path, next_step=step) from error
    for name in table:
        if name not in KEYS:
            near = difflib.get_close_matches(name, KEYS, n=1, cutoff=0.4)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise InputError(f"unknown key in {path}", value=name, next_step=f"{hint}The keys are {', '.join(KEYS)}.")
    return table


def _value(key: _Key, value: object, where: str) -> Any:
    try:
        return key.read(value)
    except ValueError as error:
        raise InputError(f"bad value for {where}", value=repr(value), next_step=f"It must be {error}.") from None
