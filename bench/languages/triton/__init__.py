"""Triton: a file's kernels to one cubin and PTX without a GPU, in fenced processes, since such a file is a program."""
