"""A vocabulary: words in file order, their ids, and the unknown word.

A vocabulary file of bilm-tf has one word per line: `<S>`, `</S>`, `<UNK>`, then the others by
decreasing count. A word model reads these ids as input; a language model predicts them.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError
from elmox.io.inputs import MAX_WORDS_BYTES, read_whole

# In elmox, the vocabulary that a language model predicts begins with these.
SPECIAL_WORDS = ("<S>", "</S>", "<UNK>")
BEGIN_ID, END_ID, UNKNOWN_ID = 0, 1, 2


class Vocab:
    """Words and their ids (an id is the word's position in the file)."""

    def __init__(
        self, words: Iterable[str], unknown: str = "<UNK>", source: str = "the vocabulary"
    ) -> None:
        """Index the words; duplicates keep their first id. `source` is for error messages."""
        self.words = tuple(words)
        self.source = source
        self.unknown = unknown
        self._ids: dict[str, int] = {}
        for index, word in enumerate(self.words):
            self._ids.setdefault(word, index)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def __getitem__(self, word: str) -> int:
        """Return the id of a word, or of the unknown word; an error if there is neither."""
        index = self._ids.get(word, self._ids.get(self.unknown))
        if index is None:
            raise ElmoxError(
                f"{word!r} is not among the {len(self)} words of {self.source}, which has no "
                f"{self.unknown} for others: use only its words, or a model that reads characters"
            )
        return index

    def ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the ids of many words, (N,)."""
        return np.fromiter(map(self.__getitem__, words), dtype=np.int64, count=len(words))


def read_vocab(path: Path) -> Vocab:
    """Read one word per line (UTF-8). An empty last line is not a word."""
    try:
        text = read_whole(path, MAX_WORDS_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ElmoxError(f"{path} is not UTF-8 (byte {error.start}): convert it first") from error
    words = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if words and not words[-1]:
        words.pop()
    if not words:
        raise ElmoxError(f"{path} holds no words, expected one per line")
    return Vocab(words, source=str(path))


def vocab_file(words: Sequence[str]) -> bytes:
    """Return the content of a file that `read_vocab` reads."""
    content = "".join(f"{word}\n" for word in words)
    if content.count("\n") != len(words) or "\r" in content:
        raise ElmoxError("a word of the vocabulary holds a line break: no vocabulary file can")
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ElmoxError(f"a word of the vocabulary is not Unicode: {error}") from error
