"""Optimisers against torch's own, the schedule, and updates of single rows."""

import pytest
import torch

from elmox.train.optim import Gradient, Optimizer, global_norm, learning_rate
from elmox.train.recipe import OptimRecipe


def _train(optimizer_name: str, num_steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same gradients through ours and torch's; returns both results."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(5, 3, generator=generator)
    recipe = OptimRecipe(name=optimizer_name, lr=0.1, weight_decay=0.01)  # type: ignore[arg-type]
    mine = start.clone()
    optimizer = Optimizer(recipe, {"w": mine})
    theirs = torch.nn.Parameter(start.clone())
    peer: torch.optim.Optimizer
    if optimizer_name == "adagrad":
        peer = torch.optim.Adagrad([theirs], lr=0.1, initial_accumulator_value=1.0, eps=0.0)
    else:
        peer = torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.01)
    for step in range(num_steps):
        gradient = torch.randn(5, 3, generator=generator)
        theirs.grad = gradient.clone()
        peer.step()
        optimizer.step({"w": Gradient(gradient)}, 0.1, step)
    return mine, theirs.detach()


@pytest.mark.parametrize("name", ["adagrad", "adamw"])
def test_equals_torch(name: str) -> None:
    mine, theirs = _train(name, 10)
    torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["adagrad", "adamw"])
def test_touched_rows_move_as_a_matrix_of_their_own(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    recipe = OptimRecipe(name=name, lr=0.1, weight_decay=0.01)  # type: ignore[arg-type]
    whole = torch.randn(6, 3, generator=generator)
    rows = torch.tensor([4, 1])
    part, untouched = whole[rows].clone(), whole[[0, 2, 3, 5]].clone()
    by_rows, alone = Optimizer(recipe, {"w": whole}), Optimizer(recipe, {"w": part})
    for step in range(4):
        gradient = torch.randn(2, 3, generator=generator)
        by_rows.step({"w": Gradient(gradient, rows)}, 0.1, step)
        alone.step({"w": Gradient(gradient)}, 0.1, step)
    torch.testing.assert_close(whole[rows], part, rtol=1e-6, atol=1e-7)
    assert torch.equal(whole[[0, 2, 3, 5]], untouched)


def test_adagrad_leaves_rows_without_gradient_alone_also_when_updated_whole() -> None:
    """So that updating touched rows only is exactly the published optimiser."""
    recipe = OptimRecipe(name="adagrad", lr=0.2)
    start = torch.randn(4, 2)
    whole, rows = start.clone(), start.clone()
    gradient = torch.zeros(4, 2)
    gradient[2] = torch.tensor([0.5, -3.0])
    Optimizer(recipe, {"w": whole}).step({"w": Gradient(gradient)}, 0.2, 0)
    touched = torch.tensor([2])
    Optimizer(recipe, {"w": rows}).step({"w": Gradient(gradient[touched], touched)}, 0.2, 0)
    torch.testing.assert_close(whole, rows, rtol=0, atol=1e-7)
    # The published step: g / sqrt(1 + g^2), no epsilon.
    torch.testing.assert_close(
        whole[2], start[2] - 0.2 * gradient[2] / (1 + gradient[2] ** 2) ** 0.5
    )


def test_schedule() -> None:
    recipe = OptimRecipe(lr=1.0, warmup=4, schedule="cosine", final_lr=0.1)
    rates = [learning_rate(recipe, step, 104) for step in range(105)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4] == 1.0
    assert rates[54] == pytest.approx(0.55)
    assert rates[104] == pytest.approx(0.1)
    assert rates[4:] == sorted(rates[4:], reverse=True)
    constant = OptimRecipe(lr=0.2)
    assert {learning_rate(constant, step, 10) for step in range(10)} == {0.2}


def test_global_norm() -> None:
    gradients = [torch.tensor([3.0]), torch.tensor([[0.0, 4.0]])]
    assert global_norm(gradients).item() == pytest.approx(5.0)
