"""Files of vectors: one entry per line of the input, written as a stream, read by index.

`open_writer` returns a `VectorWriter` that streams entries into parts next to the output and
creates the output at the very end. Killed at any moment, the same job continues from its last
saved entry and ends with the same content. `open_vectors` reads lazily, by index:

    hdf5      datasets "0", "1", ... as bilm-tf writes them        out.hdf5, out.h5
    parquet   a row per entry (needs pyarrow)                      out.parquet
    npy       a directory of shards with an index, memory-mapped   out
    jsonl     a JSON object per entry, written but not read        out.jsonl, out.ndjson
"""

import json
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError
from elmox.io.files import writing
from elmox.io.inputs import require_regular
from elmox.io.json_lines import is_json_lines
from elmox.io.parquet import load_pyarrow
from elmox.io.temporary import remove
from elmox.vectors import hdf5, jsonl, npy, parquet
from elmox.vectors.formats import FORMAT_OF_SUFFIX, OUTPUTS, READABLE, Format
from elmox.vectors.layout import IDENTITY_KEY, Array, Layout, Source
from elmox.vectors.parts import NO_RECORD, PART_BYTES, Entry, Parts
from elmox.vectors.workspace import Workspace, workspace_of


class _Files(NamedTuple):
    """Functions that write and read a format."""

    join: Callable[[Parts, dict[str, Any], Path], None]
    source: Callable[[Path, bool], Source] | None = None
    has_records: bool = False
    load: Callable[[], object] = bool  # an optional package, not after hours of work


_FILES: dict[Format, _Files] = {
    "hdf5": _Files(hdf5.join, hdf5.Hdf5Source),
    "parquet": _Files(parquet.join, parquet.open_source, load=load_pyarrow),
    "jsonl": _Files(jsonl.join, has_records=True),
    "npy": _Files(npy.join, npy.NpySource),
}
_MAX_ABOUT = 48_000  # an attribute of an HDF5 file holds at most 64 kB


def format_of(path: str | os.PathLike[str]) -> Format:
    """Choose the format of an output by its name; a directory, or a bare name, means npy shards."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in FORMAT_OF_SUFFIX:
        return FORMAT_OF_SUFFIX[suffix]
    if path.is_dir():
        return "npy"
    raise ElmoxError(f"{path}: {suffix!r} is not a format of vectors: expected {OUTPUTS}")


def resolved_output(path: str | os.PathLike[str]) -> Path:
    """Return the target of an output that is a link: what is unfinished is next to it."""
    return Path(os.path.realpath(path))


def whole_job(
    job: Mapping[str, Any], format: Format, layout: Layout, part_bytes: int
) -> dict[str, Any]:
    """Return a job with everything else that the content of an output depends on."""
    kind = [format, layout.num_layers, layout.dim, layout.dtype, part_bytes]
    return {**job, "vectors": kind}


def stored_identity(path: Path) -> str | None:
    """Return the digest of the job that an output stores; None if it is not an output."""
    identity: str | None = _stored_meta(path).get(IDENTITY_KEY)
    return identity


def open_writer(
    path: str | os.PathLike[str],
    *,
    layout: Layout,
    job: Mapping[str, Any],
    about: Mapping[str, Any] | None = None,
    format: Format | None = None,
    force: bool = False,
    repeatable: bool = True,
    part_bytes: int = PART_BYTES,
) -> "VectorWriter":
    """Start an output of vectors, or continue one that was interrupted.

    Args:
        path: the output; it appears when `VectorWriter.finish` is called.
        layout: layers, dimensions and dtype of the entries.
        job: everything that the entries depend on (input, model, options), as JSON values. Parts of
            an interrupted run are used if its job was equal; otherwise an error is raised.
        about: a description for readers (`Vectors.meta["about"]`), such as model and layers, as
            JSON values.
        format: by default that of the path's suffix.
        force: replace an existing output (at the end), and discard parts of another job (now).
        repeatable: whether another run can have the same job. The output then stores its digest, by
            which a later run recognizes that everything is done.
        part_bytes: size of a part, which is the most work that an interruption can cost; also the
            size of npy shards.

    Returns:
        The writer. Its first entry is number `num_done`.
    """
    about = {} if about is None else about
    if len(json.dumps(about)) > _MAX_ABOUT:
        raise ElmoxError(
            f"the description of {path} is over {_MAX_ABOUT} bytes of JSON: shorten it"
        )
    format = format_of(path) if format is None else format
    _FILES[format].load()
    output = resolved_output(path)
    result_name = "shards" if format == "npy" else "joined"
    workspace = Workspace(
        output,
        result_name,
        whole_job(job, format, layout, part_bytes),
        _stored_meta,
        force=force,
        repeatable=repeatable,
    )
    return VectorWriter(workspace, format, layout, about, part_bytes)


def open_vectors(path: str | os.PathLike[str], *, verify: bool = True) -> "Vectors":
    """Open a file or directory of vectors for reading: `open_vectors("out.hdf5")[i]`.

    Args:
        path: an output of `elmox embed` in any format, or an HDF5 dump of bilm-tf or `allennlp
            elmo`.
        verify: compare entries with their checksums when they are read.

    Raises:
        ElmoxError: if the file cannot be read or is damaged; a damaged entry, when it is read.
    """
    path = Path(path)
    source = _FILES[_detect(path)].source
    assert source is not None, "only readable formats are detected"
    return Vectors(path, source(path, verify))


def _stored_meta(path: Path) -> dict[str, Any]:
    """Return the metadata of an output of vectors; empty if it is not one."""
    try:
        with open_vectors(path) as vectors:
            return vectors.meta
    except ElmoxError:
        return {}


def _detect(path: Path) -> Format:
    """Return the format of a file by its content, whatever its name."""
    if path.is_dir():
        if (path / "meta.json").is_file():
            return "npy"
        if parquet.part_paths(path):
            return "parquet"
        if (path / "job.json").is_file():
            raise ElmoxError(f"{path}: an unfinished output: run the same job again to finish it")
        raise ElmoxError(f"{path}: a directory without meta.json: expected one of vectors")
    if not path.exists():
        partial = workspace_of(path)
        hint = f": it is unfinished in {partial}, run the same job again to finish it"
        raise ElmoxError(f"{path}: no such file or directory{hint if partial.exists() else ''}")
    require_regular(path)
    if is_json_lines(path):
        raise ElmoxError(
            f"{path}: vectors as JSON lines are read with json.loads, line by line: expected one "
            f"of {READABLE}"
        )
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ElmoxError(f"{path}: cannot read it ({error.strerror})") from error
    if magic == b"PAR1":
        return "parquet"
    if h5py.is_hdf5(path):
        return "hdf5"
    raise ElmoxError(
        f"{path} has none of the formats {READABLE}: expected vectors written by elmox"
    )


class VectorWriter:
    """Writes entries one after the other; see `open_writer`.

    As a context manager it finishes the output, except after an exception: then the closed parts
    stay for the next run, and the output is not touched.

    Attributes:
        num_done: number of entries that earlier runs have saved; continue from there.
        was_complete: whether an earlier run has finished the output.
        needs_records: whether the format stores the record of each entry.
    """

    def __init__(
        self,
        workspace: Workspace,
        format: Format,
        layout: Layout,
        about: Mapping[str, Any],
        part_bytes: int,
    ) -> None:
        """Open the parts of a workspace."""
        self._format: Format = format
        self._layout = layout
        self._about = about
        self._workspace = workspace
        self.was_complete = workspace.is_published
        self.needs_records = _FILES[format].has_records
        self._parts: Parts | None = None
        if workspace.num_entries is not None:  # only the last step is missing
            self.num_done = workspace.num_entries
            return
        try:
            with writing(self._workspace.directory, resumable=True):
                self._parts = Parts(
                    self._workspace.directory, layout, part_bytes, with_records=self.needs_records
                )
        except BaseException:
            self.close()
            raise
        self.num_done = self._parts.num_entries + self._parts.num_open

    @property
    def is_whole(self) -> bool:
        """Whether earlier runs have written all entries, so that no more can be added."""
        return self._workspace.num_entries is not None

    def append(self, vectors: Array, record: bytes = NO_RECORD) -> None:
        """Write the next entry, (L+1, T, D) or (T, D); T may be 0."""
        num_tokens = vectors.shape[-2] if vectors.ndim >= 2 else -1
        if vectors.shape != self._layout.shape(num_tokens):
            expected = (*self._layout.row_shape[:-1], "T", self._layout.dim)
            raise ElmoxError(f"an entry of shape {vectors.shape}: expected {expected}")
        entry = self.reserve(num_tokens, record)
        for window in entry.windows():
            entry[..., window, :] = vectors[..., window, :]

    def append_rows(
        self, rows: Array, lengths: NDArray[np.int64], records: Sequence[bytes] | None = None
    ) -> None:
        """Write the next entries all at once; see `Parts.append_rows`."""
        self._open_parts().append_rows(rows, lengths, records)

    def reserve(self, num_tokens: int, record: bytes = NO_RECORD) -> Entry:
        """Reserve space for the next entry, which may be larger than memory.

        Args:
            num_tokens: T.
            record: a JSON object of the entry, for formats that need it.

        Returns:
            An entry of zeros, to be assigned like an array of shape (L+1, T, D) or (T, D), in
            windows and in any order, before the next entry: `entry[:, a:b, :512] = forward`.
        """
        return self._open_parts().reserve(num_tokens, record)

    def write_parquet(self, rows: Iterator[parquet.Row], num_entries: int, num_tokens: int) -> None:
        """Write all entries of a Parquet output at once, and no others."""
        if self._parts is not None:
            layout = self._layout
            self._write_result(
                num_entries,
                num_tokens,
                lambda meta, path: parquet.write_rows(rows, layout, meta, path),
            )
            self._parts.discard()
            self._parts = None

    def finish(self) -> None:
        """Create the output and remove the parts."""
        try:
            if self._parts is not None:
                parts = self._parts
                parts.seal()
                self._write_result(
                    parts.num_entries, parts.num_tokens, partial(_FILES[self._format].join, parts)
                )
            elif self._workspace.num_entries is None:
                raise RuntimeError("the writer is closed")
            self._workspace.publish()
        finally:
            self.close()

    def close(self) -> None:
        """Close all files; closed parts stay for the next run."""
        if self._parts is not None:
            self._parts.discard()
            self._parts = None
        self._workspace.release()

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish, or after an exception only close."""
        if kind is None:
            self.finish()
        else:
            self.close()

    def _open_parts(self) -> Parts:
        if self._parts is None:
            raise RuntimeError("the writer is closed, or its output was complete from the start")
        return self._parts

    def _write_result(
        self, num_entries: int, num_tokens: int, write: Callable[[dict[str, Any], Path], None]
    ) -> None:
        """Call `write` with the metadata and the path of the result."""
        result, identity = self._workspace.result, self._workspace.identity
        meta = self._layout.meta(num_entries, num_tokens, self._about, identity)
        with writing(result, resumable=True):
            try:
                write(meta, result)
            except OSError:
                if self._format != "npy":
                    remove(result)  # free its disk space
                raise
        self._workspace.complete(num_entries)


class Vectors:
    """Entries of vectors by index, read on access; see `open_vectors`.

    Attributes:
        path: the file or directory.
        meta: num_entries, num_tokens, num_layers, dim, dtype, and under "about" the writer's
            description. Empty for files of other programs.
    """

    def __init__(self, path: Path, source: Source) -> None:
        """Add indexing to the source of one format."""
        self.path = path
        self.meta = source.meta
        self._source = source
        self._closed = False

    def __repr__(self) -> str:
        fields = [f"{str(self.path)!r}", f"{len(self)} entries"]
        if self.meta:
            num_layers = self.meta["num_layers"]
            fields.append("1 layer" if num_layers in (None, 1) else f"{num_layers} layers")
            fields += [f"dim={self.meta['dim']}", f"dtype={self.meta['dtype']}"]
        return f"Vectors({', '.join(fields)})"

    def __len__(self) -> int:
        """Return the number of entries (lines of the input)."""
        return self._source.num_entries

    def __getitem__(self, i: int) -> Array:
        """Return entry `i`, (L+1, T, D) or (T, D); a negative index counts from the end.

        With npy shards the entry is a read-only view of the file: copy it to change it.
        """
        index = operator.index(i)
        if not -len(self) <= index < len(self):
            raise IndexError(f"entry {index} of {self.path}, which has {len(self)}")
        if self._closed:
            raise ElmoxError(f"{self.path} was closed: open it again with open_vectors")
        return self._source.read(index % len(self))

    def __iter__(self) -> Iterator[Array]:
        """Iterate over all entries in order."""
        return (self[i] for i in range(len(self)))

    def __enter__(self) -> Self:
        """Return the vectors themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the file; entries already read stay valid."""
        self._closed = True
        self._source.close()
