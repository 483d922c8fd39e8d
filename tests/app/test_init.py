"""`kforecast init`: an entry is added, nothing else is touched, twice is once."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kforecast.app.clients import CLIENTS, command_line
from kforecast.app.main import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def written(capsys: Capture, *arguments: str) -> Path:
    """Run init; the file it wrote to."""
    assert run(["init", *arguments, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert answer["written"] is True
    return Path(answer["file"])


@pytest.mark.parametrize("client", CLIENTS)
def test_the_entry_starts_this_installation(client: str, capsys: Capture) -> None:
    file = written(capsys, client)
    text = file.read_text()
    whole = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    for key in (*CLIENTS[client].keys, "kforecast"):
        whole = whole[key]
    command = whole["command"]
    started = command if isinstance(command, list) else [command, *whole["args"]]
    assert started == command_line()
    assert Path(started[0]).is_absolute()
    assert started[-1] == "mcp"


@pytest.mark.parametrize("client", CLIENTS)
def test_twice_is_once(client: str, capsys: Capture) -> None:
    file = written(capsys, client)
    first = file.read_bytes()
    assert run(["init", client]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert file.read_bytes() == first


@pytest.mark.parametrize("client", CLIENTS)
def test_a_dry_run_writes_nothing(client: str, capsys: Capture, home: Path) -> None:
    assert run(["init", client, "--dry-run"]) == 0
    assert "kforecast" in capsys.readouterr().out
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_what_else_stands_in_a_json_file_stays(capsys: Capture) -> None:
    before = {"z": [1, {"ä": None}], "mcpServers": {"other": {"command": "x"}}, "a": "é"}
    Path(".mcp.json").write_text(json.dumps(before, indent=4, ensure_ascii=False))
    text = written(capsys, "claude").read_text()
    after = json.loads(text)
    assert list(after) == list(before)
    del after["mcpServers"]["kforecast"]
    assert after == before
    assert '\n    "z"' in text
    assert "é" in text


def test_what_else_stands_in_a_toml_file_stays_to_the_letter(capsys: Capture, home: Path) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    before = '# mine\nmodel = "o"   # fast\n\n[mcp_servers.other]\ncommand = "x"'
    config.write_text(before)
    config.chmod(0o640)
    text = written(capsys, "codex").read_text()
    assert text.startswith(before + "\n\n[mcp_servers.kforecast]\n")
    assert config.stat().st_mode & 0o777 == 0o640


def test_another_entry_of_that_name_is_never_replaced(capsys: Capture) -> None:
    text = '{"mcpServers": {"kforecast": {"command": "mine"}}}'
    Path(".mcp.json").write_text(text)
    assert run(["init", "claude"]) == 2
    assert "mine" in capsys.readouterr().err
    assert Path(".mcp.json").read_text() == text


@pytest.mark.parametrize(
    ("client", "file", "text"),
    [
        ("claude", ".mcp.json", '{"mcpServers": {}, // a remark\n}'),
        ("claude", ".mcp.json", "[]"),
        ("claude", ".mcp.json", '{"mcpServers": []}'),
        ("codex", "config.toml", "model ="),
        ("codex", "config.toml", 'mcp_servers = { other = { command = "x" } }'),
        ("claude", ".mcp.json", "\udcff"),
    ],
)
def test_a_file_that_is_not_understood_is_left_alone(client: str, file: str, text: str, capsys: Capture) -> None:
    content = text.encode("utf-8", "surrogateescape")
    Path(file).write_bytes(content)
    assert run(["init", client, "--file", file]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert Path(file).read_bytes() == content


def test_a_link_stays_a_link(capsys: Capture, home: Path) -> None:
    (home / "dotfiles.json").write_text("{}")
    Path(".mcp.json").symlink_to(home / "dotfiles.json")
    written(capsys, "claude")
    assert Path(".mcp.json").is_symlink()
    assert "kforecast" in (home / "dotfiles.json").read_text()


def test_roots_are_passed_on(capsys: Capture, home: Path) -> None:
    text = written(capsys, "cursor", "--root", str(home)).read_text()
    assert json.loads(text)["mcpServers"]["kforecast"]["args"][-2:] == ["--root", str(home)]


def test_a_client_without_a_file_of_the_users(capsys: Capture) -> None:
    assert run(["init", "vscode", "--user"]) == 2
    assert "--file" in capsys.readouterr().err


def test_the_tools_can_be_read(capsys: Capture) -> None:
    assert run(["mcp", "--json"]) == 0
    tools = json.loads(capsys.readouterr().out)["tools"]
    assert [tool["name"] for tool in tools][:2] == ["forecast_kernel", "measure_kernel"]
