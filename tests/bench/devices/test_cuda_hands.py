"""Several hands on one GPU: right and bad kernels beside each other, each with its own verdict; nothing left behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from measured import expectation

from kforecast.bench.broker import processes_alive
from kforecast.bench.broker.hands import Hands
from kforecast.bench.broker.lock import holder
from kforecast.bench.broker.payload import MeasurePayload
from kforecast.bench.devices.cuda.device import device_facts
from kforecast.bench.devices.cuda.monitor import Monitor
from kforecast.bench.tasks.builtin import builtin_kernel
from kforecast.store import measurements, requests
from kforecast.store.database import Store
from kforecast.store.models import Measurement
from kforecast.tools.kernels import Asked, load_file, remember

pytestmark = pytest.mark.gpu

EXHIBITS = Path(__file__).parents[2] / "exhibits" / "cuda"
BAD = ("illegal_access", "trap", "device_assert", "wrong_softmax_rows_no_max", "compile_error")
GOOD = ("softmax_rows", "vector_add", "transpose", "layernorm")


def test_kernels_beside_each_other_get_their_own_verdicts_and_the_device_is_given_back() -> None:
    paths = [path for name in GOOD if (path := builtin_kernel(name, "cuda", "tuned")) is not None]
    paths += [EXHIBITS / f"{name}.cu" for name in BAD]
    monitor = Monitor(0)
    idle = monitor.memory_used()
    owner = processes_alive.owner_name("test")
    with Store.open() as store:
        hands = Hands(store, "cuda:0", owner, 3)
        hands.get_ready()

        def asked(path: Path) -> str:
            named = load_file(path, Asked())
            remember(store, [named])
            payload = MeasurePayload(kernel_id=named.kernel.id, baseline_id=None, effort="quick", call_deadline_s=3.0)
            data = payload.model_dump(mode="json")
            return requests.enqueue(store, device="cuda:0", payload=data, client="test").id

        def answer(name: str) -> Measurement:
            row = requests.get(store, name)
            assert row is not None and row.result_id is not None, row
            found = measurements.get(store, row.result_id)
            assert found is not None
            return found

        def work() -> None:
            while (begun := hands.next()) is not None:
                hands.work_off(*begun)

        names = [asked(path) for path in 3 * paths]
        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(work) for _ in range(3)]:
                done.result()
        found = [answer(name) for name in names]
        assert all(hand.alive for hand in hands.others)
        hands.close()
    assert [hand.exit_code for hand in hands.others] == [0, 0, 0]
    for path, one in zip(3 * paths, found, strict=True):
        wanted = {"ok"} if path.parent != EXHIBITS else expectation(path)
        assert one.verdict in wanted, f"{path.name}: {one.verdict}: {one.reason}"
    ok = [one for one in found if one.verdict == "ok"]
    for one in ok:
        turns = one.environment["turns"]
        assert isinstance(turns, dict)
        assert 0 < turns["alone_s"] <= one.device_seconds
    assert holder(device_facts(0).uuid) is None
    after = monitor.memory_used()
    if idle is not None and after is not None:
        assert after - idle < 64 << 20
