"""ELMo from an export: the `encode` and `encode_tokens` of `Elmo`, over onnxruntime, without torch.

    elmo = OnnxElmo.from_pretrained("elmo-onnx")
    elmo.encode(["I will buy you a present."])                # (1, D)
    elmo.encode_tokens([["Live", "in", "the", "present"]])    # [(4, D)]

Sentences are sorted by length before they are batched and words before they are spelled, so that
little is computed for padding. Vectors do not depend on batch, order or padding.

Shapes: B sentences, T tokens, U distinct words, J layers, K selected layers, D width of a vector,
P projection.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from elmox.errors import (
    Argument,
    ArgumentError,
    ElmoxError,
    install_hint,
    require_at_least,
)
from elmox.export.batches import plan_padded_batches
from elmox.export.folder import (
    CONTEXT_GRAPH,
    SINGLE_GRAPH,
    SOFTMAX_GRAPH,
    STATE_FILE,
    WORDS_GRAPH,
    OnnxConfig,
    build_word_indexer,
    graph_path,
    mix_coefficients,
    read_config,
)
from elmox.export.word_vectors import WordVectors
from elmox.inference.layer_coefficients import Layers, layer_coefficients
from elmox.inference.vector_shape import VectorShape
from elmox.io.files import read_json
from elmox.io.inputs import MAX_WORDS_BYTES
from elmox.text.batches import index_sentences
from elmox.text.inputs import Text, Texts, checked_tokens, text_list, warn_if_tokens
from elmox.text.tokenize import get_tokenizer

FloatArray: TypeAlias = NDArray[np.float32]
Int32Array: TypeAlias = NDArray[np.int32]
Pooling: TypeAlias = Literal["mean", "max"]

MAX_BATCH_TOKENS = 2048  # more than the small models' 1024 fills their caches with gates
MIN_STEP_COST = 4  # rows, see `plan_padded_batches`; measured, like the next
WEIGHTS_PER_ROW = 2**15  # weights that are read in the time that one row takes to compute
WORDS_ENCODED_AT_ONCE = 128
CACHED_WORDS = 2**15
_TINY = 1e-12


class _Options(TypedDict, total=False):
    """Options that `encode` and `encode_tokens` of `OnnxElmo` share."""

    layers: Layers
    batch_size: int | None
    batch_tokens: int | None
    show_progress_bar: bool | None


@dataclass(frozen=True)
class OnnxState:
    """Start or final state of B rows, as in `elmox.model.state`."""

    hidden: FloatArray  # (L, D, B, P)
    cell: FloatArray  # (L, D, B, C)

    def expand(self, num_rows: int) -> "OnnxState":
        """Return one row's state for each of `num_rows` rows."""
        return OnnxState(*(np.repeat(part, num_rows, axis=2) for part in (self.hidden, self.cell)))


class OnnxElmo(VectorShape):
    """An exported ELMo that turns text into vectors."""

    def __init__(self, folder: Path, num_threads: int | None, state: str) -> None:
        """Most users call `from_pretrained`."""
        self.config: OnnxConfig = read_config(folder)
        self._folder = folder
        self._num_threads = num_threads
        self._indexer = build_word_indexer(folder, self.config)
        self._tokenize = get_tokenizer(self.config.tokenizer)
        if self.config.single:
            self._graph = self._session(SINGLE_GRAPH)
        else:
            self._graph = self._session(CONTEXT_GRAPH)
            self._words_graph = self._session(WORDS_GRAPH)
            self._words = WordVectors(self._encode_words, CACHED_WORDS)
        self.state = state

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        state: Literal["zero", "warm"] = "zero",
        num_threads: int | None = None,
    ) -> "OnnxElmo":
        """Load an export.

        Args:
            path: a folder that `export_onnx` or `elmox export` wrote.
            state: "zero" starts every sentence from nothing, "warm" from the state stored with the
                model. The latter needs an export with `state=True`.
            num_threads: threads of onnxruntime; None for its default, one per core.
        """
        require_at_least(1, "num_threads", num_threads)
        return cls(Path(path), num_threads, state)

    @property
    def state(self) -> str:
        """Start state of sentences: "zero" or "warm"."""
        return "zero" if self._start is None else "warm"

    @state.setter
    def state(self, mode: str) -> None:
        if mode not in ("zero", "warm"):
            raise ElmoxError(f"state={mode!r}: expected 'zero' or 'warm'")
        if mode == "warm" and not self.config.warm_state:
            raise ElmoxError(
                f"state='warm': {self._folder} holds no warm state; export a model that has one "
                "with state=True"
            )
        self._start = self._warm_state() if mode == "warm" else None

    def tokenize(self, text: str) -> list[str]:
        """Split a raw sentence as the model's training text was split."""
        return self._tokenize(text)

    @overload  # a string is an iterable of strings, too: the first that matches counts
    def encode_tokens(  # type: ignore[overload-overlap]
        self, sentences: str, *, normalize_embeddings: bool = ..., **options: Unpack[_Options]
    ) -> FloatArray: ...
    @overload
    def encode_tokens(
        self,
        sentences: Iterable[Text],
        *,
        normalize_embeddings: bool = ...,
        **options: Unpack[_Options],
    ) -> list[FloatArray]: ...
    def encode_tokens(
        self, sentences: Texts, *, normalize_embeddings: bool = False, **options: Unpack[_Options]
    ) -> FloatArray | list[FloatArray]:
        """Return a vector per token.

        Args:
            sentences: strings, which the model's own tokenizer splits, or lists of tokens. A flat
                list of strings is a list of sentences.
            normalize_embeddings: scale every vector to length 1.
            **options: as follows.
            layers: "average" (the default), "top", "all", "mix", "mix:NAME", one layer's index or
                several.
            batch_size: maximum number of sentences per batch; None for no limit.
            batch_tokens: maximum number of tokens per batch; None for a default.
            show_progress_bar: None shows a bar on a terminal or in a notebook if the work is long.

        Returns:
            For each sentence, in the order given, an array (T, D), or (K, T, D) if `layers` selects
            several; an empty sentence has T = 0. For a single string, its array alone.
        """
        texts = text_list(sentences)
        if not isinstance(sentences, str):
            warn_if_tokens(texts)
        finish = _normalized if normalize_embeddings else np.array  # a copy, not a view of a batch
        vectors = self._encode(texts, finish, **options)
        return vectors[0] if isinstance(sentences, str) else vectors

    def encode(
        self,
        sentences: Texts,
        *,
        pooling: Pooling = "mean",
        normalize_embeddings: bool = False,
        **options: Unpack[_Options],
    ) -> FloatArray:
        """Return a vector per sentence: the mean (or max) of the vectors of its tokens.

        The other arguments are those of `encode_tokens`.

        Returns:
            (N, D), or (N, K, D) if `layers` selects several; zeros for an empty sentence. For a
            single string, its vector alone.
        """
        if pooling not in ("mean", "max"):
            raise ElmoxError(
                f"pooling={pooling!r}: expected 'mean' or 'max'; other poolings need elmox.Elmo"
            )
        texts = text_list(sentences)
        pool = partial(_pooled, pooling=pooling)
        # The shape for no sentences is that for one empty sentence, without the sentence.
        vectors = np.stack(self._encode(texts or [[]], pool, **options))
        if normalize_embeddings:
            vectors = _normalized(vectors)
        vectors = vectors if texts else vectors[:0]
        return vectors[0] if isinstance(sentences, str) else vectors

    def read(
        self, sentences: Sequence[Sequence[str]], state: OnnxState | None = None
    ) -> tuple[FloatArray, OnnxState | None]:
        """Run one batch through the graphs as it is.

        Args:
            sentences: B tokenized sentences; an empty one is its two boundaries.
            state: start state of the B rows, if the export has `state=True`; None for zeros.

        Returns:
            Layers (J, B, T, D) with both boundaries, zero beyond a sentence's end; and the final
            state, None for an export without.
        """
        batch = index_sentences(sentences, self._indexer.begin, self._indexer.end)
        num_steps = int(batch.lengths.max())
        index = np.zeros((len(sentences), num_steps), np.int32)
        index[np.arange(num_steps) < batch.lengths[:, None]] = batch.index
        feeds: dict[str, NDArray[Any]] = {
            "index": index,
            "lengths": batch.lengths.astype(np.int32),
        }
        if self.config.single:
            feeds |= self._word_feeds(batch.words)
        else:
            feeds["vectors"] = self._words.vectors(batch.words)
        if not self.config.state:
            if state is not None:
                raise ArgumentError(
                    "{} was exported without a start state: export it with {}",
                    *(self._folder, Argument("state", True)),
                )
            return self._graph.run(["layers"], feeds)[0], None
        state = state or self._zero_state(len(sentences))
        feeds |= {"hidden": state.hidden, "cell": state.cell}
        layers, hidden, cell = self._graph.run(["layers", "final_hidden", "final_cell"], feeds)
        return layers, OnnxState(hidden, cell)

    def log_probs(self, hidden: FloatArray) -> FloatArray:
        """Return log-probabilities of the softmax's words, (N, V), for an export with a softmax.

        Args:
            hidden: (N, P) one direction's half of the top layer. The forward half at a token
                predicts the next token, the backward half the one before.
        """
        log_probs: FloatArray = self._softmax_graph.run(["log_probs"], {"hidden": hidden})[0]
        return log_probs

    def clear_cache(self) -> None:
        """Forget the vectors of all words."""
        if not self.config.single:
            self._words.clear()

    @cached_property
    def _softmax_graph(self) -> Any:
        if not self.config.softmax:
            raise ArgumentError(
                "{} was exported without a softmax: export it with {}",
                *(self._folder, Argument("softmax", True)),
            )
        return self._session(SOFTMAX_GRAPH)

    def _encode(
        self,
        texts: list[Text],
        finish: Callable[[FloatArray], FloatArray],
        *,
        layers: Layers = "average",
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        show_progress_bar: bool | None = None,
    ) -> list[FloatArray]:
        """Encode sentences; `finish` is applied to each one's vectors, (T, D) or (K, T, D)."""
        require_at_least(1, "batch_size", batch_size)
        require_at_least(1, "batch_tokens", batch_tokens)
        coefficients, single = layer_coefficients(layers, self.num_layers, self._mixes)
        tokens = [self._tokens(row, text) for row, text in enumerate(texts)]
        lengths = np.array([len(sentence) for sentence in tokens], np.int64)
        num_selected = self.num_layers if coefficients is None else len(coefficients)
        empty = np.zeros((0, self.dim) if single else (num_selected, 0, self.dim), np.float32)
        vectors = [finish(empty) if length == 0 else empty for length in lengths]
        rows = np.flatnonzero(lengths)
        with _progress(int(lengths.sum()), show_progress_bar) as progress:
            batches = plan_padded_batches(
                lengths[rows] + 2,
                batch_tokens or min(MAX_BATCH_TOKENS, 256 * self._step_cost),
                batch_size,
                self._step_cost,
            )
            for batch in batches:
                batch_rows = rows[batch].tolist()
                start = None if self._start is None else self._start.expand(len(batch_rows))
                output, _ = self.read([tokens[row] for row in batch_rows], start)
                selected = _select(output, coefficients)  # (K, B, T, D)
                for position, row in enumerate(batch_rows):
                    sentence = selected[:, position, 1 : lengths[row] + 1]
                    vectors[row] = finish(sentence[0] if single else sentence)
                if progress is not None:
                    progress.update(int(lengths[batch_rows].sum()))
        return vectors

    @property
    def _step_cost(self) -> int:
        """Cost of reading the weights of a time step, in rows."""
        weights = self.config.cell_dim * self.config.projection_dim
        return max(MIN_STEP_COST, weights // WEIGHTS_PER_ROW)

    @cached_property
    def _mixes(self) -> dict[str, Callable[[], FloatArray]]:
        return {
            name: partial(np.array, coefficients, np.float32)
            for name, coefficients in mix_coefficients(self.config).items()
        }

    def _tokens(self, row: int, text: Text) -> Sequence[str]:
        return self._tokenize(text) if isinstance(text, str) else checked_tokens(row, text)

    def _encode_words(self, words: Sequence[str]) -> FloatArray:
        """Return vectors of distinct words, (U, P), short words first so that slots are few."""
        order = sorted(range(len(words)), key=lambda i: len(words[i].encode("utf-8", "ignore")))
        vectors = np.empty((len(words), self.config.projection_dim), np.float32)
        for start in range(0, len(order), WORDS_ENCODED_AT_ONCE):
            part = order[start : start + WORDS_ENCODED_AT_ONCE]
            feeds = self._word_feeds([words[i] for i in part])
            vectors[part] = self._words_graph.run(["vectors"], feeds)[0]
        return vectors

    def _word_feeds(self, words: Sequence[str]) -> dict[str, NDArray[Any]]:
        table = self._indexer(words)
        feeds: dict[str, NDArray[Any]] = {}
        spelling = self.config.spelling
        if spelling is not None:
            assert table.spelling is not None
            needed = int(table.spelling.lengths.max()) + spelling.widest_filter
            num_slots = min(spelling.max_characters, needed)
            feeds["characters"] = table.spelling.ids[:, :num_slots].astype(np.int32)
        if table.ids is not None:
            feeds["words"] = table.ids.astype(np.int32)
        return feeds

    def _session(self, name: str) -> Any:
        ort = import_onnxruntime()
        options = ort.SessionOptions()
        if self._num_threads is not None:
            options.intra_op_num_threads = self._num_threads
            options.inter_op_num_threads = self._num_threads
        path = str(graph_path(self._folder, name))
        try:
            return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises classes of its own, with no common base
            raise ElmoxError(f"{path} cannot be loaded: {str(error).splitlines()[0]}") from error

    def _zero_state(self, num_rows: int) -> OnnxState:
        config = self.config
        rows = (config.num_layers - 1, config.num_directions, num_rows)
        return OnnxState(
            np.zeros((*rows, config.projection_dim), np.float32),
            np.zeros((*rows, config.cell_dim), np.float32),
        )

    def _warm_state(self) -> OnnxState:
        stored = read_json(self._folder / STATE_FILE, MAX_WORDS_BYTES)
        return OnnxState(*(np.array(stored[part], np.float32) for part in ("hidden", "cell")))

    def __repr__(self) -> str:
        return (
            f"OnnxElmo({str(self._folder)!r}, {self.num_layers} layers of dim {self.dim}, "
            f"weights={self.config.weights!r}, state={self.state!r})"
        )


def import_onnxruntime() -> Any:
    """Import onnxruntime, or raise an error that names the package to install."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ElmoxError(
            f"ONNX models run with onnxruntime, which cannot be imported ({error}): "
            f"{install_hint('onnx')}"
        ) from error
    return onnxruntime


def _select(layers: FloatArray, coefficients: FloatArray | None) -> FloatArray:
    """Return the selected combinations of the layers: (J, B, T, D) -> (K, B, T, D)."""
    if coefficients is None:
        return layers
    if len(coefficients) == 1 and np.count_nonzero(coefficients) == 1 and coefficients.max() == 1:
        selected: FloatArray = layers[coefficients.argmax(1)]
    else:
        selected = np.tensordot(coefficients, layers, axes=1)
    return selected


def _pooled(vectors: FloatArray, pooling: str) -> FloatArray:
    """Pool the tokens of one sentence: (T, D) -> (D,)."""
    if vectors.shape[-2] == 0:
        pooled: FloatArray = vectors.sum(-2)  # no tokens have no mean; their sum is zero
    else:
        pooled = vectors.mean(-2) if pooling == "mean" else vectors.max(-2)
    return pooled


def _normalized(vectors: FloatArray) -> FloatArray:
    """Scale vectors (..., D) to length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    normalized: FloatArray = vectors / np.maximum(lengths, _TINY)
    return normalized


def _progress(num_tokens: int, show: bool | None) -> AbstractContextManager[Any]:
    """Return a progress bar, or None where tqdm is not installed and no bar was requested."""
    if show is False:
        return nullcontext()
    try:
        from elmox.io.progress import token_bar

        bar: AbstractContextManager[Any] = token_bar(num_tokens, show)
    except ModuleNotFoundError as error:
        if show:
            raise ElmoxError("show_progress_bar=True needs tqdm: pip install tqdm") from error
        return nullcontext()
    return bar
