"""Compressed text for tests: one function per suffix that the text opener handles."""

import bz2
import gzip
import lzma
import sys
from collections.abc import Callable

import pytest


def zstd_compress(data: bytes) -> bytes:
    """Return two frames with a skippable one between them."""
    if sys.version_info >= (3, 14):
        from compression.zstd import compress
    else:
        compress = pytest.importorskip("zstandard").compress
    skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    half = len(data) // 2
    frames: bytes = compress(data[:half]) + skipped + compress(data[half:])
    return frames


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstd_compress,
}
