"""Load a model from anywhere: a directory, a legacy checkpoint, the hub, or the package itself."""

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

import torch

from elmox.config import BUNDLED, Strict
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.io.inputs import require_regular
from elmox.io.temporary import missing
from elmox.model.checkpoint import Checkpoint, StoredSoftmax
from elmox.pretrained.ai2_files import Companions
from elmox.pretrained.ai2_softmax import read_ai2_softmax
from elmox.pretrained.hub import Token, download, is_hub_id
from elmox.pretrained.native import (
    EMBEDDING_FILE,
    is_model_directory,
    read_directory,
    stored_softmax,
)
from elmox.pretrained.packages import (
    distribution_of,
    install_command,
    installed_model,
    installed_names,
    is_model_name,
    package_of,
    softmax_of,
)
from elmox.pretrained.recognize import read_legacy
from elmox.pretrained.tf1 import find_index


class ModelFiles(TypedDict, total=False):
    """Files that complete a legacy model; see `elmox.Elmo.from_pretrained`."""

    options: str | Path | None
    vocab: str | Path | None
    token_embeddings: str | Path | None
    softmax: str | Path | None
    softmax_vocab: str | Path | None


@dataclass(frozen=True)
class ModelReference(Strict):
    """A model that can be loaded again, for models that are saved without their biLM.

    Attributes:
        path: a hub id, the name of the bundled model, or an absolute path.
        options, vocab, token_embeddings: files that complete a legacy model, as absolute paths.
        revision: branch, tag or commit of a hub id.
    """

    path: str
    options: str | None = None
    vocab: str | None = None
    token_embeddings: str | None = None
    revision: str | None = None

    @classmethod
    def of(
        cls, path: str | Path | None, revision: str | None = None, **completing: Unpack[ModelFiles]
    ) -> "ModelReference":
        """Return the reference of a model that `load_checkpoint` has just loaded."""
        name = BUNDLED if path is None else str(path)
        if path is not None and _local(path).exists():
            name = os.path.abspath(_local(path))
        return cls(
            name,
            _absolute(completing.get("options")),
            _absolute(completing.get("vocab")),
            _absolute(completing.get("token_embeddings")),
            revision,
        )


@torch.inference_mode(False)  # the weights serve every later call
def load_checkpoint(
    path: str | Path | None = None,
    *,
    revision: str | None = None,
    token: Token = None,
    verify: bool = True,
    **completing: Unpack[ModelFiles],
) -> Checkpoint:
    """Load a model directory, any legacy checkpoint, or a model of the Hugging Face hub.

    Args:
        path: a directory, an .hdf5, .zip, .tar.gz or .index file, the name of an installed model,
            or a hub id (`owner/name`); None or `english-small` for the model that comes with elmox.
        revision: branch, tag or commit of a hub id.
        token: access token for a hub id; True for the stored one.
        verify: compare the files of a model directory with their checksums.
        **completing: files that complete a legacy model.
    """
    unknown = completing.keys() - ModelFiles.__annotations__.keys()
    if unknown:  # a misspelled option must not be ignored
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    folder = find_model(path, revision, token)
    paths = {name: Path(str(file)) for name, file in completing.items() if file is not None}
    if (folder / EMBEDDING_FILE).is_file():
        raise ElmoxError(
            f"{folder} is a saved ElmoEmbedding: load it with ElmoEmbedding.from_pretrained"
        )
    if is_model_directory(folder):
        for name in ("options", "vocab", "token_embeddings"):
            if name in paths:
                raise ArgumentError(
                    "{} is complete in itself: leave out {}", folder, _argument(name, paths)
                )
        checkpoint = _with_package(read_directory(folder, verify), folder, verify)
        if checkpoint.softmax is not None and "softmax" in paths:
            raise ArgumentError(
                "{} has a softmax of its own: leave out {}", folder, _argument("softmax", paths)
            )
    else:
        companions = Companions(
            paths.get("options"), paths.get("vocab"), paths.get("token_embeddings")
        )
        checkpoint = read_legacy(folder, companions)
    return _with_softmax(checkpoint, paths)


def find_model(path: str | Path | None, revision: str | None = None, token: Token = None) -> Path:
    """Return the file or directory of a model; one of the hub is downloaded first.

    A string is a hub id only if nothing local can be meant by it; see `is_hub_id`.
    """
    name = BUNDLED if path is None else path
    local = _local(name)
    installed = None
    if path is None or (isinstance(name, str) and is_model_name(name) and not local.exists()):
        installed = installed_model(str(name))
    elif isinstance(name, str) and not local.exists() and is_hub_id(name):
        _refuse_tagger(name)
        return download(name, revision, token)
    for argument, value in (("revision", revision), ("token", token)):
        if value is not None:
            raise ArgumentError("{} is not a hub id: leave out {}", name, Argument(argument))
    if installed is not None:
        return installed
    if not local.exists():
        raise ElmoxError(missing(local, _advice(name)))
    return local


def _advice(name: str | Path) -> str:
    """Return what to give instead of a name that means nothing."""
    installed = f"an installed model ({', '.join(installed_names())})"
    advice = f"give a model directory, a checkpoint file, a hub id (owner/name), or {installed}"
    if isinstance(name, str) and is_model_name(name):
        advice += f"; the package of a model of that name: {install_command(distribution_of(name))}"
    return advice


def _refuse_tagger(name: str) -> None:
    """Refuse `english-small/ner`, which looks like a hub id."""
    model, _, tagger = name.partition("/")
    if model in installed_names():
        raise ElmoxError(
            f"{name} is not a biLM: load the tagger {tagger} with TaskPredictor, or give {model}"
        )


def _with_package(checkpoint: Checkpoint, folder: Path, verify: bool) -> Checkpoint:
    """Return the same model with the softmax of a package of its own, if that is installed."""
    package = package_of(folder)
    if package is None:
        return checkpoint
    description = f"installed model {package.name}"
    checkpoint = replace(checkpoint, description=description, softmax_package=package.softmax)
    located = softmax_of(package) if checkpoint.softmax is None else None
    if located is None:
        return checkpoint
    return replace(checkpoint, softmax=stored_softmax(*located, verify))


def _local(path: str | Path) -> Path:
    """Return a local path; of a TensorFlow checkpoint named without an end, its index."""
    local = Path(path)
    return local if local.exists() else find_index(local) or local


def _with_softmax(checkpoint: Checkpoint, paths: dict[str, Path]) -> Checkpoint:
    """Return the same model with AI2's softmax, if it is given."""
    pair = [name for name in ("softmax", "softmax_vocab") if name in paths]
    if not pair:
        return checkpoint
    if len(pair) == 1:
        raise ArgumentError(
            "{}: give the softmax file and its vocabulary together", _argument(pair[0], paths)
        )
    softmax, vocab = paths["softmax"], paths["softmax_vocab"]
    for path in (softmax, vocab):
        if not path.exists():
            raise ElmoxError(f"{path} does not exist: expected AI2's softmax file, its vocabulary")
        require_regular(path)
    dim = checkpoint.config.lstm.projection_dim
    stored = StoredSoftmax(partial(read_ai2_softmax, softmax, vocab, dim))
    return replace(checkpoint, softmax=stored)


def _absolute(path: str | Path | None) -> str | None:
    return None if path is None else os.path.abspath(path)


def _argument(name: str, paths: dict[str, Path]) -> Argument:
    return Argument(name, str(paths[name]))
