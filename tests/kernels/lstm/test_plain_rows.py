"""The training LSTM against the plain layer, forward and backward, and finite differences."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmox.config import LstmConfig
from elmox.kernels.lstm.dispatch import lstm_rows
from elmox.model.lstm import LstmLayer

# By clip: the norm of the gradients' difference from float64, relative to their norm. Rounding puts
# some values on the other side of their bound, where the gradient is another one.
TOLERANCE_BFLOAT16 = {None: 0.012, 1.0: 0.1}

clips = st.sampled_from((None, 0.2, 3.0))
configs = st.builds(
    LstmConfig,
    cell_dim=st.integers(1, 20),
    projection_dim=st.integers(1, 9),
    cell_clip=clips,
    proj_clip=clips,
    bidirectional=st.booleans(),
) | st.builds(
    LstmConfig,
    cell_dim=st.just(7),
    projection_dim=st.just(7),
    has_projection=st.just(False),
    cell_clip=clips,
    proj_clip=clips,
    bidirectional=st.booleans(),
)


def random_problem(
    config: LstmConfig, num_steps: int, num_rows: int, dtype: torch.dtype = torch.float64
) -> dict[str, Tensor]:
    """Arguments of `lstm_rows` in its order, leaves that need gradients."""
    d, p, c = config.num_directions, config.projection_dim, config.cell_dim
    shapes = {
        "inputs": (d, num_steps, num_rows, p),
        "hidden": (d, num_rows, p),
        "cell": (d, num_rows, c),
        "input_weight": (d, 4 * c, p),
        "recurrent_weight": (d, 4 * c, p),
        "bias": (d, 4 * c),
        "projection": (d, p, c),
    }
    if not config.has_projection:
        del shapes["projection"]
    generator = torch.Generator().manual_seed(7)
    drawn = {
        name: torch.randn(*shape, dtype=torch.float64, generator=generator)
        for name, shape in shapes.items()
    }
    drawn = {name: x * (0.5 if "weight" in name else 1.0) for name, x in drawn.items()}
    return {name: x.to(dtype).requires_grad_() for name, x in drawn.items()}


def run(problem: dict[str, Tensor], config: LstmConfig) -> tuple[Tensor, Tensor, Tensor]:
    given: dict[str, Any] = {"projection": None} | problem
    return lstm_rows(**given, cell_clip=config.cell_clip, proj_clip=config.proj_clip)


def run_plain(problem: dict[str, Tensor], config: LstmConfig) -> tuple[Tensor, Tensor, Tensor]:
    """The same by `LstmLayer`, whose rows come before its steps."""
    layer = LstmLayer(config)
    weights = {name: x for name, x in problem.items() if name not in ("inputs", "hidden", "cell")}
    constant = torch.zeros_like(weights["bias"])
    constant[:, config.cell_dim : 2 * config.cell_dim] = config.forget_bias
    weights["bias"] = weights["bias"] - constant
    inputs = problem["inputs"].transpose(1, 2)
    mask = torch.ones(inputs.shape[1:3], dtype=torch.bool)
    outputs, hidden, cell = torch.func.functional_call(
        layer, weights, (inputs, mask, problem["hidden"], problem["cell"])
    )
    return outputs.transpose(1, 2), hidden, cell


def gradients(
    actual: tuple[Tensor, Tensor, Tensor], problem: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The gradient of a random linear function of all that was found."""
    generator = torch.Generator().manual_seed(3)
    cotangents = [torch.randn(x.shape, generator=generator).to(x.dtype) for x in actual]
    grads = torch.autograd.grad(actual, list(problem.values()), cotangents)
    return dict(zip(problem, grads, strict=True))


def check_against_plain(problem: dict[str, Tensor], config: LstmConfig, tolerance: float) -> None:
    actual, expected = run(problem, config), run_plain(problem, config)
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(
        gradients(actual, problem), gradients(expected, problem), rtol=tolerance, atol=tolerance
    )


@settings(max_examples=60, deadline=None)
@given(config=configs, num_steps=st.integers(1, 7), num_rows=st.integers(1, 5))
def test_values_and_gradients_are_the_plain_layers(
    config: LstmConfig, num_steps: int, num_rows: int
) -> None:
    check_against_plain(random_problem(config, num_steps, num_rows), config, 1e-12)


@pytest.mark.parametrize("num_directions", [1, 2])
@pytest.mark.parametrize("clip", [None, 0.4, 3.0])
def test_float32(num_directions: int, clip: float | None) -> None:
    """Fixed problems: where rounding decides what is clipped, gradients differ by more."""
    config = LstmConfig(16, 8, cell_clip=clip, proj_clip=clip, bidirectional=num_directions == 2)
    check_against_plain(random_problem(config, 6, 4, torch.float32), config, 2e-5)


@pytest.mark.parametrize("num_directions", [1, 2])
@pytest.mark.parametrize("has_projection", [True, False])
@pytest.mark.parametrize("clip", [None, 0.4])
def test_gradients_are_finite_differences(
    num_directions: int, has_projection: bool, clip: float | None
) -> None:
    config = LstmConfig(
        cell_dim=3,
        projection_dim=2 if has_projection else 3,
        cell_clip=clip,
        proj_clip=clip,
        has_projection=has_projection,
        bidirectional=num_directions == 2,
    )
    problem = random_problem(config, num_steps=3, num_rows=2)

    def function(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return run(dict(zip(problem, tensors, strict=True)), config)

    assert torch.autograd.gradcheck(function, tuple(problem.values()))


def test_inputs_wider_and_narrower_than_the_projection() -> None:
    config = LstmConfig(cell_dim=4, projection_dim=3, cell_clip=0.5, proj_clip=0.5)
    for width in (2, 5):
        problem = random_problem(config, num_steps=3, num_rows=2)
        for name in ("inputs", "input_weight"):
            shape = (*problem[name].shape[:-1], width)
            problem[name] = torch.randn(shape, dtype=torch.float64).requires_grad_()

        def function(*tensors: Tensor, names: tuple[str, ...] = tuple(problem)) -> Any:
            return run(dict(zip(names, tensors, strict=True)), config)

        assert torch.autograd.gradcheck(function, tuple(problem.values()))
        products = torch.einsum("dtbp,dgp->dtbg", problem["inputs"], problem["input_weight"])
        ready = problem | {
            "inputs": products,
            "input_weight": torch.eye(16).double().repeat(2, 1, 1),
        }
        torch.testing.assert_close(run(problem, config), run(ready, config))


@pytest.mark.parametrize("which", ["cell", "projection"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_value_on_its_bound_lets_gradients_pass(which: str, dtype: torch.dtype) -> None:
    """As `torch.clamp` does; the next number beyond does not."""
    free = LstmConfig(1, 1, cell_clip=None, proj_clip=None, bidirectional=False)
    problem = random_problem(free, num_steps=1, num_rows=1, dtype=dtype)
    outputs, _, cell = run(problem, free)
    value = (cell if which == "cell" else outputs).detach().abs()
    below = torch.nextafter(value, torch.zeros_like(value))
    for bound, passes in ((value, True), (below, False)):
        config = LstmConfig(
            1,
            1,
            cell_clip=bound.item() if which == "cell" else None,
            proj_clip=bound.item() if which == "projection" else None,
            bidirectional=False,
        )
        (actual,) = torch.autograd.grad(run(problem, config)[0].sum(), problem["cell"])
        assert bool(actual != 0) is passes
        leaf = value.clone().requires_grad_()
        (clamped,) = torch.autograd.grad(leaf.clamp(-bound.item(), bound.item()).sum(), leaf)
        assert bool(clamped != 0) is passes


@pytest.mark.parametrize("num_directions", [1, 2])
def test_carried_state_is_one_long_pass(num_directions: int) -> None:
    config = LstmConfig(6, 3, cell_clip=0.7, proj_clip=0.6, bidirectional=num_directions == 2)
    problem = random_problem(config, num_steps=7, num_rows=3)
    whole = run(problem, config)
    parts, state = [], {name: problem[name] for name in ("hidden", "cell")}
    for part in (slice(0, 2), slice(2, 6), slice(6, 7)):
        window = problem | state | {"inputs": problem["inputs"][:, part]}
        outputs, hidden, cell = run(window, config)
        parts.append(outputs)
        state = {"hidden": hidden, "cell": cell}
    joined = torch.cat(parts, dim=1), state["hidden"], state["cell"]
    torch.testing.assert_close(joined, whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        gradients(joined, problem), gradients(whole, problem), rtol=1e-12, atol=1e-12
    )


def relative_difference(ours: Tensor, expected: Tensor) -> float:
    return float((ours.detach().double() - expected.detach()).norm() / expected.detach().norm())


@pytest.mark.parametrize("has_projection", [True, False])
@pytest.mark.parametrize("clip", list(TOLERANCE_BFLOAT16))
def test_bfloat16(has_projection: bool, clip: float | None) -> None:
    config = LstmConfig(
        cell_dim=64,
        projection_dim=32 if has_projection else 64,
        cell_clip=clip,
        proj_clip=clip,
        has_projection=has_projection,
    )
    drawn = random_problem(config, num_steps=12, num_rows=8, dtype=torch.bfloat16)
    matrices = ("input_weight", "recurrent_weight", "projection")
    drawn = {name: x.detach() * (0.25 if name in matrices else 1) for name, x in drawn.items()}
    low = {name: x.clone().requires_grad_() for name, x in drawn.items()}
    low["cell"] = drawn["cell"].float().requires_grad_()
    exact = {name: x.double().requires_grad_() for name, x in drawn.items()}
    actual, expected = run(low, config), run_plain(exact, config)
    assert [x.dtype for x in actual] == [torch.bfloat16, torch.bfloat16, torch.float32]
    for ours, theirs in zip(actual, expected, strict=True):
        assert relative_difference(ours, theirs) < 0.008
    ours_by_name, theirs_by_name = gradients(actual, low), gradients(expected, exact)
    for name, theirs in theirs_by_name.items():
        assert ours_by_name[name].dtype == low[name].dtype
        assert relative_difference(ours_by_name[name], theirs) < TOLERANCE_BFLOAT16[clip], name


def test_cells_stay_float32_next_to_bfloat16() -> None:
    """A small change a step, many steps: lost if the cell were rounded to 8 bits each time."""
    config = LstmConfig(1, 1, cell_clip=None, proj_clip=None, bidirectional=False)
    problem = random_problem(config, num_steps=1000, num_rows=1, dtype=torch.bfloat16)
    with torch.no_grad():
        for x in problem.values():
            x.zero_()
        problem["bias"].copy_(torch.tensor([0.0, 40.0, 0.0, 0.001]))  # c grows by i*g = 0.0005
    problem["cell"] = torch.ones(1, 1, 1)
    assert run(problem, config)[2].item() == pytest.approx(1.5, rel=5e-3)


def test_only_what_is_asked_for() -> None:
    config = LstmConfig(4, 3, cell_clip=0.5, proj_clip=0.5)
    problem = random_problem(config, num_steps=3, num_rows=2)
    every = gradients(run(problem, config), problem)
    for name, theirs in every.items():
        alone = {n: x.detach().requires_grad_(n == name) for n, x in problem.items()}
        ours = gradients(run(alone, config), {name: alone[name]})[name]
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_gradients_of_one_result_alone(which: int) -> None:
    config = LstmConfig(4, 3, cell_clip=0.5, proj_clip=0.5)
    problem = random_problem(config, num_steps=3, num_rows=2)
    sources = list(problem.values())
    ours = torch.autograd.grad(run(problem, config)[which].sum(), sources, allow_unused=True)
    theirs = torch.autograd.grad(
        run_plain(problem, config)[which].sum(), sources, allow_unused=True
    )
    for name, a, b in zip(problem, ours, theirs, strict=True):
        expected = torch.zeros_like(problem[name]) if b is None else b
        torch.testing.assert_close(a, expected, rtol=1e-12, atol=1e-12)


def test_tensors_kept_for_the_backward_pass() -> None:
    config = LstmConfig(8, 4, cell_clip=3.0, proj_clip=3.0)
    problem = random_problem(config, num_steps=5, num_rows=3, dtype=torch.float32)
    given_storage = {x.untyped_storage().data_ptr() for x in problem.values()}
    kept: list[Tensor] = []

    def keep(x: Tensor) -> Tensor:
        if x.untyped_storage().data_ptr() not in given_storage:
            kept.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        actual = run(problem, config)
    gates, cells, outputs = 4 * 8, 8, 4
    assert sum(x.numel() for x in kept) == 2 * 5 * 3 * (gates + cells + outputs)
    first = torch.autograd.grad(actual[0].sum(), problem["bias"], retain_graph=True)
    again = torch.autograd.grad(actual[0].sum(), problem["bias"])
    torch.testing.assert_close(again, first, rtol=0, atol=0)


def test_arguments_are_left_alone_and_any_layout_will_do() -> None:
    config = LstmConfig(4, 3, cell_clip=None, proj_clip=None)
    problem = random_problem(config, num_steps=3, num_rows=2)
    before = {name: x.detach().clone() for name, x in problem.items()}
    actual = run(problem, config)
    expected = gradients(actual, problem)
    assert all(torch.equal(problem[name], x) for name, x in before.items())
    strange = {
        name: x.detach().transpose(0, -1).contiguous().transpose(0, -1).requires_grad_()
        for name, x in problem.items()
    }
    assert not strange["inputs"].is_contiguous()
    torch.testing.assert_close(run(strange, config), actual, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        gradients(run(strange, config), strange), expected, rtol=1e-12, atol=1e-12
    )


def test_there_is_no_second_derivative() -> None:
    config = LstmConfig(4, 3)
    problem = random_problem(config, num_steps=2, num_rows=2)
    (first,) = torch.autograd.grad(
        run(problem, config)[0].square().sum(), problem["inputs"], create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()  # type: ignore[no-untyped-call]
