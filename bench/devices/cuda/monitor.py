"""The GPU's state through NVML: clocks, temperature, power, throttle reasons, other processes. Read, never changed."""

from __future__ import annotations

from typing import Any

_REASONS = {
    0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost", 0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown", 0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip


class Monitor:
    """NVML for one device; where the NVML package is missing, every reading is empty and says so."""

    def __init__(self, ordinal: int) -> None:
        self._nvml: Any = None
        try:
            import pynvml
        except ModuleNotFoundError:
            return
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByIndex(ordinal)
        except pynvml.NVMLError:
            return
        self._nvml = pynvml

    @property
    def available(self) -> bool:
        return self._nvml is not None

    def describe(self) -> dict[str, Any]:
        """What does not change: name, UUID, driver, memory in bytes, power limit in watts."""
        if self._nvml is None:
            return {}
        n, handle = self._nvml, self._handle
        return {
            "gpu": n.nvmlDeviceGetName(handle),
            "uuid": n.nvmlDeviceGetUUID(handle),
            "driver": n.nvmlSystemGetDriverVersion(),
            "memory_bytes": n.nvmlDeviceGetMemoryInfo(handle).total,
            "power_limit_w": n.nvmlDeviceGetPowerManagementLimit(handle) / 1e3,
        }

    def read(self) -> dict[str, Any]:
        """What changes: SM and memory clock in MHz, temperature in Celsius, power in watts, throttle reasons in
        words.
        """
        if self._nvml is None:
            return {"nvml": "not available"}
        n, handle = self._nvml, self._handle
        reasons = n.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        return {
            "sm_mhz": n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_SM),
            "mem_mhz": n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_MEM),
            "temperature_c": n.nvmlDeviceGetTemperature(handle, n.NVML_TEMPERATURE_GPU),
            "power_w": n.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "throttled": [text for bit, text in _REASONS.items() if reasons & bit],
        }

    def memory_used(self) -> int | None:
        """Bytes in use on the device by everybody; None without NVML."""
        return None if self._nvml is None else int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used)

    def processes(self) -> list[int]:
        """Process ids that compute on the device."""
        if self._nvml is None:
            return []
        return [p.pid for p in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)]
