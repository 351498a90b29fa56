"""Tiny language models for the tests, and what they must log, by the NumPy oracle in float64."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np
import oracle
from checkpoint_parts import normal, write_hdf5, write_vocabulary
from checkpoints import random_options, write_ai2

from elmox.elmo import Elmo
from elmox.model.checkpoint import Checkpoint, Softmax

# The special words do not come first on purpose: AI2's files may have them anywhere.
WORDS = ("the", "</S>", "cat", "<S>", ".", "naïve", "<UNK>", "sat", "天", "😀", "The")
OURS = ("<S>", "</S>", "<UNK>", "the", "cat", ".", "naïve", "sat", "天", "😀", "The")


@dataclass(frozen=True)
class TinyLm:
    """A model with AI2's softmax file and vocabulary, and the same for the oracle."""

    weights: Path
    softmax: Path
    vocab: Path
    body: oracle.OracleWeights
    weight: oracle.Array  # (V, p), in the order of the file
    bias: oracle.Array  # (V,)

    def elmo(self, double: bool = False) -> Elmo:
        """The model as a user loads it."""
        elmo = Elmo.from_pretrained(self.weights, softmax=self.softmax, softmax_vocab=self.vocab)
        if double:
            elmo.reader.bilm.double()
            elmo.language_model.softmax.double()
        return elmo

    def log_probs(self, hidden: oracle.Array) -> oracle.Array:
        """(p,) -> (V,)."""
        logits = self.weight @ hidden + self.bias
        shifted = logits - logits.max()
        return np.asarray(shifted - np.log(np.exp(shifted).sum()))

    def log_prob(self, hidden: oracle.Array, word: str) -> float:
        """Log probability of a word, or of <UNK> for an unknown one."""
        known = WORDS.index(word if word in WORDS else "<UNK>")
        return float(self.log_probs(hidden)[known])

    def directions(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[list[list[float]], list[list[float]]]:
        """Log-probabilities of consecutive sentences, state running on, as training reads them.

        Returns:
            For each sentence the forward ones (w1 .. wn </S>) and the backward ones (w1 .. wn <S>).
        """
        forward = self._read(0, [["<S>", *s] for s in sentences], [[*s, "</S>"] for s in sentences])
        turned = [list(reversed(s)) for s in reversed(sentences)]
        backward = self._read(1, [["</S>", *s] for s in turned], [[*s, "<S>"] for s in turned])
        return forward, [[*row[-2::-1], row[-1]] for row in reversed(backward)]

    def _read(
        self, direction: int, inputs: list[list[str]], targets: list[list[str]]
    ) -> list[list[float]]:
        words = [word for row in inputs for word in row]
        start = oracle.zero_state(self.body, 1)
        vectors = oracle.token_vectors(self.body, words)
        outputs, _, _ = oracle.run_stack(
            self.body, direction, vectors, start.h[0, direction], start.c[0, direction]
        )
        top = iter(outputs[-1])
        return [[self.log_prob(next(top), word) for word in row] for row in targets]


def write_softmax(
    folder: Path,
    rng: np.random.Generator,
    *,
    dim: int = 6,
    words: Sequence[str] = WORDS,
    prefix: str = "softmax/",
) -> tuple[Path, Path]:
    """AI2's softmax file with random weights, and its vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {
        f"{prefix}W": normal(rng, (len(words), dim), 1.5),
        f"{prefix}b": normal(rng, (len(words),)),
    }
    softmax = write_hdf5(folder / "softmax_weights.hdf5", arrays)
    return softmax, write_vocabulary(folder / "lm_vocab.txt", words)


def tiny_lm(folder: Path, seed: int = 0) -> TinyLm:
    """A random language model with AI2's files."""
    rng = np.random.default_rng(seed)
    weights = write_ai2(folder, random_options(), rng)
    softmax, vocab = write_softmax(folder, rng)
    with h5py.File(softmax) as file:
        weight, bias = (np.asarray(file[f"softmax/{n}"], np.float64) for n in ("W", "b"))
    return TinyLm(weights, softmax, vocab, oracle.read_ai2(weights), weight, bias)


def forward_only(elmo: Elmo) -> Elmo:
    """The forward half of a biLM as a separate model."""
    checkpoint = elmo.checkpoint()
    config = replace(checkpoint.config, lstm=replace(checkpoint.config.lstm, bidirectional=False))
    tensors = {
        name: tensor[:1] if name.startswith("lstm.") else tensor
        for name, tensor in checkpoint.tensors.items()
    }
    return Elmo(replace(checkpoint, config=config, tensors=tensors))


def with_softmax(elmo: Elmo, softmax: Softmax) -> Elmo:
    """The same body with another softmax."""
    checkpoint: Checkpoint = elmo.checkpoint()
    return Elmo(replace(checkpoint, softmax=softmax))
