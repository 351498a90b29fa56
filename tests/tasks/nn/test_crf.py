"""The CRF against all sequences one by one, against pytorch-crf, and at its edges."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmox.kernels.crf import dispatch
from elmox.tasks.nn.crf import Crf
from elmox.tasks.tagging.spans import allowed_transitions


@dataclass(frozen=True)
class Case:
    """A random CRF in float64 and a batch of sentences, tagged in an allowed order."""

    crf: Crf
    scores: Tensor
    tags: Tensor
    mask: Tensor

    @property
    def lengths(self) -> list[int]:
        return [int(length) for length in self.mask.sum(1)]


def random_case(seed: int, lengths: list[int], num_tags: int, share: float) -> Case:
    """A case in which about that share of the transitions is allowed, and all the tags' ones."""
    rng = np.random.default_rng(seed)
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    tags = rng.integers(num_tags, size=mask.shape)
    starts, ends = rng.random((2, num_tags)) < share
    pairs = rng.random((num_tags, num_tags)) < share
    for path, length in zip(tags, lengths, strict=True):
        starts[path[0]] = ends[path[length - 1]] = True
        pairs[path[: length - 1], path[1:length]] = True
    crf = Crf(num_tags, starts, ends, torch.from_numpy(pairs)).double()
    for parameter in crf.parameters():
        parameter.data = torch.from_numpy(rng.normal(size=parameter.shape))
    scores = torch.from_numpy(3 * rng.normal(size=(*mask.shape, num_tags))).requires_grad_()
    return Case(crf, scores, torch.from_numpy(tags), torch.from_numpy(mask))


cases = st.builds(
    random_case,
    seed=st.integers(0, 2**32 - 1),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    num_tags=st.integers(1, 4),
    share=st.sampled_from([0.3, 0.7, 1.0]),
)


def allowed_paths(crf: Crf, length: int) -> Tensor:
    """All of them, one by one: (N, T)."""
    starts, ends, pairs = (
        allowed.tolist() for allowed in (crf.may_start, crf.may_end, crf.may_follow)
    )
    paths = [
        path
        for path in product(range(len(starts)), repeat=length)
        if starts[path[0]] and ends[path[-1]] and all(pairs[a][b] for a, b in pairwise(path))
    ]
    return torch.tensor(paths)


def path_scores(crf: Crf, scores: Tensor, paths: Tensor) -> Tensor:
    """The scores (N,) of paths (N, T), given one sentence's scores (T or more, C)."""
    words = scores[torch.arange(paths.shape[1]), paths].sum(1)
    steps = crf.pair_scores[paths[:, :-1], paths[:, 1:]].sum(1)
    return crf.start_scores[paths[:, 0]] + words + steps + crf.end_scores[paths[:, -1]]


def brute_loss(case: Case) -> Tensor:
    losses = []
    for scores, tags, length in zip(case.scores, case.tags, case.lengths, strict=True):
        every = path_scores(case.crf, scores, allowed_paths(case.crf, length))
        right = path_scores(case.crf, scores, tags[None, :length])
        losses.append(every.logsumexp(0) - right)
    return torch.cat(losses).mean()


def value_and_gradients(case: Case, loss: Callable[[], Tensor]) -> list[Tensor]:
    value = loss()
    return [value, *torch.autograd.grad(value, [case.scores, *case.crf.parameters()])]


@settings(max_examples=40, deadline=None)
@given(cases)
def test_loss_and_gradients_are_those_over_all_paths(case: Case) -> None:
    actual = value_and_gradients(case, lambda: case.crf(case.scores, case.tags, case.mask))
    expected = value_and_gradients(case, lambda: brute_loss(case))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    assert actual[0].shape == ()


@settings(max_examples=40, deadline=None)
@given(cases)
def test_decoded_is_the_best_allowed_path(case: Case) -> None:
    decoded = case.crf.decode(case.scores, case.mask)
    for path, scores, length in zip(decoded, case.scores, case.lengths, strict=True):
        paths = allowed_paths(case.crf, length)
        assert path == paths[path_scores(case.crf, scores, paths).argmax()].tolist()


@pytest.mark.parametrize("lengths", [[5], [1, 1], [7, 1, 4, 7, 2]])
def test_as_pytorch_crf(lengths: list[int]) -> None:
    torchcrf = pytest.importorskip("torchcrf", reason="no pytorch-crf")
    case = random_case(7, lengths, num_tags=9, share=1.0)
    other = torchcrf.CRF(9, batch_first=True).double()
    other.start_transitions.data = case.crf.start_scores.data
    other.end_transitions.data = case.crf.end_scores.data
    other.transitions.data = case.crf.pair_scores.data
    expected = -other(case.scores, case.tags, case.mask, reduction="mean")
    torch.testing.assert_close(case.crf(case.scores, case.tags, case.mask), expected)
    assert case.crf.decode(case.scores, case.mask) == other.decode(case.scores, case.mask)


def test_padding_does_not_matter_whatever_is_in_it() -> None:
    case = random_case(0, [3, 1, 5], num_tags=4, share=0.6)
    scores = case.scores.detach().masked_fill(~case.mask.unsqueeze(2), torch.nan).requires_grad_()
    tags = case.tags.masked_fill(~case.mask, -100)
    loss = case.crf(scores, tags, case.mask)
    alone = [
        (row[:length].unsqueeze(0), row_tags[:length].unsqueeze(0), torch.ones(1, length).bool())
        for row, row_tags, length in zip(scores, tags, case.lengths, strict=True)
    ]
    torch.testing.assert_close(loss, torch.stack([case.crf(*one) for one in alone]).mean())
    gradients = torch.autograd.grad(loss, [scores, *case.crf.parameters()])
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    assert not gradients[0][~case.mask].any()
    decoded = case.crf.decode(scores, case.mask)
    assert decoded == [case.crf.decode(row, mask)[0] for row, _, mask in alone]
    assert list(map(len, decoded)) == case.lengths


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_float32_whatever_the_scores_are_also_inside_autocast(low: torch.dtype) -> None:
    case = random_case(1, [40, 9], num_tags=6, share=0.8)
    crf, scores = case.crf.float(), case.scores.detach().to(low)
    expected = crf(scores.float(), case.tags, case.mask)
    with torch.autocast("cpu", torch.bfloat16):
        loss = crf(scores, case.tags, case.mask)
        decoded = crf.decode(scores, case.mask)
    assert loss.dtype == torch.float32
    assert loss == expected
    assert decoded == crf.decode(scores.float(), case.mask)


def test_a_thousand_words() -> None:
    case = random_case(2, [1000, 1], num_tags=5, share=0.5)
    scores = 10 * case.scores.detach()
    expected = case.crf(scores, case.tags, case.mask)
    decoded = case.crf.decode(scores, case.mask)
    single = case.crf.float()
    loss = single(scores.float().requires_grad_(), case.tags, case.mask)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=0)
    loss.backward()
    assert all(
        parameter.grad is not None and parameter.grad.isfinite().all()
        for parameter in single.parameters()
    )
    assert single.decode(scores.float(), case.mask) == decoded


def test_equally_good_paths() -> None:
    words = torch.ones(2, 4, dtype=torch.bool)
    words[1, 2:] = False
    assert Crf(3).decode(torch.zeros(2, 4, 3), words) == [[0, 0, 0, 0], [0, 0]]
    turns = Crf(3, pairs=~np.eye(3, dtype=np.bool_))  # no tag twice in a row
    assert turns.decode(torch.zeros(2, 4, 3), words) == [[1, 0, 1, 0], [1, 0]]


def test_a_tag_that_leads_nowhere_is_never_decoded() -> None:
    """The last word's best tag is B, but nothing of the labels could end a span."""
    crf = Crf(2, *allowed_transitions(["O", "B-X"], "BIOUL"))
    scores = torch.tensor([[[0.0, 50.0], [0.0, 50.0]]])
    assert crf.decode(scores, torch.ones(1, 2).bool()) == [[0, 0]]
    loss = crf(scores, torch.zeros(1, 2, dtype=torch.long), torch.ones(1, 2).bool())
    assert loss == 0  # there is one path, so its probability is 1


def test_only_scores_are_stored() -> None:
    case = random_case(3, [6, 4], num_tags=5, share=0.4)
    stored = case.crf.state_dict()
    assert set(stored) == {"start_scores", "end_scores", "pair_scores"}
    allowed = (case.crf.may_start, case.crf.may_end, case.crf.may_follow)
    fresh = Crf(5, *allowed).double()
    fresh.load_state_dict(stored)
    assert fresh.decode(case.scores, case.mask) == case.crf.decode(case.scores, case.mask)


def test_a_new_one_prefers_no_transition() -> None:
    scores = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 5, dtype=torch.bool)
    best = scores.argmax(-1)
    assert Crf(4).decode(scores, mask) == best.tolist()
    expected = -scores.log_softmax(-1).gather(2, best.unsqueeze(2)).sum() / 2
    torch.testing.assert_close(Crf(4)(scores, best, mask), expected)


def test_more_tags_than_kernels_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(4, [3, 2], num_tags=dispatch.MAX_TAGS_OF_KERNELS + 1, share=0.5)
    expected = value_and_gradients(case, lambda: case.crf(case.scores, case.tags, case.mask))
    decoded = case.crf.decode(case.scores, case.mask)
    monkeypatch.setattr(dispatch, "why_not_triton", lambda like: None)
    actual = value_and_gradients(case, lambda: case.crf(case.scores, case.tags, case.mask))
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    assert case.crf.decode(case.scores, case.mask) == decoded


def test_batches_that_make_no_sense() -> None:
    crf, scores, tags = Crf(2), torch.zeros(2, 3, 2), torch.zeros(2, 3, dtype=torch.long)
    empty = torch.tensor([[True, True, True], [False, False, False]])
    hole = torch.tensor([[True, True, True], [True, False, True]])
    for mask, message in ((empty, "a sentence without words"), (hole, "padding before words")):
        with pytest.raises(AssertionError, match=message):
            crf(scores, tags, mask)
        with pytest.raises(AssertionError, match=message):
            crf.decode(scores, mask)
    with pytest.raises(AssertionError, match="expected bool"):
        crf.decode(scores, torch.ones(2, 3))
    with pytest.raises(AssertionError, match="no words"):
        crf.decode(scores[:, :0], empty[:, :0])
    with pytest.raises(AssertionError, match="constraints"):
        Crf(2, pairs=np.ones(2, np.bool_))


def test_constraints_that_allow_no_sequence() -> None:
    crf = Crf(2, starts=np.array([True, False]), pairs=np.array([[False, True], [False, True]]))
    mask = torch.ones(1, 2, dtype=torch.bool)
    for tags in ([1, 1], [0, 0]):
        with pytest.raises(AssertionError, match="not allowed"):
            crf(torch.zeros(1, 2, 2), torch.tensor([tags]), mask)
    never = Crf(2, ends=np.zeros(2, np.bool_))
    with pytest.raises(AssertionError, match="no allowed sequence"):
        never.decode(torch.zeros(1, 2, 2), mask)
    with pytest.raises(AssertionError, match="not finite"):
        crf.decode(torch.full((1, 2, 2), torch.nan), mask)
