"""AI2's softmax files: the output layer, which bilm-tf's weight files leave out.

    softmax/W (V, p)    softmax/b (V)          or the same two without `softmax/`

The vocabulary is a file next to it, one word per line in the order of the rows. Its special words
may be anywhere; elmox's vocabulary begins with them, so a softmax is put into that order when it is
read.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.model.checkpoint import Softmax, StoredSoftmax
from elmox.pretrained.hdf5_arrays import ArrayFile, array_reader, open_hdf5, write_hdf5
from elmox.text.vocab import SPECIAL_WORDS, read_vocab, vocab_file


def read_ai2_softmax(path: Path, vocab_path: Path, dim: int) -> Softmax:
    """Read a softmax file and its vocabulary.

    Args:
        path: the HDF5 file.
        vocab_path: the vocabulary file.
        dim: p, the projection width of the biLM that it belongs to.
    """
    with open_hdf5(path) as file:
        return read_softmax_arrays(file, vocab_path, dim)


def read_softmax_arrays(file: ArrayFile, vocab_path: Path, dim: int) -> Softmax:
    """Read the softmax in an open file; see `read_ai2_softmax`."""
    vocab = read_vocab(vocab_path)
    missing = [word for word in SPECIAL_WORDS if word not in vocab]
    if missing:
        raise ElmoxError(
            f"{vocab_path} lacks {missing[0]}: a softmax predicts {', '.join(SPECIAL_WORDS)} too"
        )
    prefix = "" if "W" in file else "softmax/"
    shape = file.shape(f"{prefix}W") if f"{prefix}W" in file else None
    if shape is not None and len(shape) == 2 and shape[1] != dim:
        raise ElmoxError(
            f"{file.path}: {prefix}W has rows of {shape[1]} numbers, but the biLM's projection is "
            f"{dim} wide: this softmax belongs to another model"
        )
    read = array_reader(file, str(vocab_path))
    weight = read(f"{prefix}W", (len(vocab), dim), "(words of the vocabulary, projection_dim)")
    bias = read(f"{prefix}b", (len(vocab),), "(words of the vocabulary,)")
    words = vocab.words
    if words[: len(SPECIAL_WORDS)] != SPECIAL_WORDS:
        first = vocab.ids(SPECIAL_WORDS)
        order = np.concatenate([first, np.setdiff1d(np.arange(len(words)), first)])
        words, weight, bias = tuple(words[i] for i in order), weight[order], bias[order]
    tensors = {"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)}
    return Softmax(tensors, words, str(file.path))


def ai2_softmax_files(
    softmax: Softmax | StoredSoftmax, path: Path, vocab_path: Path
) -> dict[Path, bytes | Callable[[Path], None]]:
    """Return the content of both files that `read_ai2_softmax` reads."""
    if softmax.tensors.keys() != {"weight", "bias"}:
        raise ArgumentError(
            "AI2's softmax files have one row per word, this model's softmax is adaptive: leave it "
            "out ({}), or write a native directory instead",
            Argument("softmax", False),
        )
    arrays = {
        "softmax/W": softmax.tensors["weight"].detach().float().cpu().numpy(),
        "softmax/b": softmax.tensors["bias"].detach().float().cpu().numpy(),
    }
    return {
        vocab_path: vocab_file(softmax.vocab),
        path: lambda temporary: write_hdf5(temporary, arrays),
    }
