from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kforecast.store.errors import InputError
from kforecast.tools.tasks import check_task, copy_kernel, list_tasks, show_task


def test_every_task_is_listed_with_its_signature_and_kernels() -> None:
    lines = {line.name: line for line in list_tasks()}
    assert len(lines) >= 16
    assert lines["softmax_rows"].signature == "x[R, C] f32 -> y[R, C] f32"
    assert all({"seed.c", "tuned.c", "seed.cuda"} <= set(line.kernels) for line in lines.values())


def test_a_task_in_full_has_cases_with_traffic() -> None:
    task = show_task("softmax_rows")
    assert task.sizes == ("R", "C")
    case = task.timed["cpu"][0]
    sizes = dict(part.split("=") for part in case.name.split())
    assert case.bytes == 2 * 4 * int(sizes["R"]) * int(sizes["C"])
    assert any(kernel.role == "seed" and kernel.language == "c" for kernel in task.kernels)


def test_an_unknown_task_names_the_nearest() -> None:
    with pytest.raises(InputError, match="softmax_rows"):
        show_task("softmax_row")


def test_copying_makes_the_folder_and_names_the_file_after_the_task(tmp_path: Path) -> None:
    path = copy_kernel("softmax_rows", tmp_path / "new")
    assert path == tmp_path / "new" / "softmax_rows.c"
    assert path.read_text().startswith("/* kforecast 1")


def test_copying_overwrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.c"
    path.write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        copy_kernel("softmax_rows", path)
    assert path.read_text() == "precious"


def test_a_kernel_that_does_not_come_with_the_task_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"seed \(c\).*library \(torch\)"):
        copy_kernel("softmax_rows", tmp_path, role="library")
    assert copy_kernel("softmax_rows", tmp_path, language="torch", role="library").name == "softmax_rows.py"


def test_the_file_name_has_to_fit_the_language(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends with \.cu"):
        copy_kernel("softmax_rows", tmp_path / "a.c", language="cuda")


def test_a_kernel_file_stands_for_the_task_of_its_header() -> None:
    example = str(Path(__file__).parents[2] / "examples" / "row_dot.c")
    assert check_task(example).testable
    assert show_task(example).signature == "a[R, C] f32, b[R, C] f32 -> y[R] f32"


def test_a_copy_that_does_not_fit_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, text: str, **how: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", refuse)
        with pytest.raises(InputError, match=r"cannot be written \(No space left"):
            copy_kernel("softmax_rows", tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert copy_kernel("softmax_rows", tmp_path).read_text()
