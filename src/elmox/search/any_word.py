"""Search across all words: candidates from faiss, or an exact scan without it.

faiss gets 8-bit copies of the vectors in an index of its own, `OUTPUT.<digest>.faiss`, which is
made when it is first needed and is only a cache. Up to a million uses it is scanned as a whole;
beyond that it is divided into cells around centers (IVF), of which a query visits a few. The
candidates are compared again with the vectors of the index, so that similarities are the same as
those of a scan.
"""

import hashlib
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError, install_hint
from elmox.io.files import atomic_write
from elmox.search.index_file import IndexFile
from elmox.search.quantized import Float32
from elmox.search.scan import blocks, descending, scan, unit_vectors

IVF_ABOVE = 10**6  # uses
NUM_CELLS = 1024
NUM_VISITED = 32
TRAINING_ROWS = 40 * NUM_CELLS
SCAN_NOTICE = "faiss is not installed, so all {:,} uses are compared: {}"


class AnyWordSearch:
    """Searches the uses of all words of one index."""

    def __init__(self, file: IndexFile) -> None:
        """Nothing is read yet."""
        self._file = file
        self._faiss_index: Any = None

    def rows(self, unit: Float32, num_candidates: int) -> Iterator[tuple[int, float]]:
        """Yield rows and their cosines with a unit vector, most similar first.

        Args:
            unit: the vector, (D,).
            num_candidates: number of rows from faiss; a scan yields all.
        """
        faiss = load_faiss()
        if faiss is None:
            notice = SCAN_NOTICE.format(self._file.num_uses, install_hint("faiss"))
            warnings.warn(notice, stacklevel=3)
            similarities = scan(self._file, unit, 0, self._file.num_uses)
            for row in descending(similarities, num_candidates):
                yield row, float(similarities[row])
            return
        rows = self._candidates(faiss, unit, num_candidates)
        similarities = unit_vectors(self._file, rows) @ unit
        for index in descending(similarities, num_candidates):
            yield int(rows[index]), float(similarities[index])

    def _candidates(self, faiss: Any, unit: Float32, num_candidates: int) -> NDArray[np.int64]:
        """Return rows, in ascending order."""
        if self._faiss_index is None:
            self._faiss_index = open_faiss(faiss, self._file)
        _, rows = self._faiss_index.search(unit[None], min(num_candidates, self._file.num_uses))
        unique: NDArray[np.int64] = np.unique(rows[(rows >= 0) & (rows < self._file.num_uses)])
        return unique


def load_faiss() -> Any:
    """Return the module faiss, or None if it is not installed."""
    try:
        import faiss
    except ImportError:
        return None
    return faiss


def faiss_path(file: IndexFile) -> Path:
    """Return the path of an index's faiss file, which no other index has.

    An index that was made again has another job or another size.
    """
    status = file.path.stat()
    key = repr((file.meta.get("job"), status.st_size, status.st_mtime_ns))
    digest = hashlib.blake2b(key.encode(), digest_size=6).hexdigest()
    return file.path.with_name(f"{file.path.name}.{digest}.faiss")


def open_faiss(faiss: Any, file: IndexFile) -> Any:
    """Read the faiss file of an index, or make it."""
    path = faiss_path(file)
    if path.is_file():
        try:
            index = faiss.read_index(str(path))
        except RuntimeError:
            index = None  # damaged: it is only a cache
        if index is not None and (index.ntotal, index.d) == (file.num_uses, file.dim):
            return index
    index = _built(faiss, file)
    try:
        with atomic_write(path) as temporary:
            faiss.write_index(index, str(temporary))
    except (ElmoxError, RuntimeError) as error:
        warnings.warn(f"{path} cannot be kept for the next search: {error}", stacklevel=2)
    for old in _old_files(path, file.path.name):
        old.unlink(missing_ok=True)
    return index


def _built(faiss: Any, file: IndexFile) -> Any:
    """Return a faiss index of all vectors."""
    num_uses, dim = file.num_uses, file.dim
    inner_product, eight_bits = faiss.METRIC_INNER_PRODUCT, faiss.ScalarQuantizer.QT_8bit
    if num_uses > IVF_ABOVE:
        cells = faiss.IndexFlatIP(dim)
        index = faiss.IndexIVFScalarQuantizer(
            cells, dim, NUM_CELLS, eight_bits, inner_product, False
        )
        index.nprobe = NUM_VISITED
    else:
        index = faiss.IndexScalarQuantizer(dim, eight_bits, inner_product)
    sample = np.unique(np.linspace(0, num_uses - 1, TRAINING_ROWS).astype(np.int64))
    index.train(unit_vectors(file, sample))
    for start, stop in blocks(0, num_uses):
        index.add(unit_vectors(file, np.arange(start, stop)))
    return index


def _old_files(path: Path, name: str) -> list[Path]:
    """Return the faiss files of former indexes under the same name."""
    pattern = re.compile(rf"{re.escape(name)}\.[0-9a-f]{{12}}\.faiss")
    return [old for old in path.parent.iterdir() if pattern.fullmatch(old.name) and old != path]
