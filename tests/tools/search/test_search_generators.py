"""Generators: what every one of them keeps to, and that their edits are kernels, labelled, told and different."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kforecast.bench.tasks.builtin import builtin_kernel
from kforecast.store.models import Kernel
from kforecast.tools.kernels import Asked, Named, load_file
from kforecast.tools.search.generators.edits import EditsGenerator
from kforecast.tools.search.generators.lists import ListGenerator, Together
from kforecast.tools.search.generators.protocol import Generator, Nothing, Proposal, ProposalAsk
from kforecast.tools.search.generators.sources import Text, kernel_of, text_of
from kforecast.tools.search.generators.tune import TuneGenerator, tune_of

MAKERS: tuple[Callable[[], Generator], ...] = (
    TuneGenerator,
    EditsGenerator,
    lambda: Together([EditsGenerator(), TuneGenerator()]),
)


def builtin(task: str, file: str) -> Named:
    role, _, suffix = file.partition(".")
    path = builtin_kernel(task, "c" if suffix == "c" else "cuda", role)  # type: ignore[arg-type]
    assert path is not None
    return load_file(path, Asked())


def ask(named: Named, seen: set[str], ordinal: int = 0, seed: int = 0) -> ProposalAsk:
    return ProposalAsk(named.kernel, named.task, "cpu", ordinal, seed, lambda source_id: source_id in seen)


def all_of(generator: Generator, named: Named, seed: int = 0, most: int = 500) -> list[Proposal]:
    seen = {named.kernel.source_id}
    found: list[Proposal] = []
    for ordinal in range(most):
        proposal = generator.propose(ask(named, seen, ordinal, seed))
        if isinstance(proposal, Nothing):
            assert proposal.why == "exhausted"
            break
        seen.add(proposal.kernel.source_id)
        found.append(proposal)
    return found


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("task", "file"), [("softmax_rows", "tuned.c"), ("transpose", "tuned.c")])
def test_the_contract_of_generators(make: Callable[[], Generator], task: str, file: str) -> None:
    named = builtin(task, file)
    found = all_of(make(), named)
    assert found
    assert len({proposal.kernel.source_id for proposal in found}) == len(found)
    assert all(proposal.idea and proposal.tag for proposal in found)
    assert all(proposal.kernel.task_id == named.task.id for proposal in found)
    assert all(proposal.kernel.toolchain == named.kernel.toolchain for proposal in found)
    again = all_of(make(), named)
    assert [one.kernel.id for one in again] == [one.kernel.id for one in found]
    other = all_of(make(), named, seed=1)
    assert [one.kernel.id for one in other] != [one.kernel.id for one in found]
    assert {one.kernel.id for one in other} == {one.kernel.id for one in found}
    # Whoever takes it up in the middle goes on where the other stopped.
    half = len(found) // 2
    seen = {named.kernel.source_id, *(one.kernel.source_id for one in found[:half])}
    taken_up = make().propose(ask(named, seen, half))
    assert isinstance(taken_up, Proposal) and taken_up.kernel.id == found[half].kernel.id


def test_tune_proposes_every_configuration_nearest_first() -> None:
    named = builtin("softmax_rows", "tuned.c")
    found = all_of(TuneGenerator(), named)
    assert len(found) == 3 * 3 - 1
    changed = [len(proposal.idea.split(",")) for proposal in found]
    assert changed == sorted(changed)
    assert {proposal.kernel.source for proposal in found} == {named.kernel.source}


def test_a_kernel_without_tunables_has_no_configurations() -> None:
    named = builtin("softmax_rows", "seed.c")
    assert all_of(TuneGenerator(), named) == []
    assert tune_of(named.kernel, named.task).values == {}


@pytest.mark.parametrize("task", ["softmax_rows", "layernorm", "transpose", "gemm_f32"])
def test_edits_of_c_seeds_compile(task: str, tmp_path: Path) -> None:
    found = all_of(EditsGenerator(), builtin(task, "seed.c"))
    assert len({proposal.tag for proposal in found}) >= 5
    for number, proposal in enumerate(found):
        file = tmp_path / f"{number}.c"
        file.write_text(proposal.kernel.source)
        command = ["cc", "-fsyntax-only", *proposal.kernel.options, str(file)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0, proposal.idea


@pytest.mark.parametrize("task", ["softmax_rows", "transpose", "gemm_f32"])
def test_an_edited_file_says_itself_what_it_is(task: str, tmp_path: Path) -> None:
    """The source saved as a file loads as the very same program: header and options went along."""
    for suffix in ("c", "cu"):
        for number, proposal in enumerate(all_of(EditsGenerator(), builtin(task, f"seed.{suffix}"))):
            file = tmp_path / f"{number}.{suffix}"
            file.write_text(proposal.kernel.source)
            assert load_file(file, Asked()).kernel.source_id == proposal.kernel.source_id, proposal.idea


def test_a_tuned_parents_edits_keep_its_configuration() -> None:
    named = builtin("softmax_rows", "tuned.c")
    child = all_of(TuneGenerator(), named)[0].kernel
    edited = next(EditsGenerator().candidates(child, named.task, 0)).kernel
    assert edited.tunables == child.tunables


def test_options_come_and_go_in_the_header() -> None:
    named = builtin("softmax_rows", "tuned.c")
    text = text_of(named.kernel)
    fast = text.with_options(["-ffast-math"])
    assert 'options = ["-fopenmp", "-ffast-math"]' in fast.header
    assert kernel_of(fast, named.kernel, named.task).options == ("-ffast-math", "-fopenmp")
    assert fast.with_options(remove=["-ffast-math"]).header.count("options") == 1
    assert "options" not in text.with_options(remove=["-fopenmp"]).header


def test_a_bare_files_edits_keep_its_launch() -> None:
    named = builtin("softmax_rows", "seed.c")
    bare = Kernel.make(
        language="c",
        name="bare.c",
        source=text_of(named.kernel).code,
        launches=named.kernel.launches,
        task_id=named.task.id,
    )
    found = list(EditsGenerator().candidates(bare, named.task, 0))
    assert found and all(proposal.kernel.launches == bare.launches for proposal in found)
    assert kernel_of(Text("", bare.source, ("-O2",)), bare, named.task).options == ("-O2",)


def test_turns_are_taken_and_the_exhausted_passed_over() -> None:
    class Few(ListGenerator):
        name = "few"

        def candidates(self, parent: Kernel, task: object, seed: int):  # type: ignore[no-untyped-def]
            yield from list(EditsGenerator().candidates(parent, task, seed))[:2]  # type: ignore[arg-type]

    named = builtin("softmax_rows", "tuned.c")
    found = all_of(Together([Few(), TuneGenerator()]), named)
    assert [proposal.tag.split(":")[0] for proposal in found[:4]] == ["edits", "tune", "edits", "tune"]
    assert len(found) == 2 + 8
