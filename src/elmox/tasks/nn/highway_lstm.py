"""LSTM layers with highway connections, to be stacked high (He et al. 2017, section 2).

    r_t = sigmoid(W_r [h_{t-1}, x_t] + b_r)
    h_t = z * (r_t * o_t * tanh(c_t) + (1 - r_t) * W_h x_t)

where gates, candidate and cell are an LSTM's, and z is variational dropout: one mask for all steps
of a sequence. Layers alternate between reading from left to right and from right to left.

No library has a kernel for it, so time is a loop. What can be done outside of it is: the inputs'
products for all steps together, and the weights' gradients too, for which the backward pass is
written out. The loop is in `elmox.kernels.recurrence`. Sequences are packed, so that each step is
one product on the rows that still have a word.

Shapes: R rows (sequences), P words of them all, N rows that have a word at a step, C cells. Gate
order: input, forget, output, carry (r), candidate.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmox.kernels.recurrence.dispatch import highway_recurrence
from elmox.kernels.recurrence.packing import PackedRows
from elmox.kernels.recurrence.plain import NUM_GATES

NUM_PRODUCTS = NUM_GATES + 1  # of an input: those of the gates, and W_h x, which goes past them


class HighwayLstm(nn.Module):
    """One layer in one direction.

    Weights are drawn orthonormal, matrix by matrix; biases are 0, except 1 for the forget gate.

    Attributes:
        weight: (6C, D) of the inputs, W_h last.
        recurrent: (5C, C) of the hidden state.
        bias: (5C,).
    """

    def __init__(self, input_dim: int, num_cells: int, dropout: float, backward: bool) -> None:
        """Initialize the weights; `backward` reads from right to left."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(NUM_PRODUCTS * num_cells, input_dim))
        self.recurrent = nn.Parameter(torch.empty(NUM_GATES * num_cells, num_cells))
        self.bias = nn.Parameter(torch.zeros(NUM_GATES * num_cells))
        self._num_cells, self._dropout, self._backward = num_cells, dropout, backward
        for weight in (self.weight, self.recurrent):
            for matrix in torch.split(weight.detach(), num_cells):
                nn.init.orthogonal_(matrix)
        nn.init.ones_(self.bias.detach()[num_cells : 2 * num_cells])

    def forward(self, inputs: Tensor, rows: PackedRows) -> Tensor:
        """Read packed rows: (P, D) -> (P, C)."""
        return self.read(self.products(inputs), rows)

    def products(self, inputs: Tensor) -> Tensor:
        """Compute the part that needs no state: (..., D) -> (..., 6C), biases added.

        Narrower inputs are treated as if padded with zeros.
        """
        weight = self.weight[:, : inputs.shape[-1]]
        return F.linear(inputs, weight, F.pad(self.bias, (0, self._num_cells)))

    def read(self, products: Tensor, rows: PackedRows) -> Tensor:
        """Run the recurrence over packed rows: the words' products (P, 6C) -> (P, C)."""
        mask, kept = None, 1 - self._dropout
        if self.training and self._dropout:
            mask = products.new_empty(rows.sizes[0], self._num_cells).bernoulli_(kept).div_(kept)
        return highway_recurrence(products, self.recurrent, mask, rows, self._backward)
