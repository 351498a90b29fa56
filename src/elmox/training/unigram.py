"""Words by their frequency alone: the least that a language model must beat.

By the training text's counts, every class counted once more than it occurs so that none is
impossible. Same vocabulary, same positions (n+1 a sentence) as the biLM's.
"""

import math

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError
from elmox.text.vocab import BEGIN_ID, UNKNOWN_ID
from elmox.training.corpus.corpus import Corpus


def unigram_log_probs(corpus: Corpus) -> NDArray[np.float64]:
    """(V,) of the softmax vocabulary, the sentence's end and the unknown word among it."""
    size = corpus.vocab_size
    counts = np.array(corpus.counts(), dtype=np.float64)
    counts[BEGIN_ID] = 0.0  # only read, never predicted; the end's count is that of the sentences
    known = counts[:size] + 1.0
    known[UNKNOWN_ID] += counts[size:].sum()
    log_probs: NDArray[np.float64] = np.log(known / known.sum())
    return log_probs


def unigram_perplexity(corpus: Corpus) -> float:
    """Of the held-out text."""
    if corpus.valid is None:
        raise ElmoxError(
            f"{corpus.path} has no held-out text: prepare it with --valid or --hold-out"
        )
    stream = corpus.valid.read(1, corpus.valid.num_positions + 1)
    targets = np.where(stream < corpus.vocab_size, stream, UNKNOWN_ID)
    return math.exp(-unigram_log_probs(corpus)[targets].mean())
