"""Words to the input of the token encoder: a spelling, a word id, or both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmox.text.chars import BEGIN_SENTENCE, END_SENTENCE, Spelling, spell_bytes, spell_unicode
from elmox.text.vocab import Vocab


@dataclass(frozen=True)
class WordTable:
    """U distinct words as input of the token encoder."""

    spelling: Spelling | None
    ids: NDArray[np.int64] | None  # (U,) in the input vocabulary


@dataclass(frozen=True)
class WordIndexer:
    """Turns distinct words into a `WordTable`, and holds the boundary words of a sentence.

    Attributes:
        max_characters: slots of a spelling; None for models with word ids only.
        characters: ids of an inventory of code points; None for UTF-8 bytes.
        vocab: input vocabulary; None for models with spellings only.
        max_code_points: words are cut to this many code points before anything else reads them
            (as in ELMoForManyLangs, even before its word lookup).
        begin, end: the boundary words of a sentence.
    """

    max_characters: int | None = 50
    characters: Mapping[str, int] | None = None
    vocab: Vocab | None = None
    max_code_points: int | None = None
    begin: str = BEGIN_SENTENCE
    end: str = END_SENTENCE

    def __call__(self, words: Sequence[str]) -> WordTable:
        if self.max_code_points is not None:
            words = [word[: self.max_code_points] for word in words]
        return WordTable(spelling=self._spell(words), ids=self._lookup(words))

    def _spell(self, words: Sequence[str]) -> Spelling | None:
        if self.max_characters is None:
            return None
        if self.characters is None:
            return spell_bytes(words, self.max_characters)
        return spell_unicode(words, self.characters, self.max_characters)

    def _lookup(self, words: Sequence[str]) -> NDArray[np.int64] | None:
        return None if self.vocab is None else self.vocab.ids(words)
