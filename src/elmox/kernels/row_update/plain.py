"""Adagrad and AdamW in plain torch, on whole arrays or on some rows of one.

Sampled softmax touches a few thousand rows of a matrix with hundreds of thousands. For Adagrad a
row without gradient stays as it is anyway. AdamW leaves such a row and its moments alone, as
torch's SparseAdam does.

Shapes: V rows, U of them with a gradient.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True)
class Gradient:
    """The gradient of an array, or of some of its rows."""

    values: Tensor  # the array's shape, or (U, ...)
    rows: Tensor | None = None  # (U,) distinct


class Update(NamedTuple):
    """An array to update, with the optimizer's state of it and its gradient."""

    weight: Tensor  # (V, ...)
    slots: Mapping[str, Tensor]  # "sum" of Adagrad; "mean" and "square" of AdamW
    gradient: Gradient


class Adagrad(NamedTuple):
    """Adagrad as published, without epsilon."""

    lr: float


class AdamW(NamedTuple):
    """AdamW at one step."""

    lr: float
    time: int  # the step, counted from 1
    betas: tuple[float, float]
    eps: float
    weight_decay: float

    def factors(self) -> "AdamWFactors":
        """Return the numbers of the formula."""
        first, second = self.betas
        return AdamWFactors(
            mean_update=1.0 - first,
            square_decay=second,
            square_update=1.0 - second,
            square_correction=1.0 - second**self.time,
            eps=self.eps,
            rate=self.lr / (1.0 - first**self.time),
            weight_decay=1.0 - self.lr * self.weight_decay,
        )


class AdamWFactors(NamedTuple):
    """The numbers of AdamW's formula, in the order of the kernel's arguments."""

    mean_update: float  # 1 - beta1
    square_decay: float  # beta2
    square_update: float  # 1 - beta2
    square_correction: float  # 1 - beta2 ** time
    eps: float
    rate: float  # with the first moment's bias corrected
    weight_decay: float  # the share of a weight that remains


def update_plainly(update: Update, rule: Adagrad | AdamW) -> None:
    """Update an array and its state in place."""
    if isinstance(rule, Adagrad):
        _adagrad(update, rule.lr)
    else:
        _adamw(update, rule.factors())


def _adagrad(update: Update, lr: float) -> None:
    weight, slots, gradient = update
    values, rows = gradient.values, gradient.rows
    if rows is None:
        slots["sum"].addcmul_(values, values)
        weight.addcdiv_(values, slots["sum"].sqrt(), value=-lr)
        return
    total = slots["sum"][rows].addcmul_(values, values)
    slots["sum"][rows] = total
    weight.index_add_(0, rows, values / total.sqrt_(), alpha=-lr)


def _adamw(update: Update, by: AdamWFactors) -> None:
    weight, slots, gradient = update
    values, rows = gradient.values, gradient.rows
    mean, square = slots["mean"], slots["square"]
    if rows is not None:
        mean, square = mean[rows], square[rows]
    mean.lerp_(values, by.mean_update)
    square.mul_(by.square_decay).addcmul_(values, values, value=by.square_update)
    size = (square / by.square_correction).sqrt_().add_(by.eps)
    if rows is None:
        weight.mul_(by.weight_decay).addcdiv_(mean, size, value=-by.rate)
        return
    slots["mean"][rows], slots["square"][rows] = mean, square
    weight[rows] = weight[rows].mul_(by.weight_decay).addcdiv_(mean, size, value=-by.rate)
