"""Formats of vectors: their names, suffixes and descriptions, without the libraries behind them.

Help texts, error messages and the lists of formats elsewhere are made of this table.
"""

from enum import StrEnum
from typing import Literal, NamedTuple

Format = Literal["hdf5", "parquet", "jsonl", "npy"]


class ReadableFormat(StrEnum):
    """A format that `open_vectors` reads."""

    hdf5 = "hdf5"
    parquet = "parquet"
    npy = "npy"


class FormatNames(NamedTuple):
    """Names of a format's outputs.

    Attributes:
        suffixes: of file names; the first is the usual one.
        output: the description of an output's name for help texts.
    """

    suffixes: tuple[str, ...]
    output: str


FORMATS: dict[Format, FormatNames] = {
    "hdf5": FormatNames((".hdf5", ".h5"), "NAME.hdf5 (the layout of bilm-tf)"),
    "parquet": FormatNames((".parquet",), "NAME.parquet"),
    "jsonl": FormatNames((".jsonl", ".ndjson"), "NAME.jsonl (with tokens and character offsets)"),
    "npy": FormatNames(("",), "the name of a directory for npy shards"),
}
FORMAT_OF_SUFFIX: dict[str, Format] = {
    suffix: name for name, format in FORMATS.items() for suffix in format.suffixes
}
READABLE = ", ".join(ReadableFormat)


def joined_with_or(parts: list[str]) -> str:
    """Return `a, b or c`."""
    return f"{', '.join(parts[:-1])} or {parts[-1]}"


OUTPUTS = joined_with_or([format.output for format in FORMATS.values()])
