"""The sampled objective, which gathers only the rows that a step touches, against all rows."""

import pytest
import torch
from torch import Tensor

from elmox.kernels.cross_entropy.dispatch import sampled_cross_entropy
from elmox.model.softmax import FullSoftmax
from elmox.training import objective
from elmox.training.distributed import Processes
from elmox.training.log_uniform import LogUniformSampler
from elmox.training.objective import SampledObjective

NUM_WORDS, DIM, NUM_SAMPLES, SEED = 60, 5, 11, 3


@pytest.fixture
def softmax() -> FullSoftmax:
    layer = FullSoftmax(NUM_WORDS, DIM).double()
    layer.init(torch.Generator().manual_seed(1))
    return layer


def sampled(softmax: FullSoftmax) -> SampledObjective:
    return SampledObjective(softmax, NUM_SAMPLES, SEED, Processes(0, 1, torch.device("cpu")))


def positions(num: int) -> tuple[Tensor, Tensor]:
    """Return hidden vectors and targets of two directions; words from 20 on are never targets."""
    rng = torch.Generator().manual_seed(2)
    hidden = torch.randn(2, num, DIM, dtype=torch.float64, generator=rng)
    return hidden, torch.randint(20, (2, num), generator=rng)


def one_step(
    objective: SampledObjective, step: int, num_pieces: int = 1
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Return the loss, and the gradients of the hidden vectors and of all rows."""
    hidden, targets = positions(8)
    hidden.requires_grad_()
    objective.begin(step, targets)
    losses = []
    split = (tensor.tensor_split(num_pieces, 1) for tensor in (hidden, targets))
    for inputs, words in zip(*split, strict=True):
        losses.append(objective.loss(inputs, words))
        torch.autograd.backward(losses[-1])
    assert hidden.grad is not None
    whole = {}
    for name, gradient in objective.gradients().items():
        assert gradient.rows is not None
        assert (gradient.rows.diff() > 0).all()
        whole[name] = gradient.values.new_zeros(NUM_WORDS, *gradient.values.shape[1:])
        whole[name][gradient.rows] = gradient.values
    return torch.stack(losses).sum().detach(), hidden.grad, whole


@pytest.mark.parametrize("num_pieces", [1, 3])
def test_only_the_touched_rows_matter(softmax: FullSoftmax, num_pieces: int) -> None:
    loss, of_hidden, of_rows = one_step(sampled(softmax), 7, num_pieces)
    sampler = LogUniformSampler(NUM_WORDS, NUM_SAMPLES)
    drawn = [sampler.draw(SEED, 7, direction, "cpu") for direction in range(2)]
    ids, tries = torch.stack([d.ids for d in drawn]), torch.stack([d.tries for d in drawn])[:, None]
    hidden, targets = positions(8)
    expected = sampled_cross_entropy(
        hidden.requires_grad_(),
        softmax.weight,
        softmax.bias,
        targets,
        ids,
        sampler.log_expected(targets, tries),
        sampler.log_expected(ids, tries),
    )
    torch.autograd.backward(expected)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(of_hidden, hidden.grad)
    for name, parameter in softmax.named_parameters():
        torch.testing.assert_close(of_rows[name], parameter.grad)


def test_candidates_do_not_depend_on_where_a_run_was_resumed(
    softmax: FullSoftmax, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not depend on the number of steps that are drawn together, either."""
    alone = [one_step(sampled(softmax), step)[0] for step in range(7)]
    assert len({float(loss) for loss in alone}) == 7
    monkeypatch.setattr(objective, "STEPS_AT_ONCE", {"cpu": 3})
    loss = sampled(softmax)
    assert [one_step(loss, step)[0] for step in range(7)] == alone
    assert [one_step(sampled(softmax), step)[0] for step in range(7)] == alone
