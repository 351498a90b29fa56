"""Given a path, find out which legacy format it is and read it.

| given | recognized by |
|---|---|
| .hdf5 file | HDF5; its options file beside it or given |
| directory | encoder.pkl (ELMoForManyLangs) · weights.th / best.th (AllenNLP) · one .hdf5 (AI2) |
| .zip, .tar.gz | the same, inside (NLPL zips, AllenNLP archives) |
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any

from elmox.errors import ElmoxError
from elmox.io.files import read_json, refuse_unfinished
from elmox.io.inputs import MAX_JSON_BYTES, read_whole, require_regular
from elmox.io.temporary import scratch_directory
from elmox.model.checkpoint import Checkpoint, StoredSoftmax
from elmox.pretrained.ai2 import read_ai2
from elmox.pretrained.ai2_softmax import read_ai2_softmax
from elmox.pretrained.allennlp import read_allennlp
from elmox.pretrained.archives import archive_kind, extract
from elmox.pretrained.many_langs import read_many_langs
from elmox.pretrained.options import config_from_options
from elmox.pretrained.torch_files import load_plain_tensors
from elmox.text.vocab import read_vocab

_HDF5 = (".hdf5", ".h5")
_ALLENNLP_WEIGHTS = ("weights.th", "best.th")
_KNOWN = ("weights.hdf5 with options.json, encoder.pkl with token_embedder.pkl, "
          "weights.th with config.json")  # fmt: skip


def read_legacy(
    path: Path,
    options: Path | None = None,
    vocab: Path | None = None,
    token_embeddings: Path | None = None,
) -> Checkpoint:
    """Read whatever lies at `path`.

    Args:
        path: an existing file or directory.
        options: options file, where it does not lie beside the weights.
        vocab: input vocabulary of word models and of `token_embeddings`.
        token_embeddings: bilm-tf's cached token vectors (HDF5).
    """
    if path.is_dir():
        return _read_directory(path, options, vocab, token_embeddings)
    require_regular(path)
    if _is_hdf5(path):
        model = _read_hdf5(path, options or _options_beside(path), vocab, token_embeddings)
        return replace(model, softmax=_softmax_beside(path, model.config.lstm.projection_dim))
    if archive_kind(path):
        return _read_archive(path, options, vocab, token_embeddings)
    if path.suffix in _HDF5:
        raise ElmoxError(f"{path} is not an HDF5 file (damaged, or an unfetched pointer to one)")
    if path.suffix in (".zip", ".gz", ".tgz", ".tar"):
        raise ElmoxError(f"{path} is damaged or cut short: it cannot be unpacked")
    raise ElmoxError(
        f"{path} is no known model file: expected .hdf5, .zip, .tar.gz or a model directory"
    )


def _read_hdf5(
    weights: Path, options: Path, vocab: Path | None, token_embeddings: Path | None
) -> Checkpoint:
    refuse_unfinished(weights)
    config = config_from_options(read_json(options), str(options))
    if vocab is None and (config.char_cnn is None or token_embeddings is not None):
        vocab = _vocab_beside(token_embeddings or weights)
    words = read_vocab(vocab) if vocab is not None else None
    return read_ai2(weights, config, str(options), words, token_embeddings)


def _read_directory(
    folder: Path,
    options: Path | None,
    vocab: Path | None,
    token_embeddings: Path | None,
) -> Checkpoint:
    if (folder / "encoder.pkl").is_file():
        return read_many_langs(folder)
    for name in _ALLENNLP_WEIGHTS:
        if (folder / name).is_file():
            tensors = load_plain_tensors(folder / name, str(folder / name))
            options = options or _allennlp_options(folder)
            given = None if options is None else read_json(options)
            return read_allennlp(tensors, given, str(folder))
    files = [path for path in folder.iterdir() if _wanted(path.name) and path != token_embeddings]
    weights = sorted(p for p in files if p.suffix in _HDF5 and "softmax" not in p.stem)
    if len(weights) > 1:
        names = ", ".join(p.name for p in weights)
        raise ElmoxError(f"{folder} holds several weight files ({names}): name the one to load")
    if weights:
        return _read_hdf5(
            weights[0], options or _options_beside(weights[0]), vocab, token_embeddings
        )
    raise ElmoxError(f"{folder} holds no known model: expected {_KNOWN}, or config.json with "
                     "model.safetensors")  # fmt: skip


def _read_archive(
    archive: Path, options: Path | None, vocab: Path | None, token_embeddings: Path | None
) -> Checkpoint:
    with scratch_directory("elmox-unpacked") as folder:
        if not extract(archive, folder, _wanted):
            raise ElmoxError(f"{archive} holds no known model: expected {_KNOWN} inside")
        try:
            checkpoint = _read_directory(folder, options, vocab, token_embeddings)
        except ElmoxError as error:  # the temporary folder means nothing to the user
            raise ElmoxError(str(error).replace(str(folder), str(archive))) from error
    found = f"{archive_kind(archive)} {archive.name} with {checkpoint.description}"
    return replace(checkpoint, description=found)


def _wanted(name: str) -> bool:
    if name.startswith("."):  # what a Mac adds to a zip
        return False
    return name.endswith((*_HDF5, ".json", ".dic", "options_file")) or name in (
        "encoder.pkl", "token_embedder.pkl", "vocab.txt", *_ALLENNLP_WEIGHTS
    )  # fmt: skip


def _is_hdf5(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(8) == b"\x89HDF\r\n\x1a\n"
    except OSError as error:
        raise ElmoxError(f"{path} cannot be read: {error.strerror or error}") from error


def _options_beside(weights: Path) -> Path:
    """The weights' own name with options in it, options.json, or the only one there is."""
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
    raise ElmoxError(f"{weights} has no options file beside it (options.json): give it as options=")


def _vocab_beside(weights: Path) -> Path | None:
    for name in (f"{weights.stem}_vocab.txt", "vocab.txt"):
        if (weights.parent / name).is_file():
            return weights.parent / name
    return None


def _softmax_beside(weights: Path, dim: int) -> StoredSoftmax | None:
    """The softmax that `write_ai2` puts beside weights. AI2's own has a name of another kind."""
    softmax = weights.with_name(f"{weights.stem}_softmax.hdf5")
    vocab = weights.with_name(f"{weights.stem}_vocab.txt")
    if not (softmax.is_file() and vocab.is_file()):
        return None
    return StoredSoftmax(partial(read_ai2_softmax, softmax, vocab, dim))


def _allennlp_options(folder: Path) -> Path | None:
    """The biLM's options file, if it is in the folder; by its usual name, or as configured.

    A configuration names the file as it was called where the model was trained. Only the last part
    of that path counts, inside the folder: a model must not choose which other files are read.
    """
    for path in sorted(folder.iterdir()):
        if path.name.endswith("options_file") or path.name == "options.json":
            return path
    if not (folder / "config.json").is_file():
        return None
    try:
        config = json.loads(read_whole(folder / "config.json", MAX_JSON_BYTES))
    except (ValueError, RecursionError):  # AllenNLP's Jsonnet need not be JSON, nor do we need it
        return None
    names = [PureWindowsPath(name).name for name in _options_files(config)]
    likely = (folder / name for name in names if name not in ("", "..", "config.json"))
    return next((path for path in likely if path.is_file()), None)


def _options_files(config: Any) -> Iterator[str]:
    """Find the values of "options_file" anywhere in a configuration."""
    pending = [config]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            name = value.get("options_file")
            if isinstance(name, str):
                yield name
            pending += value.values()
        elif isinstance(value, list):
            pending += value
