"""The biLM as a language model: scores of text, likely words, perplexity (section 3.1).

Only words of the softmax's vocabulary can be predicted; every other word of a text is scored as
`<UNK>`. As input every word is spelled in its characters.

Shapes: n words of a sentence, D directions, V words of the vocabulary.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.errors import Argument, ArgumentError, ElmoxError, require_at_least
from elmox.inference.encode import BatchOptions
from elmox.inference.evaluation import Evaluation
from elmox.inference.finite import require_finite
from elmox.inference.layer_choice import choose_layers
from elmox.inference.next_word import Spans, next_word_log_probs
from elmox.inference.perplexity import stream_nll
from elmox.inference.runner import Reader
from elmox.inference.text_stream import TextStream
from elmox.io.progress import token_bar
from elmox.kernels.derived import weights_fixed
from elmox.kernels.torch_modes import modes_off
from elmox.model.checkpoint import Checkpoint, build_softmax
from elmox.model.softmax import AdaptiveSoftmax, FullSoftmax
from elmox.model.state import LstmState
from elmox.text.batches import plan_batches
from elmox.text.vocab import END_ID, SPECIAL_WORDS, UNKNOWN_ID, Vocab

Direction: TypeAlias = Literal["both", "left", "right"]
StartState: TypeAlias = Callable[[int], LstmState]  # number of rows -> their start state


@dataclass(frozen=True, repr=False)
class SentenceScore:
    """Natural logarithms of the probabilities that a language model gives to a sentence.

    Attributes:
        tokens: its n words.
        forward: (n+1,) each word given those to its left; last, `</S>` given all of them.
        backward: (n+1,) each word given those to its right, in the order of the text; last, `<S>`
            given all of them. None for models that only read forward.
        unknown: (n,) whether a word is outside the vocabulary and was scored as `<UNK>`.
    """

    tokens: tuple[str, ...]
    forward: NDArray[np.floating]
    backward: NDArray[np.floating] | None
    unknown: NDArray[np.bool_]

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole sentence: the mean of the two directions' sums."""
        directions = [self.forward] if self.backward is None else [self.forward, self.backward]
        return float(np.mean([log_probs.sum(dtype=np.float64) for log_probs in directions]))

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of its n+1 positions."""
        with np.errstate(over="ignore"):
            return float(np.exp(-self.log_prob / len(self.forward)))

    def __repr__(self) -> str:
        """Return the sentence and its figures; `unknown` lists the words scored as `<UNK>`."""
        fields = [repr(" ".join(self.tokens)), f"log_prob={self.log_prob:.2f}"]
        fields.append(f"perplexity={self.perplexity:.2f}")
        if self.unknown.any():
            words = [word for word, flag in zip(self.tokens, self.unknown, strict=True) if flag]
            fields.append(f"unknown={words}")
        return f"SentenceScore({', '.join(fields)})"


class Prediction(NamedTuple):
    """A word that is likely at a position, with its probability."""

    word: str
    probability: float

    def __repr__(self) -> str:
        """Return both, the probability rounded."""
        return f"Prediction({self.word!r}, {self.probability:.4f})"


@torch.inference_mode(False)
def zipf_log_probs(num_words: int) -> Tensor:
    """Return the log frequency (V,) of words in falling order of count, by Zipf's law.

    Vocabularies are in that order but hold no counts. The shift of the ranks is Mandelbrot's. The
    log-uniform proposal of `training.log_uniform` has other constants, which the published loss
    fixes.
    """
    return -(torch.arange(num_words, dtype=torch.float64) + 2.7).log()


def build_language_model(checkpoint: Checkpoint, reader: Reader) -> "LanguageModel":
    """Combine a biLM with its checkpoint's softmax, which is read and checked now."""
    stored, softmax = checkpoint.softmax, build_softmax(checkpoint)
    if stored is None or softmax is None:
        if checkpoint.softmax_package is not None:
            raise ElmoxError(
                f"the softmax of {checkpoint.description} is a package of its own, which predicts "
                f"words: install {checkpoint.softmax_package} in the same way"
            )
        raise ArgumentError(
            "{} has no softmax, so it cannot predict words: train one by fine-tuning the model, or "
            "give AI2's softmax file by {} and {}",
            checkpoint.description,
            Argument("softmax"),
            Argument("softmax_vocab"),
        )
    # In float32 whatever the biLM's precision: exponentials of a whole vocabulary are summed.
    return LanguageModel(reader, softmax.float(), Vocab(stored.vocab, source=stored.source))


class LanguageModel:
    """A biLM and its output layer."""

    def __init__(
        self, reader: Reader, softmax: FullSoftmax | AdaptiveSoftmax, vocab: Vocab
    ) -> None:
        """Args:
        reader: the biLM that reads words.
        softmax: its output layer.
        vocab: the words that the softmax predicts, the special words first.
        """
        self.reader = reader
        self.vocab = vocab
        self._softmax = softmax

    @property
    def softmax(self) -> FullSoftmax | AdaptiveSoftmax:
        """The output layer: in its own precision, on the biLM's device."""
        with torch.inference_mode(False):
            return self._softmax.to(self.reader.bilm.device)

    def score(
        self,
        sentences: Sequence[Sequence[str]],
        start: StartState,
        options: BatchOptions,
    ) -> list[SentenceScore]:
        """Score sentences, each by itself; see `Elmo.score`."""
        bilm, text = self.reader.bilm, TextStream(self.vocab)
        for sentence in sentences:
            text.add(sentence)
        stream = text.ids()
        marks = np.flatnonzero(stream == END_ID)
        starts, lengths = marks[:-1], np.diff(marks)
        budget = options.token_budget(bilm.device)
        log_probs: list[NDArray[np.floating]] = [np.empty(0)] * len(lengths)  # (D, n+1) each
        bar = token_bar(int(lengths.sum()), options.show_progress_bar)
        with bar as progress, weights_fixed():
            for batch in plan_batches(lengths, budget, options.batch_size):
                of_batch, _ = next_word_log_probs(
                    bilm,
                    self.softmax,
                    partial(text.vectors, self.reader),
                    stream,
                    Spans(starts[batch], starts[batch], lengths[batch]),
                    start(len(batch)),
                )
                scores, ends = of_batch.cpu().numpy(), np.cumsum(lengths[batch])[:-1]
                require_finite(bool(np.isfinite(scores).all()), "log-probabilities", bilm.dtype)
                for row, of_row in zip(batch, np.split(scores, ends, 1), strict=True):
                    log_probs[row] = of_row.copy()
                progress.update(int(lengths[batch].sum()))
        unknown = (stream == UNKNOWN_ID) | (stream >= len(self.vocab))
        return [
            _sentence_score(sentence, scores, unknown[mark + 1 : mark + 1 + len(sentence)])
            for sentence, scores, mark in zip(sentences, log_probs, marks, strict=False)
        ]

    def predict(
        self,
        sentence: Sequence[str],
        position: int,
        start: StartState,
        k: int = 10,
        direction: Direction = "both",
    ) -> list[Prediction]:
        """Return the most likely words at a position; see `Elmo.predict`."""
        self._check(sentence, position, k, direction)
        with modes_off(self.reader.bilm.device):
            return self._predict(sentence, position, start, k, direction)

    def _predict(
        self,
        sentence: Sequence[str],
        position: int,
        start: StartState,
        k: int,
        direction: Direction,
    ) -> list[Prediction]:
        left, right = sentence[:position], sentence[position + 1 :]
        top = choose_layers("top", self.reader.bilm.config.num_layers, {})
        # The two sides are read as two sentences. The forward stack's output at the end of the left
        # side has not seen its </S>, nor the backward stack's at the start of the right side <S>.
        sides, _ = self.reader.read([_read_as(left), _read_as(right)], start(2), top)
        before, after = (sides.values[0, end] for end in (len(left), len(left) + 3))
        dim = self.reader.bilm.config.lstm.projection_dim
        context = {"left": [before[:dim]], "right": [after[dim:]]}
        hidden = context.get(direction) or context["left"] + context["right"]
        log_probs: Tensor = self.softmax.log_probs(torch.stack(hidden))
        require_finite(log_probs.isfinite().all(), "log-probabilities", self.reader.bilm.dtype)
        total = log_probs.sum(0)
        if len(hidden) == 2:
            # p(w | left, right) = p(w | left) p(w | right) / p(w), if the sides are independent
            # given w. Without the division frequent words win: quotes, commas, articles.
            total = total - zipf_log_probs(len(total)).to(total)
        # <UNK> represents so many words that it would hide all others.
        first = len(SPECIAL_WORDS)
        total = total[first:]
        probabilities, indexes = total.softmax(0).topk(min(k, len(total)))
        return [
            Prediction(self.vocab.words[first + index], probability)
            for index, probability in zip(indexes.tolist(), probabilities.tolist(), strict=True)
        ]

    def evaluate(
        self, sentences: Iterable[Sequence[str]], num_rows: int, show_progress_bar: bool | None
    ) -> Evaluation:
        """Return the perplexity of running text; see `Elmo.evaluate`."""
        text = TextStream(self.vocab)
        for sentence in sentences:
            if len(sentence):
                text.add(sentence)
        if not text.num_sentences:
            raise ElmoxError("the text has no words: nothing to evaluate")
        require_at_least(1, "num_rows", num_rows)
        stream = text.ids()
        with token_bar(len(stream) - 1, show_progress_bar) as progress, weights_fixed():
            nll = stream_nll(
                self.reader.bilm,
                self.softmax,
                partial(text.vectors, self.reader),
                stream,
                num_rows,
                progress=progress.update,
            )
        total = nll.forward + (nll.backward or 0.0)
        require_finite(math.isfinite(total), "log-probabilities", self.reader.bilm.dtype)
        return Evaluation(nll, text.num_sentences, text.num_characters, text.num_unknown_bytes)

    def _check(self, sentence: Sequence[str], position: int, k: int, direction: str) -> None:
        if not 0 <= position <= len(sentence):
            raise ArgumentError(
                "{} of a sentence of {} words: expected 0 to {}, where {} is the index after the "
                "last word",
                Argument("position", position),
                *[len(sentence)] * 3,
            )
        require_at_least(1, "k", k)
        if direction not in get_args(Direction):
            raise ArgumentError(
                "{}: expected both, left or right", Argument("direction", direction)
            )
        if direction != "left" and not self.reader.bilm.config.lstm.bidirectional:
            raise ArgumentError(
                "{}: this model only reads forward, use {}",
                Argument("direction", direction),
                Argument("direction", "left"),
            )
        if len(self.vocab) == len(SPECIAL_WORDS):
            raise ArgumentError(
                "the model's vocabulary has only {}: fine-tune the model with {}",
                ", ".join(SPECIAL_WORDS),
                Argument("new_vocab", True),
            )


def _sentence_score(
    sentence: Sequence[str], log_probs: NDArray[np.floating], unknown: NDArray[np.bool_]
) -> SentenceScore:
    """Make a score of log-probabilities (D, n+1) by position; the backward `<S>` comes first."""
    backward = np.roll(log_probs[1], -1) if len(log_probs) == 2 else None
    return SentenceScore(tuple(sentence), log_probs[0], backward, unknown)


def _read_as(words: Sequence[str]) -> list[str]:
    """Replace boundary marks inside a sentence by unknown words, as `TextStream` does."""
    return [SPECIAL_WORDS[UNKNOWN_ID] if word in SPECIAL_WORDS else word for word in words]
