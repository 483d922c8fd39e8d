"""The use case `doctor --profile`: measure what a device does at best, store it, say it in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..bench.broker.lock import device_lock
from ..bench.devices.catalogue import device_kind, normal_name, ordinal_of
from ..store import profiles
from ..store.database import Store
from ..store.errors import UnsupportedError
from ..store.profiles import Profile


def profile_device(device: str, store: Store, on_progress: Callable[[str], None] = lambda text: None) -> Profile:
    """Measure the profile of a device while holding it, store it, and return it. A few seconds.

    A broker that holds the device open goes on with the profile it began with.
    Raises UnsupportedError for the cpu, DeviceError where there is no such GPU or it fails.
    """
    name = normal_name(device)
    if device_kind(name) != "cuda":
        raise UnsupportedError(
            "the cpu has no device profile",
            value=device,
            next_step="Profiles are measured on CUDA devices: `kforecast doctor --profile` on a machine with a GPU.",
        )
    from ..bench.devices.cuda.lane import CudaLane
    from ..bench.devices.cuda.profile import measure_profile

    lane = CudaLane(ordinal_of(name))
    try:
        on_progress(f"waiting for {name}")
        with device_lock(lane.device_id, device=name, purpose="doctor --profile"):
            on_progress(f"measuring the profile of {name}")
            facts = measure_profile(lane)
    finally:
        lane.close()
    return profiles.save(store, lane.device_id, profiles.DEVICE, facts)


def stored_profile(device_id: str, store: Store) -> Profile | None:
    """The newest profile of a physical device, or None."""
    return profiles.latest(store, device_id, profiles.DEVICE)


_UNITS = ("bf16", "f16", "tf32", "f64")
_LINES: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "memory",
        (
            ("copy_bandwidth_gbs", "copy {:,.0f} GB/s"),
            ("read_bandwidth_gbs", "read {:,.0f} GB/s"),
            ("global_latency_ns", "latency {:.0f} ns"),
        ),
    ),
    (
        "L2",
        (
            ("l2_mib", "{:.0f} MiB"),
            ("l2_bandwidth_gbs", "read {:,.0f} GB/s"),
            ("l2_latency_ns", "latency {:.0f} ns"),
        ),
    ),
    ("shared memory", (("shared_bandwidth_gbs", "read {:,.0f} GB/s"), ("shared_latency_ns", "latency {:.0f} ns"))),
    ("launch", (("launch_gap_us", "{:.2f} us each in a graph"), ("launch_us", "{:.2f} us alone between two events"))),
    (
        "atomics",
        (
            ("shared_atomic_gops", "{:,.0f} billion a second in shared memory"),
            ("global_atomic_gops", "{:,.0f} in global memory"),
            ("global_atomic_one_word_gops", "{:.2f} on one word of it"),
        ),
    ),
    ("fp32", (("fp32_tflops", "{:.3g} TFLOPS"),)),
    ("mma.sync", tuple((f"mma_sync_{unit}_tflops", f"{unit} {{:.3g}} TFLOPS") for unit in _UNITS)),
    ("peak", tuple((f"peak_{unit}_tflops", f"{unit} {{:.3g}} TFLOPS") for unit in _UNITS)),
    ("noise", (("noise_pct", "{:.2g}% between two copies (A/A)"),)),
)


def profile_words(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A profile as lines for people: what a line is about, and its numbers. What was not measured is left out."""
    known = dict(facts)
    if facts.get("l2_bytes") is not None:
        known["l2_mib"] = facts["l2_bytes"] / (1 << 20)
    lines = []
    for label, parts in _LINES:
        text = ", ".join(form.format(known[key]) for key, form in parts if known.get(key) is not None)
        if text:
            lines.append((label, text))
    return lines
