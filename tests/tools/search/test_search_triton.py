"""Searches over Triton files: their tunables are proposed, and the best is a file again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforecast.store.models import Kernel
from kforecast.tools.kernels import Asked, Named, load_file
from kforecast.tools.search.best import best_as_file
from kforecast.tools.search.generators.llm import read_reply
from kforecast.tools.search.generators.sources import Text, kernel_of, text_of, tuned
from kforecast.tools.search.generators.tune import tune_of

ROOT = Path(__file__).parents[3]
SOFTMAX = ROOT / "examples" / "softmax_triton.py"


@pytest.fixture
def named() -> Named:
    return load_file(SOFTMAX, Asked())


def test_a_triton_files_tunables_are_known(named: Named) -> None:
    tune = tune_of(named.kernel, named.task)
    assert set(tune.values) == {"BLOCK", "num_warps"}
    child = tuned(named.kernel, {"BLOCK": 1024, "num_warps": 4})
    assert child.language == "triton" and child.id != named.kernel.id
    assert child.source == named.kernel.source


def test_header_and_code_come_apart_and_together(named: Named) -> None:
    text = text_of(named.kernel)
    assert text.header.startswith("# /// kforecast 1") and text.header.endswith("# ///\n")
    assert text.header + text.code == named.kernel.source
    edited = kernel_of(Text(text.header, text.code + "\nLATER = 1\n"), named.kernel, named.task)
    assert edited.language == "triton" and edited.tunables == named.kernel.tunables
    assert edited.id != named.kernel.id


def test_a_shebang_or_a_docstring_may_stand_before_the_header() -> None:
    source = "#!/usr/bin/env python\n" + SOFTMAX.read_text()
    kernel = load_file(source, Asked()).kernel
    assert text_of(kernel).header.startswith("#!")
    assert text_of(kernel).code.lstrip().startswith('"""Softmax')


def test_the_best_file_begins_with_its_own_values(named: Named) -> None:
    best: Kernel = tuned(named.kernel, {"BLOCK": 1024, "num_warps": 16})
    again = load_file(best_as_file(best), Asked()).kernel
    assert again.tunables == best.tunables


def test_a_models_answer_without_the_header_keeps_its_parents(named: Named) -> None:
    code = text_of(named.kernel).code.replace("tl.exp(value - top)", "tl.exp2((value - top) * 1.4426950408889634)")
    child, idea = read_reply(f"IDEA: exp2\n```python\n{code}```\n", named.kernel, named.task)
    assert child.language == "triton" and child.launches == named.kernel.launches
    assert "exp2" in child.source and idea
