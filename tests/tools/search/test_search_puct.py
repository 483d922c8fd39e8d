"""What policies build on: the seed's children first, then what was measured, or promises more than the incumbent."""

from __future__ import annotations

import pytest
from landscape import Bed, oracle

from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import Created, Proposed
from kforecast.tools.search.log import read_events
from kforecast.tools.search.state import begin


@pytest.mark.parametrize("policy", ["puct", "gain"])
@pytest.mark.parametrize("known", [True, False])
def test_no_chains_of_guesses_are_built(bed: Bed, policy: str, known: bool) -> None:
    if known:
        bed.forecaster = oracle()
    end = bed.run(Budget(measurements=20), policy=policy, breadth=8, verify=False)
    log = read_events(bed.store, bed.search_id)
    assert isinstance(log[0], Created)
    state, proposed = begin(log[0]), 0
    for event in log[1:]:
        if isinstance(event, Proposed):
            parent = state.nodes[state.by_id[event.parent]]
            assert proposed >= 8 or parent.index == 0, "the seed's children come first"
            beats = parent.begun == 0 and (parent.score or 0.0) > (state.best.log2 or 0.0)
            assert parent.log2 is not None or beats
            proposed += 1
        state.apply(event)
    assert state == end
    assert max(node.depth for node in state.nodes) > 1, "it goes on from what is good"


def test_puct_finds_what_lies_deep_and_comes_back_to_the_seed(bed: Bed) -> None:
    bed.forecaster = oracle()
    state = bed.run(Budget(measurements=40), policy="puct", breadth=8, verify=False)
    assert (state.best.log2 or 0.0) > max(node.log2 or 0.0 for node in state.nodes if node.depth == 1) + 0.2
    assert sum(node.parent == 0 for node in state.nodes) >= 8
