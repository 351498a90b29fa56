"""Peers that do the same work: torch's own LSTM (cuDNN on a GPU), torch.compile.

A peer that is missing or fails leaves a dash in the table and a note below it. AllenNLP's module is
in `allennlp.py`.
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
        """Append a line, unless it is there already."""
        if note not in self:
            self.append(note)

    def attempt(self, name: str, measure: Callable[[], T]) -> T | None:
        """Return the result of a measurement; None and a note if it fails."""
        try:
            with warnings.catch_warnings():  # users cannot act on a peer's warnings
                warnings.simplefilter("ignore")
                return measure()
        except (RuntimeError, ImportError, ElmoxError) as error:  # includes out of memory
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            self.add(f"{name} is missing: {reason}")
            return None


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Run plain torch instead of elmox's kernels inside."""
    before = os.environ.get(FORCE)
    os.environ[FORCE] = "torch"
    try:
        yield
    finally:
        del os.environ[FORCE]
        if before is not None:
            os.environ[FORCE] = before


def gradients_of(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], upstream: Sequence[Tensor]
) -> None:
    """Run a whole backward pass, without adding to existing gradients."""
    torch.autograd.grad(outputs, inputs, upstream)


def torch_lstm(config: LstmConfig, inputs: Tensor, upstream: Tensor) -> Works:
    """Return the work of `torch.nn.LSTM(proj_size=...)`, one per direction, which cannot clip.

    Args:
        config: sizes of the layer.
        inputs: (D, T, B, P).
        upstream: (D, T, B, P), the gradient of its outputs.
    """
    layers = [
        nn.LSTM(config.projection_dim, config.cell_dim, proj_size=config.projection_dim).to(
            inputs.device, inputs.dtype
        )
        for _ in inputs
    ]
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    differentiated = [*leaves, *(weight for layer in layers for weight in layer.parameters())]

    def run(training: bool) -> list[Tensor]:
        return [layer.train(training)(x)[0] for layer, x in zip(layers, leaves, strict=True)]

    def forward() -> None:
        with torch.no_grad():
            run(training=False)

    return Works(forward, lambda: gradients_of(run(training=True), differentiated, list(upstream)))


def compiled_lstm(config: LstmConfig, inputs: Tensor, upstream: Tensor) -> Works:
    """Return the work of `model/lstm.py` under torch.compile, with clipping; see `torch_lstm`."""
    layer = LstmLayer(config).to(inputs.device, inputs.dtype)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(0.0, 0.02)
    num_directions, num_steps, num_rows, dim = inputs.shape
    rows = inputs.detach().transpose(1, 2).contiguous().requires_grad_()  # (D, B, T, P)
    gradient = upstream.transpose(1, 2).contiguous()
    mask = torch.ones(num_rows, num_steps, dtype=torch.bool, device=inputs.device)
    hidden = inputs.new_zeros(num_directions, num_rows, dim)
    cell = inputs.new_zeros(num_directions, num_rows, config.cell_dim)
    # Other compiled shapes count against a limit beyond which nothing is compiled.
    torch.compiler.reset()
    compiled: Callable[..., tuple[Tensor, Tensor, Tensor]] = torch.compile(layer, dynamic=False)

    def forward() -> None:
        with torch.no_grad():
            compiled(rows, mask, hidden, cell)

    def training() -> None:
        outputs, _, _ = compiled(rows, mask, hidden, cell)
        gradients_of([outputs], [rows, *layer.parameters()], [gradient])

    return Works(forward, training)
