"""The cache of word vectors: it changes no result."""

import threading
from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmox.inference.word_cache import WordCache


class Encoder:
    """Encodes a word as its number and records the words that it encoded."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def __call__(self, words: Sequence[str]) -> Tensor:
        self.encoded.extend(words)
        return torch.tensor([[float(word), -float(word)] for word in words])


batches = st.lists(st.lists(st.integers(0, 9).map(str), min_size=1, unique=True), max_size=12)


@settings(deadline=None)
@given(batches, st.integers(0, 12))
def test_never_changes_a_result(calls: list[list[str]], capacity: int) -> None:
    encoder = Encoder()
    cache = WordCache(encoder, capacity)
    for words in calls:
        assert cache.vectors(words)[:, 0].tolist() == [float(word) for word in words]
        assert len(cache) <= capacity


def test_known_words_are_not_encoded_again() -> None:
    encoder = Encoder()
    cache = WordCache(encoder, 10)
    cache.vectors(["1", "2"])
    cache.vectors(["2", "3"])
    assert encoder.encoded == ["1", "2", "3"]


def test_the_least_recently_used_word_goes_first() -> None:
    encoder = Encoder()
    cache = WordCache(encoder, 2)
    cache.vectors(["1", "2"])
    cache.vectors(["1"])
    cache.vectors(["3"])  # pushes 2 out
    cache.vectors(["1"])
    assert encoder.encoded == ["1", "2", "3"]
    cache.vectors(["2"])
    assert encoder.encoded == ["1", "2", "3", "2"]


def test_new_weights_make_everything_stale() -> None:
    encoder = Encoder()
    cache = WordCache(encoder, 10)
    cache.vectors(["1"], version="a")
    cache.vectors(["1"], version="b")
    assert encoder.encoded == ["1", "1"]


def test_threads_may_share_it() -> None:
    cache = WordCache(Encoder(), 5)
    wrong: list[str] = []

    def work(start: int) -> None:
        for i in range(200):
            words = [str((start + i + k) % 9) for k in range(4)]
            if cache.vectors(words)[:, 0].tolist() != [float(word) for word in words]:
                wrong.append(str(words))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
