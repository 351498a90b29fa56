"""Batches of ELMo's layers: put together on the host, or looked up in a table on the device."""

import numpy as np
import pytest
import torch

from elmox.tasks import layer_batches
from elmox.tasks.layer_batches import LayerBatches, LayerTable

LENGTHS = np.array([3, 1, 0, 7, 2], np.int64)
CPU = torch.device("cpu")


def some_layers(dtype: type = np.float16) -> list[np.ndarray]:
    chance = np.random.default_rng(0)
    return [chance.normal(size=(3, length, 4)).astype(dtype) for length in LENGTHS]


def mask_of(chosen: list[int], num_steps: int) -> np.ndarray:
    return np.arange(num_steps) < LENGTHS[chosen, None]


def test_sentences_lie_side_by_side_with_zeros_after_them() -> None:
    layers, chosen = some_layers(), [3, 0, 2]
    found = LayerBatches(layers, LENGTHS).batch(chosen, mask_of(chosen, 7), CPU)
    assert found.shape == (3, 3, 7, 4)
    assert found.dtype == torch.float32
    for row, own in enumerate(chosen):
        np.testing.assert_array_equal(found[:, row, : LENGTHS[own]], layers[own])
        assert not found[:, row, LENGTHS[own] :].any()


@pytest.mark.parametrize("words_at_once", [1, 4, 100])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_table_gives_the_very_same(
    words_at_once: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_batches, "_WORDS_AT_ONCE", words_at_once)
    layers = some_layers(dtype)
    table = LayerTable(layers, LENGTHS, CPU)
    for chosen in ([3, 0, 2], [1], [4, 4, 3, 1], [2]):
        mask = mask_of(chosen, max(1, int(LENGTHS[chosen].max())))
        expected = LayerBatches(layers, LENGTHS).batch(chosen, mask, CPU)
        found = table.batch(chosen, mask)
        assert torch.equal(found, expected)
        assert found.dtype == torch.float32
        assert found.is_contiguous()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("share", [0.0, 0.25])
def test_on_a_gpu_with_and_without_room(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_batches, "GPU_SHARE", share)
    layers, chosen = some_layers(), [3, 0, 2]
    batches, mask = LayerBatches(layers, LENGTHS), mask_of(chosen, 7)
    found = batches.batch(chosen, mask, torch.device("cuda"))
    assert torch.equal(found.cpu(), batches.batch(chosen, mask, CPU))
