"""The CRF's kernels against plain torch: on a GPU, else in Triton's interpreter on the CPU."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from triton_interpreter import DEVICE, interpreted

from elmox.kernels.crf import dispatch
from elmox.kernels.crf.plain import DISALLOWED, plain_best_paths
from elmox.tasks.nn.crf import Crf

with interpreted():
    from elmox.kernels.crf import triton_kernels as crf_triton

# Largest difference from float64, relative to the largest sum of scores that there might be: losses
# are differences of such sums, and gradients their exponentials.
TOLERANCE = 3e-7
NUM_TAGS = [1, 5, 17, 70] + [140, 256] * (DEVICE == "cuda")
LENGTHS = [7, 1, 4, 2, 7, 3]


@pytest.fixture(scope="module", autouse=True)
def on_triton() -> Iterator[None]:
    """Everything but float64, whatever the device."""
    with interpreted(), pytest.MonkeyPatch.context() as patch:
        reason = {torch.float64: "float64"}
        patch.setattr(dispatch, "why_not_triton", lambda like: reason.get(like.dtype))
        yield


class Problem(NamedTuple):
    """Sentences, padded with NaN and tags that there are not, and transitions, all in float32."""

    scores: Tensor
    tags: Tensor
    mask: Tensor
    starts: Tensor
    ends: Tensor
    pairs: Tensor

    def losses(self, gradient: Tensor, precision: torch.dtype) -> list[Tensor]:
        """Each sentence's, and the gradients of all that learns."""
        kinds = (self.scores, self.starts, self.ends, self.pairs)
        scores, *transitions = leaves = [t.to(precision).requires_grad_() for t in kinds]
        tags = self.tags
        if precision == torch.float64:  # torch looks up the padding's too
            tags = tags.where(self.mask, 0)
        losses = dispatch.losses(scores, tags, self.mask, *transitions)
        gradients = torch.autograd.grad(losses, leaves, gradient.to(precision))
        return [losses.detach(), *gradients]

    def transitions(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.starts, self.ends, self.pairs


def problem(seed: int, lengths: list[int], num_tags: int, share: float, scale: float) -> Problem:
    """About that share of the transitions is allowed, and all that the tags need."""
    rng = np.random.default_rng(seed)
    mask = np.arange(max(lengths) + 1) < np.array(lengths)[:, None]  # somewhat wider than needed
    tags = rng.integers(num_tags, size=mask.shape)
    starts, ends = rng.random((2, num_tags)) < share
    pairs = rng.random((num_tags, num_tags)) < share
    for sequence, length in zip(tags, lengths, strict=True):
        starts[sequence[0]] = ends[sequence[length - 1]] = True
        pairs[sequence[: length - 1], sequence[1:length]] = True
    shapes = ((*mask.shape, num_tags), starts.shape, ends.shape, pairs.shape)
    scores, *learned = (scale * rng.normal(size=shape) for shape in shapes)
    scores[~mask], tags[~mask] = np.nan, -100
    transitions = (
        np.where(may, weights, DISALLOWED)
        for may, weights in zip((starts, ends, pairs), learned, strict=True)
    )
    floats = [torch.from_numpy(values).float().to(DEVICE) for values in (scores, *transitions)]
    return Problem(
        floats[0], torch.from_numpy(tags).to(DEVICE), torch.from_numpy(mask).to(DEVICE), *floats[1:]
    )


def factors(count: int) -> Tensor:
    """Gradients of losses: positive, negative and 0."""
    return (torch.arange(count, device=DEVICE) % 4 - 1) / 3


def assert_agree(given: Problem) -> None:
    gradient = factors(len(given.scores))
    actual = given.losses(gradient, torch.float32)
    expected = given.losses(gradient, torch.float64)
    assert len(actual) == len(expected) == 5
    largest_sum = given.scores.shape[1] * float(given.scores.nan_to_num().abs().max())
    bound = TOLERANCE * max(10.0, largest_sum)
    for result, other in zip(actual, expected, strict=True):
        assert result.dtype == torch.float32
        largest = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(result.double(), other, rtol=0, atol=bound * largest)
    assert not actual[1][~given.mask].any()


def assert_same_paths(given: Problem) -> None:
    """Bit by bit: the kernel adds and compares the very same numbers."""
    arguments = (given.scores, given.mask, *given.transitions())
    actual, expected = dispatch.best_paths(*arguments), plain_best_paths(*arguments)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.parametrize("share", [0.2, 1.0])
@pytest.mark.parametrize("num_tags", NUM_TAGS)
def test_as_plain_torch(num_tags: int, share: float) -> None:
    given = problem(0, LENGTHS, num_tags, share, scale=2.0)
    assert_agree(given)
    assert_same_paths(given)


@settings(max_examples=50 if DEVICE == "cuda" else 8, deadline=None)
@given(
    st.builds(
        problem,
        seed=st.integers(0, 2**32 - 1),
        lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
        num_tags=st.sampled_from([1, 2, 3, 16]),  # each makes a GPU's kernels anew
        share=st.sampled_from([0.0, 0.3, 1.0]),
        scale=st.sampled_from([0.0, 1.0, 50.0]),
    )
)
def test_any_sentences(given: Problem) -> None:
    assert_agree(given)
    assert_same_paths(given)


def test_more_words_than_are_counted_at_once() -> None:
    given = problem(1, [150, 3], 3, 0.7, scale=1.0)
    assert_agree(given)
    assert_same_paths(given)


@pytest.mark.parametrize("num_tags", NUM_TAGS)
def test_the_first_of_equally_good_tags(num_tags: int) -> None:
    given = problem(2, LENGTHS, num_tags, 0.5, scale=0.7)
    assert_same_paths(given._replace(scores=given.scores.round(), pairs=given.pairs.round()))
    zeros = given.scores * 0
    assert_same_paths(given._replace(scores=zeros))
    nothing = [torch.zeros_like(t) for t in given.transitions()]
    _, paths = crf_triton.best_paths(zeros, given.mask, *nothing)
    assert not paths.any()


def test_tags_that_cannot_be_reached() -> None:
    """Nothing leads to the last tag, not even a start."""
    given = problem(3, LENGTHS, 5, 1.0, scale=2.0)
    given.starts[-1], given.pairs[:, -1] = DISALLOWED, DISALLOWED
    given = given._replace(tags=given.tags.clamp(max=3))
    assert_agree(given)
    assert_same_paths(given)
    assert not given.losses(factors(len(LENGTHS)), torch.float32)[1][..., -1].any()


def test_no_sequence_is_allowed() -> None:
    given = problem(3, LENGTHS, 5, 1.0, scale=2.0)
    given.ends[:] = DISALLOWED
    results = given.losses(factors(len(LENGTHS)), torch.float32)
    assert all(bool(t.isfinite().all()) for t in results)
    assert_same_paths(given)


def test_any_layout() -> None:
    given = problem(4, LENGTHS, 5, 0.5, scale=1.0)
    strange = Problem(*(t.mT.contiguous().mT if t.dim() > 1 else t for t in given))
    assert not strange.scores.is_contiguous()
    assert not strange.mask.is_contiguous()
    gradient = factors(1).expand(len(LENGTHS))
    actual, expected = (variant.losses(gradient, torch.float32) for variant in (strange, given))
    assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))
    assert_same_paths(strange)


@pytest.mark.parametrize("place", [(0, 0, 2), (1, 0, 4), (2, 3, 0), (0, 3, 1)])
def test_not_a_number_is_not_hidden(place: tuple[int, int, int]) -> None:
    given = problem(5, LENGTHS, 5, 1.0, scale=1.0)
    given.scores[place] = torch.nan
    broken = [sentence == place[0] for sentence in range(len(LENGTHS))]
    arguments = (given.mask, *given.transitions())
    losses = crf_triton.losses(given.scores, given.tags, *arguments)
    best, paths = crf_triton.best_paths(given.scores, *arguments)
    assert losses.isnan().tolist() == best.isnan().tolist() == broken
    assert bool((paths < 5).all())


def test_a_tag_that_there_is_not() -> None:
    given = problem(6, LENGTHS, 5, 1.0, scale=1.0)
    given.tags[0, 2], given.tags[2, 0] = 5, -1
    losses = crf_triton.losses(given.scores, given.tags, given.mask, *given.transitions())
    assert losses.isnan().tolist() == [True, False, True, False, False, False]


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_field_that_learns(precision: torch.dtype) -> None:
    """The module chooses the kernels, whatever it is given in."""
    given = problem(7, LENGTHS, 6, 0.4, scale=1.0)
    scores, allowed = given.scores.to(precision), [t > DISALLOWED / 2 for t in given.transitions()]
    field = Crf(6, *allowed).to(DEVICE)
    with torch.no_grad():
        learned = zip(field.parameters(), given.transitions(), allowed, strict=True)
        for parameter, values, may in learned:
            parameter.copy_(values.where(may, 3.0))
    with torch.autocast(DEVICE, torch.bfloat16):
        loss = field(scores.requires_grad_(), given.tags, given.mask)
        decoded = field.decode(scores, given.mask)
    assert "_Losses" in str(loss.grad_fn.next_functions)
    gradients = torch.autograd.grad(loss, [scores, *field.parameters()])
    precise = field.double()
    exact = scores.detach().double().requires_grad_()
    expected = precise(exact, given.tags, given.mask)
    assert "_Losses" not in str(expected.grad_fn.next_functions)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=0)
    others = torch.autograd.grad(expected, [exact, *precise.parameters()])
    for values, other in zip(gradients, others, strict=True):
        bound = 1e-5 if values.dtype == torch.float32 else 2**-7
        torch.testing.assert_close(values.double(), other, rtol=bound, atol=1e-5)
    assert decoded == precise.decode(exact, given.mask)


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("num_tags", [17, 64, 140])
def test_equal_inputs_give_equal_bits(num_tags: int) -> None:
    given = problem(8, list(range(1, 101)), num_tags, 0.5, scale=2.0)
    first = given.losses(factors(100), torch.float32)
    for _ in range(5):
        again = given.losses(factors(100), torch.float32)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert_agree(given)
    assert_same_paths(given)
