"""How many blocks a kernel needs, and how large.

Triton has the same functions, made to be called in kernels too: on the host they take 2 us each.
"""


def num_blocks(size: int, block: int) -> int:
    """How many blocks cover a size."""
    return -(-size // block)


def power_of_2(size: int) -> int:
    """The smallest power of 2 that is no less than a size, which is at least 1."""
    return 1 << (size - 1).bit_length()
