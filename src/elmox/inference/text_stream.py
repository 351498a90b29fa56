"""Sentences of words to a stream of ids, as the language model reads them (see `next_word.py`).

Ids below V are the softmax vocabulary's. Every other word gets a new id from V on: it is read as
it is spelled, and scored as `<UNK>`. `<S>` and `</S>` as words of a text become `<UNK>`, because
they mark sentences and never occurred inside one in training.
"""

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmox.inference.next_word import Ids
from elmox.inference.runner import Reader
from elmox.text.vocab import END_ID, SPECIAL_WORDS, UNKNOWN_ID, Vocab


class TextStream:
    """A text that grows sentence by sentence.

    Attributes:
        num_sentences: sentences so far.
        num_characters: code points of all words, and one more for the space or line end after each.
        num_unknown_bytes: UTF-8 bytes of the words scored as `<UNK>`, and one more for each.
    """

    def __init__(self, vocab: Vocab) -> None:
        """`vocab` begins with the special words."""
        self.num_sentences = self.num_characters = self.num_unknown_bytes = 0
        self._vocab = vocab
        self._new: list[str] = []  # words outside the vocabulary
        self._new_ids: dict[str, int] = {}
        self._ids = array("I", [END_ID])

    def add(self, sentence: Sequence[str]) -> None:
        """Append a sentence."""
        for word in sentence:
            word_id = self._vocab[word]
            if word_id <= UNKNOWN_ID:
                self.num_unknown_bytes += len(word.encode("utf-8", "ignore")) + 1
                word_id = UNKNOWN_ID if word in SPECIAL_WORDS else self._new_id(word)
            self._ids.append(word_id)
        self._ids.append(END_ID)
        self.num_sentences += 1
        self.num_characters += sum(map(len, sentence)) + len(sentence)

    def ids(self) -> NDArray[np.uint32]:
        """Return the stream, `1 w.. 1 w.. 1`; nothing can be added while it is in use."""
        return np.frombuffer(self._ids, dtype=np.uint32)

    def vectors(self, reader: Reader, ids: Ids) -> Tensor:
        """Return token vectors of distinct ids, (U, P)."""
        marks = (reader.indexer.begin, reader.indexer.end, SPECIAL_WORDS[UNKNOWN_ID])
        words, new = self._vocab.words, self._new
        return reader.token_vectors([
            marks[i] if i < len(marks) else words[i] if i < len(words) else new[i - len(words)]
            for i in ids.tolist()
        ])  # fmt: skip

    def _new_id(self, word: str) -> int:
        next_id = len(self._vocab) + len(self._new)
        word_id = self._new_ids.setdefault(word, next_id)
        if word_id == next_id:
            self._new.append(word)
        return word_id
