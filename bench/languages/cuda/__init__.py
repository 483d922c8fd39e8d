"""CUDA: NVRTC to a cubin and PTX in a separate process, the content-addressed cache, and the facts that need no GPU."""
