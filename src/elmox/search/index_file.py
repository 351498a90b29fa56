"""The file of an index: one safetensors file, of which a query reads only the block of its word.

N uses of W words in S sentences, D dimensions. A word's uses are consecutive rows.

| array | shape and type | content |
|---|---|---|
| word_starts | (W + 1,) int64 | rows of word w: word_starts[w] to word_starts[w + 1] |
| word_bounds | (W + 1,) int64 | bytes of word w in word_text, in the same way |
| scales | (N,) float32 | scales[i] * vectors[i] has length 1 |
| uses | (N, 4) int32 | sentence; token in it; start and end of the token in it, in bytes |
| vectors | (N, D) int8 | directions of the vectors |
| word_text | bytes | the words in lower case, sorted, in UTF-8 |
| padding | bytes | none to seven, so that the next array is aligned |
| sentence_bounds | (S + 1,) int64 | bytes of a sentence in sentence_text |
| sentences | (S, 2) int32 | line of the text, from 0; start of the sentence in it, in characters |
| sentence_text | bytes | the sentences, in UTF-8 |

Files for the browser (`page`) have two more arrays, `senses` and `map`. The description is JSON in
the header's metadata, under `elmox_index`. The library checks that all arrays are inside the file;
what refers from one array into another is checked here, when it is read.
"""

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError
from elmox.io.inputs import require_regular

META_KEY = "elmox_index"
VERSION = 1
HEADER_BYTES = 2**15  # reserved before the sizes of all arrays are known
COLUMNS = ("sentence", "token", "start", "end")

Array = NDArray[Any]

# In the order in which they are stored: every array starts at a multiple of its item's size.
DTYPES = {
    "word_starts": "I64",
    "word_bounds": "I64",
    "scales": "F32",
    "uses": "I32",
    "map": "F32",
    "senses": "I32",
    "vectors": "I8",
    "word_text": "U8",
    "padding": "U8",
    "sentence_bounds": "I64",
    "sentences": "I32",
    "sentence_text": "U8",
}
OPTIONAL = ("map", "senses")
NUM_DIMS = {"uses": 2, "map": 2, "vectors": 2, "sentences": 2}  # of the others: 1
NUMPY_DTYPES = {"I64": "<i8", "I32": "<i4", "F32": "<f4", "I8": "|i1", "U8": "|u1"}

_MAX_HEADER_BYTES = 2**20
_REMEDY = "make the index again"


def array_bytes(name: str, shape: tuple[int, ...]) -> int:
    """Return the size of an array in the file."""
    return math.prod(shape) * np.dtype(NUMPY_DTYPES[DTYPES[name]]).itemsize


def file_header(
    shapes: Mapping[str, tuple[int, ...]], meta: Mapping[str, Any], num_bytes: int = HEADER_BYTES
) -> bytes:
    """Return the first bytes of the file, padded to a length.

    Args:
        shapes: the shapes of all arrays, in the order of `DTYPES`.
        meta: the description, as JSON values.
        num_bytes: the length.
    """
    values: dict[str, Any] = {"__metadata__": {META_KEY: json.dumps(meta)}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + array_bytes(name, shape)
        values[name] = {"dtype": DTYPES[name], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(values).encode()
    length = num_bytes - 8
    if len(text) > length:
        raise ElmoxError(
            f"the description of the index has {len(text):,} bytes, expected at most {length:,}: "
            "shorten the paths of model and text"
        )
    return length.to_bytes(8, "little") + text.ljust(length)


def padding_after(num_bytes: int) -> int:
    """Return the number of bytes after which an array of 64-bit numbers may start."""
    return -num_bytes % 8


class IndexFile:
    """An open index; arrays are read in slices.

    Attributes:
        path: the file.
        meta: its description.
        num_uses, num_words, num_sentences, dim: N, W, S and D.
        word_starts: (W + 1,).
    """

    def __init__(self, path: Path) -> None:
        """Open a file and check everything that does not take reading all of it."""
        from safetensors import SafetensorError, safe_open

        self.path = path
        size = require_regular(path)
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > min(size, _MAX_HEADER_BYTES):
                raise self._not_index()
        try:
            self._file: Any = safe_open(path, "np")
            self.meta = self._read_meta(self._file)
            self._arrays = self._open_arrays()
        except (SafetensorError, OSError, ValueError) as error:
            if isinstance(error, ElmoxError):
                raise
            raise ElmoxError(f"{path} is damaged or cut short ({error}): {_REMEDY}") from error
        self.num_uses, self.dim = self._shape("vectors")
        self.num_words = self._shape("word_starts")[0] - 1
        self.num_sentences = self._shape("sentences")[0]
        self._check_shapes()
        self.word_starts = self.read("word_starts")
        self._word_bounds = self.read("word_bounds")
        self._check_bounds(self.word_starts, self.num_uses, "word_starts")
        self._check_bounds(self._word_bounds, self._shape("word_text")[0], "word_bounds")

    def has(self, name: str) -> bool:
        """Return whether the file has an optional array."""
        return name in self._arrays

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return rows of an array as a copy."""
        if not self._arrays:
            raise ElmoxError(f"{self.path} was closed: open it again")
        values: Array = self._arrays[name][start : self._shape(name)[0] if stop is None else stop]
        return values

    def close(self) -> None:
        """Unmap the file."""
        self._file, self._arrays = None, {}

    def words(self) -> list[str]:
        """Return all words, sorted by their UTF-8 bytes."""
        text, bounds = self.read("word_text").tobytes(), self._word_bounds.tolist()
        return [self._decoded(text[start:stop], "a word") for start, stop in pairwise(bounds)]

    def sentence(self, number: int) -> tuple[bytes, int, int]:
        """Return a sentence in UTF-8, its line from 0, and its start in the line in characters."""
        if not 0 <= number < self.num_sentences:
            raise self.damaged(f"a use is in sentence {number} of {self.num_sentences}")
        start, stop = self.read("sentence_bounds", number, number + 2).tolist()
        if not 0 <= start <= stop <= self._shape("sentence_text")[0]:
            raise self.damaged(f"sentence {number} is outside the text")
        line, offset = self.read("sentences", number, number + 1)[0].tolist()
        return self.read("sentence_text", start, stop).tobytes(), line, offset

    def text_of(self, sentence: bytes, start: int, end: int) -> tuple[str, str, str]:
        """Split a sentence into the texts before, of and after a token."""
        if not 0 <= start < end <= len(sentence):
            raise self.damaged("a token is outside its sentence")
        parts = sentence[:start], sentence[start:end], sentence[end:]
        before, token, after = (self._decoded(part, "a sentence") for part in parts)
        return before, token, after

    def damaged(self, what: str) -> ElmoxError:
        """Return the error for content that contradicts itself."""
        return ElmoxError(f"{self.path} is damaged ({what}): {_REMEDY}")

    def _read_meta(self, file: Any) -> dict[str, Any]:
        metadata: dict[str, str] = file.metadata() or {}
        if META_KEY not in metadata:
            raise self._not_index()
        try:
            meta = json.loads(metadata[META_KEY])
            version = meta["version"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self.damaged(f"its description: {error!r}") from error
        if version != VERSION:
            raise ElmoxError(
                f"{self.path}: an index of format {version!r}, this elmox reads {VERSION}: use the "
                "elmox that made it, or make the index again"
            )
        return cast(dict[str, Any], meta)

    def _open_arrays(self) -> dict[str, Any]:
        names = set(self._file.keys())
        if missing := [name for name in DTYPES if name not in names and name not in OPTIONAL]:
            raise self.damaged(f"it has no {missing[0]}")
        arrays = {name: self._file.get_slice(name) for name in DTYPES if name in names}
        for name, array in arrays.items():
            dtype, shape = array.get_dtype(), array.get_shape()
            if dtype != DTYPES[name] or len(shape) != NUM_DIMS.get(name, 1):
                raise self.damaged(f"{name} is {dtype} of the shape {shape}")
        return arrays

    def _check_shapes(self) -> None:
        num_uses, num_words, num_sentences = self.num_uses, self.num_words, self.num_sentences
        expected = {
            "word_starts": (num_words + 1,),
            "word_bounds": (num_words + 1,),
            "scales": (num_uses,),
            "uses": (num_uses, len(COLUMNS)),
            "map": (num_uses, 2),
            "senses": (num_uses,),
            "sentence_bounds": (num_sentences + 1,),
            "sentences": (num_sentences, 2),
        }
        for name, shape in expected.items():
            if self.has(name) and self._shape(name) != shape:
                raise self.damaged(f"{name} has the shape {self._shape(name)}, expected {shape}")

    def _check_bounds(self, bounds: Array, size: int, name: str) -> None:
        is_rising = len(bounds) > 1 and (bounds[1:] >= bounds[:-1]).all()
        if not is_rising or bounds[0] != 0 or bounds[-1] != size:
            raise self.damaged(f"{name} does not rise from 0 to {size}")

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._arrays[name].get_shape())

    def _decoded(self, text: bytes, what: str) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise self.damaged(f"{what} is not UTF-8") from error

    def _not_index(self) -> ElmoxError:
        return ElmoxError(
            f"{self.path} is not an index of uses: give a file that elmox index has made"
        )
