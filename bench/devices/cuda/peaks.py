"""What an architecture can do at best: dense operations per SM and clock, by unit. No measurement gets beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MMA_SYNC_SHARE = {"sm_90": {"bf16": 0.62, "f16": 0.62, "tf32": 0.62}}
"""Share of the tensor cores' dense rate that `mma.sync` reaches where a newer instruction exists: Hopper's `wgmma` does
more (Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking, 2024,
arXiv 2402.13499). The lower it stands here, the safer the floor."""


@dataclass(frozen=True)
class ArchPeaks:
    """Operations per SM and clock, dense, a fused multiply-add counting two; the tensor cores' where they can.

    Where one architecture number covers chips of different rates (GeForce and professional), the faster one.
    source: the paper whose table of rates, number of SMs and boost clock it follows from.
    """

    per_sm_clock: Mapping[str, int]
    source: str

    def __getitem__(self, unit: str) -> int:
        return self.per_sm_clock[unit]


PEAKS: Mapping[str, ArchPeaks] = {
    "sm_75": ArchPeaks({"f64": 4, "f32": 128, "f16": 1024}, "NVIDIA Turing GPU Architecture, WP-09183-001, 2018"),
    "sm_80": ArchPeaks(
        {"f64": 128, "f32": 128, "tf32": 1024, "bf16": 2048, "f16": 2048},
        "NVIDIA A100 Tensor Core GPU Architecture, 2020",
    ),
    "sm_86": ArchPeaks(
        {"f64": 4, "f32": 256, "tf32": 512, "bf16": 1024, "f16": 1024},
        "NVIDIA Ampere GA102 GPU Architecture, 2020 (RTX A6000)",
    ),
    "sm_89": ArchPeaks(
        {"f64": 4, "f32": 256, "tf32": 512, "bf16": 1024, "f16": 1024},
        "NVIDIA Ada GPU Architecture, 2022, and L40S datasheet, 2023",
    ),
    "sm_90": ArchPeaks(
        {"f64": 256, "f32": 256, "tf32": 2048, "bf16": 4096, "f16": 4096},
        "NVIDIA H100 Tensor Core GPU Architecture, 2022",
    ),
    "sm_100": ArchPeaks(
        {"f64": 128, "f32": 256, "tf32": 4096, "bf16": 8192, "f16": 8192},
        "NVIDIA Blackwell Architecture Technical Brief, 2024",
    ),
    "sm_120": ArchPeaks(
        {"f64": 4, "f32": 256, "tf32": 512, "bf16": 1024, "f16": 1024},
        "NVIDIA RTX Blackwell GPU Architecture, 2025, and RTX PRO 6000 Blackwell datasheet, 2025",
    ),
}


def peak_rates(arch: str, sm_count: int, boost_mhz: float) -> dict[str, float]:
    """Operations a second by unit (`f64`, `f32`, `tf32`, `bf16`, `f16`) of a GPU at its boost clock.

    Empty for an architecture that the table lacks: then no floor follows from operations.
    """
    peaks = PEAKS.get(arch)
    if peaks is None:
        return {}
    return {unit: rate * sm_count * boost_mhz * 1e6 for unit, rate in peaks.per_sm_clock.items()}


def best_rates(arch: str, sm_count: int, boost_mhz: float, measured: Mapping[str, float]) -> dict[str, float]:
    """As `peak_rates`, raised to whatever was measured beyond it.

    measured: operations a second by unit, as a register-only loop of fused multiply-adds or `mma.sync` reached them.
    """
    rates = peak_rates(arch, sm_count, boost_mhz)
    shares = MMA_SYNC_SHARE.get(arch, {})
    return {unit: max(rate, measured.get(unit, 0.0) / shares.get(unit, 1.0)) for unit, rate in rates.items()}
