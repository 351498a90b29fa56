"""Recognize and read the models of other programs.

| path | recognized by |
|---|---|
| .hdf5 file | its first bytes; its options file is next to it or given |
| .index file | its last bytes (TensorFlow); also by the name without an end, as in TensorFlow |
| directory | encoder.pkl (ELMoForManyLangs), weights.th or best.th (AllenNLP), one .hdf5 (AI2), |
| | .index or saved_model.pb (TensorFlow) |
| .zip, .tar.gz | the same, inside (NLPL zips, AllenNLP archives) |

A new format is a file with a reader next to this one, a line in `_FOLDERS`, and its name in
`formats.py`.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from elmox.errors import ArgumentError, ElmoxError
from elmox.io.inputs import require_regular
from elmox.io.temporary import scratch_directory
from elmox.model.checkpoint import Checkpoint
from elmox.pretrained.ai2_files import (
    HDF5_SUFFIXES,
    Companions,
    is_hdf5,
    read_ai2_file,
    read_ai2_folder,
)
from elmox.pretrained.allennlp import WEIGHT_FILES, read_allennlp_folder
from elmox.pretrained.archives import archive_kind, extract
from elmox.pretrained.many_langs import read_many_langs
from elmox.pretrained.tf1 import FOLDER_MARKS, find_index, is_part, read_tf1, read_tf1_folder

_ARCHIVE_SUFFIXES = (".zip", ".gz", ".tgz", ".tar")


class _Format(NamedTuple):
    """A kind of model directory."""

    marks: tuple[str, ...]  # ends of names, one of which a directory of this kind has
    read: Callable[[Path, Companions], Checkpoint]
    expected: str  # the files of a complete directory, for error messages


_FOLDERS = (
    _Format(
        ("encoder.pkl",),
        lambda folder, _: read_many_langs(folder),
        "encoder.pkl with token_embedder.pkl",
    ),
    _Format(
        WEIGHT_FILES,
        lambda folder, companions: read_allennlp_folder(folder, companions.options),
        "weights.th with config.json",
    ),
    _Format(HDF5_SUFFIXES, read_ai2_folder, "weights.hdf5 with options.json"),
    _Format(FOLDER_MARKS, read_tf1_folder, "model.ckpt-N.index with its data"),
)
# Of an archive only these are unpacked.
_NAMES = ("encoder.pkl", "token_embedder.pkl", "vocab.txt", *WEIGHT_FILES)
_ENDS = (*HDF5_SUFFIXES, ".json", ".dic", "options_file")


def read_legacy(path: Path, companions: Companions) -> Checkpoint:
    """Read a model of another program.

    Args:
        path: an existing file or directory.
        companions: files that belong to it, if they are elsewhere.
    """
    if path.is_dir():
        return _read_folder(path, companions)
    require_regular(path)
    if is_hdf5(path):
        return read_ai2_file(path, companions)
    if archive_kind(path):
        return _read_archive(path, companions)
    if index := find_index(path):
        return read_tf1(index, companions)
    if path.suffix in HDF5_SUFFIXES:
        raise ElmoxError(f"{path} is not an HDF5 file (damaged, or an unfetched pointer to one)")
    if path.suffix in _ARCHIVE_SUFFIXES:
        raise ElmoxError(f"{path} is damaged or cut short: it cannot be unpacked")
    raise ElmoxError(
        f"{path} is no known model file: expected .hdf5, .zip, .tar.gz, .index or a model directory"
    )


def _read_folder(folder: Path, companions: Companions) -> Checkpoint:
    names = [path.name for path in folder.iterdir() if path.is_file() and _can_belong(path.name)]
    for kind in _FOLDERS:
        if any(name.endswith(kind.marks) for name in names):
            return kind.read(folder, companions)
    raise ElmoxError(
        f"{folder} contains no known model: expected {_expected()}, or config.json with "
        "model.safetensors"
    )


def _read_archive(archive: Path, companions: Companions) -> Checkpoint:
    with scratch_directory("elmox-unpacked") as folder:
        if not extract(archive, folder, _can_belong):
            raise ElmoxError(f"{archive} contains no known model: expected {_expected()} inside")
        try:
            checkpoint = _read_folder(folder, companions)
        except ElmoxError as error:  # the temporary folder means nothing to the user
            raise _renamed(error, folder, archive) from error
    description = f"{archive_kind(archive)} {archive.name} with {checkpoint.description}"
    return replace(checkpoint, description=description)


def _renamed(error: ElmoxError, folder: Path, archive: Path) -> ElmoxError:
    """Return an error that names the archive instead of the folder into which it was unpacked."""

    def rename(value: object) -> object:
        is_name = isinstance(value, str | Path)
        return str(value).replace(str(folder), str(archive)) if is_name else value

    if isinstance(error, ArgumentError):
        return ArgumentError(error.template, *map(rename, error.values))
    return ElmoxError(str(rename(str(error))))


def _can_belong(name: str) -> bool:
    """Return whether a file can be part of a model. Names with a dot in front are a Mac's."""
    return not name.startswith(".") and (name in _NAMES or name.endswith(_ENDS) or is_part(name))


def _expected() -> str:
    return ", ".join(kind.expected for kind in reversed(_FOLDERS))
