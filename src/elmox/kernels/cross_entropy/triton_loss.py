"""The losses of `plain.py` on a GPU: Triton kernels do everything except the large products.

All directions are one task: every kernel and product has them as a batch, so that the host, which
has little time for a small model, launches each but once. Going forward finds the losses, and of
the gradients the products, for whose sake a chunk's errors are kept no longer than it takes. Going
back makes the gradients of these, times what comes from above, in one pass over memory for each.

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

# Errors held at a time, 2 GB: every chunk of a full softmax goes over the gradient of all words,
# which is as large. Positions come in multiples of a tile.
ERROR_BYTES = 2**31
TILE_POSITIONS = 128


class _Products(NamedTuple):
    """The rivals' part of the gradients; None for what nobody asks for."""

    hidden: Tensor | None  # (D, N, P) still without the positions' scales
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
    words, rivals = _set_out(inputs)
    softmax, _ = _evaluate(inputs.hidden.contiguous(), words, rivals, inputs.chunk, (False, False))
    return softmax.losses.sum()


class _FusedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, inputs: LossInputs
    ) -> Tensor:
        needs_hidden, needs_weight, needs_bias, _ = ctx.needs_input_grad
        words, rivals = _set_out(inputs._replace(hidden=hidden, weight=weight, bias=bias))
        hidden, needed = hidden.contiguous(), (needs_hidden, needs_weight or needs_bias)
        softmax, products = _evaluate(hidden, words, rivals, inputs.chunk, needed)
        ctx.save_for_backward(hidden, *words, *softmax, *products)
        return softmax.losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        hidden, *saved = ctx.saved_tensors
        words, found, products = Words(*saved[:5]), Softmax(*saved[5:9]), _Products(*saved[9:])
        d_hidden = d_weight = d_bias = None
        if products.hidden is not None:
            d_hidden = kernels.hidden_gradient(products.hidden, found, words, hidden, factor)
        if products.rows is not None:
            d_weight, d_bias = kernels.row_gradients(products.rows, found, words, hidden, factor)
        return d_hidden, d_weight, d_bias, None


def _set_out(inputs: LossInputs) -> tuple[Words, Rivals]:
    """Return the targets and the rivals, ready for kernels."""
    hidden, sampled = inputs.hidden, inputs.sampled
    weight, bias = inputs.weight.contiguous(), inputs.bias.contiguous()
    targets = inputs.targets.contiguous()
    num = len(weight) if sampled is None else sampled.candidates.shape[1]
    # Rivals with no chance, up to a number that products are fast with.
    missing = -num % COLUMNS_16_BIT if hidden.itemsize == 2 else 0
    if sampled is None:
        vectors, offsets = weight.to(hidden.dtype), bias.float()
        if missing:
            vectors = F.pad(vectors, (0, 0, 0, missing))
            offsets = F.pad(offsets, (0, missing), value=float("-inf"))
        return Words(weight, bias, targets, None, None), Rivals(vectors[None], offsets[None])
    candidates, target_log_expected, log_expected = sampled
    rivals, places = kernels.set_out_candidates(
        weight, bias, candidates, log_expected.float(), num + missing, hidden.dtype
    )
    expected = target_log_expected.float().contiguous()
    return Words(weight, bias, targets, expected, places), rivals


def _evaluate(
    hidden: Tensor, words: Words, rivals: Rivals, chunk: int | None, wanted: tuple[bool, bool]
) -> tuple[Softmax, _Products]:
    """The softmax of all positions, and the products that are wanted: for `hidden`, for rows."""
    num_directions, num_positions, _ = hidden.shape
    found = kernels.score_targets(hidden, words)
    most = ERROR_BYTES // (num_directions * rivals.vectors.shape[1] * hidden.itemsize)
    size = chunk or max(1, most // TILE_POSITIONS) * TILE_POSITIONS
    parts, rows = [], None
    for start in range(0, num_positions, size):
        part = slice(start, min(start + size, num_positions))
        # A function, so that a chunk's errors are gone before the next chunk's are made.
        products = _evaluate_chunk(hidden, words, rivals, found, part, wanted, rows)
        rows = products.rows
        if products.hidden is not None:
            parts.append(products.hidden)
    whole = torch.cat(parts, 1) if len(parts) > 1 else next(iter(parts), None)
    return found, _Products(whole, rows)


def _evaluate_chunk(
    hidden: Tensor,
    words: Words,
    rivals: Rivals,
    found: Softmax,
    part: slice,
    wanted: tuple[bool, bool],
    rows: Tensor | None,
) -> _Products:
    """The same of the positions `part`; the product for rows is added to that of those before."""
    errors, scaled = kernels.exponentiate(hidden, words, rivals, found, part, any(wanted))
    if rows is not None:
        _add_product(rows, errors.mT, scaled)
    elif wanted[1]:
        rows = _product(errors.mT, scaled)
    return _Products(_product(errors, rivals.vectors) if wanted[0] else None, rows)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right, in batches, in their precision; the result in float32, unrounded on a GPU."""
    if left.dtype != torch.float32 and left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left, right).float()


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, on a GPU without a product as large as the total beside it."""
    if left.dtype == torch.float32:
        total.baddbmm_(left, right)
    elif left.is_cuda:
        for own, a, b in zip(total, left, right, strict=True):
            torch.addmm(own, a, b, out_dtype=torch.float32, out=own)
    else:
        total.add_(_product(left, right))
