"""Recipes: all settings of a training run, as a TOML file.

The defaults are the published recipe of the original model (Peters et al. 2018; bilm-tf). A recipe
together with a corpus determines a run to the last bit on a CPU. The resolved recipe is therefore
stored with every checkpoint and compared when a run is resumed.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from elmox.config import PRESETS, ElmoConfig, Strict, WordConfig, config_from_dict, validated
from elmox.errors import ElmoxError
from elmox.io.settings import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Rate,
    Section,
    Share,
    at_least,
    read_settings,
    to_toml,
)
from elmox.recipes import find_recipe

Input = Literal["characters", "words", "both"]


@dataclass(frozen=True)
class DataRecipe(Strict):
    """The text.

    Attributes:
        dir: a corpus directory made by `elmox prepare`, relative to the current directory.
    """

    dir: str = ""


@dataclass(frozen=True)
class ModelRecipe(Strict):
    """The network: a preset and changes to it.

    Attributes:
        start: a model to start from; its architecture replaces all other fields here.
        preset: small, medium or original.
        input: representation of tokens; `words` and `both` look up words of the softmax vocabulary.
        word_dim: width of word embeddings, if `input` has them.
        lstm: fields of `LstmConfig` that differ from the preset; a clip of 0 means no clipping.
        char_cnn: fields of `CharCnnConfig` that differ from the preset.
    """

    start: str = ""
    preset: Literal["small", "medium", "original"] = "original"
    input: Input = "characters"
    word_dim: int = 128
    lstm: Mapping[str, Any] = field(default_factory=dict)
    char_cnn: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("inventory", "num_characters"):
            if name in self.char_cnn:
                raise ElmoxError(
                    f"model.char_cnn.{name} is {self.char_cnn[name]!r}: leave it out, models are "
                    "trained on UTF-8 bytes"
                )

    def config(self, vocab_size: int, tokenizer: str) -> ElmoConfig:
        """Return the network's configuration for a corpus."""
        values = PRESETS[self.preset].to_dict()
        clips = {name: None for name in ("cell_clip", "proj_clip") if self.lstm.get(name) == 0}
        values["lstm"].update({**self.lstm, **clips})
        values["char_cnn"].update(self.char_cnn)
        values["text"]["tokenizer"] = tokenizer
        if self.input != "characters":
            values["words"] = asdict(WordConfig(vocab_size, self.word_dim))
        if self.input == "words":
            values["char_cnn"] = None
            values["token_projection"] = self.word_dim != values["lstm"]["projection_dim"]
        return config_from_dict(values, "the recipe's [model]")


@dataclass(frozen=True)
class SoftmaxRecipe(Section):
    """The training loss.

    Attributes:
        loss: `sampled` scores the true word against drawn ones; `full` against all words;
            `adaptive` has a different output layer, which is narrower for rare words.
        samples: number of words drawn per direction and step.
        bias: initial bias of each word: `zero` as published, or the log of its frequency
            (`unigram`), which rare words would take long to learn because they are seldom drawn.
        cutoffs: first words of the adaptive softmax's clusters of rarer words.
    """

    section: ClassVar = "softmax"

    loss: Literal["sampled", "full", "adaptive"] = "sampled"
    samples: PositiveInt = 8192
    bias: Literal["zero", "unigram"] = "zero"
    cutoffs: tuple[int, ...] = (2000, 20000)


@dataclass(frozen=True)
class TrainRecipe(Section):
    """Shape and number of the steps.

    Attributes:
        rows: number of parallel streams of text, over all processes.
        steps: tokens of a row between two updates (truncated backpropagation).
        epochs: number of passes over the text.
        max_steps: maximum number of updates; None for as many as the epochs need.
        max_hours: maximum time of training, including the time before interruptions, without the
            last evaluation. The run ends earlier than planned, after the whole decay of `wsd`.
        accumulate: number of pieces into which a process splits its rows to save memory; the
            result does not depend on it.
        dropout: on the input of every LSTM layer and on the top output.
        reset: share of rows whose state is reset to zero before a step. Otherwise state is carried
            on forever, and a model that never started from zero state may do badly at the first
            words of an isolated sentence. The published recipe has 0.
        reset_at: position at which such a row continues: `anywhere`, which is where it is, or the
            nearest `sentence` boundary, where isolated sentences start.
        precision: of products and activations; weights are always float32.
        seed: of all random numbers.
        freeze: parts whose weights are not trained (`body` is everything except the softmax).
    """

    section: ClassVar = "train"

    rows: PositiveInt = 384
    steps: PositiveInt = 20
    epochs: PositiveFloat = 10
    max_steps: int | None = None
    max_hours: PositiveFloat | None = None
    accumulate: PositiveInt = 1
    dropout: Share = 0.1
    reset: Share = 0.0
    reset_at: Literal["anywhere", "sentence"] = "anywhere"
    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = 0
    freeze: Literal["nothing", "body"] = "nothing"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_steps is not None:
            at_least(1, "train.max_steps", self.max_steps)
        if not 0 <= self.seed < 2**63:
            raise ElmoxError(f"train.seed is {self.seed}, expected from 0 to below 2**63")


@dataclass(frozen=True)
class OptimRecipe(Section):
    """The optimizer.

    Attributes:
        name: `adagrad` as published, without epsilon; or `adamw`.
        lr: learning rate; with a schedule, its peak.
        initial_accumulator: Adagrad's sum of squares before the first step.
        betas, eps, weight_decay: AdamW's.
        warmup: number of updates in which the rate rises from 0.
        schedule: `constant`; `cosine`, down to `final_lr` of the rate at the last step; or `wsd`
            (warmup, stable, decay), constant, then linear down to it in the last `decay_steps`.
        decay_steps: length of the decay of `wsd`.
        final_lr: final learning rate as a share of `lr`.
        clip_norm: maximum global norm of the gradient; 0 for no clipping.
        sum_over_steps: multiply the gradient of the mean loss by `train.steps`, as bilm-tf did. It
            matters to Adagrad, whose accumulator starts at a fixed value, and to clipping.
    """

    section: ClassVar = "optim"

    name: Literal["adagrad", "adamw"] = "adagrad"
    lr: Rate = 0.2
    initial_accumulator: PositiveFloat = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: PositiveFloat = 1e-8
    weight_decay: NonNegativeFloat = 0.0
    warmup: NonNegativeInt = 0
    schedule: Literal["constant", "cosine", "wsd"] = "constant"
    decay_steps: NonNegativeInt = 0
    final_lr: NonNegativeFloat = 0.0
    clip_norm: NonNegativeFloat = 10.0
    sum_over_steps: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ElmoxError(f"optim.betas is {self.betas}, expected from 0 to below 1")


@dataclass(frozen=True)
class DistillRecipe(Section):
    """Learning from a teacher's layers as well as from words; see `training/distill.py`.

    Attributes:
        teacher: a model with as many layers, usually a larger one; empty for none.
        weight: of the loss, which is the share of the teacher's variance that the model does not
            explain, next to the words' loss in nats.
    """

    section: ClassVar = "distill"

    teacher: str = ""
    weight: PositiveFloat = 1.0


@dataclass(frozen=True)
class ReportRecipe(Section):
    """Reports, evaluations and checkpoints, which do not change what is learned.

    Attributes:
        log_every: steps between two progress reports.
        eval_every: steps between two evaluations (full softmax); 0 for one at the end only.
        eval_rows: number of parallel streams in which the held-out text is read.
        patience: number of evaluations without improvement after which training stops; 0 for no
            early stopping.
        save_every: steps between two checkpoints.
    """

    section: ClassVar = "report"

    log_every: PositiveInt = 100
    eval_every: NonNegativeInt = 5000
    eval_rows: PositiveInt = 64
    patience: NonNegativeInt = 0
    save_every: PositiveInt = 1250


@dataclass(frozen=True)
class Recipe(Strict):
    """All settings of a training run."""

    data: DataRecipe = field(default_factory=DataRecipe)
    model: ModelRecipe = field(default_factory=ModelRecipe)
    softmax: SoftmaxRecipe = field(default_factory=SoftmaxRecipe)
    train: TrainRecipe = field(default_factory=TrainRecipe)
    optim: OptimRecipe = field(default_factory=OptimRecipe)
    distill: DistillRecipe = field(default_factory=DistillRecipe)
    report: ReportRecipe = field(default_factory=ReportRecipe)

    def __post_init__(self) -> None:
        if self.distill.teacher and self.train.freeze == "body":
            raise ElmoxError(
                "train.freeze is body and distill.teacher is set: nothing of a frozen body can "
                "learn from a teacher; leave out one of them"
            )
        if self.train.max_hours is not None and self.optim.schedule == "cosine":
            raise ElmoxError(
                f"train.max_hours is {self.train.max_hours:g} and optim.schedule cosine, which "
                "must know the number of steps: choose wsd or constant, or train.max_steps"
            )

    def to_toml(self) -> str:
        """Return the resolved recipe as TOML that `read_recipe` can read."""
        return to_toml(asdict(self))

    def differences(self, other: "Recipe") -> list[str]:
        """Return the names of the settings that change what is learned and differ from `other`.

        The corpus is not compared here, but by its digest. The length of a run may change if the
        learning rate up to now does not depend on it: with a constant rate, or with `wsd` before
        the decay (`Trainer.restore` refuses a checkpoint from within the decay).
        """
        mine, others = (tomllib.loads(recipe.to_toml()) for recipe in (self, other))
        ignored = {"train.accumulate"}
        if self.optim.schedule == other.optim.schedule != "cosine":
            ignored |= {"train.epochs", "train.max_steps", "train.max_hours", "optim.decay_steps"}
        changed = []
        for part in ("model", "softmax", "train", "optim", "distill"):
            keys = dict.fromkeys([*mine[part], *others[part]])
            changed += [f"{part}.{k}" for k in keys if mine[part].get(k) != others[part].get(k)]
        return [name for name in changed if name not in ignored]


def read_recipe(recipe: str | Path, settings: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply changes.

    Args:
        recipe: the path of a TOML file, or the name of a recipe that comes with elmox: "tiny".
        settings: changes of the form `section.key=value`.
    """
    path = find_recipe(recipe)
    return recipe_from_dict(read_settings(path, settings), str(path))


def recipe_from_dict(values: Mapping[str, Any], source: str) -> Recipe:
    """Validate values and return the recipe."""
    return validated(Recipe, values, source)
