"""`BiLm.learn` against `BiLm.forward`, the plain version: values and gradients."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from elmox.config import CharCnnConfig, ElmoConfig, LstmConfig
from elmox.model.bilm import BiLm
from elmox.model.init import random_bilm
from elmox.model.state import LstmState, zero_state

LSTM = LstmConfig(cell_dim=7, projection_dim=5, num_layers=2, cell_clip=0.5, proj_clip=0.4)
CONFIGS = {
    "both": LSTM,
    "forward only": replace(LSTM, bidirectional=False),
    "no skip, no clips": replace(LSTM, skip_connections=False, cell_clip=None, proj_clip=None),
    "no projection": replace(LSTM, cell_dim=5, has_projection=False, proj_clip=None),
}
LENGTHS = np.array([4, 1, 9, 2])


def made(lstm: LstmConfig, dtype: torch.dtype) -> tuple[BiLm, LstmState]:
    """A model, and a start state that is not zero."""
    cnn = CharCnnConfig(filters=((1, 3),), embedding_dim=3, num_highways=1)
    bilm = random_bilm(ElmoConfig(lstm=lstm, char_cnn=cnn), seed=1).to(dtype)
    empty = zero_state(lstm, len(LENGTHS), torch.device("cpu"), dtype)
    generator = torch.Generator().manual_seed(7)
    hidden, cell = (
        torch.rand(part.shape, generator=generator).to(dtype) - 0.5
        for part in (empty.hidden, empty.cell)
    )
    return bilm.requires_grad_(True), LstmState(hidden, cell)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_layers_and_gradients(name: str) -> None:
    bilm, state = made(CONFIGS[name], torch.float64)
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randn(int(LENGTHS.sum()), 5, generator=generator, dtype=torch.float64)
    tokens.requires_grad_(True)
    learned = {"tokens": tokens} | dict(bilm.lstm.named_parameters())
    plain, _ = bilm(tokens, LENGTHS, state)
    fast = bilm.learn(tokens, LENGTHS, state)
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-12)
    weight = torch.randn(plain.shape, generator=generator, dtype=torch.float64)
    expected = torch.autograd.grad((plain * weight).sum(), list(learned.values()))
    gradients = torch.autograd.grad((fast * weight).sum(), list(learned.values()))
    for name, a, b in zip(learned, gradients, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11, msg=name)


def test_half_precision_takes_the_plain_way() -> None:
    bilm, state = made(LSTM, torch.bfloat16)
    tokens = torch.ones(int(LENGTHS.sum()), 5, dtype=torch.bfloat16)
    fast = bilm.learn(tokens, LENGTHS, state)
    assert fast.dtype == torch.bfloat16
    assert torch.equal(fast, bilm(tokens, LENGTHS, state)[0])
