"""Search by sense: an index of the uses of words, each with its vector and its context."""
