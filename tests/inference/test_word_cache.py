"""The cache of word vectors: it changes no result."""

import gc
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from sys import getsizeof

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmox import Elmo
from elmox.inference.word_cache import MAX_BYTES, WordCache


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


def test_long_words_take_a_bounded_memory() -> None:
    encoder = Encoder()
    cache = WordCache(encoder, 10_000)
    for start in range(0, 400, 50):
        words = [f"{number:0300000d}" for number in range(start, start + 50)]  # 15 MB
        assert cache.vectors(words)[:, 0].tolist() == list(range(start, start + 50))
        assert sum(map(len, cache._words)) <= MAX_BYTES
        assert cache._bytes == sum(map(getsizeof, cache._words))
    assert len(cache)
    huge = [f"{number:01000000d}" for number in range(40)]
    known = len(cache)
    assert cache.vectors(huge)[:, 1].tolist() == [-number for number in range(40)]
    assert len(cache) == known


@pytest.mark.parametrize("used", [False, True])
def test_a_model_is_freed_without_the_garbage_collector(used: bool, tiny: Path) -> None:
    Elmo.from_pretrained(tiny).encode_tokens(["a word"])  # what is made once
    gc.collect()
    gc.disable()
    try:
        elmo = Elmo.from_pretrained(tiny)
        if used:
            elmo.encode_tokens(["a word", "Live in the present."])
        parts: list[object] = [elmo, elmo.reader, *elmo.reader.bilm.modules()]
        left = [weakref.ref(part) for part in parts]
        del elmo, parts
        assert [reference() for reference in left] == [None] * len(left)
    finally:
        gc.enable()
