"""The chunked losses against plain formulas, finite differences, and a budget of memory."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmox.kernels.cross_entropy.dispatch import full_cross_entropy, sampled_cross_entropy
from elmox.training.log_uniform import LogUniformSampler

# Largest difference from float64, relative to the largest value.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2}

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of hidden, weight and bias


class Problem(NamedTuple):
    """Random arguments; candidates and targets are places among the rows of the weight."""

    hidden: Tensor
    weight: Tensor
    bias: Tensor
    targets: Tensor
    candidates: Tensor
    target_log_expected: Tensor
    candidate_log_expected: Tensor

    @property
    def learned(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.hidden, self.weight, self.bias


def problem(
    num_positions: int, num_rows: int, dim: int, num_candidates: int, seed: int = 0
) -> Problem:
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=rng)

    log_expected = -normal(num_rows).abs()
    targets = torch.randint(num_rows, (num_positions,), generator=rng)
    candidates = torch.randperm(num_rows, generator=rng)[:num_candidates]
    return Problem(
        normal(num_positions, dim),
        normal(num_rows, dim),
        normal(num_rows),
        targets,
        candidates,
        log_expected[targets],
        log_expected[candidates],
    )


def plain_full(given: Problem) -> Loss:
    return lambda hidden, weight, bias: F.cross_entropy(
        hidden @ weight.T + bias, given.targets, reduction="sum"
    )


def plain_sampled(given: Problem) -> Loss:
    """All (N, 1 + S) scores at once, accidental hits found by comparing."""

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        targets, candidates = given.targets, given.candidates
        true = (hidden * weight[targets]).sum(1) + bias[targets] - given.target_log_expected
        others = hidden @ weight[candidates].T + bias[candidates] - given.candidate_log_expected
        others = others.masked_fill(targets[:, None] == candidates, float("-inf"))
        scores = torch.cat([true[:, None], others], dim=1)
        return -scores.log_softmax(1)[:, 0].sum()

    return loss


def our_full(given: Problem, chunk: int | None = None) -> Loss:
    return lambda hidden, weight, bias: full_cross_entropy(
        hidden, weight, bias, given.targets, chunk
    )


def our_sampled(given: Problem, chunk: int | None = None) -> Loss:
    """A single direction."""
    alone = Problem(*(tensor[None] for tensor in given))
    return lambda hidden, weight, bias: sampled_cross_entropy(
        hidden[None], weight, bias, *alone[3:], chunk
    )


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


problems = st.builds(
    problem,
    num_positions=st.integers(0, 9),
    num_rows=st.integers(1, 12),
    dim=st.integers(1, 5),
    num_candidates=st.integers(1, 12),  # at most the rows
    seed=st.integers(0, 2**31),
)
chunks = st.none() | st.integers(1, 10)


@settings(deadline=None)
@given(problems, chunks)
def test_full_equals_the_plain_formula(given: Problem, chunk: int | None) -> None:
    ours = with_gradients(our_full(given, chunk), *given.learned)
    assert_agree(ours, with_gradients(plain_full(given), *given.learned), 1e-12)


@settings(deadline=None)
@given(problems, chunks)
def test_sampled_equals_the_plain_formula(given: Problem, chunk: int | None) -> None:
    ours = with_gradients(our_sampled(given, chunk), *given.learned)
    assert_agree(ours, with_gradients(plain_sampled(given), *given.learned), 1e-12)


@pytest.mark.parametrize("precision", [torch.int32, torch.int64])
def test_directions_are_added_up(precision: torch.dtype) -> None:
    """They share the rows, and some candidates; places are of either precision."""
    both = [problem(7, 12, 4, 8, seed) for seed in (1, 2)]
    weight, bias = both[0].weight, both[0].bias

    def plain(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return plain_sampled(both[0])(hidden[0], weight, bias) + plain_sampled(both[1])(
            hidden[1], weight, bias
        )

    joined = Problem(*(torch.stack(tensors) for tensors in zip(*both, strict=True)))
    joined = joined._replace(
        targets=joined.targets.to(precision), candidates=joined.candidates.to(precision)
    )

    def ours(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return sampled_cross_entropy(hidden, weight, bias, *joined[3:], 3)

    expected = with_gradients(plain, joined.hidden, weight, bias)
    assert_agree(with_gradients(ours, joined.hidden, weight, bias), expected, 1e-12)


@pytest.mark.parametrize("ours", [our_full, our_sampled])
@pytest.mark.parametrize("chunk", [2, 7])
def test_gradients_agree_with_finite_differences(
    ours: Callable[[Problem, int], Loss], chunk: int
) -> None:
    given = problem(7, 9, 4, 5, seed=1)
    assert set(given.targets.tolist()) & set(given.candidates.tolist())
    assert set(given.targets.tolist()) - set(given.candidates.tolist())
    leaves = [tensor.clone().requires_grad_() for tensor in given.learned]
    assert torch.autograd.gradcheck(ours(given, chunk), leaves)


@pytest.mark.parametrize("num_words", [1, 2, 30])
def test_with_all_words_as_samples_the_sampled_loss_is_the_full_one(num_words: int) -> None:
    given = problem(20, num_words, 6, num_words)
    sampler = LogUniformSampler(num_words, num_words)
    ids, tries = sampler.draw(1, 2, 0, "cpu")
    expected = (sampler.log_expected(given.targets, tries), sampler.log_expected(ids, tries))
    drawn = Problem(*given.learned, given.targets, ids, *expected)
    full = with_gradients(our_full(given), *given.learned)
    assert_agree(with_gradients(our_sampled(drawn), *given.learned), full, 1e-12)


def test_the_more_samples_the_nearer_the_sampled_loss_is_to_the_full_one() -> None:
    given = problem(200, 500, 8, 500)
    full = float(our_full(given)(*given.learned))
    errors = []
    for num_samples in (20, 100, 400, 499, 500):
        sampler = LogUniformSampler(500, num_samples)
        losses = []
        for step in range(20):
            ids, tries = sampler.draw(1, step, 0, "cpu")
            log_expected = (
                sampler.log_expected(given.targets, tries),
                sampler.log_expected(ids, tries),
            )
            drawn = Problem(*given.learned, given.targets, ids, *log_expected)
            losses.append(float(our_sampled(drawn)(*given.learned)))
        errors.append(abs(sum(losses) / len(losses) / full - 1))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-6
    assert errors[-2] < 0.01


@pytest.mark.parametrize("plain", [plain_full, plain_sampled])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_lower_precision(plain: Callable[[Problem], Loss], precision: torch.dtype) -> None:
    """Products in the precision of `hidden`, gradients in each argument's own."""
    given = problem(300, 403, 32, 101)  # odd numbers: 16-bit products have them rounded up
    inputs = (given.hidden.to(precision), given.weight.float(), given.bias.float())
    ours = our_full(given, 64) if plain is plain_full else our_sampled(given, 64)
    actual = with_gradients(ours, *inputs)
    assert [tensor.dtype for tensor in actual] == [torch.float32, precision, *[torch.float32] * 2]
    rounded = [tensor.to(precision).double() for tensor in inputs[:2]]
    assert_agree(
        actual, with_gradients(plain(given), *rounded, inputs[2].double()), TOLERANCE[precision]
    )


def test_gradients_of_low_precision_are_summed_in_high() -> None:
    """Two thousand shares of a half: in bfloat16 the sum would stop growing at 128."""
    hidden = torch.ones(2000, 1, dtype=torch.bfloat16)
    weight, bias = torch.zeros(2, 1, requires_grad=True), torch.zeros(2)
    targets = torch.zeros(2000, dtype=torch.int64)
    loss = full_cross_entropy(hidden, weight, bias, targets, chunk=1)
    loss.backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert weight.grad.flatten().tolist() == [-1000.0, 1000.0]


@pytest.mark.parametrize("ours", [our_full, our_sampled])
@pytest.mark.parametrize(
    "wanted", [(True, False, False), (False, True, False), (False, False, True)]
)
def test_gradients_only_for_what_learns(
    ours: Callable[[Problem], Loss], wanted: tuple[bool, ...]
) -> None:
    given = problem(5, 6, 3, 4)
    everything = with_gradients(ours(given), *given.learned)[1:]
    leaves = [
        tensor.clone().requires_grad_(learns)
        for tensor, learns in zip(given.learned, wanted, strict=True)
    ]
    loss = ours(given)(leaves[0], leaves[1], leaves[2])
    (loss / 2).backward()  # type: ignore[no-untyped-call]
    for leaf, learns, expected in zip(leaves, wanted, everything, strict=True):
        if learns:
            torch.testing.assert_close(leaf.grad, expected)
        else:
            assert leaf.grad is None


@pytest.mark.parametrize("ours", [our_full, our_sampled])
def test_without_gradients(ours: Callable[[Problem], Loss]) -> None:
    given = problem(5, 6, 3, 4)
    leaves = [tensor.clone().requires_grad_() for tensor in given.learned]
    with torch.no_grad():
        loss = ours(given)(leaves[0], leaves[1], leaves[2])
    assert not loss.requires_grad
    torch.testing.assert_close(loss, ours(given)(leaves[0], leaves[1], leaves[2]).detach())


def test_arguments_are_left_as_they_were() -> None:
    given = problem(5, 6, 3, 6)
    before = [tensor.clone() for tensor in given]
    with_gradients(our_sampled(given), *given.learned)
    with_gradients(our_full(given), *given.learned)
    assert all(torch.equal(a, b) for a, b in zip(before, given, strict=True))


@pytest.mark.parametrize("scale", [1e4, 1e30])
def test_huge_scores_do_not_overflow(scale: float) -> None:
    hidden = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    weight = torch.tensor([[scale], [-scale], [0.0]])
    loss = full_cross_entropy(hidden, weight, torch.zeros(3), torch.tensor([0, 0]))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(2 * scale)
    assert hidden.grad is not None
    assert hidden.grad.flatten().tolist() == pytest.approx([0.0, -2 * scale])


def test_a_likely_target_keeps_its_small_gradient() -> None:
    """Probability less 1 is lost to rounding where the probability is nearly 1."""
    bias = torch.tensor([25.0, 0.0], requires_grad=True)
    loss = full_cross_entropy(torch.zeros(1, 1), torch.zeros(2, 1), bias, torch.tensor([0]))
    loss.backward()  # type: ignore[no-untyped-call]
    small = float(torch.tensor(-25.0).exp())
    assert bias.grad is not None
    assert bias.grad.tolist() == pytest.approx([-small, small], rel=1e-5)


def test_not_a_number_is_not_hidden() -> None:
    given = problem(5, 6, 3, 4)
    given.hidden[2, 1] = float("nan")
    assert our_full(given)(*given.learned).isnan()
    assert our_sampled(given)(*given.learned).isnan()


MEMORY = """
import json, pathlib, re, resource
import torch
from elmox.kernels.cross_entropy.dispatch import full_cross_entropy

def peak():  # kB; where there is /proc, without what the parent had when it started us
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def loss(num_positions):
    hidden = torch.randn(num_positions, 4, requires_grad=True)
    targets = torch.arange(num_positions)
    full_cross_entropy(hidden, weight, bias, targets).backward()

weight = torch.randn(2**16, 4, requires_grad=True)
bias = torch.randn(2**16, requires_grad=True)
loss(1)
before = peak()
loss(2**11)
print(json.dumps((peak() - before) / 1024))
"""


def test_the_scores_of_all_positions_are_never_held() -> None:
    command = [sys.executable, "-c", MEMORY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # All scores would take 512 MB; those of a chunk of 64 positions take 16.
    assert float(json.loads(done.stdout)) < 128


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("plain", [plain_full, plain_sampled])
def test_on_a_gpu_without_waiting_for_it(
    plain: Callable[[Problem], Loss], precision: torch.dtype
) -> None:
    given = problem(300, 403, 32, 101)
    inputs = (given.hidden.to(precision), given.weight.float(), given.bias.float())
    rounded = [tensor.to(precision).double() for tensor in inputs[:2]]
    expected = with_gradients(plain(given), *rounded, inputs[2].double())
    there = Problem(*(tensor.cuda() for tensor in given))
    moved = [tensor.cuda() for tensor in inputs]
    ours = our_full(there, 64) if plain is plain_full else our_sampled(there, 64)
    with_gradients(ours, *moved)
    torch.cuda.set_sync_debug_mode("error")
    try:
        actual = with_gradients(ours, *moved)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert_agree([tensor.cpu() for tensor in actual], expected, TOLERANCE[precision])
