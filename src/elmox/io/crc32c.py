"""CRC-32C (Castagnoli), the checksum of TensorFlow's files, with NumPy.

A checksum is linear: zeros in front change nothing, and the remainder of two parts joined is that
of the first, moved over as many zero bytes as the second has, plus that of the second. So a block
is split into many equal parts, which are read side by side and then joined in pairs.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Remainders = NDArray[np.int64]  # of 32 bits; int64 is what NumPy indexes with

_POLYNOMIAL = 0x82F63B78  # its bits are reversed
_MAX_PARTS = 4096  # as many remainders as the processor's nearest cache holds
_MAX_PART_BYTES = 1024


def crc32c(content: bytes | bytearray | memoryview) -> int:
    """Return the checksum of some bytes."""
    data = np.frombuffer(content, np.uint8)
    num_bits = max(1, len(data) - 1).bit_length()
    part_bytes = min(_MAX_PART_BYTES, 2 ** max(1, num_bits // 2))
    parts = min(_MAX_PARTS, max(1, 2**num_bits // part_bytes))
    size = parts * part_bytes
    head = len(data) % size
    block = np.zeros(size, np.uint8)
    block[size - head :] = data[:head]
    state = _remainder(block, parts)
    for start in range(head, len(data), size):
        state = _moved(state, size) ^ _remainder(data[start : start + size], parts)
    return state ^ _moved(0xFFFFFFFF, len(data)) ^ 0xFFFFFFFF  # it starts and ends inverted


def _remainder(block: NDArray[np.uint8], parts: int) -> int:
    """Return the remainder of a block of `parts` equal parts, both powers of two."""
    table = _two_bytes()
    columns = np.ascontiguousarray(block.view("<u2").reshape(parts, -1).T)
    state = np.zeros(parts, np.int64)
    index = np.empty(parts, np.int64)
    for column in columns:
        np.bitwise_xor(state, column, out=index)
        index &= 0xFFFF
        state >>= 16
        state ^= table[index]
    length = len(block) // parts
    while len(state) > 1:
        state = _all_moved(state[::2], _move(length)) ^ state[1::2]
        length *= 2
    return int(state[0])


def _moved(state: int, num_bytes: int) -> int:
    """Return a remainder after any number of zero bytes."""
    for power in range(num_bytes.bit_length()):
        if num_bytes >> power & 1:
            move, before, state = _move(1 << power), state, 0
            for bit in range(32):
                if before >> bit & 1:
                    state ^= int(move[bit])
    return state


def _all_moved(state: Remainders, move: Remainders) -> Remainders:
    """Return remainders of which bit i becomes move[i]."""
    result = np.zeros_like(state)
    for bit, moved in enumerate(move):
        result ^= (state >> bit & 1) * moved
    return result


@cache
def _move(num_bytes: int) -> Remainders:
    """Return what each of the 32 bits becomes after a power of two of zero bytes."""
    if num_bytes == 1:
        return np.array([_shifted(1 << bit, 8) for bit in range(32)])
    half = _move(num_bytes // 2)
    return _all_moved(half, half)


@cache
def _two_bytes() -> Remainders:
    """Return the remainder of every two bytes, (65536,)."""
    return _all_moved(np.arange(2**16), np.array([_shifted(1 << bit, 16) for bit in range(16)]))


def _shifted(state: int, num_bits: int) -> int:
    for _ in range(num_bits):
        state = state >> 1 ^ (_POLYNOMIAL if state & 1 else 0)
    return state
