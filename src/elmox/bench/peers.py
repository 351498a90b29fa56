"""What else is installed and does the same work: torch's own LSTM (cuDNN on a GPU), torch.compile.

A peer that is not there, or that cannot do it, leaves a dash in the table and a note below it.
AllenNLP's module is in `allennlp.py`.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

from elmox.bench.timing import Works
from elmox.config import LstmConfig
from elmox.errors import ElmoxError
from elmox.kernels.availability import FORCE
from elmox.model.lstm import LstmLayer

T = TypeVar("T")


class Notes(list[str]):
    """Lines below a table, each of them once."""

    def add(self, note: str) -> None:
        """Log something, unless it has been said."""
        if note not in self:
            self.append(note)

    def attempt(self, name: str, measure: Callable[[], T]) -> T | None:
        """What a measurement finds; None and a note where it cannot be made."""
        try:
            with warnings.catch_warnings():  # a peer's own are not for our users
                warnings.simplefilter("ignore")
                return measure()
        except (RuntimeError, ImportError, ElmoxError) as error:  # out of memory too
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            self.add(f"{name} is missing: {reason}")
            return None


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Plain torch in place of elmox's kernels, for a while."""
    before = os.environ.get(FORCE)
    os.environ[FORCE] = "torch"
    try:
        yield
    finally:
        del os.environ[FORCE]
        if before is not None:
            os.environ[FORCE] = before


def gradients_of(
    outputs: Sequence[Tensor], wanted: Sequence[Tensor], upstream: Sequence[Tensor]
) -> None:
    """A whole way back, without adding to gradients that are there."""
    torch.autograd.grad(outputs, wanted, upstream)


def torch_lstm(config: LstmConfig, inputs: Tensor, upstream: Tensor) -> Works:
    """`torch.nn.LSTM(proj_size=...)`, one for each direction; torch offers it no clipping.

    Args:
        config: of the layer.
        inputs: (D, T, B, P).
        upstream: (D, T, B, P), the gradient of its outputs.
    """
    layers = [
        nn.LSTM(config.projection_dim, config.cell_dim, proj_size=config.projection_dim).to(
            inputs.device, inputs.dtype
        )
        for _ in inputs
    ]
    own = [x.detach().clone().requires_grad_() for x in inputs]
    wanted = [*own, *(weight for layer in layers for weight in layer.parameters())]

    def read(training: bool) -> list[Tensor]:
        return [layer.train(training)(x)[0] for layer, x in zip(layers, own, strict=True)]

    def forward() -> None:
        with torch.no_grad():
            read(training=False)

    return Works(forward, lambda: gradients_of(read(training=True), wanted, list(upstream)))


def compiled_lstm(config: LstmConfig, inputs: Tensor, upstream: Tensor) -> Works:
    """The plain layer of `model/lstm.py` under torch.compile, with clipping; shapes as above."""
    layer = LstmLayer(config).to(inputs.device, inputs.dtype)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(0.0, 0.02)
    num_directions, num_steps, num_rows, dim = inputs.shape
    own = inputs.detach().transpose(1, 2).contiguous().requires_grad_()  # (D, B, T, P)
    back = upstream.transpose(1, 2).contiguous()
    mask = torch.ones(num_rows, num_steps, dtype=torch.bool, device=inputs.device)
    hidden = inputs.new_zeros(num_directions, num_rows, dim)
    cell = inputs.new_zeros(num_directions, num_rows, config.cell_dim)
    wanted = [own, *layer.parameters()]
    # What it knows of other shapes counts against a limit, beyond which nothing is compiled.
    torch.compiler.reset()
    compiled: Callable[..., tuple[Tensor, Tensor, Tensor]] = torch.compile(layer, dynamic=False)

    def forward() -> None:
        with torch.no_grad():
            compiled(own, mask, hidden, cell)

    return Works(
        forward, lambda: gradients_of([compiled(own, mask, hidden, cell)[0]], wanted, [back])
    )
