"""Other benches' files through the use case that every face calls: the problem's reference is the baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforecast.bench.devices.catalogue import runs_hosted
from kforecast.store import measurements
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.store.models import Measurement
from kforecast.tools.kernels import Asked, device_for, find_baseline, find_kernel, load_file
from kforecast.tools.measure import measure

pytest.importorskip("torch")

HOSTED = Path(__file__).parents[1] / "bench" / "hosted"
PROBLEM = HOSTED / "kernelbench" / "norm_and_parts.py"
HEADER = '# /// kforecast 1\n# task = "vector_add"\n# [[launch]]\n# entry = "add"\n# args = ["a", "b"]\n# ///\n'


def test_a_submission_is_measured_against_the_reference(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(PROBLEM.read_text().replace("class Model(", "class ModelNew("))
    said: list[str] = []
    result = measure(
        str(mine), task=str(PROBLEM), device="cpu", effort="quick", use_broker=False, on_progress=said.append
    )
    assert (result.verdict, result.task, result.lane) == ("ok", "norm_and_parts", "host-code")
    assert "the reference" in result.summary
    assert result.baseline_us is not None
    assert result.isolation
    assert any("learning the reference" in text for text in said)
    with Store.open() as store:
        stored = measurements.get(store, result.measurement_id or "")
        assert isinstance(stored, Measurement)
        again = find_kernel(store, stored.kernel_id)
        assert again.task.problem is not None
        assert again.kernel.source == mine.read_text()


def test_what_a_baseline_may_be(tmp_path: Path) -> None:
    with Store.open() as store:
        candidate = find_kernel(store, str(PROBLEM))
        for name in (None, "seed", "reference", "library"):
            found, _ = find_baseline(store, name, candidate)
            assert found is not None
            assert found.called == "the reference"
        assert find_baseline(store, "none", candidate)[0] is None
        with pytest.raises(InputError, match="no tuned kernel"):
            find_baseline(store, "tuned", candidate)
        other = tmp_path / "other.py"
        other.write_text(PROBLEM.read_text().replace("class Model(", "class ModelNew("))
        found, because = find_baseline(store, str(other), candidate)
        assert found is not None
        assert (found.kernel.launches[0].entry, because) == ("ModelNew", "asked for")


def test_a_ratio_never_mixes_lanes(tmp_path: Path) -> None:
    program = tmp_path / "add.py"
    program.write_text(HEADER + "def add(a, b):\n    return a + b\n")
    candidate = load_file(program, Asked())
    assert runs_hosted(candidate.kernel.language)
    assert device_for(candidate.kernel, "cpu") == "cpu"
    assert device_for(candidate.kernel, "cuda") == "cuda:0"
    kernel = tmp_path / "add.c"
    kernel.write_text(
        '/* kforecast 1\ntask = "vector_add"\n[[launch]]\nentry = "add"\nargs = ["a", "b", "c", "N"]\n*/\n'
        "void add(const float* a, const float* b, float* c, int N) { for (int i = 0; i < N; i++) c[i] = 0; }\n"
    )
    with Store.open() as store, pytest.raises(InputError, match="different lanes"):
        find_baseline(store, str(kernel), candidate)
