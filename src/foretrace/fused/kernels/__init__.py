"""The kernels, one operation a file. Importing this package needs triton; nothing else of ``fused`` does."""
