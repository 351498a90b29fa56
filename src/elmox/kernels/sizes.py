"""Numbers and sizes of a kernel's blocks.

Triton has the same functions for kernels and host, but on the host they take 2 us per call.
"""


def num_blocks(size: int, block: int) -> int:
    """Return the number of blocks that cover a size."""
    return -(-size // block)


def power_of_2(size: int) -> int:
    """Return the smallest power of 2 that is at least a size of 1 or more."""
    return 1 << (size - 1).bit_length()
