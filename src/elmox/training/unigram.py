"""The unigram baseline: words by their frequency alone, which every language model must beat.

Frequencies are the training text's counts plus one, so that no word is impossible. Vocabulary and
positions (n+1 per sentence) are the biLM's.
"""

import math

import numpy as np
from numpy.typing import NDArray

from elmox.errors import Argument, ArgumentError
from elmox.text.vocab import BEGIN_ID, UNKNOWN_ID
from elmox.training.corpus.corpus import Corpus


def unigram_log_probs(corpus: Corpus) -> NDArray[np.float64]:
    """Return the log probability (V,) of each word of the softmax vocabulary.

    The sentence's end and the unknown word are among them.
    """
    size = corpus.vocab_size
    counts = np.array(corpus.counts(), dtype=np.float64)
    counts[BEGIN_ID] = 0.0  # only read, never predicted; the end's count is that of the sentences
    known = counts[:size] + 1.0
    known[UNKNOWN_ID] += counts[size:].sum()
    log_probs: NDArray[np.float64] = np.log(known / known.sum())
    return log_probs


def unigram_perplexity(corpus: Corpus) -> float:
    """Return the perplexity of the held-out text."""
    if corpus.valid is None:
        raise ArgumentError(
            "{} has no held-out text: prepare it with {} or {}",
            corpus.path,
            Argument("valid"),
            Argument("hold_out"),
        )
    stream = corpus.valid.read(1, corpus.valid.num_positions + 1)
    targets = np.where(stream < corpus.vocab_size, stream, UNKNOWN_ID)
    return math.exp(-unigram_log_probs(corpus)[targets].mean())
