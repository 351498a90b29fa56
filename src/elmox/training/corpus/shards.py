"""Shards on their way to disk: written with provisional ids, renumbered once all words are counted.

Final ids depend on the counts of the whole text. So a shard is written with provisional ids, which
are replaced in place later. Neither pass holds more than a piece of the shard in memory.
"""

import io
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from elmox.text.vocab import END_ID, UNKNOWN_ID
from elmox.training.corpus.info import ShardInfo, new_digest, shard_name

SHARD_TOKENS = 2**22

_IDS_AT_ONCE = 2**20


def renumber(path: Path, final_ids: NDArray[np.uint32], vocab_size: int) -> tuple[ShardInfo, int]:
    """Replace the ids of a shard; return its description and its number of unknown targets.

    Args:
        path: a shard with provisional ids.
        final_ids: the final id of every provisional one.
        vocab_size: this id and all above are unknown targets.
    """
    digest = new_digest()
    num_unknown = 0
    length = 0
    with path.open("r+b") as file:
        header = file.read(len(_header(0)))
        digest.update(header)
        size = len(header)
        while data := file.read(4 * _IDS_AT_ONCE):
            ids = final_ids[np.frombuffer(data, dtype="<u4")]
            num_unknown += int(np.count_nonzero((ids >= vocab_size) | (ids == UNKNOWN_ID)))
            length += len(ids)
            data = ids.astype("<u4").tobytes()
            digest.update(data)
            file.seek(size)
            size += file.write(data)
    return ShardInfo(path.name, size, digest.hexdigest(), length), num_unknown


def _header(length: int) -> bytes:
    """Return the header of a .npy file of that many ids; NumPy pads it to a constant size."""
    buffer = io.BytesIO()
    fields = {"descr": "<u4", "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(buffer, fields)
    return buffer.getvalue()


def _first_from(positions: NDArray[np.int64], least: int) -> int | None:
    """Return the first of increasing positions that is not below `least`."""
    index = int(np.searchsorted(positions, least))
    return int(positions[index]) if index < len(positions) else None


class ShardWriter:
    """Writes the shards of one split.

    A shard ends with the first document that fills it. If documents are long, it ends with the
    first sentence that overfills it by a quarter.
    """

    def __init__(self, folder: Path, split: str, shard_tokens: int) -> None:
        """Write to `folder`; `shard_tokens` ids, with sentence ends, fill a shard."""
        self.paths: list[Path] = []
        self._folder = folder
        self._split = split
        self._full = shard_tokens
        self._overfull = shard_tokens + shard_tokens // 4
        self._file: IO[bytes] | None = None
        self._filled = 0  # ids of the open shard, without its separator

    def append(self, ids: NDArray[np.uint32], document_ends: NDArray[np.int64]) -> None:
        """Write whole sentences.

        Args:
            ids: words, and 1 after each sentence.
            document_ends: the increasing positions in `ids` before which a document ends.
        """
        sentence_ends = np.flatnonzero(ids == END_ID) + 1
        start = 0
        while True:
            empty = start - self._filled  # the start of the open shard, as a position in `ids`
            ends = (
                _first_from(document_ends, max(empty + self._full, start)),
                _first_from(sentence_ends, max(empty + self._overfull, start)),
            )
            stop = min((end for end in ends if end is not None), default=None)
            self._write(ids[start:stop])
            if stop is None:
                return
            self.close()
            start = stop

    def close(self) -> None:
        """End the shard, if one is open."""
        if self._file is not None:
            with self._file as file:
                file.seek(0)
                file.write(_header(1 + self._filled))
            self._file = None
            self._filled = 0

    def _write(self, ids: NDArray[np.uint32]) -> None:
        if not len(ids):
            return
        if self._file is None:
            self.paths.append(self._folder / shard_name(self._split, len(self.paths)))
            self._file = self.paths[-1].open("wb")
            self._file.write(_header(0) + np.array([END_ID], dtype="<u4").tobytes())
        self._file.write(ids.astype("<u4", copy=False).tobytes())
        self._filled += len(ids)
