"""Search by sense: an index of the uses of words, each with its vector and its context."""

MIN_COUNT = 5  # uses of a content word
MAX_PER_WORD = 10_000  # uses to keep
