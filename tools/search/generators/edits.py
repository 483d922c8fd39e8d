"""`edits`: what rules can do to a source, one at a time."""

from __future__ import annotations

from collections.abc import Iterator

from ....store.errors import InputError
from ....store.models import Kernel, Task
from .lists import ListGenerator, shuffled
from .protocol import Proposal
from .rules import COMMON, Rule
from .rules_c import C_RULES
from .rules_cuda import CUDA_RULES
from .sources import Text, kernel_of, text_of

RULES: tuple[Rule, ...] = (*COMMON, *C_RULES, *CUDA_RULES)


class EditsGenerator(ListGenerator):
    """Every edit of every rule that applies to the parent, rules taking turns so that the first are diverse."""

    name = "edits"

    def candidates(self, parent: Kernel, task: Task, seed: int) -> Iterator[Proposal]:
        """Edits that do not leave a readable kernel are passed over."""
        for rule, idea, text in turns(parent, f"{seed}\nedits\n{parent.source_id}"):
            try:
                kernel = kernel_of(text, parent, task)
            except InputError:
                continue
            if kernel.source_id != parent.source_id:
                yield Proposal(kernel, idea, f"edits:{rule.name}")


def turns(parent: Kernel, seed: str) -> Iterator[tuple[Rule, str, Text]]:
    """The edits of all rules, a round a time, rules and each rule's edits in an order that follows from the seed."""
    text = text_of(parent)
    queues = []
    for rule in shuffled([rule for rule in RULES if parent.language in rule.languages], seed):
        edits = shuffled(list(rule.edits(text, parent)), f"{seed}\n{rule.name}")
        if edits:
            queues.append((rule, edits))
    for place in range(max((len(edits) for _, edits in queues), default=0)):
        for rule, edits in queues:
            if place < len(edits):
                yield rule, *edits[place]
