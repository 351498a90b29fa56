"""The input of a task per word: its word and character vectors, concatenated with ELMo.

`[x_k; ELMo_k]` (Peters et al. 2018, section 3.3). Without ELMo the rest is the baseline: the same
model on word vectors and a character CNN that are learned with the task.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmox.config import CharCnnConfig, Strict
from elmox.errors import ElmoxError
from elmox.model.char_cnn import CharCnn
from elmox.model.layer_mix import LayerMix
from elmox.tasks.data.texts import MAX_CHARACTERS, TextBatch
from elmox.tasks.recipe import ElmoRecipe, WordsRecipe


@dataclass(frozen=True)
class ElmoShape(Strict):
    """The shape of the input layers."""

    num_layers: int
    dim: int


@dataclass(frozen=True)
class Widths:
    """The width of a head's vectors at each place; 0 if there are none."""

    input: int
    middle: int = 0
    output: int = 0


@dataclass(frozen=True)
class Embedded:
    """A batch of sentences for a head; N sentences, T words. All is zero at padding."""

    mask: Tensor  # (N, T)
    lengths: Tensor  # (N,) words of each, on the CPU: reading them from a GPU would wait for it
    input: Tensor  # (N, T, widths.input)
    middle: Tensor | None = None  # ELMo, to join after the head's first RNN layer
    output: Tensor | None = None  # ELMo, to join after its last


class Embedder(nn.Module):
    """Words to vectors.

    Attributes:
        widths: of the output vectors.
        places: where ELMo joins the network.
        mix: of ELMo's layers, one mix per place; None without ELMo.
    """

    static: Tensor | None

    def __init__(
        self,
        words: WordsRecipe,
        elmo: ElmoRecipe,
        shape: ElmoShape | None,
        num_learned: int,
        static: Tensor | None,
    ) -> None:
        """Initialize the learned vectors and the mix.

        Args:
            words: the learned part.
            elmo: the place and the mix of ELMo.
            shape: of ELMo's layers; None for none.
            num_learned: words with a learned vector.
            static: (number of words, S) vectors that are not trained; None for none.
        """
        super().__init__()
        self.words = nn.Embedding(num_learned + 1, words.dim) if words.dim else None
        if self.words is not None:
            nn.init.normal_(self.words.weight, std=0.1)
        # Words without a static vector have zeros.
        self.register_buffer("static", None if static is None else F.pad(static, (0, 0, 1, 0)))
        self.characters = CharCnn(_char_config(words)) if words.filters else None
        self.dropout = nn.Dropout(words.dropout)
        self.places = () if shape is None else _places(elmo)
        self.mix = None if shape is None else _mix(elmo, shape, len(self.places))
        word_width = words.dim + words.filters + (0 if static is None else static.shape[1])
        at = dict.fromkeys(self.places, 0 if shape is None else shape.dim)
        self.widths = Widths(
            word_width + at.get("input", 0), at.get("middle", 0), at.get("output", 0)
        )
        if not self.widths.input:
            raise ElmoxError(
                "nothing goes into the model: choose words.dim or words.filters above 0, or "
                'elmo.place = "input"'
            )

    def forward(self, batch: TextBatch) -> Embedded:
        """Embed a batch."""
        parts = [] if self.words is None else [self.words(batch.learned)]
        if self.static is not None:
            parts.append(self.static[batch.static])
        if self.characters is not None:
            parts.append(self.characters(batch.spelling))
        inputs = []
        if parts:
            # Not indexed: threads would add up the gradient in any order, and runs would not be
            # reproducible.
            embedded = F.embedding(batch.words, torch.cat(parts, dim=-1))
            inputs.append(self.dropout(embedded))
        elmo = self._elmo(batch)
        if "input" in elmo:
            inputs.append(elmo["input"])
        vectors = torch.cat(inputs, dim=-1) * batch.mask[..., None]
        others = elmo.get("middle"), elmo.get("output")
        return Embedded(batch.mask, batch.lengths, vectors, *others)

    def mix_penalty(self, lambda_: float) -> Tensor | float:
        """Return lambda * ||w||^2, to add to the task's loss."""
        return 0.0 if self.mix is None else self.mix.penalty(lambda_)

    def _elmo(self, batch: TextBatch) -> dict[str, Tensor]:
        """Return one mix per place, (N, T, D)."""
        if self.mix is None:
            return {}
        assert batch.layers is not None
        mixed = self.mix(batch.layers)  # (K, N, T, D)
        return dict(zip(self.places, mixed, strict=True))


def _places(elmo: ElmoRecipe) -> tuple[str, ...]:
    return ("input", "output") if elmo.place == "both" else (elmo.place,)


def _mix(elmo: ElmoRecipe, shape: ElmoShape, num_mixes: int) -> LayerMix:
    """Return the module for gamma times a mix, the top layer, or one layer."""
    if isinstance(elmo.layers, int) and not 0 <= elmo.layers < shape.num_layers:
        raise ElmoxError(
            f"elmo.layers is {elmo.layers}, expected mix, top, or 0 to {shape.num_layers - 1}"
        )
    return LayerMix(
        shape.num_layers,
        num_mixes,
        layers=elmo.layers,
        normalize="token" if elmo.layer_norm else None,
        dropout=elmo.dropout,
    )


def _char_config(words: WordsRecipe) -> CharCnnConfig:
    return CharCnnConfig(
        filters=((words.width, words.filters),),
        embedding_dim=words.char_dim,
        max_characters=MAX_CHARACTERS,
        num_highways=0,
    )
