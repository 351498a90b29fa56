"""The softmax's loss and its gradients in one pass over chunks of positions.

Scores of N positions against K words are the largest tensor of training by far: 7,680 positions and
800,000 words take 25 GB. So a chunk's scores are turned into its loss and its share of every
gradient at once, and then dropped.

The full and the sampled softmax are one computation: the target's score s_t against the scores s_k
of K rivals, loss = log(exp(s_t) + sum_k exp(s_k)) - s_t, where the target itself, if it is among
the K (an accidental hit), is excluded from the sum. The full softmax has all V words as rivals,
hence a hit at every position. The sampled one has S candidates, and subtracts from each score the
log of the expected count of its word among them.

Products run in the precision of `hidden`; scores, sums and the gradients of the weights are in
float32, or in float64 if `hidden` is. `triton_loss.py` does the same on a GPU in fewer passes over
memory.

Equal inputs give equal bits on the same device: no gradient is summed in an order that depends on
thread timing.

Shapes: N positions, n of them in a chunk, P projection, V words, U rows of the softmax,
S candidates, K rivals, K' = K rounded up to a width that products are fast with.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# Scores held in memory together: the whole (N, V) of a batch would take gigabytes.
LOGITS_AT_ONCE = {"cpu": 2**22, "cuda": 2**28}
# Each chunk reads matrices of K rows; with fewer positions than this, that takes most of the time.
MIN_CHUNK = 64
# A GPU's 16-bit products take up to five times as long if K is not a multiple of this.
COLUMNS_16_BIT = 8


class Sampled(NamedTuple):
    """The candidates of a sampled softmax, of one direction or of all (a leading axis)."""

    candidates: Tensor  # (S,) indices into the U rows, distinct
    target_log_expected: Tensor  # (N,)
    candidate_log_expected: Tensor  # (S,)

    def unbind(self) -> "list[Sampled]":
        """Return the candidates of each direction."""
        parts = zip(*(tensor.unbind() for tensor in self), strict=True)
        return [Sampled(candidates.long(), *expected) for candidates, *expected in parts]


class LossInputs(NamedTuple):
    """The arguments of a loss, of one direction or of all (a leading axis of `hidden`, `targets`).

    Without `sampled`, all U rows are rivals. `chunk` is the number of positions processed together;
    None chooses it for the device.
    """

    hidden: Tensor  # (N, P)
    weight: Tensor  # (U, P)
    bias: Tensor  # (U,)
    targets: Tensor  # (N,) indices into the U rows
    sampled: Sampled | None
    chunk: int | None

    @property
    def differentiable(self) -> tuple[Tensor, Tensor, Tensor]:
        """The inputs that may need gradients."""
        return self.hidden, self.weight, self.bias

    def needs_gradients(self) -> bool:
        """Return whether the loss will be differentiated."""
        return torch.is_grad_enabled() and any(x.requires_grad for x in self.differentiable)


def plain_cross_entropy(inputs: LossInputs) -> Tensor:
    """Return the summed loss of one direction: () float32, or float64 if `hidden` is."""
    if inputs.needs_gradients():
        loss: Tensor = _CrossEntropy.apply(*inputs.differentiable, inputs)  # type: ignore[no-untyped-call]
        return loss
    return _evaluate(inputs, _Gradients(None, None, None))


class _Words(NamedTuple):
    """The rivals and the targets, ready for products."""

    candidates: Tensor | None  # (K,) the rivals' indices into the U rows; None: all rows
    rivals: Tensor  # (K', P)
    offsets: Tensor  # (K',) added to the products; -inf beyond K
    hits: Tensor  # (N,) the target's index among the K, or -1
    target_rows: Tensor  # (U, P), or more rows
    target_offsets: Tensor  # (N,)


class _Chunk(NamedTuple):
    """Positions with their errors. An error is a score's gradient: probability less truth."""

    hidden: Tensor  # (n, P)
    targets: Tensor  # (n,)
    target_weight: Tensor  # (n, P)
    errors: Tensor  # (n, K') in the precision of `hidden`
    target_errors: Tensor  # (n,)


class _Gradients(NamedTuple):
    """Gradients summed over the chunks so far; None for those that are not needed."""

    hidden: Tensor | None  # (N, P)
    weight: Tensor | None  # (U, P)
    bias: Tensor | None  # (U,)


class _CrossEntropy(torch.autograd.Function):
    """The gradients are computed along with the loss; the backward pass only scales them."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, inputs: LossInputs
    ) -> Tensor:
        needed, wide = ctx.needs_input_grad, _wide(hidden)
        gradients = _Gradients(
            torch.empty_like(hidden) if needed[0] else None,
            torch.zeros_like(weight, dtype=wide) if needed[1] else None,
            torch.zeros_like(bias, dtype=wide) if needed[2] else None,
        )
        loss = _evaluate(inputs, gradients)
        ctx.save_for_backward(*gradients)
        ctx.dtypes = (hidden.dtype, weight.dtype, bias.dtype)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (
            None if gradient is None else (gradient * scale).to(dtype)
            for gradient, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        )
        return *scaled, None


def _evaluate(inputs: LossInputs, gradients: _Gradients) -> Tensor:
    """Return the loss; add to the gradients that are needed."""
    device = inputs.hidden.device
    words = _words(inputs)
    size = inputs.chunk or _chunk_size(len(words.rivals), device)
    loss = torch.zeros((), dtype=_wide(inputs.hidden), device=device)
    for start in range(0, len(inputs.hidden), size):
        # A function, so that a chunk's scores are freed before the next chunk's are computed.
        loss += _evaluate_chunk(inputs, slice(start, start + size), words, gradients)
    return loss


def _evaluate_chunk(
    inputs: LossInputs, part: slice, words: _Words, gradients: _Gradients
) -> Tensor:
    """Return the loss of the positions `part`; add their share to the gradients."""
    hidden, targets, wide = inputs.hidden[part], inputs.targets[part], _wide(inputs.hidden)
    target_weight = words.target_rows[targets]
    scores = _product(hidden, words.rivals.T).add_(words.offsets)
    _exclude_targets_(scores, words.hits[part])
    target_scores = (hidden.to(wide) * target_weight).sum(1) + words.target_offsets[part]
    losses, rest, total = _exponentials_(scores, target_scores)
    if any(gradient is not None for gradient in gradients):
        same = hidden.dtype == wide
        errors = scores if same else torch.empty_like(scores, dtype=hidden.dtype)
        torch.div(scores, total[:, None], out=errors)
        chunk = _Chunk(hidden, targets, target_weight, errors, -rest / total)
        _add_gradients(gradients, part, chunk, words)
    return losses.sum()


def _words(inputs: LossInputs) -> _Words:
    """Return the rivals and the targets, ready for products."""
    targets, bias = inputs.targets, inputs.bias.to(_wide(inputs.hidden))
    weight = inputs.weight.to(inputs.hidden.dtype)
    if inputs.sampled is None:
        rivals, offsets = _round_up(weight, bias)
        return _Words(None, rivals, offsets, targets, rivals, bias[targets])
    candidates, target_log_expected, candidate_log_expected = inputs.sampled
    # The index of each row among the candidates, which are distinct: a target hits at most one.
    indices = torch.full_like(bias, -1, dtype=torch.int64)
    indices[candidates] = torch.arange(len(candidates), device=bias.device)
    offsets = bias[candidates] - candidate_log_expected.to(bias.dtype)
    rivals, offsets = _round_up(weight[candidates], offsets)
    target_offsets = bias[targets] - target_log_expected.to(bias.dtype)
    return _Words(candidates, rivals, offsets, indices[targets], weight, target_offsets)


def _round_up(rivals: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Add rivals of probability 0, up to a number that products are fast with."""
    missing = -len(rivals) % COLUMNS_16_BIT if rivals.itemsize == 2 else 0
    if missing == 0:
        return rivals, offsets
    padded = F.pad(rivals, (0, 0, 0, missing))
    return padded, F.pad(offsets, (0, missing), value=float("-inf"))


def _chunk_size(num_rivals: int, device: torch.device) -> int:
    """Return a number of positions whose scores stay within the device's budget."""
    budget = LOGITS_AT_ONCE.get(device.type, LOGITS_AT_ONCE["cpu"])
    return max(MIN_CHUNK, budget // num_rivals)


def _exclude_targets_(scores: Tensor, hits: Tensor) -> None:
    """Exclude each position's target from its rivals, if it is one of them.

    Args:
        scores: (n, K'), changed in place.
        hits: (n,) indices among the K, or -1.
    """
    columns = hits.clamp(min=0)[:, None]
    excluded = scores.gather(1, columns).masked_fill_(hits[:, None] >= 0, float("-inf"))
    scores.scatter_(1, columns, excluded)


def _exponentials_(scores: Tensor, target_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the parts of the softmax over the target and its rivals.

    Args:
        scores: (n, K'); replaced by their exponentials, which are scaled so that none overflows.
        target_scores: (n,).

    Returns:
        (n,) negative log-likelihoods; (n,) sum over the rivals; (n,) sum over them and the target.
    """
    top = torch.maximum(scores.amax(1), target_scores)
    scores.sub_(top[:, None]).exp_()
    rest, target = scores.sum(1), target_scores - top
    total = rest + target.exp()
    return total.log() - target, rest, total


def _add_gradients(gradients: _Gradients, part: slice, chunk: _Chunk, words: _Words) -> None:
    """Add the share of a chunk, the positions `part`, to each gradient that is needed."""
    if gradients.hidden is not None:
        share = _product(chunk.errors, words.rivals)
        share.addcmul_(chunk.target_errors[:, None], chunk.target_weight)
        gradients.hidden[part] = share
    if gradients.weight is not None:
        share = chunk.target_errors[:, None] * chunk.hidden
        _add_by_target(gradients.weight, chunk.targets, share)
        if words.candidates is None:
            errors = chunk.errors[:, : len(gradients.weight)]
            _add_product(gradients.weight, errors.T, chunk.hidden)
        else:
            errors = chunk.errors[:, : len(words.candidates)]
            share = _product(errors.T, chunk.hidden)
            gradients.weight.index_add_(0, words.candidates, share)
    if gradients.bias is not None:
        _add_by_target(gradients.bias, chunk.targets, chunk.target_errors)
        share = chunk.errors.sum(0, dtype=gradients.bias.dtype)
        if words.candidates is None:
            gradients.bias.add_(share[: len(gradients.bias)])
        else:
            gradients.bias.index_add_(0, words.candidates, share[: len(words.candidates)])


def _add_by_target(total: Tensor, targets: Tensor, shares: Tensor) -> None:
    """Add shares (n, ...) to the targets' rows of a gradient; a word may be many targets."""
    if total.is_cuda:  # there `index_add_` adds in any order; this one sorts
        total.index_put_((targets,), shares, accumulate=True)
    else:
        total.index_add_(0, targets, shares)


def _wide(hidden: Tensor) -> torch.dtype:
    """Return the data type of scores and sums."""
    return torch.float64 if hidden.dtype == torch.float64 else torch.float32


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right in their precision; the result in that of sums, unrounded if possible."""
    wide = _wide(left)
    if left.dtype != wide and left.is_cuda:
        return torch.mm(left, right, out_dtype=wide)
    return torch.mm(left, right).to(wide)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Compute total += left @ right, if possible without a product as large as the total."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    elif left.is_cuda:
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)
    else:
        total.add_(_product(left, right))
