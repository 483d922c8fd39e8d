"""Programs: a CUDA file with a `main()` of its own, compiled, run apart, its kernels timed by CUPTI. No word on whether
it is right: nobody said what it should compute."""
