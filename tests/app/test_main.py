from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from kforecast.app import main
from kforecast.app.exits import EXIT_CODES
from kforecast.store.errors import DeviceError, InputError, StoreError, UnsupportedError

Capture = pytest.CaptureFixture[str]


def raising(error: BaseException) -> click.Command:
    @click.command("status")
    @click.option("--json", "as_json", is_flag=True)
    def command(as_json: bool) -> None:
        raise error

    return command


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> object:
    """Make `kforecast status` raise an error."""

    def with_error(error: BaseException) -> None:
        monkeypatch.setattr(main.Commands, "get_command", lambda self, ctx, name: raising(error))

    return with_error


def test_help_lists_every_command_and_the_exit_codes(capsys: Capture) -> None:
    assert main.run(["--help"]) == 0
    page = capsys.readouterr().out
    for name in main.COMMANDS:
        assert f"\n  {name} " in page
    words = " ".join(page.split())
    assert all(f"{code} {meaning}" in words for code, meaning in EXIT_CODES.items())
    assert max(len(line) for line in page.splitlines()) <= 80


@pytest.mark.parametrize("command", main.COMMANDS)
def test_every_command_takes_json_and_documents_exit_codes(command: str, capsys: Capture) -> None:
    assert main.run([command, "--help"]) == 0
    page = capsys.readouterr().out
    assert "--json" in page
    assert "Exit codes:" in page


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the system refused (No space left on device)"),
        (OSError(errno.EROFS, "Read-only file system", "/place"), "the system refused (Read-only file system)"),
        (PermissionError(errno.EACCES, "Permission denied", "/place"), "the system refused (Permission denied)"),
        (MemoryError(), "there is not enough memory"),
    ],
)
def test_what_the_system_refuses_is_no_fault_of_ours(
    fail: Callable[[BaseException], None], error: BaseException, what: str, capsys: Capture
) -> None:
    fail(error)
    assert main.run(["status", "--json"]) == 4
    answer = json.loads(capsys.readouterr().out)
    assert (answer["error"], answer["what"]) == ("DeviceError", what)
    assert answer["value"] == getattr(error, "filename", None)
    assert answer["next"]


def test_the_page_of_the_command_line_names_every_command_and_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    assert [name for name in main.COMMANDS if f"`kforecast {name}" not in page and f"`{name} " not in page] == []
    assert [code for code in EXIT_CODES if f"\n| {code} | " not in page] == []


def test_version(capsys: Capture) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kforecast ")


@pytest.mark.parametrize("error_type", [InputError, StoreError, DeviceError, UnsupportedError])
def test_errors_are_told_once_with_their_next_step_and_code(
    error_type: type[InputError], fail: object, capsys: Capture
) -> None:
    fail(error_type("it broke", value="v", next_step="Mend it."))
    assert main.run(["status"]) == error_type.exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: it broke: v\n       Mend it.\n"


def test_errors_are_data_on_stdout_after_json(fail: object, capsys: Capture) -> None:
    fail(InputError("it broke", value="v", next_step="Mend it."))
    assert main.run(["status", "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"error": "InputError", "what": "it broke", "value": "v", "next": "Mend it.", "exit_code": 2}


def test_an_unexpected_exception_is_one_line_and_says_how_to_see_more(fail: object, capsys: Capture) -> None:
    fail(ZeroDivisionError("surprise"))
    assert main.run(["status"]) == 70
    captured = capsys.readouterr().err
    assert "a fault in kforecast: ZeroDivisionError: surprise" in captured
    assert "--debug" in captured
    assert "Traceback" not in captured


def test_debug_shows_the_traceback(fail: object, capsys: Capture) -> None:
    fail(ZeroDivisionError("surprise"))
    assert main.run(["--debug", "status"]) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_interrupt_says_what_is_kept(fail: object, capsys: Capture) -> None:
    fail(KeyboardInterrupt())
    assert main.run(["status"]) == 130
    assert "are kept" in capsys.readouterr().err


def test_an_interrupt_is_data_too(fail: Callable[[BaseException], None], capsys: Capture) -> None:
    fail(KeyboardInterrupt())
    assert main.run(["status", "--json"]) == 130
    answer = json.loads(capsys.readouterr().out)
    assert (answer["error"], answer["exit_code"]) == ("Interrupted", 130)


def test_an_interrupt_that_a_library_made_an_error_of_is_an_interrupt(
    fail: Callable[[BaseException], None], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(main, "_interrupts", [2])
    fail(ImportError("numpy failed to import"))
    assert main.run(["status"]) == 130
    assert "fault" not in capsys.readouterr().err


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_fault(closed: str) -> None:
    done = subprocess.run(["sh", "-c", f'"$0" -m kforecast tasks {closed}', sys.executable], check=False, timeout=30)
    assert done.returncode == 0


def test_an_error_is_told_once_where_stdout_cannot_be_written() -> None:
    command = ["sh", "-c", '"$0" -m kforecast tasks --json > /dev/full', sys.executable]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, timeout=30)
    assert done.returncode == 4
    assert done.stderr.splitlines()[0] == "error: the system refused (No space left on device)"
    assert "Traceback" not in done.stderr


def test_an_unknown_command_names_the_nearest(capsys: Capture) -> None:
    assert main.run(["mesure", "a.c"]) == 2
    assert "Did you mean measure?" in capsys.readouterr().err


def test_a_file_where_a_command_belongs_is_explained(capsys: Capture) -> None:
    assert main.run([__file__]) == 2
    assert f"`kforecast measure {__file__}`" in capsys.readouterr().err


def test_an_unknown_option_points_at_the_commands_help(capsys: Capture) -> None:
    assert main.run(["status", "--wrong"]) == 2
    captured = capsys.readouterr().err
    assert "--wrong" in captured
    assert "`kforecast status --help`" in captured


def test_a_missing_argument_is_json_too(capsys: Capture) -> None:
    assert main.run(["measure", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2


def test_a_closed_pipe_ends_quietly() -> None:
    command = [sys.executable, "-m", "kforecast", "tasks", "show", "softmax_rows"]
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, text=True)
    os.close(write)
    assert process.stderr == ""
    assert process.returncode == 141
