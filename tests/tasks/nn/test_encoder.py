"""RNNs over padded sentences: against torch's own way to pack them, and sentences of no words."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmox.tasks.nn.encoder import PackedOrder, read_padded

WIDTH, CELLS = 3, 4


def some_words(num_rows: int, num_steps: int) -> Tensor:
    chance = torch.Generator().manual_seed(0)
    return torch.randn(num_rows, num_steps, WIDTH, generator=chance).requires_grad_()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("lengths", [[4], [2, 5, 5, 1, 3], [3, 3, 3]])
@pytest.mark.parametrize("num_steps", [5, 9])
def test_it_is_what_torch_makes_of_them(
    kind: type[nn.LSTM | nn.GRU], lengths: list[int], num_steps: int
) -> None:
    """Bit by bit, gradients too."""
    torch.manual_seed(0)
    rnn, sizes = kind(WIDTH, CELLS, batch_first=True, bidirectional=True), torch.tensor(lengths)
    words = some_words(len(lengths), num_steps)
    inputs = (words, *rnn.parameters())
    outputs = read_padded(rnn, words, PackedOrder.of(sizes, words))
    packed = pack_padded_sequence(words, sizes, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(rnn(packed)[0], batch_first=True, total_length=num_steps)
    assert outputs.equal(expected)
    assert outputs.is_contiguous()
    ours, theirs = (
        torch.autograd.grad(vectors.square().sum(), inputs) for vectors in (outputs, expected)
    )
    assert all(map(torch.equal, ours, theirs))


def test_sentences_without_words_are_zeros() -> None:
    rnn = nn.LSTM(WIDTH, CELLS, bidirectional=True)
    words = some_words(3, 4)
    outputs = read_padded(rnn, words, PackedOrder.of(torch.tensor([0, 4, 0]), words))
    alone = read_padded(rnn, words[1:2], PackedOrder.of(torch.tensor([4]), words[1:2]))
    assert not outputs[[0, 2]].any()
    assert torch.allclose(outputs[1:2], alone, atol=1e-6)
