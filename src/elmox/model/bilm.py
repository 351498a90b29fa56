"""The bidirectional language model: token vectors to all layers (Peters et al. 2018, 3.1-3.2).

Layer 0 is the token vector, once for each direction; layer l is the concatenated output of the
forward and the backward LSTM. Layers above the first have a residual connection, added outside the
recurrence.

Batches are ragged (see `text/batches.py`). Shapes: U distinct words, N tokens, B sentences, L LSTM
layers, D directions, P projection.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from elmox.config import ElmoConfig
from elmox.io.transfer import to_device
from elmox.kernels.derived import Derived
from elmox.kernels.fork_gate import computing
from elmox.kernels.lstm.cpu_packed import PackedLstm
from elmox.kernels.lstm.dispatch import lstm_kernel, why_not_fused
from elmox.kernels.lstm.plain import LstmKernel
from elmox.kernels.torch_modes import modes_off
from elmox.model.lstm import LstmLayer
from elmox.model.state import LstmState
from elmox.model.token_encoder import TokenEncoder
from elmox.text.batches import time_major


@dataclass(frozen=True)
class Window:
    """The layers of some consecutive time steps of a ragged batch, for n tokens per direction.

    The backward stack reads from the right, so the two directions of a window are different tokens
    of the batch.
    """

    layers: Tensor  # (L+1, D, n, P)
    positions: Tensor  # (D, n) the index of each token in the ragged batch


class BiLm(nn.Module):
    """Token encoder and LSTM stacks. Holds weights only; state comes in and goes out as a value."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.token_encoder = TokenEncoder(config)
        self.lstm = nn.ModuleList(LstmLayer(config.lstm) for _ in range(config.lstm.num_layers))
        self.int8 = False  # whether the LSTMs' products run in 8-bit integers, see `infer`
        self._kernels: Derived[list[LstmKernel]] = Derived()

    @property
    def device(self) -> torch.device:
        return self._first_weight().device

    @property
    def dtype(self) -> torch.dtype:
        return self._first_weight().dtype

    def forward(
        self, tokens: Tensor, lengths: NDArray[np.int64], state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """Return all layers, computed in the plain way, which autograd can follow.

        Args:
            tokens: (N, P) token vectors, sentence after sentence, boundaries included.
            lengths: (B,) tokens of each sentence.
            state: start state of the B rows.

        Returns:
            Layers (L+1, N, D*P) in the order of `tokens`, and the state after the last token.
        """
        inputs = _padded_rows(tokens, lengths, self.config.lstm.num_directions)  # (D, B, T, P)
        alive = torch.from_numpy(np.arange(lengths.max()) < lengths[:, None]).to(tokens.device)
        layers, hidden, cell = [inputs], [], []
        for number, lstm in enumerate(self._layers()):
            outputs, h, c = lstm(inputs, alive, state.hidden[number], state.cell[number])
            inputs = outputs + inputs if self._skips(number) else outputs
            layers.append(inputs)
            hidden.append(h)
            cell.append(c)
        state = LstmState(torch.stack(hidden), torch.stack(cell))
        return _ragged(torch.stack(layers), lengths), state

    def learn(self, tokens: Tensor, lengths: NDArray[np.int64], state: LstmState) -> Tensor:
        """Return the layers of `forward`, for training: in less time and memory.

        All rows run as long as the longest. What a row reads beyond its end reaches none of its
        tokens, because no direction looks ahead; but its state after the last token is not known.
        """
        if self.dtype.itemsize < 4:  # in half precision `lstm_rows` needs steps of one shape
            return cast(Tensor, self(tokens, lengths, state)[0])
        rows = _padded_rows(tokens, lengths, self.config.lstm.num_directions)
        inputs = rows.transpose(1, 2)  # (D, T, B, P)
        layers = [inputs]
        for number, lstm in enumerate(self._layers()):
            outputs, _, _ = lstm.read_rows(inputs, state.hidden[number], state.cell[number])
            inputs = outputs + inputs if self._skips(number) else outputs
            layers.append(inputs)
        return _ragged(torch.stack(layers).transpose(2, 3), lengths)

    def infer(
        self,
        vectors: Tensor,
        index: NDArray[np.int64],
        lengths: NDArray[np.int64],
        state: LstmState,
        emit: Callable[[Window], None],
        window_tokens: int | None = None,
    ) -> LstmState:
        """Emit all layers window by window: the fast way, without gradients or autocast.

        State is carried from window to window, forward from the left and backward from the right.
        So the windows change the memory but not the result: only one window's activations are held,
        however long a sentence is.

        Args:
            vectors: (U, P) vectors of the distinct words.
            index: (N,) the word of each token, sentence after sentence; (D, N) if the directions
                read different words.
            lengths: (B,) tokens of each sentence.
            state: start state of the B rows.
            emit: called with every window; its tensors may be kept.
            window_tokens: tokens per window; a window has at least one time step.

        Returns:
            The state after the last token of each row.
        """
        with modes_off(vectors.device):
            order = time_major(lengths)
            read = np.stack([order.forward, order.backward][: self.config.lstm.num_directions])
            rows, back = to_device(np.stack([order.rows, np.argsort(order.rows)]), vectors.device)
            positions = to_device(read, vectors.device)
            words = to_device(index, vectors.device).expand(positions.shape).gather(1, positions)
            hidden, cell = state.hidden[:, :, rows], state.cell[:, :, rows]  # copies: changed below
            with computing():
                kernels = self._inference_kernels()
                first, of_words = kernels[0], None
                if isinstance(first, PackedLstm):
                    of_words = first.for_words(vectors, positions.shape[1], len(lengths))
            window_tokens = window_tokens or default_window_tokens(self)
            for steps, start, stop in _windows(order.step_sizes, window_tokens):
                with computing():
                    inputs = vectors[words[:, start:stop]]  # (D, n, P)
                    layers = [inputs]
                    for number, kernel in enumerate(kernels):
                        if number == 0 and of_words is not None:
                            outputs = of_words(words[:, start:stop], steps, hidden[0], cell[0])
                        else:
                            outputs = kernel(inputs, steps, hidden[number], cell[number])
                        inputs = outputs.add_(inputs) if self._skips(number) else outputs
                        layers.append(inputs)
                    emit(Window(torch.stack(layers), positions[:, start:stop]))
            return LstmState(hidden[:, :, back], cell[:, :, back])

    def clear_derived(self) -> None:
        """Discard everything that was computed from the weights."""
        for module in self.modules():
            for value in vars(module).values():
                if isinstance(value, Derived):
                    value.clear()

    def _inference_kernels(self) -> list[LstmKernel]:
        """Return a kernel per layer; weights that it packs are packed once."""
        return self._kernels.get(
            [weight for layer in self._layers() for weight in layer.tensors()],
            lambda: [lstm_kernel(layer.weights(), self.int8) for layer in self._layers()],
            self.int8,
        )

    def _first_weight(self) -> Tensor:
        return cast(LstmLayer, self.lstm[0]).input_weight

    def _layers(self) -> list[LstmLayer]:
        return cast(list[LstmLayer], list(self.lstm))

    def _skips(self, number: int) -> bool:
        return self.config.lstm.skip_connections and number > 0


def default_window_tokens(bilm: BiLm) -> int:
    """Return the number of tokens whose activations fit into a cache, or a share of a GPU."""
    config = bilm.config.lstm
    if bilm.device.type == "cuda" and _is_fused(bilm):
        # No gate products are stored, only inputs and outputs: some ten vectors at a time.
        budget = torch.cuda.get_device_properties(bilm.device).total_memory // 16
        per_token = 10 * config.num_directions * config.projection_dim * bilm.dtype.itemsize
    else:
        budget = 2**30 if bilm.device.type == "cuda" else 2**25
        per_token = config.num_directions * 4 * config.cell_dim * bilm.dtype.itemsize
    return max(1, budget // per_token)


def _is_fused(bilm: BiLm) -> bool:
    weights = bilm._layers()[0].weights()
    return why_not_fused(weights.input_weight, weights) is None


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


def _padded_rows(tokens: Tensor, lengths: NDArray[np.int64], num_directions: int) -> Tensor:
    """(N, P) -> (D, B, T, P): padded rows, in the order in which each direction reads."""
    starts, last = (np.cumsum(lengths) - lengths)[:, None], lengths[:, None] - 1
    steps = np.arange(lengths.max())
    read = [np.minimum(steps, last), np.maximum(last - steps, 0)]
    positions = starts + np.stack(read[:num_directions])
    return F.embedding(to_device(positions, tokens.device), tokens)


def _ragged(layers: Tensor, lengths: NDArray[np.int64]) -> Tensor:
    """(L+1, D, B, T, P) -> (L+1, N, D*P): the inverse of `_padded_rows`, for all layers."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    steps = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    index = to_device(np.stack([rows, steps, lengths[rows] - 1 - steps]), layers.device)
    halves = [layers[:, d, index[0], index[1 + d]] for d in range(layers.shape[1])]
    return torch.cat(halves, dim=-1)
