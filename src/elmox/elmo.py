"""The user's class: text in, ELMo vectors out.

    elmo = Elmo.from_pretrained()                                    # or a path: "weights.hdf5"
    elmo.encode(["I will buy you a present."])                       # (1, D)
    elmo.encode_tokens([["Live", "in", "the", "present"]])           # [(4, D)]
    elmo.predict("I will buy you a ___.")                            # if it has a softmax

Vectors are deterministic: the same sentence gives the same vector alone, in any batch, in any
order. Whoever wants the legacy behavior, in which LSTM state runs on from call to call, asks for
`elmo.stateful()`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.config import BUNDLED
from elmox.errors import ElmoxError
from elmox.inference.document import EncodedDocument, join_sentences
from elmox.inference.encode import BatchOptions, encode_batches
from elmox.inference.evaluation import Evaluation
from elmox.inference.finite import require_range
from elmox.inference.language_model import (
    Direction,
    LanguageModel,
    Prediction,
    SentenceScore,
    build_language_model,
)
from elmox.inference.layer_choice import Layers, choose_layers
from elmox.inference.perplexity import NUM_ROWS
from elmox.inference.runner import Reader
from elmox.inference.similarity import Vectors, normalize, similarity
from elmox.kernels.linear.cpu_int8 import require_int8
from elmox.kernels.torch_modes import not_compiled
from elmox.model.checkpoint import Checkpoint, build_bilm, build_indexer, in_precision
from elmox.model.layer_mix import Mix
from elmox.model.state import CarriedState, LstmState
from elmox.pretrained.load import load_checkpoint, write_directory
from elmox.text.blank import position_of_blank, tokenize_with_blank
from elmox.text.document import Sentence, split_document
from elmox.text.inputs import Text, Texts, checked_tokens, text_list, warn_if_tokens
from elmox.text.tokenize import get_tokenizer

FloatArray: TypeAlias = NDArray[np.float32]
Pooling = Literal["mean", "max"]
StateMode = Literal["zero", "warm"]


class EncodeOptions(TypedDict, total=False):
    """Options that `Elmo.encode` and `Elmo.encode_tokens` share."""

    layers: Layers
    normalize_embeddings: bool
    batch_size: int | None
    batch_tokens: int | None
    show_progress_bar: bool | None
    device: str | torch.device | None


DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.int8,
}
POOLING: dict[str, Callable[[Any], Any]] = {
    "mean": lambda vectors: vectors.mean(-2),
    "max": lambda vectors: vectors.max(-2) if isinstance(vectors, np.ndarray) else vectors.amax(-2),
}


def default_device() -> str:
    """A GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def resolve_device(name: str | None) -> torch.device:
    """The device of that name, or the default one; an `ElmoxError` where it cannot be used."""
    wanted = name or default_device()
    try:
        number = torch.zeros((), device=wanted)
        number.item()  # on "meta" there are none
        return number.device
    except (RuntimeError, AssertionError) as error:  # a torch without CUDA asserts that it has
        raise ElmoxError(f"device={wanted!r}: {str(error).splitlines()[0]}") from error


class Elmo:
    """A pretrained ELMo that turns text into vectors."""

    def __init__(self, checkpoint: Checkpoint, source: str = "the checkpoint") -> None:
        """Most users call `from_pretrained`. `source` names the checkpoint in error messages."""
        self._source = source
        self.description = checkpoint.description
        self.config = checkpoint.config
        self.mixes = dict(checkpoint.mixes)
        self._checkpoint = replace(checkpoint, tensors={})  # the biLM has them
        self._warm_state = checkpoint.warm_state
        self._state: StateMode = "zero"
        self.reader = Reader(build_bilm(checkpoint, source), build_indexer(checkpoint, source))
        self._tokenize = get_tokenizer(checkpoint.config.text.tokenizer)

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path | None = None,
        *,
        options: str | Path | None = None,
        vocab: str | Path | None = None,
        token_embeddings: str | Path | None = None,
        softmax: str | Path | None = None,
        softmax_vocab: str | Path | None = None,
        state: StateMode = "zero",
        device: str | torch.device | None = None,
        dtype: str | torch.dtype = "float32",
    ) -> "Elmo":
        """Load a model.

        Args:
            path: None (or "english-small") for the English model that comes with elmox; an elmox
                model directory; AI2's weights.hdf5 with its options file beside it; an NLPL zip; an
                AllenNLP model.tar.gz; an ELMoForManyLangs folder; or a hub id. What was recognized
                stands in the attribute `found`.
            options: the options file of legacy weights, where it does not lie beside them.
            vocab: the vocabulary of a legacy word model or of `token_embeddings`.
            token_embeddings: bilm-tf's cached token vectors, used in place of the character CNN.
            softmax: AI2's softmax file, for `score`, `predict` and `evaluate`; a model directory
                may have one of its own.
            softmax_vocab: the vocabulary of `softmax`.
            state: "zero" starts every sentence from nothing; "warm" from the state stored with the
                model (see `warm_up`).
            device: "cpu", "cuda", ...; a GPU if there is one by default.
            dtype: "float32", "bfloat16" or "float16"; "int8" for a CPU: the LSTMs' products run in
                8-bit integers, the rest and what is saved in float32.
        """
        checkpoint = load_checkpoint(path, options, vocab, token_embeddings, softmax, softmax_vocab)
        elmo = cls(checkpoint, BUNDLED if path is None else str(path))
        elmo.to(device or ("cpu" if _dtype(dtype) == torch.int8 else default_device()), dtype)
        elmo.state = state
        return elmo

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.reader.bilm.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the computation."""
        bilm = self.reader.bilm
        return torch.int8 if bilm.int8 else bilm.dtype

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.config.dim

    @property
    def num_layers(self) -> int:
        """Layers of representation, the token layer included."""
        return self.config.num_layers

    @property
    def state(self) -> StateMode:
        """Where sentences start: "zero" or "warm"."""
        return self._state

    @state.setter
    def state(self, mode: StateMode) -> None:
        if mode not in ("zero", "warm"):
            raise ElmoxError(f"state={mode!r}: expected 'zero' or 'warm' (or use elmo.stateful())")
        if mode == "warm" and self._warm_state is None:
            raise ElmoxError(
                "state='warm': no warm state is stored with this model; make one with "
                "elmo.warm_up(sentences) and keep it with elmo.save_pretrained(path)"
            )
        self._state = mode

    @torch.inference_mode(False)
    def to(
        self, device: str | torch.device | None = None, dtype: str | torch.dtype | None = None
    ) -> "Elmo":
        """Move the weights, or change their precision; returns itself."""
        bilm, precision = self.reader.bilm, self.dtype if dtype is None else _dtype(dtype)
        int8 = precision == torch.int8
        # Everything is checked before the first weight moves.
        if int8:
            require_int8(str(device or self.device))
        where = resolve_device(str(device)) if device is not None else self.device
        require_range(bilm, precision)
        bilm.to(where, torch.float32 if int8 else precision)
        bilm.int8 = int8
        return self

    @overload  # a string is an iterable of strings, too: the first that matches counts
    def encode_tokens(  # type: ignore[overload-overlap]
        self, sentences: str, *, convert_to_tensor: Literal[True], **options: Unpack[EncodeOptions]
    ) -> Tensor: ...
    @overload
    def encode_tokens(  # type: ignore[overload-overlap]
        self, sentences: str, *, convert_to_numpy: Literal[False], **options: Unpack[EncodeOptions]
    ) -> Tensor: ...
    @overload
    def encode_tokens(  # type: ignore[overload-overlap]
        self,
        sentences: str,
        *,
        convert_to_tensor: Literal[False] = ...,
        convert_to_numpy: Literal[True] = ...,
        **options: Unpack[EncodeOptions],
    ) -> FloatArray: ...
    @overload
    def encode_tokens(
        self,
        sentences: Iterable[Text],
        *,
        convert_to_tensor: Literal[True],
        **options: Unpack[EncodeOptions],
    ) -> list[Tensor]: ...
    @overload
    def encode_tokens(
        self,
        sentences: Iterable[Text],
        *,
        convert_to_numpy: Literal[False],
        **options: Unpack[EncodeOptions],
    ) -> list[Tensor]: ...
    @overload
    def encode_tokens(
        self,
        sentences: Iterable[Text],
        *,
        convert_to_tensor: Literal[False] = ...,
        convert_to_numpy: Literal[True] = ...,
        **options: Unpack[EncodeOptions],
    ) -> list[FloatArray]: ...
    @overload
    def encode_tokens(
        self,
        sentences: Iterable[Text],
        *,
        convert_to_tensor: bool = ...,
        convert_to_numpy: bool = ...,
        **options: Unpack[EncodeOptions],
    ) -> list[FloatArray] | list[Tensor]: ...
    def encode_tokens(
        self,
        sentences: Texts,
        *,
        layers: Layers = "average",
        normalize_embeddings: bool = False,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
        convert_to_numpy: bool = True,
        device: str | torch.device | None = None,
    ) -> FloatArray | Tensor | list[FloatArray] | list[Tensor]:
        """Return a vector per token.

        Args:
            sentences: strings, which the model's own tokenizer splits, or lists of tokens, which
                are taken as they are; in a list, a generator, an array or a column of a table. A
                flat list of strings is a list of sentences.
            layers: "average", "top", "all", "mix", "mix:NAME", one layer's index or several.
            normalize_embeddings: scale every vector to length 1.
            batch_size: maximum number of sentences per batch; None for no limit.
            batch_tokens: maximum number of tokens per batch; None for a default of the device.
            show_progress_bar: None shows a bar on a terminal or in a notebook if the work is long.
            convert_to_tensor: return tensors on the model's device instead of float32 arrays.
            convert_to_numpy: False does the same.
            device: move the model there first.

        Returns:
            For each sentence, in the order given, an array (T, D), or (K, T, D) if `layers` selects
            several; an empty sentence has T = 0. For a single string, its array alone.
        """
        texts = text_list(sentences)
        if not isinstance(sentences, str):
            warn_if_tokens(texts)
        tensors = convert_to_tensor or not convert_to_numpy
        options = BatchOptions(batch_size, batch_tokens, show_progress_bar, tensors)
        finish = normalize if normalize_embeddings else _unchanged
        vectors = self._encode(texts, layers, options, device, finish)
        return vectors[0] if isinstance(sentences, str) else vectors

    @overload
    def encode(
        self,
        sentences: Texts,
        *,
        convert_to_tensor: Literal[True],
        pooling: Pooling = ...,
        **options: Unpack[EncodeOptions],
    ) -> Tensor: ...
    @overload
    def encode(
        self,
        sentences: Texts,
        *,
        convert_to_numpy: Literal[False],
        pooling: Pooling = ...,
        **options: Unpack[EncodeOptions],
    ) -> Tensor: ...
    @overload
    def encode(
        self,
        sentences: Texts,
        *,
        convert_to_tensor: Literal[False] = ...,
        convert_to_numpy: Literal[True] = ...,
        pooling: Pooling = ...,
        **options: Unpack[EncodeOptions],
    ) -> FloatArray: ...
    @overload
    def encode(
        self,
        sentences: Texts,
        *,
        convert_to_tensor: bool = ...,
        convert_to_numpy: bool = ...,
        pooling: Pooling = ...,
        **options: Unpack[EncodeOptions],
    ) -> FloatArray | Tensor: ...
    def encode(
        self,
        sentences: Texts,
        *,
        layers: Layers = "average",
        pooling: Pooling = "mean",
        normalize_embeddings: bool = False,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
        convert_to_numpy: bool = True,
        device: str | torch.device | None = None,
    ) -> FloatArray | Tensor:
        """Return a vector per sentence: the mean (or max) of the vectors of its tokens.

        The other arguments are those of `encode_tokens`.

        Returns:
            (N, D), or (N, K, D) if `layers` selects several; zeros for an empty sentence. For a
            single string, its vector alone.
        """
        if pooling not in POOLING:
            raise ElmoxError(f"pooling={pooling!r}: expected {' or '.join(map(repr, POOLING))}")
        pool = POOLING[pooling]
        texts = text_list(sentences)
        tensors = convert_to_tensor or not convert_to_numpy
        options = BatchOptions(batch_size, batch_tokens, show_progress_bar, tensors)
        # The shape of no sentences is that of one empty sentence, less the sentence.
        pooled = self._encode(
            texts or [[]],
            layers,
            options,
            device,
            # An empty sentence has no mean; its sum is the zeros wanted.
            finish=lambda vectors: pool(vectors) if vectors.shape[-2] else vectors.sum(-2),
        )
        stacked: Any = torch.stack(pooled) if tensors else np.stack(pooled)
        if normalize_embeddings:
            stacked = normalize(stacked)
        vectors: FloatArray | Tensor = stacked[0] if isinstance(sentences, str) else stacked
        return vectors if texts else vectors[:0]

    def split(self, text: str, *, wrapped: bool = False) -> list[Sentence]:
        """Split running text into sentences and tokens, with character offsets.

        Args:
            text: running text, a paragraph per line.
            wrapped: the lines are wrapped, so that only a blank line ends a paragraph.

        Returns:
            The sentences in order, each with `text`, `start`, `end`, `tokens` and `offsets`.
        """
        return split_document(text, self.tokenize, wrapped)

    def encode_document(
        self, text: str, *, wrapped: bool = False, **options: Unpack[EncodeOptions]
    ) -> EncodedDocument:
        """Return a vector per token of running text, with the token's position in the text.

        Args:
            text: running text, a paragraph per line.
            wrapped: the lines are wrapped, so that only a blank line ends a paragraph.
            **options: as in `encode_tokens`.
        """
        sentences = self.split(text, wrapped=wrapped)
        tokens = [sentence.tokens for sentence in sentences]
        vectors = self.encode_tokens(tokens or [[]], **options)
        return join_sentences(text, sentences, vectors)

    @staticmethod
    def similarity(a: Vectors, b: Vectors) -> Vectors:
        """Return the cosine of every vector of `a` with every vector of `b`, (N, M).

        Args:
            a: vectors (N, D), or one vector (D,), as `encode` returns them.
            b: the same, (M, D) or (D,).
        """
        return similarity(a, b)

    @cached_property
    def language_model(self) -> LanguageModel:
        """The biLM with its softmax, which is read when this is first used."""
        return build_language_model(self._checkpoint, self.reader)

    def score(
        self,
        sentences: Texts,
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        show_progress_bar: bool | None = None,
    ) -> list[SentenceScore]:
        """Log-probabilities of sentences and of their words, each sentence by itself.

        Words outside the softmax's vocabulary are scored as `<UNK>`, and flagged.

        Args:
            sentences: strings, which the model's own tokenizer splits, or lists of tokens.
            batch_size: most sentences in a batch; None for no limit.
            batch_tokens: most tokens in a batch; None for what suits the device.
            show_progress_bar: on stderr.
        """
        options = BatchOptions(batch_size, batch_tokens, show_progress_bar)
        return self.language_model.score(self.tokens_of(sentences), self.start_state, options)

    def predict(
        self,
        sentence: Text,
        position: int | None = None,
        k: int = 10,
        direction: Direction = "both",
    ) -> list[Prediction]:
        """The likeliest words at a position of a sentence.

        Args:
            sentence: a string, which the model's own tokenizer splits, or a list of tokens.
            position: index of the word to predict; the word there is not looked at. Its number of
                words is the index after the last one. None: the gap `___`, which in a string may
                touch punctuation ("a ___.") and in a list is a token.
            k: how many words.
            direction: "left" uses the words to its left, "right" those to its right. "both"
                multiplies the two probabilities of each word, divides by the word's frequency
                (Zipf's law, from its rank in the vocabulary) and makes them sum to 1 again.

        Returns:
            Words of the softmax's vocabulary, likeliest first. `<S>`, `</S>` and `<UNK>` are left
            out: the probabilities of all other words sum to 1.
        """
        if position is None and isinstance(sentence, str):
            tokens: Sequence[str] = tokenize_with_blank(sentence, self._tokenize)
        else:
            tokens = self._tokens(0, sentence)
        index = position_of_blank(tokens) if position is None else position
        return self.language_model.predict(tokens, index, self.start_state, k, direction)

    def evaluate(
        self,
        sentences: Texts,
        *,
        num_rows: int = NUM_ROWS,
        show_progress_bar: bool | None = None,
    ) -> Evaluation:
        """Perplexity of running text by the full softmax, and bits per character.

        As in the paper, sentences are read one after the other and the LSTMs' state runs on.

        Args:
            sentences: of a text, in its order: strings or lists of tokens. Empty ones are left out.
            num_rows: parts of the text that are read side by side, each from zero state; short
                texts have fewer.
            show_progress_bar: on stderr.
        """
        texts = [sentences] if isinstance(sentences, str) else sentences
        tokens = (self._tokens(number, sentence) for number, sentence in enumerate(texts))
        return self.language_model.evaluate(tokens, num_rows, show_progress_bar)

    def tokenize(self, text: str) -> list[str]:
        """Split a raw sentence as this model's training text was split."""
        return self._tokenize(text)

    def set_mix(
        self, weights: Sequence[float], gamma: float = 1.0, *, name: str = "default"
    ) -> None:
        """Store a mix of the layers for `layers="mix"`.

        Args:
            weights: w, one number a layer, before the softmax (zeros are the plain average).
            gamma: the factor in front.
            name: for models with several mixes.
        """
        if len(weights) != self.num_layers:
            raise ElmoxError(
                f"{len(weights)} mix weights for {self.num_layers} layers: one a layer"
            )
        self.mixes[name] = Mix(tuple(float(w) for w in weights), float(gamma))

    def warm_up(self, sentences: Sequence[Text]) -> None:
        """Compute a warm start state from some typical text and start from it from now on.

        The sentences are read one after the other with carried state, as training did; the state
        after the last one is kept, also by `save_pretrained`.
        """
        if not len(sentences):
            raise ElmoxError("warm_up needs at least one sentence")
        state = self.reader.zero_state(1)
        choice = choose_layers("top", self.num_layers, {})
        for sentence in self.tokens_of(sentences):
            _, state = self.reader.read([sentence], state, choice)
        self._warm_state = state.to(torch.device("cpu"), torch.float32)
        self._state = "warm"

    def clear_cache(self) -> None:
        """Forget what was computed from the weights: word vectors, packed copies of the weights.

        Changed weights are noticed without it, with one exception: a few elements of a large frozen
        weight, written through `.data` or a NumPy view.
        """
        self.reader.clear_cache()

    def stateful(self) -> "StatefulElmo":
        """The legacy behavior as an object of its own: row by row, state runs on between calls."""
        return StatefulElmo(self)

    def save_pretrained(
        self,
        path: str | Path,
        *,
        dtype: str | torch.dtype | None = None,
        card: str | None = None,
        force: bool = False,
    ) -> None:
        """Write a model directory that `from_pretrained` reads.

        Args:
            path: the directory to make; it appears whole or not at all.
            dtype: "float16" or "bfloat16" store everything at half the size; whoever loads it
                computes with the rounded weights, in float32 by default. None: as it is here.
            card: a model card, in Markdown, instead of the plain one; `{facts}` in it becomes the
                table of what the model is.
            force: replace what is there.
        """
        checkpoint = self.checkpoint()
        if dtype is not None:
            if _dtype(dtype) == torch.int8:
                raise ElmoxError("dtype='int8' is a way to run and not to store: use 'float16'")
            checkpoint = in_precision(checkpoint, _dtype(dtype))
        write_directory(checkpoint, Path(path), force, card)

    def checkpoint(self) -> Checkpoint:
        """The model as a value, with its present mixes and warm state, for converters."""
        return replace(
            self._checkpoint,
            tensors=self.reader.bilm.state_dict(),
            mixes=self.mixes,
            warm_state=self._warm_state,
        )

    def start_state(self, num_rows: int) -> LstmState:
        """The state in which fresh rows begin, by the mode this model is in."""
        if self._state == "zero" or self._warm_state is None:
            return self.reader.zero_state(num_rows)
        return self._warm_state.to(self.device, self.reader.bilm.dtype).expand(num_rows)

    def tokens_of(self, sentences: Texts) -> list[Sequence[str]]:
        """Tokenize strings, check lists of tokens."""
        return [self._tokens(row, sentence) for row, sentence in enumerate(text_list(sentences))]

    @not_compiled
    def _encode(
        self,
        sentences: list[Text],
        layers: Layers,
        options: BatchOptions,
        device: str | torch.device | None,
        finish: Callable[[Any], Any],
    ) -> list[Any]:
        if device is not None:
            self.to(device)
        return encode_batches(
            self.reader,
            self.tokens_of(sentences),
            choose_layers(layers, self.num_layers, self.mixes),
            options,
            start=lambda rows: self.start_state(len(rows)),
            finish=finish,
        )

    def _tokens(self, row: int, sentence: Text) -> Sequence[str]:
        return (
            self._tokenize(sentence) if isinstance(sentence, str) else checked_tokens(row, sentence)
        )

    def __repr__(self) -> str:
        lstm = self.config.lstm
        size = f"{lstm.num_layers} x {lstm.cell_dim} cells"
        return (
            f"Elmo({self._source!r}, {self.num_layers} layers of dim {self.dim}, {size}, "
            f"device={str(self.device)!r}, dtype={str(self.dtype).removeprefix('torch.')!r}, "
            f"state={self._state!r})"
        )


class StatefulElmo:
    """Row i of a call starts where row i of the call before ended, as in bilm-tf and AllenNLP.

    Results depend on everything read before: use it to reproduce legacy vectors. A call with fewer
    rows leaves the others' state as it was; one with more starts the new rows afresh.
    """

    def __init__(self, elmo: Elmo) -> None:
        self._elmo = elmo
        self._carried = CarriedState(elmo.start_state)

    def encode_tokens(
        self,
        sentences: Iterable[Text],
        *,
        layers: Layers = "average",
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
    ) -> list[Any]:
        """As `Elmo.encode_tokens`, for the rows of one call; their batching changes nothing."""
        elmo = self._elmo
        return encode_batches(
            elmo.reader,
            elmo.tokens_of(sentences),
            choose_layers(layers, elmo.num_layers, elmo.mixes),
            BatchOptions(batch_size, batch_tokens, show_progress_bar, convert_to_tensor),
            start=self._carried.start,
            keep_state=self._carried.keep,
        )

    def reset(self) -> None:
        """Forget everything: the next call starts afresh."""
        self._carried.reset()


def _unchanged(vectors: Any) -> Any:
    return vectors


def _dtype(name: str | torch.dtype) -> torch.dtype:
    dtype = DTYPES.get(name) if isinstance(name, str) else name
    if dtype not in DTYPES.values():
        raise ElmoxError(f"dtype={name!r}: expected {', '.join(DTYPES)}")
    assert dtype is not None
    return dtype
