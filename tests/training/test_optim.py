"""Optimizers against those of torch, schedules, clipping, and updates of single rows."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from elmox.kernels.row_update.plain import Gradient
from elmox.training.optim import Optimizer, global_norm, learning_rate
from elmox.training.recipe import OptimRecipe

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def _update(
    optimizer: Optimizer, gradients: Mapping[str, Gradient], number: int, skip: bool = False
) -> None:
    """Do a step with learning rate 0.1."""
    norm = global_norm(gradient.values for gradient in gradients.values())
    optimizer.step(gradients, 0.1, number, norm, torch.full_like(norm, float(skip)))


def _recipe(name: str, clip_norm: float = 0.0) -> OptimRecipe:
    return OptimRecipe(
        name=name,  # type: ignore[arg-type]
        lr=0.1,
        weight_decay=0.01,
        clip_norm=clip_norm,
    )


def _train(optimizer_name: str, num_steps: int, clip_norm: float) -> tuple[Tensor, Tensor]:
    """Return the results of our optimizer and of torch's with the same gradients."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(5, 3, generator=generator)
    weight = start.clone()
    optimizer = Optimizer(_recipe(optimizer_name, clip_norm), {"w": weight})
    expected = torch.nn.Parameter(start.clone())
    peer: torch.optim.Optimizer
    if optimizer_name == "adagrad":
        peer = torch.optim.Adagrad([expected], lr=0.1, initial_accumulator_value=1.0, eps=0.0)
    else:
        peer = torch.optim.AdamW([expected], lr=0.1, weight_decay=0.01)
    for step in range(num_steps):
        gradient = torch.randn(5, 3, generator=generator)
        expected.grad = gradient.clone()
        if clip_norm:
            torch.nn.utils.clip_grad_norm_([expected], clip_norm)
        peer.step()
        _update(optimizer, {"w": Gradient(gradient)}, step)
    return weight, expected.detach()


@pytest.mark.parametrize("clip_norm", [0.0, 0.5, 1e6])
@pytest.mark.parametrize("name", ["adagrad", "adamw"])
def test_equals_torch(name: str, clip_norm: float) -> None:
    weight, expected = _train(name, 10, clip_norm)
    torch.testing.assert_close(weight, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["adagrad", "adamw"])
def test_touched_rows_are_updated_like_a_separate_matrix(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    recipe = _recipe(name)
    whole = torch.randn(6, 3, generator=generator)
    rows = torch.tensor([4, 1])
    part, untouched = whole[rows].clone(), whole[[0, 2, 3, 5]].clone()
    by_rows, alone = Optimizer(recipe, {"w": whole}), Optimizer(recipe, {"w": part})
    for step in range(4):
        gradient = torch.randn(2, 3, generator=generator)
        _update(by_rows, {"w": Gradient(gradient, rows)}, step)
        _update(alone, {"w": Gradient(gradient)}, step)
    torch.testing.assert_close(whole[rows], part, rtol=1e-6, atol=1e-7)
    assert torch.equal(whole[[0, 2, 3, 5]], untouched)


def test_adagrad_does_not_change_rows_without_gradient() -> None:
    """Therefore updating only the touched rows is exactly the published optimizer."""
    recipe = _recipe("adagrad")
    start = torch.randn(4, 2)
    whole, rows = start.clone(), start.clone()
    gradient = torch.zeros(4, 2)
    gradient[2] = torch.tensor([0.5, -3.0])
    _update(Optimizer(recipe, {"w": whole}), {"w": Gradient(gradient)}, 0)
    touched = torch.tensor([2])
    _update(Optimizer(recipe, {"w": rows}), {"w": Gradient(gradient[touched], touched)}, 0)
    torch.testing.assert_close(whole, rows, rtol=0, atol=1e-7)
    # The published step: g / sqrt(1 + g^2), no epsilon.
    torch.testing.assert_close(
        whole[2], start[2] - 0.1 * gradient[2] / (1 + gradient[2] ** 2) ** 0.5
    )


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("rows", [None, [3, 0]], ids=["whole", "rows"])
@pytest.mark.parametrize("name", ["adagrad", "adamw"])
def test_a_skipped_update_changes_nothing(name: str, rows: list[int] | None, device: str) -> None:
    weight = torch.randn(4, 3, device=device)
    optimizer = Optimizer(_recipe(name, 0.5), {"w": weight})
    indices = None if rows is None else torch.tensor(rows, device=device)
    values = torch.randn(4 if rows is None else len(rows), 3, device=device)
    _update(optimizer, {"w": Gradient(values.clone(), indices)}, 0)
    before = [weight.clone(), *(slot.clone() for slot in optimizer.slots["w"].values())]
    _update(optimizer, {"w": Gradient(values * torch.nan, indices)}, 1, skip=True)
    after = [weight, *optimizer.slots["w"].values()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    _update(optimizer, {"w": Gradient(values.clone(), indices)}, 1)
    assert not torch.equal(weight, before[0])


@needs_gpu
@pytest.mark.parametrize("clip_norm", [0.0, 0.5])
@pytest.mark.parametrize("name", ["adagrad", "adamw"])
def test_a_gpu_updates_arrays_like_a_cpu(name: str, clip_norm: float) -> None:
    generator = torch.Generator().manual_seed(2)
    shapes = {"rows": (90, 48), "wide": (40, 2000), "bias": (90,), "odd": (7, 5, 3), "all": (3000,)}
    start = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    on_gpu = {name: array.clone().cuda() for name, array in start.items()}
    by_gpu, by_cpu = (Optimizer(_recipe(name, clip_norm), arrays) for arrays in (on_gpu, start))
    for step in range(4):
        gradients = {}
        for array in shapes:
            rows = None
            if array in ("rows", "wide", "bias"):
                rows = torch.randperm(len(start[array]), generator=generator)[:13]
            shape = shapes[array] if rows is None else (13, *shapes[array][1:])
            gradients[array] = Gradient(torch.randn(shape, generator=generator), rows)
        there = {
            array: Gradient(g.values.cuda(), None if g.rows is None else g.rows.cuda())
            for array, g in gradients.items()
        }
        versions = {array: tensor._version for array, tensor in on_gpu.items()}
        _update(by_cpu, gradients, step)
        _update(by_gpu, there, step)
        assert all(on_gpu[array]._version > versions[array] for array in shapes)
    for array in shapes:
        torch.testing.assert_close(on_gpu[array].cpu(), start[array], rtol=1e-5, atol=1e-6)
        for slot, tensor in by_cpu.slots[array].items():
            other = by_gpu.slots[array][slot].cpu()
            torch.testing.assert_close(other, tensor, rtol=1e-5, atol=1e-6)


def test_schedule() -> None:
    recipe = OptimRecipe(lr=1.0, warmup=4, schedule="cosine", final_lr=0.1)
    rates = [learning_rate(recipe, step, 104) for step in range(105)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4] == 1.0
    assert rates[54] == pytest.approx(0.55)
    assert rates[104] == pytest.approx(0.1)
    assert rates[4:] == sorted(rates[4:], reverse=True)
    stable = OptimRecipe(lr=1.0, warmup=2, schedule="wsd", decay_steps=4, final_lr=0.2)
    rates = [learning_rate(stable, step, 10) for step in range(10)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4])
    constant = OptimRecipe(lr=0.2)
    assert {learning_rate(constant, step, 10) for step in range(10)} == {0.2}


def test_global_norm() -> None:
    gradients = [torch.tensor([3.0]), torch.tensor([[0.0, 4.0]])]
    assert global_norm(gradients).item() == pytest.approx(5.0)
