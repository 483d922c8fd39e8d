"""The configurations of coding agents: where they lie, how an entry for a server looks, and how one is added."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..store.errors import InputError

NAME = "kforecast"
_TIMEOUT_S = 120


@dataclass(frozen=True)
class Client:
    """A coding agent. project, user: its files, relative to the project and to the home; None: it has no such file.

    keys: where in the file servers are listed. entry: one server, from its command line.
    """

    title: str
    project: str | None
    user: str | None
    keys: tuple[str, ...]
    entry: Callable[[list[str]], dict[str, Any]]


def _plain(command: list[str]) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:]}


def _typed(command: list[str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain(command)}


def _codex(command: list[str]) -> dict[str, Any]:
    return {**_plain(command), "startup_timeout_sec": 30, "tool_timeout_sec": _TIMEOUT_S}


def _gemini(command: list[str]) -> dict[str, Any]:
    return {**_plain(command), "timeout": _TIMEOUT_S * 1000}


def _opencode(command: list[str]) -> dict[str, Any]:
    return {"type": "local", "command": command, "enabled": True}


CLIENTS: dict[str, Client] = {
    "claude": Client("Claude Code", ".mcp.json", ".claude.json", ("mcpServers",), _typed),
    "claude-desktop": Client(
        "Claude Desktop",
        None,
        "Library/Application Support/Claude/claude_desktop_config.json"
        if sys.platform == "darwin"
        else ".config/Claude/claude_desktop_config.json",
        ("mcpServers",),
        _plain,
    ),
    "codex": Client("Codex", None, ".codex/config.toml", ("mcp_servers",), _codex),
    "cursor": Client("Cursor", ".cursor/mcp.json", ".cursor/mcp.json", ("mcpServers",), _plain),
    "gemini": Client("Gemini CLI", ".gemini/settings.json", ".gemini/settings.json", ("mcpServers",), _gemini),
    "opencode": Client("opencode", "opencode.json", ".config/opencode/opencode.json", ("mcp",), _opencode),
    "vscode": Client("VS Code", ".vscode/mcp.json", None, ("servers",), _typed),
    "windsurf": Client("Windsurf", None, ".codeium/windsurf/mcp_config.json", ("mcpServers",), _plain),
}


def places(client: str, *, for_user: bool) -> Path:
    """The file that the client reads: the project's (of the working directory), or the user's, where it has only that
    or where it is wanted. Raises InputError for a client without a file of the user's."""
    known = CLIENTS[client]
    if for_user and known.user is None:
        step = "Leave --user out, or name the file with --file."
        raise InputError(f"{known.title} has no file of the user's that we know", value=client, next_step=step)
    if known.project is not None and not for_user:
        return Path.cwd() / known.project
    assert known.user is not None, "a client has one file at least"
    return Path.home() / known.user


def command_line(roots: Sequence[Path] = ()) -> list[str]:
    """How a client starts the server of this very installation: by absolute paths, whatever its PATH is."""
    script = Path(sys.executable).with_name("kforecast")
    start = [str(script)] if script.exists() else [sys.executable, "-m", "kforecast"]
    return [*start, "mcp", *(part for root in roots for part in ("--root", str(root.expanduser().absolute())))]


@dataclass(frozen=True)
class Entered:
    """A client's file with the entry in it. changes: whether it was not there before."""

    file: Path
    text: str
    entry: dict[str, Any]
    changes: bool

    def write(self) -> None:
        """Replace the file at once, with its mode; links stay links. Raises InputError where that is not allowed."""
        target = self.file.resolve()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, delete=False) as new:
                new.write(self.text)
            Path(new.name).chmod(mode)
            os.replace(new.name, target)  # noqa: PTH105 -- the name of the temporary file is a text
        except OSError as error:
            step = "Add it by hand: --dry-run prints what the file would become."
            raise InputError(f"the file cannot be written ({error.strerror})", value=target, next_step=step) from error


def entered(client: str, file: Path, roots: Sequence[Path] = ()) -> Entered:
    """The client's file with the server's entry, nothing else changed. Raises InputError for a file that cannot be read
    or understood, and for one that has another entry of this name."""
    known = CLIENTS[client]
    entry = known.entry(command_line(roots))
    text = _read(file)
    is_toml = file.suffix == ".toml"
    there = _parse(file, text, entry, is_toml)
    servers: Any = there
    for key in known.keys:
        servers = servers.get(key, {}) if isinstance(servers, dict) else None
    if not isinstance(servers, dict):
        raise _not_understood(file, f"{'.'.join(known.keys)} is no table", entry)
    old = servers.get(NAME)
    if old == entry:
        return Entered(file, text, entry, changes=False)
    if old is not None:
        step = f"Take it out first if this is what you want: {json.dumps(entry)}"
        raise InputError(f"{file} has another entry for {NAME}", value=json.dumps(old), next_step=step)
    new = _with_table(text, known.keys, entry) if is_toml else _with_json(text, there, known.keys, entry)
    _parse(file, new, entry, is_toml)  # a table that is written inline cannot be added to
    return Entered(file, new, entry, changes=True)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the file cannot be read ({error})", value=file, next_step="Name another: --file.") from error


def _parse(file: Path, text: str, entry: dict[str, Any], is_toml: bool) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found = tomllib.loads(text) if is_toml else json.loads(text)
    except ValueError as error:
        raise _not_understood(file, str(error), entry) from error
    if not isinstance(found, dict):
        raise _not_understood(file, "it is no table", entry)
    return found


def _not_understood(file: Path, why: str, entry: dict[str, Any]) -> InputError:
    step = f"Correct it, or add this by hand as `{NAME}` (comments in JSON are not understood): {json.dumps(entry)}"
    return InputError(f"the file is not what its name says ({why})", value=file, next_step=step)


def _with_json(text: str, there: dict[str, Any], keys: Sequence[str], entry: dict[str, Any]) -> str:
    """The document with the entry, in its own indentation."""
    whole: dict[str, Any] = json.loads(json.dumps(there))
    servers = whole
    for key in keys:
        servers = servers.setdefault(key, {})
    servers[NAME] = entry
    found = re.search(r"^[\[{]\r?\n([ \t]+)", text)
    indent: str | int = found[1] if found else 2
    return json.dumps(whole, indent=indent, ensure_ascii=False) + "\n"


def _with_table(text: str, keys: Sequence[str], entry: dict[str, Any]) -> str:
    """The text with a table at its end: what stands before keeps its comments and its order."""
    lines = [
        f"[{'.'.join([*keys, NAME])}]",
        *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in entry.items()),
    ]
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}" + "\n".join(lines) + "\n"
