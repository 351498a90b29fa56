"""Find the files that belong to AI2's weights: options, vocabulary, softmax."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.io.files import read_json, refuse_unfinished
from elmox.model.checkpoint import Checkpoint, StoredSoftmax
from elmox.pretrained.ai2 import read_ai2
from elmox.pretrained.ai2_softmax import read_ai2_softmax
from elmox.pretrained.hdf5_arrays import open_hdf5
from elmox.pretrained.options import config_from_options
from elmox.text.vocab import read_vocab

HDF5_SUFFIXES = (".hdf5", ".h5")


@dataclass(frozen=True)
class Companions:
    """Files that the caller names, because they are not next to the weights.

    Attributes:
        options: the options file.
        vocab: the input vocabulary of word models and of `token_embeddings`.
        token_embeddings: bilm-tf's cached token vectors (HDF5).
    """

    options: Path | None = None
    vocab: Path | None = None
    token_embeddings: Path | None = None


def is_hdf5(path: Path) -> bool:
    """Return whether a file is HDF5, by its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(8) == b"\x89HDF\r\n\x1a\n"
    except OSError as error:
        raise ElmoxError(f"{path} cannot be read: {error.strerror or error}") from error


def read_ai2_file(weights: Path, companions: Companions) -> Checkpoint:
    """Read a weight file, and the softmax next to it if `write_ai2` made one."""
    checkpoint = _read(weights, companions)
    softmax = _softmax_next_to(weights, checkpoint.config.lstm.projection_dim)
    return replace(checkpoint, softmax=softmax)


def read_ai2_folder(folder: Path, companions: Companions) -> Checkpoint:
    """Read the one weight file of a directory."""
    weights = sorted(
        path
        for path in folder.iterdir()
        if path.suffix in HDF5_SUFFIXES
        and not path.name.startswith(".")
        and "softmax" not in path.stem
        and path != companions.token_embeddings
    )
    if not weights:
        raise ElmoxError(f"{folder} contains no weight file (.hdf5), only other HDF5 files")
    return _read(the_only_one(weights, folder, "weight files"), companions)


def the_only_one(paths: Sequence[Path], folder: Path, kind: str) -> Path:
    """Return the first of some files; refuse a choice between several.

    Args:
        paths: at least one file of the directory.
        folder: the directory.
        kind: name of such files, for the error message.
    """
    if len(paths) > 1:
        names = ", ".join(path.name for path in paths)
        raise ElmoxError(f"{folder} contains several {kind} ({names}): name the one to load")
    return paths[0]


def _read(weights: Path, companions: Companions) -> Checkpoint:
    options = companions.options or options_next_to(weights)
    refuse_unfinished(weights)
    config = config_from_options(read_json(options), str(options))
    vocab, token_embeddings = companions.vocab, companions.token_embeddings
    if vocab is None and (config.char_cnn is None or token_embeddings is not None):
        vocab = vocab_next_to(token_embeddings or weights)
    words = read_vocab(vocab) if vocab is not None else None
    with open_hdf5(weights) as file:
        checkpoint = read_ai2(file, config, str(options), words, token_embeddings)
    description = f"AI2 (bilm-tf) weights {weights.name}{checkpoint.description}"
    return replace(checkpoint, description=description)


def options_next_to(weights: Path) -> Path:
    """Return the file named like the weights, options.json, or the only options file there is."""
    folder = weights.parent
    likely = [
        folder / f"{weights.stem}_options.json",
        folder / f"{weights.stem.replace('weights', 'options')}.json",
        folder / "options.json",
    ]
    for path in likely:
        if path.is_file() and path != weights:
            return path
    others = sorted(folder.glob("*options*.json"))
    if len(others) == 1:
        return others[0]
    raise ArgumentError(
        "{} has no options file next to it (options.json): give it with {}",
        weights,
        Argument("options", "FILE"),
    )


def vocab_next_to(weights: Path) -> Path | None:
    """Return the vocabulary named like the weights, or vocab.txt, if there is one."""
    for name in (f"{weights.stem}_vocab.txt", "vocab.txt"):
        if (weights.parent / name).is_file():
            return weights.parent / name
    return None


def _softmax_next_to(weights: Path, dim: int) -> StoredSoftmax | None:
    """Return the softmax that `write_ai2` puts next to weights, named after them."""
    softmax = weights.with_name(f"{weights.stem}_softmax.hdf5")
    vocab = weights.with_name(f"{weights.stem}_vocab.txt")
    if not (softmax.is_file() and vocab.is_file()):
        return None
    return StoredSoftmax(partial(read_ai2_softmax, softmax, vocab, dim))
