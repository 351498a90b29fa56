"""Muon: orthogonal updates of matrices, one per gate and direction; the rest is AdamW's."""

import pytest
import torch

from elmox.kernels.row_update.plain import Gradient
from elmox.training.muon import as_matrices, is_matrix, orthogonalized
from elmox.training.optim import Optimizer, global_norm
from elmox.training.recipe import OptimRecipe

GATES = "model.lstm.0.input_weight"  # (D, 4C, P)


def _optimizer(parameters: dict[str, torch.Tensor], **values: float) -> Optimizer:
    return Optimizer(OptimRecipe(name="muon", clip_norm=0, **values), parameters)  # type: ignore[arg-type]


def _step(
    optimizer: Optimizer, gradients: dict[str, torch.Tensor], lr: float, skip: float = 0.0
) -> None:
    by_name = {name: Gradient(values) for name, values in gradients.items()}
    norm = global_norm(gradients.values())
    optimizer.step(by_name, lr, 0, norm, torch.tensor(skip))


@pytest.mark.parametrize("shape", [(3, 6, 6), (2, 16, 4), (1, 5, 12)])
def test_singular_values_come_near_one_and_vectors_stay(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    result = orthogonalized(matrices)
    u, s, vt = torch.linalg.svd(matrices, full_matrices=False)
    values = u.mT @ result @ vt.mT
    diagonal = torch.diagonal(values, dim1=1, dim2=2)
    assert diagonal[s > 0.05 * s.amax(1, keepdim=True)].sub(0.95).abs().max() < 0.3
    assert (values - torch.diag_embed(diagonal)).abs().max() < 1e-4


def test_gates_and_directions_are_separate_matrices() -> None:
    """A gate whose gradient is large does not slow the others down."""
    weight = torch.zeros(2, 4 * 6, 3)
    gradient = torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    scaled = gradient.clone()
    scaled[1, :6] *= 1000
    results = []
    for values in (gradient, scaled):
        copy = weight.clone()
        _step(_optimizer({GATES: copy}), {GATES: values}, lr=0.1)
        results.append(copy)
    torch.testing.assert_close(results[0], results[1], rtol=1e-3, atol=1e-5)
    assert as_matrices(GATES, weight).shape == (8, 6, 3)


def test_an_update_has_the_size_of_one_of_adamw() -> None:
    weight = torch.zeros(2, 4 * 32, 16)
    gradient = torch.randn(weight.shape, generator=torch.Generator().manual_seed(2))
    _step(_optimizer({GATES: weight}), {GATES: gradient}, lr=0.1)
    assert weight.square().mean().sqrt().item() == pytest.approx(0.2 * 0.1, rel=0.25)


def test_weight_decay_and_skipped_steps() -> None:
    start = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(3))
    weight, gradient = start.clone(), torch.ones_like(start)
    optimizer = _optimizer({GATES: weight}, weight_decay=0.5)
    _step(optimizer, {GATES: gradient}, lr=0.1, skip=1.0)
    assert torch.equal(weight, start)
    assert not optimizer.slots[GATES]["momentum"].any()
    _step(optimizer, {GATES: torch.zeros_like(start)}, lr=0.1)
    torch.testing.assert_close(weight, start * (1 - 0.1 * 0.5))


def test_parameters_that_are_no_matrices_are_left_to_adamw() -> None:
    names = ["softmax.weight", "model.lstm.0.bias", "model.token_encoder.char_cnn.embedding.weight"]
    assert not any(map(is_matrix, names))
    generator = torch.Generator().manual_seed(4)
    start = torch.randn(4, 3, generator=generator)
    gradient = torch.randn(4, 3, generator=generator)
    results = []
    for recipe in (OptimRecipe(name="muon", clip_norm=0), OptimRecipe(name="adamw", clip_norm=0)):
        weight = start.clone()
        _step(Optimizer(recipe, {names[0]: weight}), {names[0]: gradient.clone()}, lr=0.1)
        results.append(weight)
    assert torch.equal(*results)


def test_all_matrices_of_a_model_are_recognized() -> None:
    names = [
        "model.lstm.1.recurrent_weight",
        "model.lstm.1.projection",
        "model.token_encoder.highways.0.carry.weight",
        "model.token_encoder.highways.1.transform.weight",
        "model.token_encoder.projection.weight",
    ]
    assert all(map(is_matrix, names))
