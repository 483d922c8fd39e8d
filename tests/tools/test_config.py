from __future__ import annotations

from pathlib import Path

import pytest

from kforecast.store.errors import InputError
from kforecast.tools.config import EXAMPLE, load_config


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("KFORECAST_CONFIG", str(path))
    return path


def test_without_a_file_the_defaults_hold() -> None:
    config = load_config()
    assert (config.device, config.effort, config.alpha, config.roots, config.exists) == (None, "normal", 0.1, (), False)
    assert set(config.origins.values()) == {"default"}


def test_the_file_wins_over_defaults_and_the_environment_over_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('device = "cpu"\neffort = "quick"\nalpha = 0.2\nroots = ["/kernels"]\n')
    monkeypatch.setenv("KFORECAST_EFFORT", "claim")
    config = load_config()
    assert (config.device, config.effort, config.alpha, config.roots) == ("cpu", "claim", 0.2, (Path("/kernels"),))
    assert config.origins["device"] == "file"
    assert config.origins["effort"] == "environment"
    assert config.origins["model"] == "default"


def test_the_example_is_a_valid_file_once_its_lines_count(file: Path) -> None:
    file.write_text("\n".join(line.removeprefix("# ") for line in EXAMPLE.splitlines() if "=" in line))
    assert load_config().effort == "normal"


def test_an_unknown_key_names_the_nearest_one(file: Path) -> None:
    file.write_text('devise = "cpu"\n')
    with pytest.raises(InputError, match="Did you mean device"):
        load_config()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('effort = "max"', "quick, normal or claim"),
        ("alpha = 0.7", "between 0 and 0.5"),
        ("alpha = true", "between 0 and 0.5"),
        ("max_usd = -1", "US dollars"),
        ("max_usd = true", "US dollars"),
        ("max_usd = nan", "US dollars"),
        ("device = 3", "non-empty text"),
        ('roots = ["a", 1]', "list of folders"),
    ],
)
def test_a_bad_value_says_what_it_must_be(file: Path, line: str, wanted: str) -> None:
    file.write_text(line)
    with pytest.raises(InputError, match=wanted):
        load_config()


@pytest.mark.parametrize(
    ("variable", "value", "wanted"),
    [
        ("KFORECAST_KEYS", "quit", "down=j,down;quit=Q"),
        ("KFORECAST_KEYS", "quit=Q;stop", "down=j,down;quit=Q"),
        ("KFORECAST_ROOTS", "~nobody-of-that-name/kernels", "a list of folders"),
        ("KFORECAST_ALPHA", "much", "between 0 and 0.5"),
        ("KFORECAST_MAX_USD", "nan", "US dollars"),
        ("KFORECAST_EFFORT", "max", "quick, normal or claim"),
    ],
)
def test_a_bad_variable_says_what_it_must_be(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, wanted: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match=f"bad value for {variable}.*{wanted}"):
        load_config()


def test_the_keys_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORECAST_KEYS", "quit=Q; stop=ctrl+x;")
    assert load_config().keys == {"quit": "Q", "stop": "ctrl+x"}


def test_a_file_that_is_not_toml_says_where(file: Path) -> None:
    file.write_text("device = \n")
    with pytest.raises(InputError, match="line 1"):
        load_config()


def test_a_file_that_was_named_has_to_be_there(file: Path) -> None:
    with pytest.raises(InputError, match=r"config\.toml"):
        load_config()


def test_a_folder_in_its_place_is_bad_input(file: Path) -> None:
    file.mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        load_config()
