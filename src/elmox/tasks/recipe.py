"""A task's recipe: how ELMo is used, the other inputs, the head, and the training.

The settings of a head are the task's (`[head]`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from elmox.config import BUNDLED, Strict, validated
from elmox.errors import ElmoxError
from elmox.io.settings import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Rate,
    Section,
    Share,
    change_setting,
    rate,
    read_settings,
)
from elmox.recipes import find_recipe

NO_ELMO = "none"
NUM_SEEDS = 2**32  # seeds are 0 to NUM_SEEDS - 1

Place: TypeAlias = Literal["input", "middle", "output", "both"]
Changes: TypeAlias = Mapping[str, Any] | Sequence[str]  # {"fit.lr": 0.1} or ["fit.lr=0.1"]


@dataclass(frozen=True)
class ElmoRecipe(Section):
    """ELMo's part of the input.

    Attributes:
        model: any model that `Elmo.from_pretrained` loads; `none` for a baseline without ELMo.
        layers: `mix`, gamma times a learned mix of all layers; `top`; or one layer's number (0 is
            the token layer, which has no context).
        place: `input`, next to the word vectors; `output`, next to the output of the task's RNN;
            `both`; `middle`, after the first of several RNN layers (TagLM, Peters et al. 2017).
        dropout: on the mixed vectors.
        penalty: lambda, the weight of the mix's L2 penalty, which pulls it to the plain average.
        layer_norm: normalize each layer's vectors to mean 0 and variance 1 before mixing, word by
            word. Otherwise a layer of large numbers dominates a mix with little training.
        mix_rate: learning rate of the mix's weights and gamma, as a multiple of the task's. AdamW
            moves each of them by about its rate per update, however large they are, and they are
            far larger than a network's weights: with few updates they would hardly change.
        finetune: train the whole biLM with the task.
        lr: learning rate of the biLM then; it follows the schedule of the task's.
    """

    section: ClassVar = "elmo"

    model: str = BUNDLED
    layers: Literal["mix", "top"] | int = "mix"
    place: Place = "input"
    dropout: Share = 0.5
    penalty: NonNegativeFloat = 0.001
    layer_norm: bool = False
    mix_rate: PositiveFloat = 1.0
    finetune: bool = False
    lr: Rate = 0.0001

    def __post_init__(self) -> None:
        super().__post_init__()
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
        """Whether there is an ELMo whose weights do not change, so that layers can be cached."""
        return self.is_used and not self.finetune


@dataclass(frozen=True)
class WordsRecipe(Section):
    """The inputs that are trained with the task: word vectors and a character CNN.

    Attributes:
        dim: width of a word's learned vector; 0 for none.
        min_count: words that are rarer in the training text have no vector.
        vectors: a file of static vectors to add, in GloVe's or word2vec's text format; they are not
            trained.
        most_vectors: number of vectors to read, from the first line on.
        filters: filters of the character CNN; 0 for none.
        char_dim: width of a character's vector.
        width: characters that a filter covers.
        dropout: on words and characters together.
    """

    section: ClassVar = "words"

    dim: NonNegativeInt = 100
    min_count: PositiveInt = 2
    vectors: str = ""
    most_vectors: PositiveInt = 100_000
    filters: NonNegativeInt = 128
    char_dim: PositiveInt = 16
    width: PositiveInt = 3
    dropout: Share = 0.5


@dataclass(frozen=True)
class FitRecipe(Section):
    """Training of the task's weights.

    Attributes:
        batch_size: examples per update.
        least_updates: updates per epoch, at least. Small data is read several times per epoch:
            otherwise patience would end before anything is learned.
        epochs: number of epochs, at most.
        patience: epochs without a better dev score after which training ends.
        lr: AdamW's learning rate; halved after every `patience // 2` epochs without a better score.
        decay: decrease it linearly instead, after each epoch, to 0 after the last. With a known
            number of epochs, fewer are enough. Patience may still end training earlier.
        weight_decay: AdamW's.
        clip_norm: the largest norm of the gradient; 0 for no clipping.
        seed: of everything random.
    """

    section: ClassVar = "fit"

    batch_size: PositiveInt = 32
    least_updates: PositiveInt = 50
    epochs: PositiveInt = 60
    patience: PositiveInt = 6
    lr: Rate = 0.001
    decay: bool = False
    weight_decay: NonNegativeFloat = 0.0
    clip_norm: NonNegativeFloat = 5.0
    seed: NonNegativeInt = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seed >= NUM_SEEDS:
            raise ElmoxError(f"fit.seed is {self.seed}, expected below {NUM_SEEDS}")


@dataclass(frozen=True)
class TaskRecipe(Strict):
    """A whole recipe."""

    elmo: ElmoRecipe = field(default_factory=ElmoRecipe)
    words: WordsRecipe = field(default_factory=WordsRecipe)
    head: Mapping[str, Any] = field(default_factory=dict)
    fit: FitRecipe = field(default_factory=FitRecipe)

    def __post_init__(self) -> None:
        rate("fit.lr times elmo.mix_rate", self.fit.lr * self.elmo.mix_rate)

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as JSON and TOML store it."""
        return asdict(self)

    def with_seed(self, seed: int) -> "TaskRecipe":
        """Return the recipe with another seed."""
        return replace(self, fit=replace(self.fit, seed=seed))


def by_name(sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of a recipe's sections by their whole names, such as elmo.place."""
    return {
        f"{section}.{key}": value
        for section, settings in sections.items()
        for key, value in settings.items()
    }


def task_recipe(recipe: str | Path | None = None, changes: Changes = ()) -> TaskRecipe:
    """Return a recipe with changes applied.

    Args:
        recipe: the path of a TOML file, or the name of a task whose recipe comes with elmox: "pos".
            None for the defaults.
        changes: settings to change.
    """
    path = None if recipe is None else find_recipe(recipe, task=True)
    values: dict[str, Any] = {} if path is None else read_settings(path)
    return _with_changes(values, changes, "the recipe" if path is None else str(path))


def changed(recipe: TaskRecipe, changes: Changes) -> TaskRecipe:
    """Return a recipe with changes applied."""
    return _with_changes(recipe.to_dict(), changes, "the recipe")


def recipe_from_dict(values: Mapping[str, Any], source: str) -> TaskRecipe:
    """Check untrusted values and return them as a recipe."""
    return validated(TaskRecipe, values, source)


def _with_changes(values: dict[str, Any], changes: Changes, source: str) -> TaskRecipe:
    if isinstance(changes, Mapping):
        for name, value in changes.items():
            section, dot, key = name.partition(".")
            if not dot or not section or not key:
                raise ElmoxError(f"setting {name!r}: expected section.key, as in a recipe")
            values[section] = {**values.get(section, {}), key: value}
    else:
        for change in changes:
            change_setting(values, change)
    return recipe_from_dict(values, source)
