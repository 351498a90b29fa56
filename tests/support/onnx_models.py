"""Tiny random models of every kind, for the tests of the ONNX export."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from checkpoints import random_options, write_ai2, write_many_langs, write_token_file
from checkpoints import write_word_model as write_words

from elmox import Elmo
from elmox.config import CharCnnConfig, ElmoConfig, LstmConfig
from elmox.model.checkpoint import Checkpoint, Softmax
from elmox.model.init import random_bilm
from elmox.model.softmax import AdaptiveSoftmax, FullSoftmax

VOCABULARY = ("<S>", "</S>", "<UNK>", *(f"word{number}" for number in range(57)), "the", "cat")
CNN = CharCnnConfig(filters=((1, 4), (2, 5), (3, 6)), embedding_dim=4, num_highways=1)
LSTM = LstmConfig(cell_dim=10, projection_dim=6)


def tiny_elmo(
    lstm: LstmConfig = LSTM, cnn: CharCnnConfig = CNN, seed: int = 0, scale: float = 1.0
) -> Elmo:
    """A model that spells bytes, with random weights."""
    config = ElmoConfig(lstm=lstm, char_cnn=cnn)
    tensors = {n: scale * t for n, t in random_bilm(config, seed).state_dict().items()}
    return Elmo(Checkpoint(config, tensors, description="a tiny model"))


def with_softmax(elmo: Elmo, adaptive: bool = False) -> Elmo:
    """The same model with a random softmax."""
    dim, generator = elmo.config.lstm.projection_dim, torch.Generator().manual_seed(1)
    softmax: FullSoftmax | AdaptiveSoftmax
    if adaptive:
        softmax = AdaptiveSoftmax(len(VOCABULARY), dim, (20,))
    else:
        softmax = FullSoftmax(len(VOCABULARY), dim)
    softmax.init(generator)
    stored = Softmax(softmax.state_dict(), VOCABULARY)
    return Elmo(replace(elmo.checkpoint(), softmax=stored))


def _ai2(folder: Path) -> Elmo:
    return Elmo.from_pretrained(write_ai2(folder, random_options(), np.random.default_rng(0)))


def _words(folder: Path) -> Elmo:
    return Elmo.from_pretrained(write_words(folder, random_options(), np.random.default_rng(1)))


def _cached_tokens(folder: Path) -> Elmo:
    rng = np.random.default_rng(2)
    weights = write_ai2(folder / "weights", random_options(), rng)
    tokens = write_token_file(folder / "tokens", 6, rng)
    return Elmo.from_pretrained(
        weights, token_embeddings=tokens, vocab=folder / "tokens" / "vocab.txt"
    )


def _many_langs(kind: str, folder: Path) -> Elmo:
    return Elmo.from_pretrained(write_many_langs(folder, kind, np.random.default_rng(3)))  # type: ignore[arg-type]


def _tiny(lstm: LstmConfig, cnn: CharCnnConfig, scale: float, folder: Path) -> Elmo:
    return tiny_elmo(lstm, cnn, scale=scale)


# Every encoder, and every branch of the LSTMs.
MODELS: dict[str, Callable[[Path], Elmo]] = {
    "bytes": _ai2,
    "words": _words,
    "cached tokens": _cached_tokens,
    "code points": partial(_many_langs, "char"),
    "code points and words": partial(_many_langs, "word_char"),
    "many_langs words": partial(_many_langs, "word"),
    "forward only": partial(_tiny, replace(LSTM, bidirectional=False), CNN, 1.0),
    "no projection": partial(
        _tiny, LstmConfig(cell_dim=6, projection_dim=6, has_projection=False), CNN, 1.0
    ),
    "no clips, no skip": partial(
        _tiny, replace(LSTM, cell_clip=None, proj_clip=None, skip_connections=False), CNN, 1.0
    ),
    "clips that bind": partial(_tiny, replace(LSTM, cell_clip=0.1, proj_clip=0.05), CNN, 3.0),
    "three layers, tanh, short words": partial(
        _tiny,
        replace(LSTM, num_layers=3),
        replace(CNN, activation="tanh", max_characters=9, num_highways=0),
        1.0,
    ),
}
