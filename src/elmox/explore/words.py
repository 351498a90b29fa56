"""Frequent words with their context-independent vectors: what a typed word is compared with."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elmox.config import BUNDLED
from elmox.elmo import Elmo
from elmox.text.vocab import SPECIAL_WORDS

MAX_WORDS = 20_000
WORDS_FILE = "frequent_words.json"
VECTORS_FILE = "frequent_words.f16"


def frequent_words(elmo: Elmo) -> list[str]:
    """Return the most frequent words of the model's vocabulary, most frequent first.

    A model without a vocabulary is compared with the words of the bundled English model.
    """
    source = elmo if elmo.checkpoint().softmax is not None else Elmo.from_pretrained(BUNDLED)
    words = source.language_model.vocab.words[len(SPECIAL_WORDS) :]
    return list(words[:MAX_WORDS])


def word_vectors(elmo: Elmo, words: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors of words without context, (W, P).

    Both halves of a layer-0 vector are the same, so one of them is enough.
    """
    vectors: NDArray[np.float32] = elmo.reader.token_vectors(words).float().cpu().numpy()
    return vectors


def word_files(words: Sequence[str], vectors: NDArray[np.float32]) -> dict[str, bytes]:
    """Return the page's files of frequent words: the words, and their vectors in float16."""
    names = {"words": words, "dim": vectors.shape[1]}
    return {
        WORDS_FILE: json.dumps(names, separators=(",", ":")).encode("ascii"),
        VECTORS_FILE: vectors.astype(np.dtype("<f2")).tobytes(),
    }
