"""Batches of ELMo's layers: put together on the host, or looked up in a table on the device."""

import numpy as np
import pytest
import torch

from elmox.tasks.fit import layer_batches
from elmox.tasks.fit.layer_batches import LayerBatches, LayerTable

LENGTHS = np.array([3, 1, 0, 7, 2], np.int64)
ALL = np.arange(len(LENGTHS))
CPU = torch.device("cpu")


def some_layers(dtype: type = np.float16) -> list[np.ndarray]:
    chance = np.random.default_rng(0)
    return [chance.normal(size=(3, length, 4)).astype(dtype) for length in LENGTHS]


def mask_of(chosen: list[int]) -> np.ndarray:
    return np.arange(max(1, int(LENGTHS[chosen].max()))) < LENGTHS[chosen, None]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_sentences_are_padded_with_zeros(dtype: type) -> None:
    layers, chosen = some_layers(dtype), [3, 0, 2]
    batch = LayerBatches(layers, LENGTHS).batch(chosen, mask_of(chosen), CPU)
    assert batch.shape == (3, 3, 7, 4)
    assert batch.dtype == torch.float32
    for row, index in enumerate(chosen):
        np.testing.assert_array_equal(batch[:, row, : LENGTHS[index]], layers[index])
        assert not batch[:, row, LENGTHS[index] :].any()


@pytest.mark.parametrize("words_at_once", [1, 4, 100])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_table_gives_identical_batches(
    words_at_once: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_batches, "_WORDS_AT_ONCE", words_at_once)
    layers = some_layers(dtype)
    table = LayerTable(layers, LENGTHS, ALL, CPU)
    for chosen in ([3, 0, 2], [1], [4, 4, 3, 1], [2]):
        expected = LayerBatches(layers, LENGTHS).batch(chosen, mask_of(chosen), CPU)
        batch = table.batch(chosen, mask_of(chosen))
        assert torch.equal(batch, expected)
        assert batch.dtype == torch.float32
        assert batch.is_contiguous()


class Counted(list[np.ndarray]):
    """Layers that record which of them were read."""

    def __init__(self, layers: list[np.ndarray]) -> None:
        super().__init__(layers)
        self.read: set[int] = set()

    def __getitem__(self, index: int) -> np.ndarray:  # type: ignore[override]
        self.read.add(int(index))
        return super().__getitem__(index)


def test_a_table_of_some_sentences_reads_no_others() -> None:
    layers, chosen = Counted(some_layers()), [4, 1]
    table = LayerTable(layers, LENGTHS, np.array([1, 4]), CPU)
    assert layers.read == {0, 1, 4}  # the first, for its shape
    expected = LayerBatches(layers, LENGTHS).batch(chosen, mask_of(chosen), CPU)
    assert torch.equal(table.batch(chosen, mask_of(chosen)), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("share", [0.0, 0.25])
def test_on_a_gpu_with_and_without_room(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_batches, "GPU_SHARE", share)
    layers, chosen, gpu = some_layers(), [3, 0, 2], torch.device("cuda")
    batches = LayerBatches(layers, LENGTHS)
    assert (batches.table(gpu) is None) == (share == 0)
    batch = batches.batch(chosen, mask_of(chosen), gpu)
    assert torch.equal(batch.cpu(), batches.batch(chosen, mask_of(chosen), CPU))
