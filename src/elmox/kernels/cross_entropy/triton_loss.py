"""The losses of `plain.py` on a GPU: Triton kernels do everything except the large products.

All directions are processed together: every kernel and product has them as a batch axis, so that
the host, which has little time for a small model, launches each only once. The forward pass
computes the losses and the products of the gradients, so that a chunk's errors can be dropped. The
backward pass turns these into gradients, times the upstream one, in one pass over memory each.

Only imported where Triton and a GPU are present. Shapes: see `triton_kernels.py`.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmox.kernels.cross_entropy import triton_kernels as kernels
from elmox.kernels.cross_entropy.plain import COLUMNS_16_BIT, LossInputs
from elmox.kernels.cross_entropy.triton_kernels import Rivals, Softmax, Words

# Errors held in memory together, 2 GB: every chunk of a full softmax reads and writes the gradient
# of all words, which is as large. Positions come in multiples of a tile.
ERROR_BYTES = 2**31
TILE_POSITIONS = 128


class _Products(NamedTuple):
    """The rivals' part of the gradients; None for those that are not needed."""

    hidden: Tensor | None  # (D, N, P) without the positions' scales
    rows: Tensor | None  # (D, K, W)


def fused_cross_entropy(inputs: LossInputs) -> Tensor:
    """Return the summed loss of all directions: () float32.

    Args:
        inputs: `hidden` (D, N, P) in float32 or bfloat16, with at least one position. Without
            `sampled` there is a single direction.
    """
    assert inputs.sampled is not None or len(inputs.hidden) == 1
    if inputs.needs_gradients():
        loss: Tensor = _FusedCrossEntropy.apply(*inputs.differentiable, inputs)  # type: ignore[no-untyped-call]
        return loss
    words, rivals = _prepare(inputs)
    softmax, _ = _evaluate(inputs.hidden.contiguous(), words, rivals, inputs.chunk, (False, False))
    return softmax.losses.sum()


class _FusedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, inputs: LossInputs
    ) -> Tensor:
        needs_hidden, needs_weight, needs_bias, _ = ctx.needs_input_grad
        words, rivals = _prepare(inputs._replace(hidden=hidden, weight=weight, bias=bias))
        hidden, needed = hidden.contiguous(), (needs_hidden, needs_weight or needs_bias)
        softmax, products = _evaluate(hidden, words, rivals, inputs.chunk, needed)
        ctx.save_for_backward(hidden, *words, *softmax, *products)
        return softmax.losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        hidden, *saved = ctx.saved_tensors
        words, softmax, products = Words(*saved[:5]), Softmax(*saved[5:9]), _Products(*saved[9:])
        d_hidden = d_weight = d_bias = None
        if products.hidden is not None:
            d_hidden = kernels.hidden_gradient(products.hidden, softmax, words, hidden, factor)
        if products.rows is not None:
            d_weight, d_bias = kernels.row_gradients(products.rows, softmax, words, hidden, factor)
        return d_hidden, d_weight, d_bias, None


def _prepare(inputs: LossInputs) -> tuple[Words, Rivals]:
    """Return the targets and the rivals, ready for kernels."""
    hidden, sampled = inputs.hidden, inputs.sampled
    weight, bias = inputs.weight.contiguous(), inputs.bias.contiguous()
    targets = inputs.targets.contiguous()
    num = len(weight) if sampled is None else sampled.candidates.shape[1]
    # Rivals of probability 0, up to a number that products are fast with.
    missing = -num % COLUMNS_16_BIT if hidden.itemsize == 2 else 0
    if sampled is None:
        vectors, offsets = weight.to(hidden.dtype), bias.float()
        if missing:
            vectors = F.pad(vectors, (0, 0, 0, missing))
            offsets = F.pad(offsets, (0, missing), value=float("-inf"))
        return Words(weight, bias, targets, None, None), Rivals(vectors[None], offsets[None])
    candidates, target_log_expected, log_expected = sampled
    rivals, rival_indices = kernels.prepare_candidates(
        weight, bias, candidates, log_expected.float(), num + missing, hidden.dtype
    )
    expected = target_log_expected.float().contiguous()
    return Words(weight, bias, targets, expected, rival_indices), rivals


def _evaluate(
    hidden: Tensor, words: Words, rivals: Rivals, chunk: int | None, needed: tuple[bool, bool]
) -> tuple[Softmax, _Products]:
    """Return the softmax of all positions, and the needed products: for `hidden`, for rows."""
    num_directions, num_positions, _ = hidden.shape
    softmax = kernels.score_targets(hidden, words)
    max_size = ERROR_BYTES // (num_directions * rivals.vectors.shape[1] * hidden.itemsize)
    size = chunk or max(1, max_size // TILE_POSITIONS) * TILE_POSITIONS
    parts, rows = [], None
    for start in range(0, num_positions, size):
        part = slice(start, min(start + size, num_positions))
        # A function, so that a chunk's errors are freed before the next chunk's are computed.
        products = _evaluate_chunk(hidden, words, rivals, softmax, part, needed, rows)
        rows = products.rows
        if products.hidden is not None:
            parts.append(products.hidden)
    whole = torch.cat(parts, 1) if len(parts) > 1 else next(iter(parts), None)
    return softmax, _Products(whole, rows)


def _evaluate_chunk(
    hidden: Tensor,
    words: Words,
    rivals: Rivals,
    softmax: Softmax,
    part: slice,
    needed: tuple[bool, bool],
    rows: Tensor | None,
) -> _Products:
    """Evaluate the positions `part`; the product for rows is added to that of earlier chunks."""
    errors, scaled = kernels.exponentiate(hidden, words, rivals, softmax, part, any(needed))
    if rows is not None:
        _add_product(rows, errors.mT, scaled)
    elif needed[1]:
        rows = _product(errors.mT, scaled)
    return _Products(_product(errors, rivals.vectors) if needed[0] else None, rows)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right, batched, in their precision; in float32, unrounded on a GPU."""
    if left.dtype != torch.float32 and left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left, right).float()


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Compute total += left @ right, on a GPU without a product as large as the total."""
    if left.dtype == torch.float32:
        total.baddbmm_(left, right)
    elif left.is_cuda:
        for matrix, a, b in zip(total, left, right, strict=True):
            torch.addmm(matrix, a, b, out_dtype=torch.float32, out=matrix)
    else:
        total.add_(_product(left, right))
