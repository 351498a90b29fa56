"""An export against the model it was made from, on sentences that are hard on an encoder.

The graphs run in onnxruntime, through the files of the export. Float weights must give the model's
vectors up to rounding; those of 8-bit weights must point in the same directions.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.export.runtime import OnnxElmo, OnnxState
from elmox.model.state import LstmState, zero_state
from elmox.text.batches import index_sentences

FloatArray = NDArray[np.floating]

MAX_DIFFERENCE = 1e-5
MIN_COSINE = 0.999
MAX_SOFTMAX_ROWS = 32  # a vocabulary is large
GOLDEN_TEXT = 'She said: "Don\'t present the present yet, Zoë — it costs $1,000.50 in 東京 😀."'

_ODD_SENTENCES: list[list[str]] = [
    [],
    ["a"],
    ["<S>", "</S>", "<UNK>", "<bos>", "<eos>", "<pad>", "<oov>"],
    ["Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", "."],
    ["x" * 48, "x" * 49, "x" * 50, "x" * 60, "é" * 23, "é" * 24, "é" * 25],
    ["今天", "天氣", "很", "好", "。", "吾輩は猫である"],
    ["😀", "👩‍👩‍👧", "🇩🇪", "e\u0301", "ﬁ", "\u200b", "naïve"],
    ["", " ", "\t", "\x00", "\ufeff", "\r\n", "a b", "\ud800", "x\udcffy"],
    ["мир", "नमस्ते", "שלום", "مرحبا", "สวัสดี"],
    ["the", "cat", "sat", "on", "the", "mat", "."] * 13,
]


class ExportDiffers(ElmoxError):
    """An export gives other vectors than its model, so nothing was written."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of an export with its model.

    Attributes:
        difference: largest |export - model|; divided by |model| where that is above 1.
        cosine: smallest cosine of two vectors of the same token and layer.
    """

    difference: float
    cosine: float


class Reference:
    """A model in float64, computed by the readable modules of `elmox.model`.

    In float32 the fast kernels round as much as the export does, so they could not judge it.
    """

    def __init__(self, elmo: Elmo) -> None:
        self._bilm = deepcopy(elmo.reader.bilm).double()
        self._indexer = elmo.reader.indexer
        self._softmax = (
            deepcopy(elmo.language_model.softmax).double()
            if elmo.checkpoint().softmax is not None
            else None
        )

    def read(
        self, sentences: Sequence[Sequence[str]], start: OnnxState | None = None
    ) -> tuple[list[FloatArray], OnnxState]:
        """Return all layers of each sentence, (J, T, D) with boundaries, and the final state."""
        batch = index_sentences(sentences, self._indexer.begin, self._indexer.end)
        if start is None:
            zeros = zero_state(
                self._bilm.config.lstm, len(sentences), self._bilm.device, torch.float64
            )
        else:
            zeros = LstmState(*(torch.from_numpy(p).double() for p in (start.hidden, start.cell)))
        with torch.enable_grad():  # without gradients the fast kernels would run
            vectors = self._bilm.token_encoder(self._indexer(batch.words))
            layers, final = self._bilm(vectors[torch.from_numpy(batch.index)], batch.lengths, zeros)
        parts = np.split(layers.detach().numpy(), np.cumsum(batch.lengths)[:-1], axis=1)
        hidden, cell = (part.detach().float().numpy() for part in (final.hidden, final.cell))
        return parts, OnnxState(hidden, cell)

    def log_probs(self, hidden: FloatArray) -> FloatArray:
        """Return log-probabilities, (N, P) -> (N, V)."""
        assert self._softmax is not None
        return self._softmax.log_probs(torch.from_numpy(hidden).double()).detach().numpy()


def check_sentences(elmo: Elmo) -> list[list[str]]:
    """Return the sentences of the check, as far as the model can read them."""
    sentences = [*_ODD_SENTENCES, elmo.tokenize(GOLDEN_TEXT)]
    vocab = elmo.reader.indexer.vocab
    if vocab is None or vocab.unknown in vocab:
        return sentences
    words = vocab.words  # the model refuses all others
    return [[words[len(word) % len(words)] for word in sentence] for sentence in sentences]


def check_export(folder: Path, original: Elmo, stored: Elmo | None) -> Agreement:
    """Run an export and compare it.

    Args:
        folder: the export.
        original: the model.
        stored: the model with its weights rounded as they are stored; None for 8-bit weights, which
            only have to give similar vectors.

    Returns:
        The agreement with `original`.

    Raises:
        ExportDiffers: the agreement is worse than `MAX_DIFFERENCE` with `stored`, or worse than
            `MIN_COSINE` with `original`.
    """
    onnx = OnnxElmo.from_pretrained(folder)
    sentences = check_sentences(original)
    reference = Reference(original)
    exact = None if stored is None else reference if stored is original else Reference(stored)
    layers, final = onnx.read(sentences)
    together = [layers[:, row, : len(tokens) + 2] for row, tokens in enumerate(sentences)]
    expected, _ = reference.read(sentences)
    cosine = min(map(_cosine, together, expected))
    _require_cosine(cosine, "vectors")
    if exact is not None:
        _require_close(together, exact.read(sentences)[0], "vectors")
        alone = [onnx.read([tokens])[0][:, 0] for tokens in sentences]
        _require_close(alone, exact.read(sentences)[0], "vectors of single sentences")
        if final is not None:
            _check_state(onnx, exact, sentences)
    if onnx.config.softmax:
        _check_softmax(onnx, reference, exact, expected)
    return Agreement(max(map(_difference, together, expected)), cosine)


def _check_state(onnx: OnnxElmo, exact: Reference, sentences: list[list[str]]) -> None:
    """Read a batch twice, the second time from the state after the first."""
    start: OnnxState | None = None
    for _ in range(2):
        expected, after = exact.read(sentences, start)
        layers, final = onnx.read(sentences, start)
        assert final is not None
        vectors = [layers[:, row, : len(tokens) + 2] for row, tokens in enumerate(sentences)]
        _require_close(vectors, expected, "vectors from a start state")
        _require_close([final.hidden], [after.hidden], "final hidden states")
        _require_close([final.cell], [after.cell], "final cell states")
        start = after  # the same for both, so that the second pass is compared on its own


def _check_softmax(
    onnx: OnnxElmo, reference: Reference, exact: Reference | None, layers: list[FloatArray]
) -> None:
    """Compare log-probabilities at some positions, all directions."""
    top = np.concatenate([vectors[-1] for vectors in layers])[:MAX_SOFTMAX_ROWS]
    hidden = top.reshape(-1, onnx.config.projection_dim).astype(np.float32)
    log_probs = onnx.log_probs(hidden)
    _require_cosine(_cosine(log_probs, reference.log_probs(hidden)), "log-probabilities")
    if exact is not None:
        _require_close([log_probs], [exact.log_probs(hidden)], "log-probabilities")


def _difference(vectors: FloatArray, reference: FloatArray) -> float:
    difference = np.abs(vectors - reference) / np.maximum(1.0, np.abs(reference))
    return float(difference.max(initial=0.0))  # NaN stays NaN


def _cosine(vectors: FloatArray, reference: FloatArray) -> float:
    """Return the smallest cosine; two vectors of zeros agree."""
    a, b = (values.astype(np.float64) for values in (vectors, reference))
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    products = (a * b).sum(-1)
    cosines = np.where(norms > 0, products / np.where(norms > 0, norms, 1), 1.0)
    return float(cosines.min(initial=1.0))


def _require_close(values: list[FloatArray], expected: list[FloatArray], kind: str) -> None:
    difference = max(map(_difference, values, expected))
    if not difference <= MAX_DIFFERENCE:  # also NaN
        raise ExportDiffers(
            f"the export's {kind} differ from the model's by {difference:.1e}, expected at most "
            f"{MAX_DIFFERENCE:.0e}: nothing was written; please report this"
        )


def _require_cosine(cosine: float, kind: str) -> None:
    if not cosine >= MIN_COSINE:
        raise ExportDiffers(
            f"rounding the weights changes the {kind} too much: their cosine with the model's is "
            f"only {cosine:.5f}, expected at least {MIN_COSINE}; nothing was written, choose more "
            "precise weights"
        )
