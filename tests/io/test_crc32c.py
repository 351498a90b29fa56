"""CRC-32C against its published examples and against a bit by bit computation."""

import numpy as np
import pytest

from elmox.io.crc32c import crc32c

PUBLISHED = {  # RFC 3720, B.4
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    b"123456789": 0xE3069283,
    b"": 0,
}


def bit_by_bit(content: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in content:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize(("content", "checksum"), PUBLISHED.items())
def test_published(content: bytes, checksum: int) -> None:
    assert crc32c(content) == checksum


def test_every_length() -> None:
    content = np.random.default_rng(0).bytes(70_001)
    for length in (*range(1, 40), 255, 256, 257, 4095, 4097, len(content)):
        assert crc32c(content[:length]) == bit_by_bit(content[:length]), length


def test_several_blocks() -> None:
    """The checksum of a message and its own checksum is the same for every message."""
    residues = set()
    for length in (2**22, 2**22 + 1, 2**23 + 12345):
        content = np.random.default_rng(length).bytes(length)
        residues.add(crc32c(content + crc32c(content).to_bytes(4, "little")))
    assert residues == {0x48674BC7}
    changed = bytearray(content)
    changed[length // 3] ^= 4
    assert crc32c(changed) != crc32c(content)
