"""The text of a step: every position once per epoch, forward in order, backward reversed."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import small_corpus
from numpy.typing import NDArray

from elmox.text.vocab import BEGIN_ID, END_ID, UNKNOWN_ID
from elmox.text.words import WordTable
from elmox.training.corpus.corpus import Corpus, open_corpus
from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus
from elmox.training.rows import Batch, ResetAt, Rows, deal_rows, pinned


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return small_corpus(tmp_path_factory.mktemp("rows"))


def _rows(
    corpus: Corpus,
    num_rows: int,
    num_steps: int,
    directions: int = 2,
    reset: float = 0.0,
    reset_at: ResetAt = "anywhere",
) -> Rows:
    return Rows(
        corpus.train,
        lambda ids: WordTable(corpus.lexicon.spell(ids), None),
        num_rows=num_rows,
        num_steps=num_steps,
        vocab_size=corpus.vocab_size,
        num_directions=directions,
        seed=3,
        reset=reset,
        reset_at=reset_at,
    )


def _epoch(
    rows: Rows, num_rows: int, epoch: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return inputs and targets of all rows in an epoch: (D, time, rows) each."""
    steps = range(epoch * rows.steps_per_epoch, (epoch + 1) * rows.steps_per_epoch)
    batches = [rows.read(step, np.arange(num_rows)) for step in steps]
    inputs = np.concatenate([batch.words[batch.inputs] for batch in batches], axis=1)
    return inputs, np.concatenate([batch.targets for batch in batches], axis=1)


def _bigrams(corpus: Corpus, backward: bool) -> list[tuple[int, int]]:
    """Return (input, target) of every position of the text, as defined."""
    stream = corpus.train.read(0, corpus.train.num_positions + 1).tolist()
    pairs = []
    sentence: list[int] = []
    for id in stream[1:]:
        if id != END_ID:
            sentence.append(id)
            continue
        words = [BEGIN_ID, *sentence, END_ID]
        words = words[::-1] if backward else words
        targets = [w if w < corpus.vocab_size else UNKNOWN_ID for w in words[1:]]
        pairs += list(zip(words[:-1], targets, strict=True))
        sentence = []
    return sorted(pairs)


@pytest.mark.parametrize("direction", [0, 1])
def test_an_epoch_reads_every_position_once(corpus: Corpus, direction: int) -> None:
    """With one row and one step, no position is left over."""
    rows = _rows(corpus, num_rows=1, num_steps=1)
    inputs, targets = _epoch(rows, 1)
    pairs = zip(
        inputs[direction].ravel().tolist(), targets[direction].ravel().tolist(), strict=True
    )
    assert sorted(pairs) == _bigrams(corpus, backward=direction == 1)


def test_the_backward_stream_is_the_reversed_text(corpus: Corpus) -> None:
    rows = _rows(corpus, num_rows=3, num_steps=7)
    inputs, targets = _epoch(rows, 3)
    for row in range(3):
        forward, backward = targets[0, :, row], inputs[1, ::-1, row]
        # The same segment: forward targets are backward inputs, from the other end.
        known = np.where(backward < corpus.vocab_size, backward, UNKNOWN_ID)
        np.testing.assert_array_equal(forward, known)


@pytest.mark.parametrize("direction", [0, 1])
def test_windows_follow_each_other(corpus: Corpus, direction: int) -> None:
    """The target of a step is the input of the next, also from one window to the next."""
    inputs, targets = _epoch(_rows(corpus, num_rows=4, num_steps=5), 4)
    read, predicted = inputs[direction, 1:], targets[direction, :-1]
    boundary = (BEGIN_ID, END_ID)[1 - direction]  # the end of a sentence in this direction
    begins = (BEGIN_ID, END_ID)[direction]
    expected = np.where(read == begins, boundary, read)
    expected = np.where(expected < corpus.vocab_size, expected, UNKNOWN_ID)
    np.testing.assert_array_equal(predicted, expected)


def test_a_boundary_is_never_predicted_from_a_boundary(corpus: Corpus) -> None:
    inputs, targets = _epoch(_rows(corpus, num_rows=2, num_steps=9), 2)
    assert not ((inputs <= END_ID) & (targets <= END_ID)).any()
    assert set(np.unique(targets[0][targets[0] <= END_ID])) == {END_ID}
    assert set(np.unique(targets[1][targets[1] <= END_ID])) == {BEGIN_ID}


def test_epochs_differ_and_repeat_by_seed(corpus: Corpus) -> None:
    assert corpus.train.num_shards > 1
    rows, again = _rows(corpus, 4, 8), _rows(corpus, 4, 8)
    first, second = _epoch(rows, 4, 0)[0], _epoch(rows, 4, 1)[0]
    assert (first != second).any()
    np.testing.assert_array_equal(second, _epoch(again, 4, 1)[0])


def test_processes_together_read_what_one_reads(corpus: Corpus) -> None:
    rows = _rows(corpus, num_rows=5, num_steps=6)
    whole = rows.read(11, np.arange(5))
    for num in (1, 2, 3, 5):
        shares = [deal_rows(5, rank, num) for rank in range(num)]
        np.testing.assert_array_equal(np.concatenate(shares), np.arange(5))
        parts = [rows.read(11, share) for share in shares]
        targets = np.concatenate([part.targets for part in parts], axis=2)
        inputs = np.concatenate([part.words[part.inputs] for part in parts], axis=2)
        np.testing.assert_array_equal(targets, whole.targets)
        np.testing.assert_array_equal(inputs, whole.words[whole.inputs])


def test_batches_come_in_order_and_in_pieces(corpus: Corpus) -> None:
    rows = _rows(corpus, num_rows=4, num_steps=6)
    pieces = [np.array([0, 1]), np.array([2, 3])]
    for step, batches in enumerate(rows.batches(2, 5, pieces), start=2):
        for piece, batch in zip(pieces, batches, strict=True):
            np.testing.assert_array_equal(batch.targets, rows.read(step, piece).targets)


@pytest.mark.parametrize("text", ["word\n", "a b\n", "one\ntwo words\n"])
def test_the_shortest_texts_are_read_repeatedly(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(text, encoding="utf-8")
    options = PrepareOptions(tokenized=True, min_count=1)
    prepare_corpus([str(tmp_path / "t.txt")], tmp_path / "c", options, num_workers=1)
    corpus = open_corpus(tmp_path / "c")
    rows = _rows(corpus, num_rows=3, num_steps=8)
    assert rows.steps_per_epoch == 1
    inputs, targets = _epoch(rows, 3)
    pairs = set(zip(inputs[0].ravel().tolist(), targets[0].ravel().tolist(), strict=True))
    assert pairs == set(_bigrams(corpus, backward=False))


def test_unidirectional(corpus: Corpus) -> None:
    inputs, _ = _epoch(_rows(corpus, 2, 5, directions=1), 2)
    both, _ = _epoch(_rows(corpus, 2, 5), 2)
    np.testing.assert_array_equal(inputs[0], both[0])


def test_words_are_distinct_and_spelled(corpus: Corpus) -> None:
    batch = _rows(corpus, 4, 8).read(5, np.arange(4))
    read = batch.words[batch.inputs]
    words, indices = np.unique(read, return_inverse=True)
    np.testing.assert_array_equal(batch.words, words)
    np.testing.assert_array_equal(batch.inputs, indices.reshape(read.shape))
    spelling, expected = batch.table.spelling, corpus.lexicon.spell(words)
    assert spelling is not None
    np.testing.assert_array_equal(spelling.ids, expected.ids)
    np.testing.assert_array_equal(spelling.lengths, expected.lengths)


def test_some_rows_are_reset(corpus: Corpus) -> None:
    """The set share, other rows at every step, the same for any number of processes."""
    rows = _rows(corpus, num_rows=50, num_steps=2, reset=0.2)
    kept = [rows.read(step, np.arange(50)).kept for step in range(40)]
    assert all(mask is not None for mask in kept)
    drawn = np.stack([mask for mask in kept if mask is not None])
    assert 0.75 < drawn.mean() < 0.85
    assert (drawn.mean(0) > 0.5).all()
    share = rows.read(7, np.arange(20, 30)).kept
    assert share is not None
    np.testing.assert_array_equal(share, drawn[7, 20:30])
    assert _rows(corpus, 4, 8).read(0, np.arange(4)).kept is None


def test_reset_rows_start_at_a_sentence(corpus: Corpus) -> None:
    """In both directions; the other rows are not affected."""
    plain = _rows(corpus, num_rows=50, num_steps=4, reset=0.3)
    aligned = _rows(corpus, num_rows=50, num_steps=4, reset=0.3, reset_at="sentence")
    for step in range(10):
        expected, batch = (rows.read(step, np.arange(50)) for rows in (plain, aligned))
        assert batch.kept is not None
        assert expected.kept is not None
        np.testing.assert_array_equal(batch.kept, expected.kept)
        read = batch.words[batch.inputs]
        assert (read[0, 0, ~batch.kept] == BEGIN_ID).all()
        assert (read[1, 0, ~batch.kept] == END_ID).all()
        np.testing.assert_array_equal(
            read[:, :, batch.kept], expected.words[expected.inputs][:, :, batch.kept]
        )
        np.testing.assert_array_equal(
            batch.targets[:, :, batch.kept], expected.targets[:, :, batch.kept]
        )


def test_batches_are_prepared_ahead(corpus: Corpus) -> None:
    """Every batch once, in the reading thread."""
    rows = _rows(corpus, num_rows=4, num_steps=6)
    pieces = [np.array([0, 1]), np.array([2, 3])]
    threads: list[int] = []

    def prepare(batch: Batch) -> Batch:
        threads.append(threading.get_ident())
        return replace(batch, targets=batch.targets + 1)

    for step, batches in enumerate(rows.batches(0, 3, pieces, prepare)):
        for piece, batch in zip(pieces, batches, strict=True):
            np.testing.assert_array_equal(batch.targets, rows.read(step, piece).targets + 1)
    assert len(threads) == 6
    assert len({*threads, threading.get_ident()}) == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_pinned_text_is_the_same(corpus: Corpus) -> None:
    batch = _rows(corpus, num_rows=4, num_steps=6, reset=0.5).read(0, np.arange(4))
    there = pinned(batch)
    assert there.table.spelling is not None
    assert batch.table.spelling is not None
    for array, copy in (
        (batch.inputs, there.inputs),
        (batch.targets, there.targets),
        (batch.kept, there.kept),
        (batch.table.spelling.ids, there.table.spelling.ids),
    ):
        assert copy is not None
        assert torch.from_numpy(copy).is_pinned()
        np.testing.assert_array_equal(array, copy)
