"""Perplexity of a stream against a slow, independent reading of it in float64."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from language_models import OURS, TinyLm, forward_only, tiny_lm, with_softmax
from numpy.typing import NDArray
from torch import Tensor

from elmox.elmo import Elmo
from elmox.inference import perplexity
from elmox.inference.perplexity import StreamNll, stream_nll
from elmox.model.checkpoint import Softmax

LEXICON = (*OURS, "dog", "ran", "unbelievably", "x" * 60)  # the last four cannot be predicted
Stream = NDArray[np.uint32]


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> TinyLm:
    return tiny_lm(tmp_path_factory.mktemp("lm"))


@pytest.fixture(scope="module")
def elmo(lm: TinyLm) -> Elmo:
    return lm.elmo(double=True)


def text(num_sentences: int = 9, seed: int = 0) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    return [
        [LEXICON[i] for i in rng.integers(2, len(LEXICON), rng.integers(1, 8))]
        for _ in range(num_sentences)
    ]


def stream_of(sentences: list[list[str]]) -> Stream:
    ids = [1]
    for sentence in sentences:
        ids += [*map(LEXICON.index, sentence), 1]
    return np.array(ids, dtype=np.uint32)


def encoder(elmo: Elmo) -> Callable[[NDArray[np.int64]], Tensor]:
    def encode(ids: NDArray[np.int64]) -> Tensor:
        assert len(set(ids.tolist())) == len(ids)
        return elmo.reader.token_vectors([LEXICON[i] for i in ids])

    return encode


def nll(
    elmo: Elmo, stream: Stream, num_rows: int = 1, window_steps: int | None = None
) -> StreamNll:
    softmax = elmo.language_model.softmax
    return stream_nll(elmo.reader.bilm, softmax, encoder(elmo), stream, num_rows, window_steps)


def close(actual: StreamNll, expected: StreamNll, tolerance: float = 1e-9) -> None:
    assert actual.num_positions == expected.num_positions
    assert actual.num_unknown == expected.num_unknown
    assert actual.forward == pytest.approx(expected.forward, rel=tolerance)
    assert actual.backward == pytest.approx(expected.backward, rel=tolerance)


def by_hand(lm: TinyLm, sentences: list[list[str]]) -> StreamNll:
    forward, backward = lm.directions(sentences)
    words = [word for sentence in sentences for word in sentence]
    return StreamNll(
        -sum(map(sum, forward)),
        -sum(map(sum, backward)),
        len(words) + len(sentences),
        sum(word == "<UNK>" or word not in OURS for word in words),
    )


@pytest.mark.parametrize("num_sentences", [1, 2, 9])
def test_one_row_is_the_text_read_from_end_to_end(
    lm: TinyLm, elmo: Elmo, num_sentences: int
) -> None:
    sentences = text(num_sentences, seed=num_sentences)
    close(nll(elmo, stream_of(sentences)), by_hand(lm, sentences))


def test_rows_are_whole_sentences_from_zero_state(
    lm: TinyLm, elmo: Elmo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perplexity, "MIN_ROW_POSITIONS", 1)
    sentences = text(12)
    # With more rows than sentences, every row is a sentence.
    parts = [by_hand(lm, [sentence]) for sentence in sentences]
    whole = StreamNll(
        sum(part.forward for part in parts),
        sum(part.backward or 0.0 for part in parts),
        sum(part.num_positions for part in parts),
        sum(part.num_unknown for part in parts),
    )
    close(nll(elmo, stream_of(sentences), num_rows=1000), whole)


@pytest.mark.parametrize("num_rows", [1, 2, 3, 5, 50])
def test_every_position_counts_once(
    elmo: Elmo, num_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A softmax that knows nothing gives each position the same probability."""
    monkeypatch.setattr(perplexity, "MIN_ROW_POSITIONS", 1)
    tensors = {"weight": torch.zeros(len(OURS), 6), "bias": torch.zeros(len(OURS))}
    blank = with_softmax(elmo, Softmax(tensors, OURS))
    stream = stream_of(text(17, seed=3))
    for steps in (1, 4, None):
        score = nll(blank, stream, num_rows, steps)
        assert score.num_positions == len(stream) - 1
        expected = (len(stream) - 1) * math.log(len(OURS))
        assert score.forward == pytest.approx(expected, rel=1e-6)
        assert score.backward == pytest.approx(expected, rel=1e-6)
        assert score.perplexity == pytest.approx(len(OURS), rel=1e-5)


@pytest.mark.parametrize("num_rows", [1, 3])
def test_windows_change_nothing(elmo: Elmo, num_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perplexity, "MIN_ROW_POSITIONS", 1)
    stream = stream_of(text(20, seed=1))
    whole = nll(elmo, stream, num_rows)
    for steps in (1, 2, 7, 20, 10**6):
        close(nll(elmo, stream, num_rows, steps), whole, 1e-12)


def test_short_texts_have_few_rows(elmo: Elmo) -> None:
    stream = stream_of(text(30))
    close(nll(elmo, stream, num_rows=256), nll(elmo, stream, num_rows=1), 1e-12)


def test_a_stream_cut_anywhere(lm: TinyLm, elmo: Elmo) -> None:
    """Positions of an unfinished sentence count too."""
    stream = stream_of([["the", "cat", "sat", "."]])[:4]
    score = nll(elmo, stream)
    forward, _ = lm.directions([["the", "cat", "sat", "."]])
    assert score.num_positions == 3
    assert score.forward == pytest.approx(-sum(forward[0][:3]), rel=1e-9)


def test_forward_models_have_no_backward(lm: TinyLm, elmo: Elmo) -> None:
    stream = stream_of(text())
    one_way = forward_only(elmo)
    one_way.language_model.softmax.double()
    score = nll(one_way, stream)
    assert score.forward == pytest.approx(nll(elmo, stream).forward, rel=1e-12)
    assert score.backward is None
    assert score.backward_perplexity is None
    assert score.perplexity == score.forward_perplexity


def test_memory_mapped_streams_and_progress(elmo: Elmo, tmp_path: Path) -> None:
    stream = stream_of(text(20))
    np.save(tmp_path / "stream.npy", stream)
    seen: list[int] = []
    score = stream_nll(
        elmo.reader.bilm,
        elmo.language_model.softmax,
        encoder(elmo),
        np.load(tmp_path / "stream.npy", mmap_mode="r"),
        window_steps=7,
        progress=seen.append,
    )
    close(score, nll(elmo, stream), 1e-12)
    assert sum(seen) == score.num_positions
    assert len(seen) > 3


def test_perplexities_are_means_of_logarithms() -> None:
    score = StreamNll(10 * math.log(8.0), 10 * math.log(2.0), 10, 0)
    assert score.forward_perplexity == pytest.approx(8.0)
    assert score.backward_perplexity == pytest.approx(2.0)
    assert score.perplexity == pytest.approx(4.0)
    assert StreamNll(1e6, None, 1, 0).perplexity == math.inf


def test_float32_agrees(lm: TinyLm, elmo: Elmo) -> None:
    stream = stream_of(text(20))
    close(nll(lm.elmo(), stream), nll(elmo, stream), 1e-5)
