"""CUDA's error names in words, for a kernel's author."""

from __future__ import annotations

_FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "illegal memory access: it read or wrote outside its tensors",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "misaligned memory access: a wide load or store at an odd address",
    "CUDA_ERROR_ASSERT": "a device-side assert failed",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "illegal instruction",
    "CUDA_ERROR_LAUNCH_FAILED": "the launch failed on the device (a trap, a stack overflow or an invalid access)",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "the device's call stack overflowed",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "an instruction accessed the wrong address space",
    "CUDA_ERROR_INVALID_PC": "the program counter went wild (a call through a bad function pointer?)",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "the driver's watchdog ended the kernel",
    "CUDA_ERROR_TENSOR_MEMORY_LEAK": "tensor memory was not freed",
}
_REFUSALS = {
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "a block needs more registers or shared memory than there are: use a "
    "smaller block, or __launch_bounds__",
    "CUDA_ERROR_INVALID_VALUE": "the device refuses the launch: grid, block or shared memory is out of range",
    "CUDA_ERROR_OUT_OF_MEMORY": "the device has not enough memory to load or launch it",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the cubin is for another architecture",
    "CUDA_ERROR_NOT_FOUND": "the entry is not in the compiled module",
}


def fault_reason(name: str, text: str) -> str:
    """What an error that poisoned the context says of the kernel."""
    return f"{_FAULTS.get(name, 'the kernel failed on the device')} ({text})"


def refusal_reason(name: str, text: str) -> str:
    """What an error that refused a load or launch says of the kernel."""
    return f"{_REFUSALS.get(name, 'the device refuses it')} ({text})"
