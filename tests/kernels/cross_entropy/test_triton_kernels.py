"""The fused loss against the plain one: on a GPU, else in Triton's interpreter on the CPU."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from triton_interpreter import DEVICE, interpreted

from elmox.kernels.cross_entropy import dispatch as cross_entropy
from elmox.kernels.cross_entropy.dispatch import full_cross_entropy, sampled_cross_entropy

with interpreted():
    from elmox.kernels.cross_entropy import triton_kernels as kernels
    from elmox.kernels.cross_entropy.triton_kernels import Rivals, Tiles, Words

# Largest difference from float64, relative to the largest value.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 3e-2}
SMALL, USED = Tiles(16, 16, 16, 4, 2), kernels.TILES

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of hidden, weight and bias


class Problem(NamedTuple):
    """Random arguments of directions; candidates and targets are places among the weight's rows."""

    hidden: Tensor
    weight: Tensor
    bias: Tensor
    targets: Tensor
    candidates: Tensor
    target_log_expected: Tensor
    candidate_log_expected: Tensor

    def inputs(self, precision: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        return self.hidden.to(precision), self.weight.float(), self.bias.float()

    def rounded(self, precision: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """The same numbers in float64."""
        hidden, weight = (t.to(precision).double() for t in (self.hidden, self.weight))
        return hidden, weight, self.bias.float().double()

    def full(self, chunk: int | None = None) -> Loss:
        return lambda hidden, weight, bias: full_cross_entropy(
            hidden.flatten(0, 1), weight, bias, self.targets.flatten(), chunk
        )

    def sampled(self, chunk: int | None = None) -> Loss:
        return lambda hidden, weight, bias: sampled_cross_entropy(
            hidden, weight, bias, *self[3:], chunk
        )


def problem(
    num_positions: int,
    num_rows: int,
    dim: int,
    num_candidates: int,
    num_directions: int = 2,
    seed: int = 0,
) -> Problem:
    """Half of the targets are one word, and scores go up to about ten."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=rng)

    targets = torch.randint(num_rows, (num_directions, num_positions), generator=rng)
    targets[:, ::2] = num_rows // 2
    candidates = torch.stack(
        [torch.randperm(num_rows, generator=rng)[:num_candidates] for _ in range(num_directions)]
    )
    log_expected = -normal(num_directions, num_rows).abs()
    tensors = (
        normal(num_directions, num_positions, dim) * 3 / dim**0.5,
        normal(num_rows, dim),
        normal(num_rows),
        targets,
        candidates,
        log_expected.gather(1, targets),
        log_expected.gather(1, candidates),
    )
    return Problem(*(tensor.to(DEVICE) for tensor in tensors))


def with_gradients(loss: Loss, *inputs: Tensor) -> list[Tensor]:
    """The loss and the gradients of half of it."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    value = loss(leaves[0], leaves[1], leaves[2])
    (value / 2).backward()  # type: ignore[no-untyped-call]
    return [value.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def assert_agree(ours: list[Tensor], theirs: list[Tensor], tolerance: float) -> None:
    assert len(ours) == len(theirs) == 4
    for actual, expected in zip(ours, theirs, strict=True):
        scale = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
        torch.testing.assert_close(
            actual.double(), expected.double(), rtol=0, atol=tolerance * scale
        )


def _multiply_bfloat16(patch: pytest.MonkeyPatch) -> None:
    """Multiply bfloat16 in float32: the interpreter multiplies its bits as integers."""
    from triton import language
    from triton.runtime.interpreter import InterpreterBuilder

    def dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        wide = [self.create_fp_ext(t, language.float32) for t in (a, b)]
        return plain_dot(self, *wide, *rest)

    plain_dot = InterpreterBuilder.create_dot
    patch.setattr(InterpreterBuilder, "create_dot", dot)


@pytest.fixture(scope="module", autouse=True)
def fused() -> Iterator[None]:
    """Everything but float64 is fused here, whatever the device."""
    with interpreted(), pytest.MonkeyPatch.context() as patch:
        if DEVICE == "cpu":
            _multiply_bfloat16(patch)
        reason = {torch.float64: "float64"}
        patch.setattr(cross_entropy, "why_not_triton", lambda like: reason.get(like.dtype))
        patch.setattr(kernels, "TILES", SMALL)
        yield


problems = st.builds(
    problem,
    num_positions=st.integers(0, 20),
    num_rows=st.integers(1, 50),
    dim=st.sampled_from((5, 40)),  # each makes a GPU's kernels anew
    num_candidates=st.integers(1, 50),  # at most the rows
    num_directions=st.integers(1, 2),
    seed=st.integers(0, 2**31),
)


@settings(deadline=None, max_examples=30 if DEVICE == "cuda" else 6)
@given(problems, st.none() | st.integers(3, 10), st.booleans())
def test_losses_and_gradients(given: Problem, chunk: int | None, is_full: bool) -> None:
    loss = given.full(chunk) if is_full else given.sampled(chunk)
    for precision in TOLERANCE:
        actual = with_gradients(loss, *given.inputs(precision))
        assert [t.dtype for t in actual] == [torch.float32, precision, *[torch.float32] * 2]
        expected = with_gradients(loss, *given.rounded(precision))
        assert_agree(actual, expected, TOLERANCE[precision])


@pytest.mark.parametrize("width", [64, 80] if DEVICE == "cuda" else [80])
def test_the_tiles_that_are_used(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More positions and rivals than a tile has, and not a multiple of them."""
    monkeypatch.setattr(kernels, "TILES", USED)
    size, num_directions = (4, 2) if DEVICE == "cuda" else (1, 1)
    given = problem(139 * size, 290 * size, width, 267 * size, num_directions)
    actual = with_gradients(given.sampled(), *given.inputs(torch.bfloat16))
    assert_agree(
        actual,
        with_gradients(given.sampled(), *given.rounded(torch.bfloat16)),
        TOLERANCE[torch.bfloat16],
    )


@pytest.mark.parametrize("shared", [0, 3, 10])
def test_directions_may_share_candidates(shared: int) -> None:
    """The gradients of a row that is a candidate of both are added up."""
    given = problem(6, 25, 8, 10)
    first, other = torch.arange(10), torch.arange(10 - shared, 20 - shared).flip(0)
    given = given._replace(candidates=torch.stack([first, other]).to(DEVICE))
    actual = with_gradients(given.sampled(), *given.inputs(torch.float32))
    expected = with_gradients(given.sampled(), *given[:3])
    assert_agree(actual, expected, TOLERANCE[torch.float32])
    each = []
    for direction in range(2):
        shuffled = Problem(
            given.hidden[direction, None],
            *given[1:3],
            *(tensor[direction, None] for tensor in given[3:]),
        )
        each.append(with_gradients(shuffled.sampled(), *shuffled.inputs(torch.float32)))
    for place in (0, 2, 3):  # the loss, and the gradients of what is shared
        total = each[0][place] + each[1][place]
        torch.testing.assert_close(actual[place], total, rtol=1e-5, atol=1e-5)
    # A GPU's product of two directions may sum in another order than that of one.
    both = torch.cat([each[0][1], each[1][1]])
    torch.testing.assert_close(actual[1], both, rtol=1e-5, atol=1e-5)


def test_places_may_be_of_32_bits() -> None:
    given = problem(6, 25, 8, 10)
    short = given._replace(targets=given.targets.int(), candidates=given.candidates.int())
    actual = with_gradients(short.sampled(), *given.inputs(torch.float32))
    expected = with_gradients(given.sampled(), *given.inputs(torch.float32))
    assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


def test_any_layout() -> None:
    given = problem(6, 25, 8, 10)
    strange = Problem(*(t.transpose(0, -1).contiguous().transpose(0, -1) for t in given))
    assert not strange.hidden.is_contiguous()
    actual = with_gradients(strange.sampled(), *strange.inputs(torch.float32))
    expected = with_gradients(given.sampled(), *given.inputs(torch.float32))
    assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


def test_no_target_is_a_candidate_or_every_one_is() -> None:
    given = problem(30, 40, 8, 20, num_directions=1)
    candidates = given.candidates[0]
    others = torch.tensor(sorted(set(range(40)) - set(candidates.tolist())), device=DEVICE)
    for some in (candidates, others):
        loss = given._replace(targets=some[:10].repeat(3)[None]).sampled()
        actual = with_gradients(loss, *given.inputs(torch.float32))
        assert_agree(actual, with_gradients(loss, *given[:3]), TOLERANCE[torch.float32])


def test_ordinary_positions_are_not_done_again() -> None:
    """The target's score is the reference; done again, it would be the largest score."""
    given = problem(20, 30, 8, 30, num_directions=1)
    hidden, weight, bias = given.inputs(torch.float32)
    words, rivals = Words(weight, bias, given.targets, None, None), Rivals(weight[None], bias[None])
    scores = kernels.score_targets(hidden, words)
    errors, scaled = kernels.exponentiate(hidden, words, rivals, scores, slice(0, 20), True)
    logits, target = (hidden @ weight.T + bias)[0], given.targets[0, :, None]
    expected = (logits - logits.gather(1, target)).exp().scatter_(1, target, 0.0)
    assert expected.max() > 1
    scales = 1 / (1 + expected.sum(1))
    torch.testing.assert_close(errors[0], expected, rtol=1e-4, atol=0)
    torch.testing.assert_close(scores.scales[0], scales, rtol=1e-4, atol=0)
    torch.testing.assert_close(scaled[0, :, :8], hidden[0] * scales[:, None], rtol=1e-4, atol=0)
    assert torch.equal(scaled[..., 8], scores.scales)
    assert not scaled[..., 9:].any()


@pytest.mark.parametrize("scale", [30.0, 1e4, 1e30])
def test_huge_scores_do_not_overflow(scale: float) -> None:
    """A rival e^60 times as likely as the target, and far beyond."""
    hidden = torch.tensor([[1.0], [-1.0], [0.0]], device=DEVICE, requires_grad=True)
    weight = torch.tensor([[scale], [-scale], [0.0]], device=DEVICE, requires_grad=True)
    targets = torch.tensor([0, 0, 0], device=DEVICE)
    loss = full_cross_entropy(hidden, weight, torch.zeros(3, device=DEVICE), targets)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(2 * scale, rel=0.02)
    assert hidden.grad is not None
    assert weight.grad is not None
    assert hidden.grad[:2].flatten().tolist() == pytest.approx([0.0, -2 * scale], abs=1e-6 * scale)
    assert weight.grad[:2].flatten().tolist() == pytest.approx([1.0, -1.0], rel=1e-4)


def test_huge_scores_of_either_direction() -> None:
    given = problem(4, 12, 8, 7)
    given = given._replace(hidden=given.hidden * 60)
    for precision in TOLERANCE:
        actual = with_gradients(given.sampled(), *given.inputs(precision))
        expected = with_gradients(given.sampled(), *given.rounded(precision))
        assert_agree(actual, expected, TOLERANCE[precision])


def test_a_likely_target_keeps_its_small_gradient() -> None:
    bias = torch.tensor([25.0, 0.0], device=DEVICE, requires_grad=True)
    zeros = torch.zeros(2, 1, device=DEVICE)
    targets = torch.tensor([0], device=DEVICE)
    loss = full_cross_entropy(zeros[:1], zeros, bias, targets)
    loss.backward()  # type: ignore[no-untyped-call]
    small = float(torch.tensor(-25.0).exp())
    assert bias.grad is not None
    assert bias.grad.tolist() == pytest.approx([-small, small], rel=1e-5)


def test_not_a_number_is_not_hidden() -> None:
    given = problem(5, 6, 3, 4)
    given.hidden[1, 2, 1] = float("nan")
    assert given.full()(*given.inputs(torch.float32)).isnan()
    assert given.sampled()(*given.inputs(torch.float32)).isnan()


@pytest.mark.parametrize("width", [1, 64])
def test_gradients_of_low_precision_are_summed_in_high(width: int) -> None:
    """Shares of a half, of a target that comes often and of one that comes a few times."""
    hidden = torch.ones(150, width, dtype=torch.bfloat16, device=DEVICE)
    weight = torch.zeros(3, width, device=DEVICE, requires_grad=True)
    targets = torch.tensor([0] * 143 + [1] * 7, device=DEVICE)
    bias = torch.tensor([0.0, 0.0, float("-inf")], device=DEVICE)
    loss = full_cross_entropy(hidden, weight, bias, targets)
    loss.backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert weight.grad[:, 0].tolist() == [-68.0, 68.0, 0.0]
    assert (weight.grad == weight.grad[:, :1]).all()


@pytest.mark.parametrize(
    "wanted", [(True, False, False), (False, True, False), (False, False, True)]
)
def test_gradients_only_for_what_learns(wanted: tuple[bool, ...]) -> None:
    given = problem(5, 6, 3, 4)
    inputs = given.inputs(torch.float32)
    everything = with_gradients(given.sampled(), *inputs)[1:]
    leaves = [t.requires_grad_(learns) for t, learns in zip(inputs, wanted, strict=True)]
    loss = given.sampled()(leaves[0], leaves[1], leaves[2])
    (loss / 2).backward()  # type: ignore[no-untyped-call]
    for leaf, learns, expected in zip(leaves, wanted, everything, strict=True):
        assert (leaf.grad is not None) == learns
        if leaf.grad is not None:
            assert torch.equal(leaf.grad, expected)
    with torch.no_grad():
        assert torch.equal(given.sampled()(leaves[0], leaves[1], leaves[2]), loss.detach())


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_equal_inputs_give_equal_bits(precision: torch.dtype) -> None:
    given = problem(5000, 3000, 128, 1000)
    for loss in (given.full(1024), given.sampled()):
        first = with_gradients(loss, *given.inputs(precision))
        for _ in range(3):
            again = with_gradients(loss, *given.inputs(precision))
            assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
