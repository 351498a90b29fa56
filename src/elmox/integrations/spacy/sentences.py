"""spaCy's documents as the sentences that a biLM reads, and its vectors back in their place.

The biLM reads spaCy's own tokens. Tokens of white space are not words: the biLM does not see them,
and their vectors are zero.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from elmox.errors import Argument, ArgumentError
from elmox.text.offsets import token_offsets
from elmox.text.sentences import split_sentences

SentenceMode: TypeAlias = Literal["auto", "rules", "doc"]
FloatArray: TypeAlias = NDArray[np.float32]


class Sentence(NamedTuple):
    """A sentence of a document, white space left out.

    Attributes:
        positions: the indexes of its words in the document.
        words: their texts.
    """

    positions: list[int]
    words: list[str]


def check_mode(mode: str) -> SentenceMode:
    """Return a mode that exists."""
    if mode not in get_args(SentenceMode):
        raise ArgumentError("{}: expected 'auto', 'rules' or 'doc'", Argument("sentences", mode))
    return cast(SentenceMode, mode)


def sentences_of(doc: Doc, mode: SentenceMode) -> list[Sentence]:
    """Return the sentences of a document; those without a word are left out.

    Args:
        doc: the document.
        mode: "auto" for the document's own sentences if an earlier component or the caller has set
            them, otherwise by the rules of `elmox.text.sentences`; "rules" for those in any case;
            "doc" for the whole document as one sentence.
    """
    if mode == "doc":
        starts = [0]
    elif mode == "auto" and doc.has_annotation("SENT_START"):
        starts = [span.start for span in doc.sents]
    else:
        starts = _starts_by_rule(doc)
    sentences = []
    for start, end in pairwise([*starts, len(doc)]):
        words = [(token.i, token.text) for token in doc[start:end] if not token.is_space]
        if words:
            positions, texts = zip(*words, strict=True)
            sentences.append(Sentence(list(positions), list(texts)))
    return sentences


def fill(
    length: int,
    sentences: Sequence[Sentence],
    vectors: Sequence[FloatArray],
    shape: tuple[int, ...],
) -> FloatArray:
    """Return the vectors of a document's tokens, (T, D) or (K, T, D); zero for white space.

    Args:
        length: T.
        sentences: the document's sentences.
        vectors: the vectors of their words.
        shape: (D,) or (K, D).
    """
    filled = np.zeros((*shape[:-1], length, shape[-1]), np.float32)
    for sentence, values in zip(sentences, vectors, strict=True):
        filled[..., sentence.positions, :] = values
    return filled


def _starts_by_rule(doc: Doc) -> list[int]:
    """Return the index of the first token of every sentence.

    A token that the rules would cut in two belongs to the sentence in which it begins.
    """
    pieces = split_sentences(doc.text)
    begins = [begin for begin, _ in token_offsets(doc.text, pieces)][1:]
    offsets = [token.idx for token in doc]
    return sorted({0, *np.searchsorted(offsets, begins).tolist()} - {len(doc)}) if offsets else []
