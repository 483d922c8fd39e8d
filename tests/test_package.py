"""The package as a whole: complete wheels, a light import, one version, the public names."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import kforecast

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("store", "bench", "surrogate", "tools", "app")
HEAVY = ("torch", "triton", "cupy", "cuda", "litellm", "textual", "ray", "transformers", "sklearn", "scipy")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc")


def shipped_files() -> set[str]:
    """Every file of the tree that a user needs at run time, as a path inside the wheel."""
    files = set(ROOT.glob("*.py")) | {ROOT / "py.typed"}
    for room in ROOMS:
        files |= {path for path in (ROOT / room).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    return {f"kforecast/{path.relative_to(ROOT)}" for path in files}


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    work = tmp_path_factory.mktemp("wheel")
    tree = work / "any-name"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "py.typed"):
        shutil.copy(ROOT / name, tree)
    for path in ROOT.glob("*.py"):
        shutil.copy(path, tree)
    for room in ROOMS:
        shutil.copytree(ROOT / room, tree / room, ignore=LEFT_OUT)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", work, tree],
        check=True,
        cwd=work,
    )
    (wheel,) = work.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_every_file_of_the_five_rooms(wheel_names: set[str]) -> None:
    assert shipped_files() - wheel_names == set()


def test_the_wheel_holds_nothing_else(wheel_names: set[str]) -> None:
    strangers = {name for name in wheel_names - shipped_files() if ".dist-info/" not in name}
    assert strangers == set()


def test_the_wheel_carries_its_licence(wheel_names: set[str]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names)


def test_one_version() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert kforecast.__version__ == declared == importlib.metadata.version("kforecast")


def modules_after(code: str) -> set[str]:
    """The names in sys.modules of a fresh interpreter after it ran `code`."""
    script = f"import sys\n{code}\nprint('\\n--', *sys.modules, sep='\\n')"
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    return set(output.split("\n--\n")[1].split())


def test_importing_the_package_loads_nothing_outside_the_standard_library() -> None:
    loaded = modules_after("import kforecast")
    assert loaded.isdisjoint({*HEAVY, "numpy", "pydantic", "click", "rich", "sqlite_utils"})


def modules_after_command(*arguments: str) -> set[str]:
    return modules_after(f"from kforecast.app.main import run\nrun({list(arguments)!r})")


def test_version_is_printed_without_the_machinery() -> None:
    assert modules_after_command("--version").isdisjoint(
        {*HEAVY, "numpy", "pydantic", "rich", "sqlite_utils", "sqlite3"}
    )


@pytest.mark.parametrize(
    "command", ["measure", "facts", "tasks", "status", "doctor", "export", "import", "completion", "mcp", "init"]
)
def test_help_of_a_command_loads_nothing_heavy(command: str) -> None:
    assert modules_after_command(command, "--help").isdisjoint({*HEAVY, "numpy", "pydantic"})


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        # What a first measurement waits for: the broker's start, the device's helpers, the request.
        ("tools.ahead", {"numpy", "pydantic"}),
        ("bench.programs.source", {"numpy", "pydantic"}),
        ("bench.broker.begin", {"numpy", "pydantic"}),
        ("bench.devices.cuda.ahead", {"numpy", "pydantic"}),
        ("bench.devices.cuda.channel", {"numpy", "pydantic"}),
        ("bench.devices.cuda.variables", {"numpy", "pydantic"}),
        ("tools.measure", {"numpy"}),
    ],
)
def test_what_a_first_measurement_waits_for_loads_little(module: str, left_out: set[str]) -> None:
    assert modules_after(f"import kforecast.{module}").isdisjoint({*HEAVY, *left_out})


@pytest.mark.parametrize("name", kforecast.__all__)
def test_public_names_exist(name: str) -> None:
    assert getattr(kforecast, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'mesure'"):
        kforecast.mesure  # noqa: B018


def test_the_package_runs_as_a_module() -> None:
    output = subprocess.run(
        [sys.executable, "-m", "kforecast", "--version"], check=True, capture_output=True, text=True
    )
    assert output.stdout == f"kforecast {kforecast.__version__}\n"
