"""A whole document as vectors: one per token, with the token's position in the text."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from elmox.text.document import Sentence
from elmox.text.offsets import Offsets


@dataclass(frozen=True, repr=False)
class EncodedDocument:
    """The tokens of a text with their vectors.

    Attributes:
        text: the document.
        sentences: its sentences; see `Sentence`.
        tokens: the T tokens of all sentences.
        offsets: T pairs (start, end): `text[start:end]` is the token.
        sentence_indices: (T,) the index of each token's sentence.
        vectors: (T, D), or (K, T, D) if several layers were selected.
    """

    text: str
    sentences: list[Sentence]
    tokens: list[str]
    offsets: list[Offsets]
    sentence_indices: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.tokens)

    def __repr__(self) -> str:
        """Return the counts and the shape."""
        return (
            f"EncodedDocument({len(self.sentences)} sentences, {len(self)} tokens, "
            f"vectors {self.vectors.shape})"
        )

    def char_span(self, start: int, end: int) -> slice:
        """Return the tokens that overlap the characters `start` to `end`, as a slice.

        The vectors of a name are `document.vectors[..., document.char_span(start, end), :]`.
        """
        first = bisect_right(self.offsets, start, key=lambda offsets: offsets[1])
        last = bisect_left(self.offsets, end, key=lambda offsets: offsets[0])
        return slice(first, last if start < end and first < last else first)


def join_sentences(
    text: str, sentences: list[Sentence], vectors: Sequence[NDArray[np.float32]]
) -> EncodedDocument:
    """Return a document from its sentences and their vectors, (T_i, D) or (K, T_i, D) each."""
    return EncodedDocument(
        text=text,
        sentences=sentences,
        tokens=list(chain.from_iterable(sentence.tokens for sentence in sentences)),
        offsets=list(chain.from_iterable(sentence.offsets for sentence in sentences)),
        sentence_indices=np.repeat(np.arange(len(sentences)), [len(s) for s in sentences]),
        vectors=np.concatenate(vectors, axis=-2),
    )
