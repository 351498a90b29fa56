"""Learning from a teacher: besides predicting words, the model learns the teacher's layers.

A linear map per layer and direction predicts the teacher's layer from the model's. The loss is the
share of the teacher's variance that these maps do not explain, the mean over layers. The maps are
trained along and are not part of the result.

Shapes: J layers including the token layer, D directions, T steps, B rows, N = T * B positions,
P projection of the model, Q projection of the teacher.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmox.config import ElmoConfig
from elmox.errors import ElmoxError
from elmox.model.checkpoint import Checkpoint, build_bilm
from elmox.model.state import LstmState, zero_state
from elmox.training.keys import mixed_seed
from elmox.training.network import TrainingNetwork
from elmox.training.rows import Batch

# Below this, a direction's outputs are all alike, and their variance is rounding.
LEAST_VARIANCE = 1e-12


class LayerMaps(nn.Module):
    """A linear map per layer and direction."""

    def __init__(self, student: ElmoConfig, teacher: ElmoConfig, seed: int) -> None:
        super().__init__()
        lstm, num_layers = student.lstm, student.lstm.num_layers + 1
        shape = (num_layers, lstm.num_directions)
        width = lstm.projection_dim
        generator = torch.Generator().manual_seed(mixed_seed("distill", seed))
        weight = torch.randn(*shape, width, teacher.lstm.projection_dim, generator=generator)
        self.weight = nn.Parameter(weight / width**0.5)
        self.bias = nn.Parameter(torch.zeros(*shape, 1, teacher.lstm.projection_dim))

    def forward(self, layers: Tensor) -> Tensor:
        """Map (J, D, N, P) to (J, D, N, Q)."""
        return layers @ self.weight.to(layers.dtype) + self.bias.to(layers.dtype)


class Distillation:
    """The teacher, the maps, and the teacher's LSTM state of this process's rows.

    Attributes:
        maps: trained along with the model.
        state: LSTM state of the teacher, carried from step to step as the model's is.
    """

    def __init__(
        self,
        teacher: Checkpoint,
        source: str,
        student: ElmoConfig,
        *,
        precision: torch.dtype,
        seed: int,
        device: torch.device,
        num_rows: int,
    ) -> None:
        """Build the teacher.

        Args:
            teacher: a model that reads the same characters and has as many layers.
            source: its name in error messages.
            student: the architecture of the model in training.
            precision: of the teacher's products and activations.
            seed: of the maps' first weights.
            device: of the model.
            num_rows: number of rows of this process.
        """
        _check(teacher.config, source, student)
        bilm = build_bilm(teacher, source).to(device).requires_grad_(False).eval()
        self._network = TrainingNetwork(bilm, 0.0, precision, keep_layers=True)
        self._keys = [0] * (student.lstm.num_layers + 1)  # nothing is dropped
        self.maps = LayerMaps(student, teacher.config, seed).to(device)
        self._lstm = teacher.config.lstm
        self.state = zero_state(self._lstm, num_rows, device, torch.float32)
        self._inverse_variance = torch.ones(self.maps.bias.shape[:2], device=device)

    def measure(self, batch: Batch, inputs: Tensor) -> None:
        """Measure the variance of the teacher's layers on some text.

        Every process and every resumed run must take the same text: all losses depend on it.
        """
        rows = torch.arange(inputs.shape[2], device=inputs.device)
        state = zero_state(self._lstm, len(rows), inputs.device, torch.float32)
        layers, _ = self._read(batch, inputs, rows, state)
        variance = layers.double().var(dim=2).mean(-1)
        self._inverse_variance = (1.0 / variance.clamp_min(LEAST_VARIANCE)).float()

    def loss(
        self,
        layers: Sequence[Tensor],
        batch: Batch,
        inputs: Tensor,
        rows: Tensor,
        state: LstmState,
    ) -> tuple[Tensor, LstmState]:
        """Return the unexplained share of the teacher's variance, summed over positions.

        Args:
            layers: J layers (D, T, B, P) of the model.
            batch: the text.
            inputs: (D, T, B) its indices, on the device.
            rows: (B,) global numbers of the rows.
            state: the teacher's, of these rows.

        Returns:
            () float32, summed over directions, mean over layers; and the teacher's next state.
        """
        expected, next_state = self._read(batch, inputs, rows, state)
        mapped = self.maps(torch.stack(list(layers)).flatten(2, 3))
        errors = (mapped.float() - expected.float()).square().mean(-1).sum(-1)  # (J, D)
        return (errors * self._inverse_variance).mean(0).sum(), next_state

    @torch.no_grad()
    def _read(
        self, batch: Batch, inputs: Tensor, rows: Tensor, state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """Return the teacher's layers (J, D, N, Q) and its next state."""
        read = self._network(batch.table, inputs, state, rows, self._keys)
        return torch.stack(read.layers).flatten(2, 3), LstmState(read.hidden, read.cell)


def _check(teacher: ElmoConfig, source: str, student: ElmoConfig) -> None:
    """Refuse a teacher whose layers or words are not those of the student."""
    if teacher.words is not None or student.words is not None:
        raise ElmoxError(
            f"distill.teacher {source} and the model must both read characters: leave out "
            "distill.teacher, or train a model with model.input = characters"
        )
    for name in ("num_layers", "bidirectional"):
        theirs, ours = getattr(teacher.lstm, name), getattr(student.lstm, name)
        if theirs != ours:
            raise ElmoxError(
                f"distill.teacher {source} has lstm.{name} {theirs} and the model {ours}: they "
                "must be equal"
            )
    for name in ("inventory", "max_characters", "num_characters"):
        theirs, ours = getattr(teacher.char_cnn, name), getattr(student.char_cnn, name)
        if theirs != ours:
            raise ElmoxError(
                f"distill.teacher {source} has char_cnn.{name} {theirs} and the model {ours}: they "
                "must be equal"
            )
