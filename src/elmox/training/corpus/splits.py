"""Numbered blocks to the training text and the held-out text, document by document.

A document may span several blocks, but not several files. Blocks come in the order of the text.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmox.text.vocab import BEGIN_ID, END_ID, UNKNOWN_ID
from elmox.training.corpus.blocks import (
    DOCUMENT_END,
    FIRST_WORD,
    LITERAL_BEGIN,
    LITERAL_END,
    SENTENCE_END,
    UNKNOWN,
    NumberedBlock,
)
from elmox.training.corpus.info import SplitInfo
from elmox.training.corpus.lexicon import Ranking, WordCounts
from elmox.training.corpus.shards import ShardWriter, renumber

_NOTHING = 0  # the end of a document is not in the stream
_FIXED = np.array([_NOTHING, END_ID, UNKNOWN_ID, UNKNOWN_ID, UNKNOWN_ID], dtype=np.uint32)
_BOUNDARIES = np.array([BEGIN_ID, END_ID], dtype=np.uint32)


def provisional_ids(block: NumberedBlock, words: WordCounts) -> NDArray[np.uint32]:
    """Return the table from the ids of a block to provisional ids."""
    return np.concatenate([_FIXED, words.ids(block.words.split("\n") if block.words else [])])


class Documents:
    """Counts the documents of a text that comes in blocks."""

    def __init__(self) -> None:
        self._is_open = False
        self._num_ended = 0

    def join(self, block: NumberedBlock) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Continue with a block.

        Returns:
            Its ids, with an end after each document, also after the last of a file; and for each id
            the index of its document.
        """
        ids = np.frombuffer(block.ids, dtype=np.uint32)
        if len(ids) and ids[0] == DOCUMENT_END and not self._is_open:
            ids = ids[1:]
        if len(ids):
            self._is_open = bool(ids[-1] != DOCUMENT_END)
        if block.ends_file and self._is_open:
            ids = np.append(ids, np.uint32(DOCUMENT_END))
            self._is_open = False
        is_end = ids == DOCUMENT_END
        numbers = self._num_ended + np.cumsum(is_end) - is_end
        self._num_ended += int(np.count_nonzero(is_end))
        return ids, numbers


class Split:
    """The training text or the held-out text while it is being written."""

    def __init__(
        self, folder: Path, name: str, shard_tokens: int, words: WordCounts | None = None
    ) -> None:
        """Write to `folder`; `words` counts the words of the training text."""
        self.num_documents = 0
        self.num_sentences = 0
        self.num_tokens = 0
        self._num_boundary_words = 0
        self._shards = ShardWriter(folder, name, shard_tokens)
        self._words = words

    def add(self, ids: NDArray[np.uint32], table: NDArray[np.uint32]) -> None:
        """Write some text.

        Args:
            ids: ids of a block, with an end after each document.
            table: the provisional ids of a block's ids.
        """
        counts = np.bincount(ids, minlength=len(table))
        num_boundary_words = counts[LITERAL_BEGIN] + counts[LITERAL_END]
        self.num_documents += int(counts[DOCUMENT_END])
        self.num_sentences += int(counts[SENTENCE_END])
        self.num_tokens += int(counts[UNKNOWN:].sum())
        self._num_boundary_words += int(num_boundary_words)
        if self._words is not None:
            self._words.count(_BOUNDARIES, counts[SENTENCE_END])
            self._words.count(table[[UNKNOWN]], counts[UNKNOWN] + num_boundary_words)
            self._words.count(table[FIRST_WORD:], counts[FIRST_WORD:])
        is_end = ids == DOCUMENT_END
        ends = np.flatnonzero(is_end)
        self._shards.append(table[ids[~is_end]], ends - np.arange(len(ends)))

    def close(self) -> None:
        """End the last shard."""
        self._shards.close()

    def finish(self, ranking: Ranking) -> SplitInfo | None:
        """Write the final ids into the shards and describe them; None if nothing was written."""
        if not self.num_tokens:
            return None
        shards, num_unknown = zip(
            *(renumber(path, ranking.final_ids, ranking.vocab_size) for path in self._shards.paths),
            strict=True,
        )
        return SplitInfo(
            num_documents=self.num_documents,
            num_sentences=self.num_sentences,
            num_tokens=self.num_tokens,
            num_boundary_words=self._num_boundary_words,
            unknown_share=sum(num_unknown) / self.num_tokens,
            shards=shards,
        )
