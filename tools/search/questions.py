"""What benches, forecasters and generators are asked, put together from the state and the kernels in the store."""

from __future__ import annotations

from collections import OrderedDict

from ...store import kernels
from ...store.database import Store
from ...store.models import Kernel, Task
from .bench import Job
from .chains import base_of
from .events import Began, OwnForecast
from .forecasting import ForecastAsk, Learnt
from .generators.protocol import ProposalAsk, Tried
from .state import Node, State

_KERNELS = 512
_HISTORY = 5
_MOST_LEARNT = 256


class Questions:
    """Asks for one search. wants_history: of a generator that thinks; learns: of a forecaster that learns."""

    def __init__(self, store: Store, task: Task, *, wants_history: bool, learns: bool) -> None:
        self._store = store
        self._task = task
        self._wants_history = wants_history
        self._learns = learns
        self._learnt: tuple[int, tuple[Learnt, ...]] = (0, ())
        self._kernels: OrderedDict[str, Kernel] = OrderedDict()

    def about(self, state: State, node: Node) -> ForecastAsk:
        """What the forecaster is asked of a candidate."""
        kernel, anchor = self.kernel(node.kernel_id), state.measured_ancestor(node)
        return self.forecast_ask(state, node.id, kernel, anchor, node.own)

    def forecast_ask(
        self, state: State, node: str, kernel: Kernel, anchor: Node, own: OwnForecast | None
    ) -> ForecastAsk:
        """The same of a candidate that is not in the state yet."""
        return ForecastAsk(
            node=node,
            kernel=kernel,
            anchor=self.kernel(anchor.kernel_id),
            device=state.config.device,
            own=own,
            anchor_log2=anchor.log2 or 0.0,
            learnt=self._learnt_by_now(state) if self._learns else (),
        )

    def _learnt_by_now(self, state: State) -> tuple[Learnt, ...]:
        """What was measured, in order; of a long search the seed and the newest."""
        if self._learnt[0] != state.spent.measurements:
            indices = list(state.measured)
            if len(indices) > _MOST_LEARNT:
                indices = [0, *indices[-_MOST_LEARNT:]]
            nodes = [state.nodes[index] for index in indices]
            found = tuple(Learnt(self.kernel(one.kernel_id), one.log2) for one in nodes if not one.censored)
            self._learnt = (state.spent.measurements, found)
        return self._learnt[1]

    def proposal_ask(self, state: State, parent: Node, ordinal: int) -> ProposalAsk:
        """What the generator is asked for."""
        return ProposalAsk(
            parent=self.kernel(parent.kernel_id),
            task=self._task,
            device=state.config.device,
            ordinal=ordinal,
            random_seed=state.config.random_seed,
            seen=lambda source_id: source_id in state.sources,
            history=tried(state, parent) if self._wants_history else (),
            log2=parent.log2,
            time_us=parent.time_us,
            percent_of_floor=parent.percent_of_floor,
        )

    def kernel(self, kernel_id: str) -> Kernel:
        """A kernel of the search, kept in memory while it is in use."""
        found = self._kernels.get(kernel_id)
        if found is None:
            found = kernels.get(self._store, kernel_id)
            assert found is not None, "candidates are saved before their events"
        self.keep(found)
        return found

    def keep(self, kernel: Kernel) -> None:
        """Keep a kernel that will be asked for soon."""
        self._kernels[kernel.id] = kernel
        self._kernels.move_to_end(kernel.id)
        if len(self._kernels) > _KERNELS:
            self._kernels.popitem(last=False)


def job_of(state: State, node: Node, began: Began) -> Job:
    """The measurement that was begun."""
    against: str | None = None
    if node.parent >= 0:
        against = state.nodes[base_of(state, node, began.purpose, began)].kernel_id
    return Job(
        search_id=state.search_id,
        node=node.id,
        kernel_id=node.kernel_id,
        baseline_id=against,
        device=state.config.device,
        effort=began.effort,
        purpose=began.purpose,
        try_=node.lost,
    )


def tried(state: State, parent: Node, most: int = _HISTORY) -> tuple[Tried, ...]:
    """What was tried from a parent and how it ended: the best ones and the last failures, `most` of each."""
    children = [node for node in state.nodes[parent.index + 1 :] if node.parent == parent.index and node.verdict]
    right = sorted((node for node in children if node.log2 is not None), key=lambda node: -(node.log2 or 0.0))
    wrong = [node for node in children if node.log2 is None]
    chosen = [*right[:most], *wrong[-most:]]
    return tuple(Tried(node.idea, node.verdict or "", node.log2, node.detail) for node in chosen)
