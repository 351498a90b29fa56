"""Reading .zst files: several frames in a row, long windows, and an error for a missing end.

Python has Zstandard since 3.14. Before that it is the `zstandard` package, whose file reader does
not notice that a file was truncated.
"""

import io
import sys
from collections.abc import Callable
from typing import IO, Protocol, cast

from elmox.errors import UnreadableFile, install_hint

_CHUNK = 2**14
_MAX_WINDOW_LOG = 31  # as in `zstd --long=31`


class _Decompressor(Protocol):
    """The interface that both implementations have for one frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def open_zstd(path: str, raw: IO[bytes]) -> io.BufferedReader:
    """Return the decompressed content of an open .zst file; `path` is for error messages."""
    new, error = _implementation(path)
    return io.BufferedReader(_ZstdFile(raw, new, error), buffer_size=2**17)


def _implementation(path: str) -> tuple[Callable[[], _Decompressor], type[Exception]]:
    """Return a function that makes a decompressor, and the exception that bad data raises in it."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        options = {zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG}
        return lambda: zstd.ZstdDecompressor(options=options), zstd.ZstdError
    try:
        import zstandard
    except ImportError:
        raise UnreadableFile(
            f"{path} needs the zstandard package, which is not installed: "
            f"{install_hint('zstd')}, or decompress it first"
        ) from None
    factory = zstandard.ZstdDecompressor(max_window_size=2**_MAX_WINDOW_LOG)
    return lambda: cast(_Decompressor, factory.decompressobj()), zstandard.ZstdError


class _ZstdFile(io.RawIOBase):
    """The decompressed frames of a file; `EOFError` if the last one is truncated."""

    def __init__(
        self, raw: IO[bytes], new: Callable[[], _Decompressor], error: type[Exception]
    ) -> None:
        self._raw = raw
        self._new = new
        self._error = error
        self._frame: _Decompressor | None = None  # None between frames
        self._compressed = b""
        self._plain = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview[int]", /) -> int:  # type: ignore[override]
        while not self._plain and self._advance():
            pass
        size = min(len(buffer), len(self._plain))
        buffer[:size] = self._plain[:size]
        self._plain = self._plain[size:]
        return size

    def _advance(self) -> bool:
        """Decompress the next piece; return False at the end of the file."""
        data = self._compressed or self._raw.read(_CHUNK)
        self._compressed = b""
        if not data:
            if self._frame is not None:
                raise EOFError("it ends in the middle of a frame")
            return False
        frame = self._frame if self._frame is not None else self._new()
        try:
            self._plain = memoryview(frame.decompress(data))
        except self._error as error:
            raise EOFError(str(error)) from error
        self._frame = frame
        if frame.eof:
            self._compressed = frame.unused_data
            self._frame = None
        return True
