"""`tune`: the declared tunables. A child differs from its parent in one of them; from the seed's default come all."""

from __future__ import annotations

from collections.abc import Iterator

from ....bench.header.configure import Tune, configurations
from ....store.models import Kernel, Sizes, Task
from .lists import ListGenerator, shuffled
from .protocol import Proposal
from .sources import loaded_from, text_of, tuned


class TuneGenerator(ListGenerator):
    """Configurations near the parent's first: one tunable changed, then two, and so on to all that there are."""

    name = "tune"

    def candidates(self, parent: Kernel, task: Task, seed: int) -> Iterator[Proposal]:
        """Every other configuration that the header allows."""
        tune = tune_of(parent, task)
        here = dict(parent.tunables)
        others = [one for one in configurations(tune) if one != here]
        ordered = shuffled(others, f"{seed}\ntune\n{parent.source_id}")
        for chosen in sorted(ordered, key=lambda one: _distance(one, here)):
            changed = [name for name, value in chosen.items() if here.get(name) != value]
            idea = ", ".join(f"{name}={chosen[name]}" for name in changed)
            yield Proposal(tuned(parent, chosen), idea, f"tune:{'+'.join(changed)}")


def tune_of(kernel: Kernel, task: Task) -> Tune:
    """The tunables that a kernel's header declares; none for a bare file."""
    text = text_of(kernel)
    return loaded_from(kernel.source, kernel, task, text.options).tune if text.header else Tune()


def _distance(one: Sizes, other: Sizes) -> int:
    return sum(one[name] != other.get(name) for name in one)
