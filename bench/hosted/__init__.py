"""The host-code lane for Python programs: PyTorch modules and functions in candidate processes, timed by the parent."""
