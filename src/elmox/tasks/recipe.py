"""A task's recipe: which ELMo goes in where, the other inputs, the head, and how all is fitted.

What a head can be told is the task's own business (`head`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from elmox.config import BUNDLED, validated
from elmox.errors import ElmoxError
from elmox.io.settings import above, at_least, change_setting, rate, read_settings, share
from elmox.recipes import find_recipe

NO_ELMO = "none"
NUM_SEEDS = 2**32  # that there are, from 0 on

Place: TypeAlias = Literal["input", "middle", "output", "both"]


@dataclass(frozen=True)
class ElmoRecipe:
    """ELMo's part of the input.

    Attributes:
        model: any model that `Elmo.from_pretrained` takes; `none` for a baseline without ELMo.
        layers: `mix`, gamma times a learned mix of all; `top`; or one layer's number (0 is the
            token layer, which knows no context).
        place: `input`, beside the word vectors; `output`, beside what the task's RNN made of them;
            `both`; `middle`, after the first of several RNN layers (TagLM, Peters et al. 2017).
        dropout: on the mixed vectors.
        penalty: lambda, the weight of the mix's L2 penalty, which draws it to the plain average.
        layer_norm: bring each layer's vectors to mean 0 and variance 1 before they are mixed, word
            by word. Else a layer of large numbers is most of a mix that has learned little yet.
        mix_rate: how many times the task's rate the mix's weights and gamma have. AdamW moves each
            by about its rate an update, however large it is, and these are far larger than a
            network's weights: where updates are few, they stay about where they began.
        finetune: learn the whole biLM with the task.
        lr: AdamW's rate for the biLM then; it changes as that of the task's own weights does.
    """

    model: str = BUNDLED
    layers: Literal["mix", "top"] | int = "mix"
    place: Place = "input"
    dropout: float = 0.5
    penalty: float = 0.001
    layer_norm: bool = False
    mix_rate: float = 1.0
    finetune: bool = False
    lr: float = 0.0001

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a protocol name, not a field)

    def __post_init__(self) -> None:
        share("elmo.dropout", self.dropout)
        at_least(0, "elmo.penalty", self.penalty)
        above(0, "elmo.mix_rate", self.mix_rate)
        rate("elmo.lr", self.lr)
        if self.finetune and not self.is_used:
            raise ElmoxError(
                f"elmo.finetune with elmo.model = {NO_ELMO}: there is no biLM to train, give one"
            )

    @property
    def is_used(self) -> bool:
        """Whether there is an ELMo at all."""
        return self.model != NO_ELMO

    @property
    def is_frozen(self) -> bool:
        """Whether there is one that stays as it is, whose layers can be kept."""
        return self.is_used and not self.finetune


@dataclass(frozen=True)
class WordsRecipe:
    """The input that is learned with the task: word vectors and a character CNN.

    Attributes:
        dim: width of a word's learned vector; 0 for none.
        min_count: words that the training text has less often have none.
        vectors: a file of static vectors beside these, in GloVe's or word2vec's text format; they
            stay as they are.
        most_vectors: how many of them, from the first line on.
        filters: of the character CNN; 0 for none.
        char_dim: width of a character's vector.
        width: characters that a filter sees.
        dropout: on words and characters together.
    """

    dim: int = 100
    min_count: int = 2
    vectors: str = ""
    most_vectors: int = 100_000
    filters: int = 128
    char_dim: int = 16
    width: int = 3
    dropout: float = 0.5

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    def __post_init__(self) -> None:
        for name in ("dim", "filters"):
            at_least(0, f"words.{name}", getattr(self, name))
        for name in ("min_count", "most_vectors", "char_dim", "width"):
            at_least(1, f"words.{name}", getattr(self, name))
        share("words.dropout", self.dropout)


@dataclass(frozen=True)
class FitRecipe:
    """How the task's own weights are found.

    Attributes:
        batch_size: examples of an update.
        least_updates: of an epoch. Where the data is small, an epoch reads it several times: else
            patience would end before anything could be learned.
        epochs: how many, at most.
        patience: epochs without a better score on the dev data after which fitting ends.
        lr: AdamW's rate; halved after every `patience // 2` epochs without a better score.
        decay: let it fall instead, by as much after each epoch, as if to 0 after the last. Where it
            is known how many epochs do, fewer do. Patience may still end it before.
        weight_decay: AdamW's.
        clip_norm: the gradient's norm is cut to this; 0 for no clipping.
        seed: of everything that is drawn.
    """

    batch_size: int = 32
    least_updates: int = 50
    epochs: int = 60
    patience: int = 6
    lr: float = 0.001
    decay: bool = False
    weight_decay: float = 0.0
    clip_norm: float = 5.0
    seed: int = 0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    def __post_init__(self) -> None:
        for name in ("batch_size", "least_updates", "epochs", "patience"):
            at_least(1, f"fit.{name}", getattr(self, name))
        for name in ("weight_decay", "clip_norm", "seed"):
            at_least(0, f"fit.{name}", getattr(self, name))
        if self.seed >= NUM_SEEDS:
            raise ElmoxError(f"fit.seed is {self.seed}, expected below {NUM_SEEDS}")
        rate("fit.lr", self.lr)


@dataclass(frozen=True)
class TaskRecipe:
    """A whole recipe."""

    elmo: ElmoRecipe = field(default_factory=ElmoRecipe)
    words: WordsRecipe = field(default_factory=WordsRecipe)
    head: Mapping[str, Any] = field(default_factory=dict)
    fit: FitRecipe = field(default_factory=FitRecipe)

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    def __post_init__(self) -> None:
        rate("fit.lr times elmo.mix_rate", self.fit.lr * self.elmo.mix_rate)

    def to_dict(self) -> dict[str, Any]:
        """As JSON and TOML know it."""
        return asdict(self)

    def with_seed(self, seed: int) -> "TaskRecipe":
        """The same, everything drawn by another seed."""
        return replace(self, fit=replace(self.fit, seed=seed))


def by_name(sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of a recipe's sections by their whole names, such as elmo.place."""
    return {f"{name}.{key}": own for name, part in sections.items() for key, own in part.items()}


def task_recipe(recipe: str | Path | None = None, changes: Sequence[str] = ()) -> TaskRecipe:
    """Return a recipe with some settings changed.

    Args:
        recipe: the path of a TOML file, or the name of a task's recipe that comes with elmox:
            "pos". None for the defaults.
        changes: of the form `section.key=value`.
    """
    path = None if recipe is None else find_recipe(recipe, task=True)
    values: dict[str, Any] = {} if path is None else read_settings(path)
    for change in changes:
        change_setting(values, change)
    return recipe_from_dict(values, "the recipe" if path is None else str(path))


def changed(recipe: TaskRecipe, changes: Sequence[str]) -> TaskRecipe:
    """A recipe with some settings changed."""
    values = recipe.to_dict()
    for change in changes:
        change_setting(values, change)
    return recipe_from_dict(values, "the recipe")


def recipe_from_dict(values: Mapping[str, Any], source: str) -> TaskRecipe:
    """Check untrusted values and make the recipe."""
    return validated(TaskRecipe, values, source)
