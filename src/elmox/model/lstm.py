"""An LSTM layer with projection, cell clipping and projection clipping (Sak et al. 2014).

    i, f, o = sigmoid(...), g = tanh(...)          of  W_in x + W_rec h + b  (forget_bias joins f)
    c = clip(f*c + i*g, cell_clip)
    h = clip(W_proj (o * tanh(c)), proj_clip)

The clipped h is both output and recurrent state. Forward and backward language models are separate
networks; their weights are stacked along a leading axis so that one product computes both.

Shapes: D directions, B rows, T steps, P projection, C cells. Gate order: input, forget, output,
candidate.
"""

import torch
from torch import Tensor, nn

from elmox.config import LstmConfig
from elmox.kernels.lstm.dispatch import lstm_rows
from elmox.kernels.lstm.plain import LstmWeights


class LstmLayer(nn.Module):
    """One layer, both directions: the readable reference, which autograd can follow."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        d, p, c = config.num_directions, config.projection_dim, config.cell_dim
        self.input_weight = nn.Parameter(torch.empty(d, 4 * c, p))
        self.recurrent_weight = nn.Parameter(torch.empty(d, 4 * c, p))
        self.bias = nn.Parameter(torch.empty(d, 4 * c))
        self.projection = nn.Parameter(torch.empty(d, p, c)) if config.has_projection else None

    def gate_bias(self) -> Tensor:
        """Return the stored bias with the forget gate's constant added, (D, 4C)."""
        c = self.config.cell_dim
        constant = torch.zeros_like(self.bias)
        constant[:, c : 2 * c] = self.config.forget_bias
        return self.bias + constant

    def tensors(self) -> list[Tensor]:
        """Return the stored weights."""
        stored = self.input_weight, self.recurrent_weight, self.bias, self.projection
        return [tensor for tensor in stored if tensor is not None]

    def weights(self) -> LstmWeights:
        """Return the weights and clips that a fast kernel needs."""
        return LstmWeights(
            input_weight=self.input_weight.detach(),
            recurrent_weight=self.recurrent_weight.detach(),
            bias=self.gate_bias().detach(),
            projection=None if self.projection is None else self.projection.detach(),
            cell_clip=self.config.cell_clip,
            proj_clip=self.config.proj_clip,
        )

    def read_rows(
        self, inputs: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Do what `forward` does, for training, on rows of equal length; see `lstm_rows`.

        Args:
            inputs: (D, T, B, P), time first.
            hidden: (D, B, P) start state.
            cell: (D, B, C) start state.

        Returns:
            Outputs (D, T, B, P); hidden and cell state after the last step.
        """
        return lstm_rows(
            inputs,
            hidden,
            cell,
            self.input_weight,
            self.recurrent_weight,
            self.gate_bias(),
            self.projection,
            self.config.cell_clip,
            self.config.proj_clip,
        )

    def forward(
        self, inputs: Tensor, mask: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read padded rows from left to right.

        Args:
            inputs: (D, B, T, P).
            mask: (B, T), true at tokens; rows are padded on the right.
            hidden: (D, B, P) start state.
            cell: (D, B, C) start state.

        Returns:
            Outputs (D, B, T, P), zero at padding; hidden and cell state at the end of each row.
        """
        products = torch.einsum("dbtp,dgp->dbtg", inputs, self.input_weight)
        products = products + self.gate_bias()[:, None, None]
        recurrent = self.recurrent_weight.transpose(1, 2)
        outputs = []
        for t in range(inputs.shape[2]):
            gates = products[:, :, t] + hidden @ recurrent  # (D, B, 4C)
            i, f, o, g = gates.chunk(4, dim=-1)
            new_cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            new_cell = _clip(new_cell, self.config.cell_clip)
            new_hidden = torch.sigmoid(o) * torch.tanh(new_cell)
            if self.projection is not None:
                new_hidden = _clip(
                    new_hidden @ self.projection.transpose(1, 2), self.config.proj_clip
                )
            alive = mask[:, t, None]  # (B, 1)
            hidden = torch.where(alive, new_hidden, hidden)
            cell = torch.where(alive, new_cell, cell)
            outputs.append(new_hidden * alive)
        return torch.stack(outputs, dim=2), hidden, cell


def _clip(values: Tensor, bound: float | None) -> Tensor:
    return values if bound is None else values.clamp(-bound, bound)
