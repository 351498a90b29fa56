"""The user's class: text in, ELMo vectors out.

    elmo = Elmo.from_pretrained()                                    # or a path: "weights.hdf5"
    elmo.encode(["I will buy you a present."])                       # (1, D)
    elmo.encode_tokens([["Live", "in", "the", "present"]])           # [(4, D)]
    elmo.predict("I will buy you a ___.")                            # if it has a softmax

Vectors are deterministic: the same sentence gives the same vector alone, in any batch, in any
order. `elmo.stateful()` has the legacy behavior, in which LSTM state is carried from call to call.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

import torch

from elmox.config import BUNDLED
from elmox.inference.device import device_for, resolve_dtype
from elmox.inference.encode import BatchOptions
from elmox.inference.evaluation import Evaluation
from elmox.inference.fit_pooling import NUM_DIRECTIONS, SMOOTHING, fit_weighted_pooling
from elmox.inference.language_model import (
    Direction,
    LanguageModel,
    Prediction,
    SentenceScore,
    build_language_model,
)
from elmox.inference.perplexity import NUM_ROWS
from elmox.inference.runner import Reader
from elmox.inference.stateful import StatefulElmo
from elmox.inference.text_encoder import Start, StateMode, TextEncoder
from elmox.model.checkpoint import (
    Checkpoint,
    build_bilm,
    build_indexer,
    checkpoint_digest,
    in_precision,
)
from elmox.pretrained.hub import Token, upload
from elmox.pretrained.load import ModelFiles, ModelReference, load_checkpoint
from elmox.pretrained.native import PARTS, Part, write_directory
from elmox.text.blank import position_of_blank, tokenize_with_blank
from elmox.text.inputs import Text, Texts, check_texts


class LoadOptions(ModelFiles, total=False):
    """Options of `Elmo.from_pretrained`."""

    revision: str | None
    token: Token
    state: StateMode
    device: str | torch.device | None
    dtype: str | torch.dtype


class Elmo(TextEncoder):
    """A pretrained ELMo that turns text into vectors, and predicts words if it has a softmax.

    Attributes:
        description: what was loaded, in words.
        reference: where the model can be loaded from again; None if it was not loaded by name.
        reader: the biLM that reads words.
        config: its architecture.
        mixes: learned mixes of its layers, by name.
        pooling: what `pooling="weighted"` of `encode` uses, if the model has it.
    """

    def __init__(self, checkpoint: Checkpoint, source: str = "the checkpoint") -> None:
        """Most users call `from_pretrained`. `source` names the checkpoint in error messages."""
        reader = Reader(build_bilm(checkpoint, source), build_indexer(checkpoint, source))
        start = Start(warm=checkpoint.warm_state)
        super().__init__(reader, dict(checkpoint.mixes), start, pooling=checkpoint.pooling)
        self.description = checkpoint.description
        self.reference: ModelReference | None = None
        self._source = source
        self._checkpoint = replace(checkpoint, tensors={})  # the biLM has them

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path | None = None,
        *,
        revision: str | None = None,
        token: Token = None,
        state: StateMode = "zero",
        device: str | torch.device | None = None,
        dtype: str | torch.dtype = "float32",
        verify: bool = True,
        **files: Unpack[ModelFiles],
    ) -> "Elmo":
        """Load a model.

        Args:
            path: None (or "english-small") for the English model that comes with elmox; an elmox
                model directory; a model of another program (`elmox.pretrained.formats` lists them),
                AI2's with its options file next to it; or a hub id, `owner/name`. The attribute
                `description` names the recognized format.
            revision: branch, tag or commit of a hub id.
            token: access token for a hub id; True for the one that is stored on this machine.
            state: "zero" starts every sentence from zeros; "warm" from the state stored with the
                model (see `warm_up`).
            device: "cpu", "cuda", ...; a GPU if there is one by default.
            dtype: "float32", "bfloat16" or "float16"; "int8" for a CPU: the LSTMs' products run in
                8-bit integers, everything else in float32, which is also what is saved.
            verify: compare the files of a model directory with the checksums in it.
            **files: files of a legacy model, by name, all of which follow here.
            options: the options file of legacy weights, if it is not next to them.
            vocab: the vocabulary of a legacy word model, of `token_embeddings` or of a TensorFlow
                checkpoint's softmax.
            token_embeddings: bilm-tf's cached token vectors, used in place of the character CNN.
            softmax: AI2's softmax file, for `score`, `predict` and `evaluate`; a model directory
                may have a softmax of its own.
            softmax_vocab: the vocabulary of `softmax`.
        """
        checkpoint = load_checkpoint(path, revision=revision, token=token, verify=verify, **files)
        elmo = cls(checkpoint, BUNDLED if path is None else str(path))
        elmo.reference = ModelReference.of(path, revision, **files)
        elmo.to(device_for(dtype, device), dtype)
        elmo.state = state
        return elmo

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
        """Return log-probabilities of sentences and of their words, each sentence by itself.

        Words outside the softmax's vocabulary are scored as `<UNK>`, and flagged.

        Args:
            sentences: strings, which the model's own tokenizer splits, or lists of tokens.
            batch_size: maximum number of sentences per batch; None for no limit.
            batch_tokens: maximum number of tokens per batch; None for a default of the device.
            show_progress_bar: None shows a bar on a terminal or in a notebook if the work is long.
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
        """Return the most likely words at a position of a sentence.

        Args:
            sentence: a string, which the model's own tokenizer splits, or a list of tokens.
            position: index of the word to predict; the word there is not looked at. The number of
                words is the index after the last one. None: the gap `___`, which in a string may
                touch punctuation ("a ___.") and in a list is a token.
            k: number of words to return.
            direction: "left" uses the words to its left, "right" those to its right. "both"
                multiplies the two probabilities of each word, divides by the word's frequency
                (Zipf's law, from its rank in the vocabulary) and makes them sum to 1 again.

        Returns:
            Words of the softmax's vocabulary, most likely first. `<S>`, `</S>` and `<UNK>` are left
            out: the probabilities of all other words sum to 1.
        """
        if position is None and isinstance(sentence, str):
            tokens: Sequence[str] = tokenize_with_blank(sentence, self.tokenize)
        else:
            (tokens,) = self.tokens_of([sentence])
        index = position_of_blank(tokens) if position is None else position
        return self.language_model.predict(tokens, index, self.start_state, k, direction)

    def evaluate(
        self,
        sentences: Texts,
        *,
        num_rows: int = NUM_ROWS,
        show_progress_bar: bool | None = None,
    ) -> Evaluation:
        """Return the perplexity of running text by the full softmax, and bits per character.

        As in the paper, sentences are read one after the other and the LSTMs' state is carried on.

        Args:
            sentences: the sentences of a text, in order: strings or lists of tokens. Empty ones are
                left out.
            num_rows: number of parts of the text that are read in parallel, each from zero state;
                short texts have fewer.
            show_progress_bar: None shows a bar on a terminal or in a notebook if the work is long.
        """
        texts = [sentences] if isinstance(sentences, str) else sentences
        check_texts(texts)
        tokens = (self._tokens(row, sentence) for row, sentence in enumerate(texts))
        return self.language_model.evaluate(tokens, num_rows, show_progress_bar)

    def fit_pooling(
        self,
        sentences: Texts,
        *,
        smoothing: float = SMOOTHING,
        num_directions: int = NUM_DIRECTIONS,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        show_progress_bar: bool | None = None,
    ) -> None:
        """Fit `encode(..., pooling="weighted")` to unlabeled sentences.

        Nothing is trained: words are counted, and the mean and the main directions of the sentence
        vectors are computed, for every layer. `save_pretrained` stores them. Some thousands of
        sentences like those that will be compared are best.

        Args:
            sentences: strings, which the model's own tokenizer splits, or lists of tokens.
            smoothing: a; a word of share p among all words is weighted by a / (a + p).
            num_directions: number of common directions to remove.
            batch_size: maximum number of sentences per batch; None for no limit.
            batch_tokens: maximum number of tokens per batch; None for a default of the device.
            show_progress_bar: None shows a bar on a terminal or in a notebook if the work is long.
        """
        options = BatchOptions(batch_size, batch_tokens, show_progress_bar)
        self.pooling = fit_weighted_pooling(
            self, self.tokens_of(sentences), smoothing, num_directions, options
        )

    def stateful(self) -> StatefulElmo:
        """Return an encoder that carries LSTM state from call to call, row by row."""
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
            dtype: "float16" or "bfloat16" store everything at half the size, "int8" at a quarter:
                8-bit integers with scales. A model loaded from there computes with the rounded
                weights, in float32 by default. None: the precision of the weights now.
            card: a model card, in Markdown, instead of the plain one; `{facts}` in it is replaced
                by a table of facts about the model.
            force: replace an existing model.
        """
        checkpoint, eight_bit = self.checkpoint(), tuple[Part, ...]()
        if dtype is not None:
            precision = resolve_dtype(dtype)
            is_int8 = precision == torch.int8
            checkpoint = in_precision(checkpoint, torch.float32 if is_int8 else precision)
            eight_bit = PARTS if is_int8 else ()
        write_directory(checkpoint, Path(path), force, card, eight_bit)

    def push_to_hub(
        self,
        hub_id: str,
        *,
        dtype: str | torch.dtype | None = None,
        card: str | None = None,
        revision: str | None = None,
        token: Token = None,
        private: bool | None = None,
        message: str | None = None,
    ) -> str:
        """Upload the model to the Hugging Face hub and return the address of the commit.

        Args:
            hub_id: `owner/name`; created if it does not exist.
            dtype: number format of the weights, as for `save_pretrained`.
            card: a model card, as for `save_pretrained`; `elmox card` writes one.
            revision: the branch; created if it does not exist.
            token: access token; None for the one that is stored on this machine.
            private: whether a new repository is private.
            message: of the commit.
        """
        with TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            self.save_pretrained(folder, dtype=dtype, card=card)
            return upload(
                folder, hub_id, revision=revision, token=token, private=private, message=message
            )

    def checkpoint(self) -> Checkpoint:
        """Return the model as a value, with its present mixes, state and pooling."""
        return replace(
            self._checkpoint,
            tensors=self.reader.bilm.state_dict(),
            mixes=self.mixes,
            warm_state=self.start.warm,
            pooling=self.pooling,
        )

    def digest(self) -> str:
        """Return a digest of everything that vectors depend on.

        That is the architecture, the vocabularies, the weights, and the start state unless it is
        zero.
        """
        return checkpoint_digest(self.checkpoint(), with_state=self.state == "warm")

    def __repr__(self) -> str:
        lstm = self.config.lstm
        size = f"{lstm.num_layers} x {lstm.cell_dim} cells"
        return (
            f"Elmo({self._source!r}, {self.num_layers} layers of dim {self.dim}, {size}, "
            f"device={str(self.device)!r}, dtype={str(self.dtype).removeprefix('torch.')!r}, "
            f"state={self.state!r})"
        )
