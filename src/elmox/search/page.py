"""A small index for the browser: some words with their senses and a map of their uses."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from elmox.io.files import refuse_existing, write_whole, writing
from elmox.search.index_file import (
    COLUMNS,
    DTYPES,
    NUMPY_DTYPES,
    Array,
    IndexFile,
    array_bytes,
    file_header,
    padding_after,
)
from elmox.search.quantized import dequantize
from elmox.search.senses import group, plane

HEADER_BYTES = 2**12


def write_page(
    file: IndexFile,
    words: list[str],
    numbers: list[int],
    path: Path,
    max_uses: int,
    max_senses: int,
    force: bool,
) -> None:
    """Write the uses of some words; see `OccurrenceIndex.export_page`.

    Args:
        file: the index.
        words: all its words.
        numbers: the numbers of the words to write, in ascending order.
        path: the file to write.
        max_uses: maximum number of uses per word.
        max_senses: maximum number of senses.
        force: replace an existing file.
    """
    parts = [_word_arrays(file, number, max_uses, max_senses) for number in numbers]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    kept, columns["uses"][:, 0] = np.unique(columns["uses"][:, 0], return_inverse=True)
    sentences = [file.sentence(number) for number in kept.tolist()]
    encoded_words = [words[number].encode() for number in numbers]
    arrays: dict[str, Array] = {
        **columns,
        "word_starts": np.cumsum([0, *(len(part["scales"]) for part in parts)]),
        "word_bounds": np.cumsum([0, *map(len, encoded_words)]),
        "word_text": np.frombuffer(b"".join(encoded_words), np.uint8),
        "sentence_bounds": np.cumsum([0, *(len(text) for text, *_ in sentences)]),
        "sentences": np.array([place for _, *place in sentences]),
        "sentence_text": np.frombuffer(b"".join(text for text, *_ in sentences), np.uint8),
    }
    before = list(DTYPES)[: list(DTYPES).index("padding")]
    num_bytes = sum(array_bytes(name, arrays[name].shape) for name in before)
    arrays["padding"] = np.zeros(padding_after(num_bytes), np.uint8)
    meta = {**_page_meta(file), "num_entries": len(arrays["scales"])}
    header = file_header({name: arrays[name].shape for name in DTYPES}, meta, HEADER_BYTES)
    content = [arrays[name].astype(NUMPY_DTYPES[DTYPES[name]]).tobytes() for name in DTYPES]
    refuse_existing(path, force)
    with writing(path):
        write_whole(path, [header, *content])


def _word_arrays(file: IndexFile, number: int, max_uses: int, max_senses: int) -> dict[str, Array]:
    """Return the arrays with a row per use, of one word."""
    start, stop = file.word_starts[number : number + 2].tolist()
    rows = np.unique(np.linspace(start, stop - 1, min(max_uses, stop - start)).astype(np.int64))
    arrays: dict[str, Array] = {
        name: file.read(name, start, stop)[rows - start] for name in ("scales", "uses", "vectors")
    }
    if not np.isfinite(arrays["scales"]).all():
        raise file.damaged("some scales are not finite")
    assert arrays["uses"].shape[1] == len(COLUMNS)
    vectors = dequantize(arrays["vectors"], arrays["scales"])
    arrays["senses"] = group(vectors, None, max_senses).labels
    arrays["map"] = plane(vectors)
    return arrays


def _page_meta(file: IndexFile) -> dict[str, Any]:
    """Return the description without the job, and without paths of this machine."""
    meta: dict[str, Any] = json.loads(json.dumps(file.meta))
    meta.pop("job", None)
    meta["model"]["reference"] = None
    return meta
