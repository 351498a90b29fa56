"""The words of an index: which are chosen, and which of their uses are kept.

A word is a token in lower case (`str.casefold`). Without a list of words, all content words are
chosen: of letters, perhaps with hyphens, not in a list of stop words, and frequent enough.

If a word has more uses than an index may keep, they are taken evenly from the whole text: use i of
c is kept if (i + 1) * m // c > i * m // c, which keeps m. So a use's row in the file depends on
nothing but the counts and the number of uses before it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmox.errors import Argument, ArgumentError, ElmoxError, require_at_least

_STOP_WORDS = Path(__file__).parent / "stop_words.txt"


@cache
def english_stop_words() -> frozenset[str]:
    """Return the function words of English, as the Treebank tokenizer splits them."""
    return frozenset(_STOP_WORDS.read_text("utf-8").split())


@dataclass(frozen=True)
class WordOptions:
    """Choice of words.

    Attributes:
        words: the words; None for all content words.
        stop_words: words that are not content words.
        min_count: minimum number of uses of a content word.
        max_per_word: maximum number of uses of a word to keep; None for all.
    """

    words: frozenset[str] | None
    stop_words: frozenset[str]
    min_count: int
    max_per_word: int | None

    @classmethod
    def of(
        cls,
        words: Iterable[str] | None,
        stop_words: Iterable[str] | None,
        min_count: int,
        max_per_word: int | None,
    ) -> "WordOptions":
        """Check a caller's options; without stop words, English ones are used."""
        require_at_least(1, "min_count", min_count)
        require_at_least(1, "max_per_word", max_per_word)
        for name, value in (("words", words), ("stop_words", stop_words)):
            if isinstance(value, str):
                raise ArgumentError("{}: expected a list of words", Argument(name, value))
        chosen = None if words is None else frozenset(map(str.casefold, words)) - {""}
        if chosen is not None and not chosen:
            raise ArgumentError("{} is empty: expected at least one word", Argument("words"))
        if stop_words is None:
            stop = english_stop_words()
        else:
            stop = frozenset(map(str.casefold, stop_words))
        return cls(chosen, stop, min_count, max_per_word)

    def chosen(self, counts: Counter[str]) -> "WordTable":
        """Choose among the words of a text, whose uses have been counted."""
        if self.words is None:
            words = [word for word, count in counts.items() if self._is_content(word, count)]
        else:
            words = [word for word in self.words if counts[word]]
        if not words:
            raise ElmoxError(f"the text has no word to index: {self._expected()}")
        words.sort()
        uses = np.array([counts[word] for word in words], np.int64)
        return WordTable(words, uses, self.max_per_word)

    def job(self) -> dict[str, object]:
        """Return the options as JSON values."""
        return {
            "words": None if self.words is None else sorted(self.words),
            "stop_words": None if self.words is not None else sorted(self.stop_words),
            "min_count": self.min_count,
            "max_per_word": self.max_per_word,
        }

    def _is_content(self, word: str, count: int) -> bool:
        letters = word.replace("-", "")
        return (
            count >= self.min_count
            and len(letters) > 1
            and letters.isalpha()
            and word not in self.stop_words
        )

    def _expected(self) -> str:
        if self.words is None:
            return f"no content word is used at least {self.min_count} times, lower that number"
        return f"none of {', '.join(sorted(self.words)[:5])} is a token of it"


@dataclass(frozen=True)
class WordTable:
    """The chosen words and the rows of their uses.

    Attributes:
        words: the words, sorted by their UTF-8 bytes.
        counts: (W,) number of uses of each in the text.
        max_per_word: maximum number of uses to keep; None for all.
    """

    words: Sequence[str]
    counts: NDArray[np.int64]
    max_per_word: int | None

    @cached_property
    def num_kept(self) -> NDArray[np.int64]:
        """The number of uses of each word to keep, (W,)."""
        if self.max_per_word is None:
            return self.counts
        return np.minimum(self.counts, self.max_per_word)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each word, and the number of all rows, (W + 1,)."""
        return np.concatenate([[0], np.cumsum(self.num_kept)])

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def of_tokens(self, tokens: Sequence[str]) -> list[int]:
        """Return the number of each token's word, or -1."""
        numbers = self.numbers
        return [numbers.get(token.casefold(), -1) for token in tokens]

    def rows(
        self, numbers: NDArray[np.int64], seen: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Decide which of the next uses are kept, and where.

        Args:
            numbers: (M,) the words of the uses, in the order of the text.
            seen: (W,) number of uses of each word before these; is updated.

        Returns:
            Whether each use is kept, (M,), and the rows of those that are.
        """
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        firsts = np.searchsorted(ordered, ordered)
        use = np.empty(len(numbers), np.int64)  # of how many uses of its word it comes after
        use[order] = seen[ordered] + np.arange(len(ordered)) - firsts
        np.add.at(seen, numbers, 1)
        count, most = self.counts[numbers], self.num_kept[numbers]
        row = use * most // count
        is_kept = (use + 1) * most // count > row
        return is_kept, self.starts[numbers[is_kept]] + row[is_kept]
