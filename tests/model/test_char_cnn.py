"""The character CNN on trimmed words: the same values and the same gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmox.config import CharCnnConfig, ElmoConfig, LstmConfig
from elmox.model import char_cnn as module
from elmox.model.char_cnn import CharCnn
from elmox.model.token_encoder import TokenEncoder
from elmox.text.chars import Spelling, spell_bytes
from elmox.text.words import WordTable

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}


def gradients(pooled: Tensor, char_cnn: CharCnn) -> list[Tensor]:
    """Gradients of a random linear function of the output."""
    generator = torch.Generator().manual_seed(5)
    weights = torch.randn(pooled.shape, generator=generator, dtype=torch.float64)
    return list(torch.autograd.grad((pooled * weights).sum(), list(char_cnn.parameters())))


def tensors(spelling: Spelling) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(spelling.ids.astype(np.int64)), torch.from_numpy(spelling.lengths)


def check(char_cnn: CharCnn, spelling: Spelling) -> None:
    """Trimmed against untrimmed."""
    tolerance = TOLERANCE[char_cnn.embedding.weight.dtype]
    ids, lengths = tensors(spelling)
    expected, short = char_cnn(ids), char_cnn(ids, lengths)
    torch.testing.assert_close(short, expected, rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(gradients(short, char_cnn), gradients(expected, char_cnn), strict=True):
        scale = tolerance * max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=scale)


@settings(max_examples=60, deadline=None)
@given(
    filters=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=4),
    activation=st.sampled_from(("relu", "tanh")),
    max_characters=st.integers(6, 20),
    words=st.lists(st.text("abé€", max_size=20), min_size=1, max_size=60),
    at_once=st.sampled_from((1, 3, 128)),
)
def test_trimmed_is_untrimmed(
    filters: list[tuple[int, int]],
    activation: str,
    max_characters: int,
    words: list[str],
    at_once: int,
) -> None:
    config = CharCnnConfig(
        tuple(filters),
        3,
        max_characters=max_characters,
        activation=activation,  # type: ignore[arg-type]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WORDS_AT_ONCE", at_once)
        check(CharCnn(config).double(), spell_bytes(words, max_characters))


@pytest.mark.parametrize("longest", [3, 20, 60])
def test_the_published_filters(longest: int) -> None:
    torch.manual_seed(longest)
    words = ["x" * (i % longest + 1) + str(i) for i in range(140)]
    check(CharCnn(CharCnnConfig()).double(), spell_bytes(words))


def test_float32() -> None:
    """Few filters: if two positions differ only by rounding, either may get the gradient."""
    torch.manual_seed(0)
    words = ["x" * (i % 20 + 1) + str(i) for i in range(40)]
    check(CharCnn(CharCnnConfig(((1, 3), (4, 3), (7, 3)))), spell_bytes(words))


def test_the_groups_of_a_gpu() -> None:
    cuts = module._cuts
    gpu = torch.device("cuda")
    assert cuts(3200, gpu) == [0, 1600, 2800, 3100, 3200]
    assert cuts(1, gpu) == [0, 1]
    for num_words in range(1, 70):
        for device in (gpu, torch.device("cpu")):
            bounds = cuts(num_words, device)
            assert (bounds[0], bounds[-1]) == (0, num_words)
            assert bounds == sorted(set(bounds))


@pytest.mark.parametrize("num_words", [1, 5, 140])
def test_the_spare_words_of_a_gpu_change_nothing(
    num_words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = torch.device("cuda")
    assert module._num_spare(1025, gpu) == 1023
    assert module._num_spare(1024, gpu) == 0
    cuts, spare = module._cuts, module._num_spare
    monkeypatch.setattr(module, "_cuts", lambda number, device: cuts(number, gpu))
    monkeypatch.setattr(module, "_num_spare", lambda number, device: spare(number, gpu) % 64)
    torch.manual_seed(num_words)
    words = ["x" * (i % 20 + 1) + str(i) for i in range(num_words)]
    check(CharCnn(CharCnnConfig()).double(), spell_bytes(words))


def test_few_slots_are_read() -> None:
    """Short words never look at the slots that they do not need."""
    torch.manual_seed(0)
    char_cnn = CharCnn(CharCnnConfig(((1, 4), (3, 4)), 3))
    ids, lengths = tensors(spell_bytes(["a", "bcd", "efghi"]))
    spoilt = ids.clone()
    spoilt[:, 7 + 3 :] = 5  # the longest uses seven slots
    torch.testing.assert_close(char_cnn(spoilt, lengths), char_cnn(ids, lengths), rtol=0, atol=0)
    assert not torch.equal(char_cnn(spoilt), char_cnn(ids))


def test_no_words() -> None:
    char_cnn = CharCnn(CharCnnConfig(((1, 4), (3, 4)), 3))
    ids, lengths = tensors(spell_bytes([]))
    assert char_cnn(ids, lengths).shape == (0, 8)


def test_the_encoder_trims_in_training_too() -> None:
    config = ElmoConfig(
        lstm=LstmConfig(8, 4), char_cnn=CharCnnConfig(((1, 4), (3, 4)), 3, num_highways=1)
    )
    encoder = TokenEncoder(config).double()
    spelling = spell_bytes(["a", "bcd", "efghi"])
    spoilt = spelling.ids.copy()
    spoilt[:, 7 + 3 :] = 5
    table = WordTable(Spelling(spoilt, spelling.lengths), None)
    trained = encoder(table)
    assert trained.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(encoder(table), trained.detach(), rtol=0, atol=1e-12)
