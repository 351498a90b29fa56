"""Text to character ids: a token is a word, and its id is the row of its bytes."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from transformers import BatchEncoding, PreTrainedTokenizer

from elmox.errors import ElmoxError
from elmox.integrations.transformers.config import ElmoConfig, is_native, source_options
from elmox.text.chars import BEGIN_WORD_ID, END_WORD_ID, FIRST_BYTE_ID, spell_bytes
from elmox.text.offsets import token_offsets
from elmox.text.tokenize import Tokenizer, get_tokenizer

PADDING = "<pad>"
NUM_BYTES = 256

Row = list[int]


class ElmoTokenizer(PreTrainedTokenizer):  # type: ignore[misc]  # transformers has no types mypy reads
    """The tokenizer of a model, with `input_ids` of (T, max_characters) per sentence.

    Args:
        rules: name of the tokenizer in the model's configuration, such as "treebank".
        max_characters: slots of a word.
        **options: of every tokenizer.
    """

    vocab_files_names: dict[str, str] = {}  # noqa: RUF012  (the base class declares it)
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012
    padding_side = "right"

    def __init__(self, rules: str = "treebank", max_characters: int = 50, **options: Any) -> None:
        self.rules = rules
        self.max_characters = max_characters
        options.setdefault("pad_token", PADDING)
        super().__init__(rules=rules, max_characters=max_characters, **options)

    @classmethod
    def of(cls, config: ElmoConfig) -> Self:
        """Return the tokenizer of a model."""
        architecture = config.architecture
        assert architecture.char_cnn is not None  # ElmoConfig accepts no other
        return cls(architecture.text.tokenizer, architecture.char_cnn.max_characters)

    @classmethod
    def from_pretrained(cls, path: str | Path, *inputs: Any, **options: Any) -> Self:
        """Load the tokenizer of a model directory, of elmox or of transformers, or a hub id."""
        if is_native(path, options):
            return cls.of(ElmoConfig.from_pretrained(path, **source_options(options)))
        return super().from_pretrained(path, *inputs, **options)  # type: ignore[no-any-return]

    @property
    def vocab_size(self) -> int:
        """Number of character ids."""
        return NUM_BYTES + 6

    def get_vocab(self) -> dict[str, int]:
        """Return the only token that has a number: padding."""
        return {PADDING: 0}

    def tokenize(self, text: str, pair: str | None = None, **options: Any) -> list[str]:
        """Split text into words."""
        if pair is not None:
            raise ElmoxError("a pair of texts: ELMo reads single sentences, give them one by one")
        return _splitter(self.rules)(text)

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """Return the row of a word, or the rows of words."""
        if isinstance(tokens, str):
            return 0 if tokens == PADDING else self._spell([tokens])[0]
        return self._spell(tokens)

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> Any:
        """Return the word of a row, or the words of rows; padding is `<pad>`."""
        if len(ids) and not np.ndim(ids[0]):
            return _word(np.asarray(ids))
        words = [_word(np.asarray(row)) for row in ids]
        return [word for word in words if not (skip_special_tokens and word == PADDING)]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Join words with spaces."""
        return " ".join(tokens)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[()]:
        """Write nothing: bytes need no vocabulary."""
        return ()

    def _spell(self, words: Sequence[str]) -> list[Row]:
        ids: list[Row] = spell_bytes(list(words), self.max_characters).ids.tolist()
        return ids

    def _encode_plus(
        self,
        text: Any,
        text_pair: Any = None,
        padding_strategy: Any = False,
        truncation_strategy: Any = None,
        max_length: int | None = None,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: Any = None,
        return_attention_mask: bool | None = None,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
        **options: Any,
    ) -> BatchEncoding:
        """Encode one sentence or several; called by `__call__`."""
        if text_pair is not None:
            raise ElmoxError("text_pair: ELMo reads single sentences, give them one by one")
        is_single = isinstance(text, str) or (
            is_split_into_words and all(isinstance(word, str) for word in text)
        )
        texts = [text] if is_single else list(text)
        is_cut = getattr(truncation_strategy, "value", "do_not_truncate") != "do_not_truncate"
        limit = max_length if is_cut else None
        sentences = [
            list(t)[:limit] if is_split_into_words else self.tokenize(t)[:limit] for t in texts
        ]
        data: dict[str, Any] = {"input_ids": [self._spell(words) for words in sentences]}
        if return_special_tokens_mask:
            data["special_tokens_mask"] = [[0] * len(words) for words in sentences]
        if return_offsets_mapping:
            if is_split_into_words:
                raise ElmoxError("return_offsets_mapping=True: words have no place in a text")
            data["offset_mapping"] = [token_offsets(t, self.tokenize(t))[:limit] for t in texts]
        if return_length:
            data["length"] = [len(words) for words in sentences]
        encoded: Any = self.pad(
            data,
            padding=getattr(padding_strategy, "value", padding_strategy),
            max_length=max_length,
            pad_to_multiple_of=pad_to_multiple_of,
            padding_side=padding_side,
            return_attention_mask=return_attention_mask,
        )
        if not any(sentences):  # lists of nothing have no width
            encoded["input_ids"] = np.zeros((len(texts), 0, self.max_characters), np.int64)
            encoded["attention_mask"] = np.zeros((len(texts), 0), np.int64)
        if is_single and return_tensors is None:
            return BatchEncoding({name: values[0] for name, values in encoded.items()})
        return BatchEncoding(encoded.data, tensor_type=return_tensors)

    def _pad(self, encoded_inputs: Any, *inputs: Any, **options: Any) -> dict[str, Any]:
        """Pad a sentence to a number of tokens: rows of zeros, on the right."""
        if (options.get("padding_side") or self.padding_side) != "right":
            raise ElmoxError("padding_side='left': ELMo's sentences are padded on the right")
        padded: dict[str, Any] = super()._pad(encoded_inputs, *inputs, **options)
        rows = padded["input_ids"]
        padded["input_ids"] = [r if np.ndim(r) else [0] * self.max_characters for r in rows]
        if "offset_mapping" in padded:
            spans = list(padded["offset_mapping"])
            padded["offset_mapping"] = spans + [(0, 0)] * (len(rows) - len(spans))
        return padded

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **options: Any) -> Any:
        """Return the words of a sentence (T, C) with spaces between them; of a batch, a list."""
        if len(token_ids) and np.ndim(token_ids[0]) == 2:
            return self.batch_decode(token_ids, skip_special_tokens)
        words = self.convert_ids_to_tokens(token_ids, skip_special_tokens)
        return self.convert_tokens_to_string(words)

    def batch_decode(
        self, sequences: Any, skip_special_tokens: bool = False, **options: Any
    ) -> list[str]:
        """Return `decode` of each sentence."""
        return [self.decode(sequence, skip_special_tokens) for sequence in sequences]


@cache
def _splitter(rules: str) -> Tokenizer:
    return get_tokenizer(rules)


def _word(row: Any) -> str:
    """Return the word that a row of character ids spells."""
    if not row.any():
        return PADDING
    ids = row[(row != BEGIN_WORD_ID) & (row < END_WORD_ID)]
    if ids.max(initial=0) > NUM_BYTES:  # one id for a boundary of the sentence
        return {257: "<S>", 258: "</S>"}[int(ids.max())]
    word: str = (ids - FIRST_BYTE_ID).astype(np.uint8).tobytes().decode("utf-8", "replace")
    return word
