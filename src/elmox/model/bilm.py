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
from elmox.model.transfer import to_device
from elmox.ops.packed_lstm import PackedLstm
from elmox.ops.select import LstmKernels, why_not_fused
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
        self.int8 = False  # whether the LSTMs' products run in 8-bit integers, see `infer`
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
        rows, back = to_device(np.stack([order.rows, np.argsort(order.rows)]), device)
        places = np.stack([order.forward, order.backward][: config.num_directions])
        where = to_device(places, device)
        words = to_device(index, device).expand(where.shape).gather(1, where)
        hidden, cell = state.hidden[:, :, rows], state.cell[:, :, rows]  # copies: changed below
        kernels = self._kernels.get(
            weights_version(self.lstm),
            lambda: [layer.weights() for layer in self._layers()],
            self.int8,
        )
        first, of_words = kernels[0], None
        if isinstance(first, PackedLstm):
            of_words = first.of_words(vectors, where.shape[1], len(lengths))
        window_tokens = window_tokens or default_window_tokens(self)
        for steps, start, stop in _windows(order.step_sizes, window_tokens):
            inputs = vectors[words[:, start:stop]]  # (D, n, P)
            layers = [inputs]
            for number, kernel in enumerate(kernels):
                if number == 0 and of_words is not None:
                    outputs = of_words(words[:, start:stop], steps, hidden[0], cell[0])
                else:
                    outputs = kernel(inputs, steps, hidden[number], cell[number])
                inputs = outputs.add_(inputs) if self._skips(number) else outputs
                layers.append(inputs)
            emit(Window(torch.stack(layers), where[:, start:stop]))
        return LstmState(hidden[:, :, back], cell[:, :, back])

    def _layers(self) -> list[LstmLayer]:
        return cast(list[LstmLayer], list(self.lstm))

    def _skips(self, number: int) -> bool:
        return self.config.lstm.skip_connections and number > 0


def weights_version(module: nn.Module) -> Hashable:
    """Changes whenever a parameter is moved or written to, so that derived values can tell."""
    return tuple((p.data_ptr(), p._version) for p in module.parameters())


def default_window_tokens(bilm: BiLm) -> int:
    """Tokens whose activations fill a fixed share of memory: cache-sized on a CPU."""
    config, weights = bilm.config.lstm, bilm._layers()[0].weights()
    if why_not_fused(weights.input_weight, weights) is None:
        # No gate products are stored, only what goes in and out: some ten vectors at a time.
        budget = torch.cuda.get_device_properties(bilm.device).total_memory // 16
        per_token = 10 * config.num_directions * config.projection_dim * bilm.dtype.itemsize
    else:
        budget = 2**30 if bilm.device.type == "cuda" else 2**25
        per_token = config.num_directions * 4 * config.cell_dim * bilm.dtype.itemsize
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
