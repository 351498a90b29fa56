"""What the floor counts, and what a table shows."""

import os
from typing import Any

import numpy as np
import pytest
import torch

from elmox.bench.floor import SIDE, ProductRate, adaptive_work, lstm_work, product_rate, word_work
from elmox.bench.peers import Notes, plain_kernels
from elmox.bench.table import Column, Report, milliseconds
from elmox.bench.text import distinct_words, first_sentences
from elmox.config import PRESETS, ElmoConfig, LstmConfig, WordConfig
from elmox.kernels.availability import FORCE
from elmox.model.softmax import AdaptiveSoftmax

ORIGINAL = PRESETS["original"]
CPU = torch.device("cpu")


def test_lstm_of_the_original_size() -> None:
    assert lstm_work(ORIGINAL.lstm) == 2 * 9 * 4096 * 512
    bare = LstmConfig(cell_dim=8, projection_dim=8, has_projection=False, bidirectional=False)
    assert lstm_work(bare) == 8 * 8 * 8


def brute_force_windows(length: int, slots: int, width: int) -> int:
    """Windows that hold a used slot, and one that holds none, if there is one."""
    starts = range(slots - width + 1)
    return sum(start < length for start in starts) + any(start >= length for start in starts)


def test_words_count_each_window_that_decides() -> None:
    config = ORIGINAL.char_cnn
    assert config is not None
    lengths = np.array([3, 9, 30, 45, 50])
    work = word_work(ORIGINAL, lengths)
    assert work.convolutions == sum(
        brute_force_windows(int(length), 50, width) * width * count * 16
        for length in lengths
        for width, count in config.filters
    )
    assert work.dense == len(lengths) * (2 * 2 * 2048**2 + 2048 * 512)
    assert work.inference(by_table=False) == work.convolutions + work.dense
    assert work.inference(by_table=True) == work.convolutions / 16 + work.dense
    assert work.training < 3 * work.inference(by_table=False)


def test_words_of_all_slots_are_the_whole_convolution() -> None:
    """The published figure: 8.8 million at 50 slots."""
    assert word_work(ORIGINAL, np.array([50])).convolutions == pytest.approx(8.8e6, rel=0.01)


def test_words_that_are_looked_up_cost_their_projection() -> None:
    lstm = LstmConfig(cell_dim=8, projection_dim=4)
    config = ElmoConfig(lstm=lstm, char_cnn=None, words=WordConfig(num_words=9, dim=6))
    work = word_work(config, np.zeros(5, np.int64))
    assert (work.convolutions, work.winners, work.dense) == (0, 0, 5 * 6 * 4)


def test_adaptive_softmax_counts_a_cluster_for_its_own_targets() -> None:
    softmax = AdaptiveSoftmax(num_words=30, dim=16, cutoffs=(10, 20))
    # Head of 10 words and 2 clusters; clusters of 10 words, 4 and 1 wide.
    work = adaptive_work(softmax, np.array([0, 9, 10, 19, 20]))
    assert work == 5 * 12 * 16 + 2 * (16 * 4 + 4 * 10) + 1 * (16 * 1 + 1 * 10)


def test_product_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIDE, "cpu", 32)
    rate = product_rate(CPU, torch.float32)
    assert rate.flops > 0
    assert (rate.side, rate.dtype) == (32, "float32")
    assert rate.seconds(rate.flops / 2) == pytest.approx(1.0)


def test_a_peer_that_fails_leaves_a_note() -> None:
    notes = Notes()

    def fail() -> int:
        raise RuntimeError("no such kernel\nand a long story")

    assert notes.attempt("peer", fail) is None
    assert notes.attempt("peer", fail) is None
    assert notes == ["peer is missing: no such kernel"]
    assert notes.attempt("peer", lambda: 3) == 3


@pytest.mark.parametrize("before", [None, "pointwise"])
def test_plain_kernels_only_for_a_while(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FORCE, raising=False)
    if before is not None:
        monkeypatch.setenv(FORCE, before)
    with plain_kernels():
        assert os.environ[FORCE] == "torch"
    assert os.environ.get(FORCE) == before


def test_a_missing_measurement_is_a_dash() -> None:
    columns = [Column("name", "name"), milliseconds("seconds", "time"), Column("share", "s", ".0%")]
    rows: list[dict[str, Any]] = [
        {"name": "a", "seconds": 0.0125, "share": 0.5},
        {"name": "b", "seconds": None},
    ]
    rate = ProductRate(7.85e14, 8192, "bfloat16")
    report = Report("lstm", "Title", CPU, rate, {"num_rows": 2048}, columns, rows, ["b is missing"])
    table = report.to_markdown()
    assert "| a | 12.5 | 50% |\n| b | - | - |\n" in table
    assert "- num rows: 2,048\n" in table
    assert "785 TFLOP/s in bfloat16" in table
    assert table.endswith("\n- b is missing\n")
    assert report.to_dict()["rows"] == rows


def test_a_short_text_is_gone_through_again() -> None:
    words, num_distinct = distinct_words(None, str.split, 20_000)
    assert len(words) == 20_000
    assert num_distinct == len(set(words)) < 20_000
    few, num_distinct = distinct_words(None, str.split, 7)
    assert few == words[:7]
    assert num_distinct == 7
    assert [len(first_sentences(None, str.split, n)) for n in (1, 30)] == [1, 30]
