"""The bidirectional language model: token vectors to all layers (Peters et al. 2018, 3.1-3.2).

Layer 0 is the token vector, once for each direction; layer l is the forward and the backward LSTM's
output side by side. Layers above the first have a residual connection, added outside the
recurrence.

Batches are ragged (see `text/batches.py`). Shapes: U distinct words, N tokens, B sentences, L LSTM
layers, D directions, P projection.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmox.config import ElmoConfig
from elmox.model.lstm import LstmLayer
from elmox.model.state import LstmState
from elmox.model.token_encoder import TokenEncoder
from elmox.ops.select import LstmKernels
from elmox.text.batches import time_major


@dataclass(frozen=True)
class Window:
    """The layers of some consecutive time steps of a ragged batch, for n tokens a direction.

    The backward stack reads from the right, so the two directions of a window lie at different
    places of the batch.
    """

    layers: Tensor  # (L+1, D, n, P)
    places: Tensor  # (D, n) where in the ragged batch each token stands


class BiLm(nn.Module):
    """Token encoder and LSTM stacks. Holds weights only; state comes in and goes out as a value."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.token_encoder = TokenEncoder(config)
        self.lstm = nn.ModuleList(LstmLayer(config.lstm) for _ in range(config.lstm.num_layers))
        self._kernels = LstmKernels()

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def forward(
        self, tokens: Tensor, lengths: NDArray[np.int64], state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """All layers at once, the plain way, which autograd can follow.

        Args:
            tokens: (N, P) token vectors, sentence after sentence, boundaries included.
            lengths: (B,) tokens of each sentence.
            state: start state of the B rows.

        Returns:
            Layers (L+1, N, D*P) in the order of `tokens`, and the state after the last token.
        """
        mask, places = _padded_places(lengths, self.config.lstm.num_directions)
        alive = torch.from_numpy(mask).to(tokens.device)
        where = torch.from_numpy(places).to(tokens.device)
        inputs = tokens[where]  # (D, B, T, P)
        layers, hidden, cell = [inputs], [], []
        for number, lstm in enumerate(self._layers()):
            outputs, h, c = lstm(inputs, alive, state.hidden[number], state.cell[number])
            inputs = outputs + inputs if self._skips(number) else outputs
            layers.append(inputs)
            hidden.append(h)
            cell.append(c)
        flat = torch.stack(layers)[:, :, alive]  # (L+1, D, N, P), each direction in its own order
        order = torch.argsort(where[:, alive], dim=1)  # back to the order of `tokens`
        halves = [flat[:, d][:, order[d]] for d in range(flat.shape[1])]
        return torch.cat(halves, dim=-1), LstmState(torch.stack(hidden), torch.stack(cell))

    @torch.no_grad()
    def infer(
        self,
        vectors: Tensor,
        index: NDArray[np.int64],
        lengths: NDArray[np.int64],
        state: LstmState,
        emit: Callable[[Window], None],
        window_tokens: int | None = None,
    ) -> LstmState:
        """All layers, window by window: the fast way, without gradients.

        State is carried from window to window, forward from the left and backward from the right,
        so the result does not depend on the windows while the memory does: it never holds more than
        one window's activations, however long a sentence is.

        Args:
            vectors: (U, P) vectors of the distinct words.
            index: (N,) the word of each token, sentence after sentence; (D, N) where the directions
                read different words.
            lengths: (B,) tokens of each sentence.
            state: start state of the B rows.
            emit: called with every window; its tensors may be kept.
            window_tokens: tokens of a window (at least one time step is always taken).

        Returns:
            The state after the last token of each row.
        """
        config = self.config.lstm
        device = vectors.device
        order = time_major(lengths)
        rows = torch.from_numpy(order.rows).to(device)
        places = np.stack([order.forward, order.backward][: config.num_directions])
        index = np.broadcast_to(index, places.shape)
        words = torch.from_numpy(np.take_along_axis(index, places, axis=1)).to(device)
        where = torch.from_numpy(places).to(device)
        hidden, cell = state.hidden[:, :, rows], state.cell[:, :, rows]  # copies: changed below
        kernels = self._kernels.get(
            weights_version(self.lstm), lambda: [layer.weights() for layer in self._layers()]
        )
        window_tokens = window_tokens or default_window_tokens(self.config, device, self.dtype)
        for steps, start, stop in _windows(order.step_sizes, window_tokens):
            inputs = vectors[words[:, start:stop]]  # (D, n, P)
            layers = [inputs]
            for number, kernel in enumerate(kernels):
                outputs = kernel(inputs, steps, hidden[number], cell[number])
                inputs = outputs.add_(inputs) if self._skips(number) else outputs
                layers.append(inputs)
            emit(Window(torch.stack(layers), where[:, start:stop]))
        back = torch.argsort(rows)
        return LstmState(hidden[:, :, back], cell[:, :, back])

    def _layers(self) -> list[LstmLayer]:
        return cast(list[LstmLayer], list(self.lstm))

    def _skips(self, number: int) -> bool:
        return self.config.lstm.skip_connections and number > 0


def weights_version(module: nn.Module) -> Hashable:
    """Changes whenever a parameter is moved or written to, so that derived values can tell."""
    return tuple((p.data_ptr(), p._version) for p in module.parameters())


def default_window_tokens(config: ElmoConfig, device: torch.device, dtype: torch.dtype) -> int:
    """Tokens whose gate products fill a fixed share of memory: cache-sized on a CPU."""
    budget = 2**30 if device.type == "cuda" else 2**25
    per_token = config.lstm.num_directions * 4 * config.lstm.cell_dim * dtype.itemsize
    return max(1, budget // per_token)


def _windows(step_sizes: NDArray[np.int64], window_tokens: int) -> list[tuple[list[int], int, int]]:
    """Cut time steps into windows of about `window_tokens` tokens: (their sizes, start, stop)."""
    ends = np.cumsum(step_sizes)
    windows = []
    step, start = 0, 0
    while step < len(ends):
        last = max(int(np.searchsorted(ends, start + window_tokens, side="right")), step + 1)
        stop = int(ends[last - 1])
        windows.append((step_sizes[step:last].tolist(), start, stop))
        step, start = last, stop
    return windows


def _padded_places(
    lengths: NDArray[np.int64], num_directions: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Mask (B, T) and, per direction, the ragged place each padded position reads, (D, B, T)."""
    steps = np.arange(lengths.max())
    mask = steps < lengths[:, None]
    starts = (np.cumsum(lengths) - lengths)[:, None]
    forward = starts + np.minimum(steps, lengths[:, None] - 1)
    backward = starts + np.maximum(lengths[:, None] - 1 - steps, 0)
    return mask, np.stack([forward, backward][:num_directions])
