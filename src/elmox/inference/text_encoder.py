"""Text to vectors with a frozen biLM: the encoding half of `elmox.Elmo`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, TypeVar, Unpack, cast, get_args, overload

import torch
from torch import Tensor

from elmox.config import ElmoConfig
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.inference.device import resolve_device, resolve_dtype
from elmox.inference.document import EncodedDocument, join_sentences
from elmox.inference.encode import BatchEncoder, BatchOptions
from elmox.inference.finite import require_range
from elmox.inference.layer_choice import LayerChoice, Layers, choose_layers
from elmox.inference.outputs import (
    ARRAYS,
    TENSORS,
    ArrayOptions,
    EitherOptions,
    EncodeOptions,
    FloatArray,
    NoArrayOptions,
    Output,
    Pooling,
    TensorOptions,
)
from elmox.inference.runner import Reader
from elmox.inference.sentence_vectors import Finish, Rows, lengths_of, plain, weighted
from elmox.inference.similarity import Vectors, normalize, similarity
from elmox.inference.vector_shape import VectorShape
from elmox.inference.warm_state import mean_state
from elmox.inference.workers import encode_in_workers
from elmox.kernels.linear.cpu_int8 import require_int8
from elmox.kernels.torch_modes import not_compiled
from elmox.model.layer_mix import Mix
from elmox.model.state import CarriedState, LstmState
from elmox.model.weighted_pooling import WeightedPooling
from elmox.text.document import Sentence, split_document
from elmox.text.inputs import Text, Texts, checked_tokens, text_list, warn_if_tokens
from elmox.text.tokenize import get_tokenizer

StateMode: TypeAlias = Literal["zero", "warm"]
T = TypeVar("T")
V = TypeVar("V", Tensor, FloatArray)


@dataclass
class Start:
    """The start state of every sentence: zeros, or a stored warm state (one row)."""

    mode: StateMode = "zero"
    warm: LstmState | None = None


class TextEncoder(VectorShape):
    """A biLM with its tokenizer, its mixes and its start state.

    Attributes:
        reader: the biLM that reads words.
        config: its architecture.
        mixes: learned mixes of its layers, by name.
        start: the start state of every sentence.
        pooling: what `pooling="weighted"` of `encode` uses, if the model has it.
    """

    def __init__(
        self,
        reader: Reader,
        mixes: dict[str, Mix],
        start: Start,
        carried: CarriedState | None = None,
        pooling: WeightedPooling | None = None,
    ) -> None:
        """Args:
        reader: the biLM that reads words.
        mixes: learned mixes of its layers, by name.
        start: the start state of every sentence.
        carried: state from which each row continues instead, and which is updated.
        pooling: for `pooling="weighted"`.
        """
        self.reader = reader
        self.config: ElmoConfig = reader.bilm.config
        self.mixes = mixes
        self.start = start
        self.pooling = pooling
        self._carried = carried
        self._tokenize = get_tokenizer(self.config.text.tokenizer)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.reader.bilm.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the computation."""
        bilm = self.reader.bilm
        return torch.int8 if bilm.int8 else bilm.dtype

    @property
    def state(self) -> StateMode:
        """The start state of every sentence: "zero" or "warm"."""
        return self.start.mode

    @state.setter
    def state(self, mode: StateMode) -> None:
        if mode not in get_args(StateMode):
            raise ArgumentError(
                "{}: expected 'zero' or 'warm' (or use elmo.stateful())", Argument("state", mode)
            )
        if mode == "warm" and self.start.warm is None:
            raise ArgumentError(
                "{}: no warm state is stored with this model; make one with "
                "elmo.warm_up(sentences) and keep it with elmo.save_pretrained(path)",
                Argument("state", mode),
            )
        self.start.mode = mode

    @torch.inference_mode(False)
    def to(
        self, device: str | torch.device | None = None, dtype: str | torch.dtype | None = None
    ) -> Self:
        """Move the weights, or change their precision.

        Everything is checked before the first weight moves: after an error nothing has changed.

        Args:
            device: "cpu", "cuda", ...; None for no change.
            dtype: "float32", "bfloat16", "float16" or "int8"; None for no change.

        Returns:
            This model.
        """
        precision = self.dtype if dtype is None else resolve_dtype(dtype)
        is_int8 = precision == torch.int8
        if is_int8:
            require_int8(str(device or self.device))
        target = self.device if device is None else resolve_device(device)
        bilm = self.reader.bilm
        require_range(bilm, precision)
        bilm.to(target, torch.float32 if is_int8 else precision)
        bilm.int8 = is_int8
        return self

    def tokenize(self, text: str) -> list[str]:
        """Split a raw sentence as this model's training text was split."""
        return self._tokenize(text)

    @overload  # a string is an iterable of strings, too: the first that matches counts
    def encode_tokens(  # type: ignore[overload-overlap]
        self, sentences: str, **options: Unpack[ArrayOptions]
    ) -> FloatArray: ...
    @overload
    def encode_tokens(  # type: ignore[overload-overlap]
        self, sentences: str, **options: Unpack[TensorOptions]
    ) -> Tensor: ...
    @overload
    def encode_tokens(  # type: ignore[overload-overlap]
        self, sentences: str, **options: Unpack[NoArrayOptions]
    ) -> Tensor: ...
    @overload
    def encode_tokens(  # type: ignore[overload-overlap]
        self, sentences: str, **options: Unpack[EitherOptions]
    ) -> FloatArray | Tensor: ...
    @overload
    def encode_tokens(
        self, sentences: Iterable[Text], **options: Unpack[ArrayOptions]
    ) -> list[FloatArray]: ...
    @overload
    def encode_tokens(
        self, sentences: Iterable[Text], **options: Unpack[TensorOptions]
    ) -> list[Tensor]: ...
    @overload
    def encode_tokens(
        self, sentences: Iterable[Text], **options: Unpack[NoArrayOptions]
    ) -> list[Tensor]: ...
    @overload
    def encode_tokens(
        self, sentences: Iterable[Text], **options: Unpack[EitherOptions]
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
        num_workers: int = 0,
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
            num_workers: processes that encode on one CPU thread each, forked for this call; 0
                encodes in this process, on torch's threads.

        Returns:
            For each sentence, in the order given, an array (T, D), or (K, T, D) if `layers` selects
            several; an empty sentence has T = 0. For a single string, its array alone.
        """
        texts = text_list(sentences)
        is_single = isinstance(sentences, str)
        if not is_single:
            warn_if_tokens(texts)
        batches = BatchOptions(batch_size, batch_tokens, show_progress_bar, num_workers)
        if convert_to_tensor or not convert_to_numpy:
            tensors = self._token_vectors(
                TENSORS, texts, layers, normalize_embeddings, batches, device
            )
            return tensors[0] if is_single else tensors
        arrays = self._token_vectors(ARRAYS, texts, layers, normalize_embeddings, batches, device)
        return arrays[0] if is_single else arrays

    @overload
    def encode(
        self, sentences: Texts, *, pooling: Pooling = ..., **options: Unpack[ArrayOptions]
    ) -> FloatArray: ...
    @overload
    def encode(
        self, sentences: Texts, *, pooling: Pooling = ..., **options: Unpack[TensorOptions]
    ) -> Tensor: ...
    @overload
    def encode(
        self, sentences: Texts, *, pooling: Pooling = ..., **options: Unpack[NoArrayOptions]
    ) -> Tensor: ...
    @overload
    def encode(
        self, sentences: Texts, *, pooling: Pooling = ..., **options: Unpack[EitherOptions]
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
        num_workers: int = 0,
    ) -> FloatArray | Tensor:
        """Return a vector per sentence, pooled from the vectors of its tokens.

        No pooling makes a sentence encoder: for sentences that mean the same in other words, train
        one on the frozen model (`elmox.integrations.sentence_transformers`).

        Args:
            sentences: as in `encode_tokens`.
            layers: as in `encode_tokens`.
            pooling: "mean" or "max" of the tokens, as features of a classifier; or "weighted", for
                cosines: rare words count more, and what all sentences share is removed, by the
                statistics that `fit_pooling` stored with the model. `docs/model.md` compares them.
            normalize_embeddings: scale every vector to length 1.
            batch_size: as in `encode_tokens`, like all that follow.
            batch_tokens: maximum number of tokens per batch.
            show_progress_bar: None shows a bar if the work is long.
            convert_to_tensor: return a tensor.
            convert_to_numpy: False does the same.
            device: move the model there first.
            num_workers: processes that encode, for machines with many cores.

        Returns:
            (N, D), or (N, K, D) if `layers` selects several; zeros for an empty sentence. For a
            single string, its vector alone.
        """
        self.check_pooling(pooling)
        texts = text_list(sentences)
        is_single = isinstance(sentences, str)
        batches = BatchOptions(batch_size, batch_tokens, show_progress_bar, num_workers)
        if convert_to_tensor or not convert_to_numpy:
            tensors = self._sentence_vectors(
                TENSORS, texts, layers, pooling, normalize_embeddings, batches, device
            )
            return tensors[0] if is_single else tensors
        arrays = self._sentence_vectors(
            ARRAYS, texts, layers, pooling, normalize_embeddings, batches, device
        )
        return cast(FloatArray, arrays[0]) if is_single else arrays

    def check_pooling(self, pooling: Pooling) -> None:
        """Raise an error unless this model has a pooling of that name."""
        if pooling not in get_args(Pooling):
            raise ArgumentError(
                "{}: expected 'mean', 'max' or 'weighted'", Argument("pooling", pooling)
            )
        if pooling == "weighted" and self.pooling is None:
            raise ArgumentError(
                "{}: this model has no weighted pooling; fit one to unlabeled text with "
                "elmo.fit_pooling(sentences) and keep it with elmo.save_pretrained(path)",
                Argument("pooling", pooling),
            )

    def weighted_vectors(
        self, sentences: list[Sequence[str]], pooling: WeightedPooling, options: BatchOptions
    ) -> FloatArray:
        """Return sentence vectors of all layers by a given pooling, (B, J, D)."""
        pool = weighted(ARRAYS, sentences, pooling, self._choice("all"))
        return ARRAYS.stack(self._encode(sentences, "all", options, None, pool))

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

    def set_mix(
        self, weights: Sequence[float], gamma: float = 1.0, *, name: str = "default"
    ) -> None:
        """Store a mix of the layers for `layers="mix"`.

        Args:
            weights: w, one number per layer, before the softmax (zeros are the plain average).
            gamma: the factor in front.
            name: for models with several mixes.
        """
        if len(weights) != self.num_layers:
            raise ElmoxError(
                f"{len(weights)} mix weights for {self.num_layers} layers: expected one per layer"
            )
        self.mixes[name] = Mix(tuple(float(w) for w in weights), float(gamma))

    def warm_up(self, sentences: Sequence[Text]) -> None:
        """Compute a warm start state from some typical text and start from it from now on.

        The sentences are read with carried state, as in training. The mean of the states after many
        sentences is kept, also by `save_pretrained`: thousands of sentences from different texts
        give a state without a topic.
        """
        self.start.warm = mean_state(self.reader, self.tokens_of(sentences))
        self.start.mode = "warm"

    def clear_cache(self) -> None:
        """Discard what was computed from the weights: word vectors, packed copies of the weights.

        Changed weights are noticed without it, with one exception: a few elements of a large frozen
        weight, written through `.data` or a NumPy view.
        """
        self.reader.clear_cache()

    def start_state(self, num_rows: int) -> LstmState:
        """Return the state in which new rows begin, by the model's `state`."""
        if self.start.mode == "zero" or self.start.warm is None:
            return self.reader.zero_state(num_rows)
        return self.start.warm.to(self.device, self.reader.bilm.dtype).expand(num_rows)

    def tokens_of(self, sentences: Texts) -> list[Sequence[str]]:
        """Tokenize strings, check lists of tokens."""
        return [self._tokens(row, sentence) for row, sentence in enumerate(text_list(sentences))]

    def _tokens(self, row: int, sentence: Text) -> Sequence[str]:
        if isinstance(sentence, str):
            return self._tokenize(sentence)
        return checked_tokens(row, sentence)

    def _token_vectors(
        self,
        output: Output[V],
        texts: list[Text],
        layers: Layers,
        normalized: bool,
        options: BatchOptions,
        device: str | torch.device | None,
    ) -> list[V]:
        sentences = self.tokens_of(texts)

        def finish(values: Tensor, rows: Rows) -> list[V]:
            vectors = output.split(values, lengths_of(sentences, rows))
            return [normalize(each) for each in vectors] if normalized else vectors

        return self._encode(sentences, layers, options, device, finish)

    def _sentence_vectors(
        self,
        output: Output[V],
        texts: list[Text],
        layers: Layers,
        pooling: Pooling,
        normalized: bool,
        options: BatchOptions,
        device: str | torch.device | None,
    ) -> V:
        # The shape of no sentences is that of one empty sentence, less the sentence.
        sentences = self.tokens_of(texts or [[]])
        if pooling == "weighted":
            assert self.pooling is not None
            pool = weighted(output, sentences, self.pooling, self._choice(layers))
            pooled = self._encode(sentences, "all", options, device, pool)
        else:
            pool = plain(output, sentences, pooling)
            pooled = self._encode(sentences, layers, options, device, pool)
        stacked = output.stack(pooled)[: len(texts)]
        return normalize(stacked) if normalized else stacked

    def _choice(self, layers: Layers) -> LayerChoice:
        return choose_layers(layers, self.num_layers, self.mixes)

    @not_compiled
    def _encode(
        self,
        sentences: Sequence[Sequence[str]],
        layers: Layers,
        options: BatchOptions,
        device: str | torch.device | None,
        finish: Finish[T],
    ) -> list[T]:
        if device is not None:
            self.to(device)
        carried = self._carried
        encoder = BatchEncoder(
            self.reader,
            self._choice(layers),
            options,
            carried.start if carried else lambda rows: self.start_state(len(rows)),
        )
        if not options.num_workers:
            return encoder.encode(sentences, finish, carried.keep if carried else None)
        if carried:
            raise ArgumentError(
                "{}: state cannot be carried from process to process; expected 0",
                Argument("num_workers", options.num_workers),
            )
        return encode_in_workers(encoder, sentences, finish)
