"""Running a frozen biLM: batching, word cache, choice of layers, the language model."""
