"""The optimizers' kernels against plain torch: on a GPU, otherwise in Triton's interpreter."""

import pytest
import torch
from torch import Tensor
from triton_interpreter import DEVICE, interpreted

from elmox.kernels.row_update.plain import (
    Adagrad,
    AdamW,
    Gradient,
    Update,
    update_plainly,
)

with interpreted():
    from elmox.kernels.row_update.triton_kernels import Brake, adagrad, adamw

RULES = [Adagrad(0.1), AdamW(0.1, time=3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)]
SHAPES = [(7, 5), (9,), (6, 40, 3), (4, 1500)]


def arrays(shape: tuple[int, ...], generator: torch.Generator) -> Update:
    """A weight with positive slots, and no gradient yet."""
    slots = {
        name: 1 + torch.rand(shape, generator=generator).to(DEVICE)
        for name in ("sum", "mean", "square")
    }
    weight = torch.randn(shape, generator=generator).to(DEVICE)
    return Update(weight, slots, Gradient(torch.empty(0)))


def copy(update: Update) -> Update:
    slots = {name: slot.clone() for name, slot in update.slots.items()}
    return Update(update.weight.clone(), slots, update.gradient)


def run(update: Update, rule: Adagrad | AdamW, divisor: float, skip: bool) -> None:
    weight, slots, (values, rows) = update.weight, update.slots, tensors(update.gradient)
    brake = Brake(*(torch.tensor(number, device=DEVICE) for number in (divisor, float(skip))))
    with interpreted():
        if isinstance(rule, Adagrad):
            adagrad(weight, slots["sum"], values, rows, brake, rule.lr)
        else:
            adamw(weight, (slots["mean"], slots["square"]), values, rows, brake, rule.factors())


def tensors(gradient: Gradient) -> tuple[Tensor, Tensor | None]:
    return gradient.values, gradient.rows


@pytest.mark.parametrize("rule", RULES, ids=["adagrad", "adamw"])
@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_kernels_update_like_plain_torch(
    shape: tuple[int, ...], by_rows: bool, rule: Adagrad | AdamW
) -> None:
    """Whole arrays and rows of them, with clipped gradients; a skipped update changes nothing."""
    generator = torch.Generator().manual_seed(len(shape))
    update = arrays(shape, generator)
    rows = torch.tensor([3, 0], device=DEVICE) if by_rows else None
    values = torch.randn((2, *shape[1:]) if by_rows else shape, generator=generator).to(DEVICE)
    expected, ours = (
        copy(update)._replace(gradient=Gradient(v, rows)) for v in (values / 2, values)
    )
    run(ours, rule, divisor=2.0, skip=True)
    assert torch.equal(ours.weight, update.weight)
    run(ours, rule, divisor=2.0, skip=False)
    update_plainly(expected, rule)
    torch.testing.assert_close(ours.weight, expected.weight, rtol=1e-6, atol=1e-6)
    for name, slot in expected.slots.items():
        torch.testing.assert_close(ours.slots[name], slot, rtol=1e-6, atol=1e-6)
