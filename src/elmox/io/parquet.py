"""Rows of Parquet files, read in bounded memory. Needs pyarrow."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from elmox.errors import ElmoxError, UnreadableFile, install_hint

_BATCH_ROWS = 1024


def is_parquet(path: str | Path) -> bool:
    """Return whether a file is called a Parquet file."""
    return Path(path).suffix.lower() == ".parquet"


def load_pyarrow() -> ModuleType:
    """Import pyarrow with its parquet module; the error explains how to install it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ElmoxError(
            f"parquet files need pyarrow: {install_hint('parquet')}, or write .hdf5"
        ) from error
    return cast(ModuleType, pyarrow)


def open_parquet(path: str | Path) -> Any:
    """Open a Parquet file; a damaged one is an `UnreadableFile`."""
    pa = load_pyarrow()
    try:
        return pa.parquet.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise UnreadableFile(f"{path}: cannot read this parquet file ({error})") from error


def num_rows(path: str | Path) -> int:
    """Return the number of rows of a file."""
    with open_parquet(path) as file:
        return int(file.metadata.num_rows)


def read_rows(path: str | Path, columns: Sequence[str], first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, with those of `columns` that it has, from row `first` on."""
    pa = load_pyarrow()
    with open_parquet(path) as file:
        present = [name for name in columns if name in file.schema_arrow.names]
        if not present:
            names = ", ".join(map(repr, columns))
            raise UnreadableFile(f"{path}: expected a column called one of {names}")
        groups: list[int] = []
        for group in range(file.metadata.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if groups or first < size:
                groups.append(group)
            else:
                first -= size
        try:
            batches = file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=present)
            rows = (row for batch in batches for row in batch.to_pylist())
            yield from islice(rows, first, None)
        except (OSError, pa.ArrowException) as error:
            raise UnreadableFile(f"{path}: cannot read this parquet file ({error})") from error
