"""A task's model: embedder and head, as it is fitted, stored and loaded.

config.json        task, recipe, head, and the ELMo model it was fitted with
model.safetensors  the task's weights, without the biLM
words.json         the words that have vectors in the model, in the order of their ids
checksums.json     checksums of these files, compared when they are read
elmo/              the biLM if it was fine-tuned with the task: a model directory

The weights are in float32, float16 or, with format number 2, in 8 bits (`io/quantized.py`).
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from elmox.config import Strict, validated
from elmox.elmo import Elmo
from elmox.errors import ElmoxError, shortened
from elmox.io.checksums import verifying, write_checksums
from elmox.io.files import atomic_directory, read_json, refuse_existing, to_json
from elmox.io.inputs import MAX_WORDS_BYTES
from elmox.io.quantized import packed, read_weights
from elmox.io.tensors import write_tensors
from elmox.kernels.torch_modes import TorchCalls
from elmox.tasks.data.texts import TextBatch, Words
from elmox.tasks.fit.finetuned import FinetunedElmo
from elmox.tasks.nn.embedder import ElmoShape, Embedded, Embedder
from elmox.tasks.recipe import TaskRecipe
from elmox.tasks.registry import find_task

WeightType: TypeAlias = Literal["float32", "float16", "int8"]

MODEL_TYPE = "elmox-task"
FORMAT = 1
FORMAT_IN_EIGHT_BITS = 2
GROUP = 64  # weights that share a scale in 8 bits, at most
SMALLEST_MATRIX = 4096  # numbers; smaller ones stay in float16

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
WORDS_FILE = "words.json"
ELMO_FOLDER = "elmo"
EXTRA_NUMBERS = 100_000  # that a network may have besides its weights: masks, positions

MODEL = "model"  # its name in the folder of its fit


@dataclass(frozen=True)
class ElmoUsed(Strict):
    """The biLM whose layers the model reads, as it was before the fit."""

    shape: ElmoShape
    digest: str  # of its weights: the head cannot read another model's layers


@dataclass(frozen=True)
class ModelDescription(Strict):
    """A fitted model without words and weights."""

    task: str
    recipe: TaskRecipe
    head: dict[str, Any]
    elmo: ElmoUsed | None
    static_dim: int = 0  # width of the static vectors, which are among the weights


def is_task_model(path: Path) -> bool:
    """Return whether this is a directory that `write_model` wrote, or one that contains some."""
    has_config = (path / CONFIG_FILE).is_file()  # perhaps of a biLM, with fits below it
    return _is_model(path) if has_config else bool(_models_below(path))


def _is_model(path: Path) -> bool:
    """Decide by the config alone; other files may be missing."""
    config = path / CONFIG_FILE
    return config.is_file() and read_json(config).get("model_type") == MODEL_TYPE


def _models_below(path: Path) -> list[Path]:
    """Return the models in the folder of a fit, or of one of its seeds."""
    candidates = [path / MODEL, *sorted(path.glob(f"seed-*/{MODEL}"))]
    return [candidate for candidate in candidates if _is_model(candidate)]


def write_model(
    model: "TaskModel", path: Path, force: bool = False, dtype: WeightType = "float32"
) -> None:
    """Write a model's directory; it appears whole or not at all.

    Args:
        model: the model.
        path: the directory to make.
        force: replace an existing one.
        dtype: number format of the task's weights.
    """
    refuse_existing(path, force)
    number = FORMAT_IN_EIGHT_BITS if dtype == "int8" else FORMAT
    settings = {"model_type": MODEL_TYPE, "format": number, **asdict(model.description)}
    if model.finetuned is not None:
        settings["finetuned"] = model.finetuned.elmo.digest()
    with atomic_directory(path) as new:
        bilm = model.bilm_weights().keys()
        weights = {name: part for name, part in model.state_dict().items() if name not in bilm}
        write_tensors(_in_format(weights, dtype), new / WEIGHTS_FILE)
        if model.finetuned is not None:
            model.finetuned.elmo.save_pretrained(new / ELMO_FOLDER)
        (new / CONFIG_FILE).write_bytes(to_json(settings))
        words = json.dumps(asdict(model.words), ensure_ascii=False)
        (new / WORDS_FILE).write_text(words + "\n", encoding="utf-8")
        write_checksums(new)


def read_model(path: Path) -> "TaskModel":
    """Read a model that `write_model` wrote."""
    if not _is_model(path):
        below = _models_below(path)
        advice = f"give {below[0]}" if below else "give a model directory that elmox fit has made"
        raise ElmoxError(f"{path} is not a fitted model: {advice}")
    with verifying(path, (CONFIG_FILE, WEIGHTS_FILE, WORDS_FILE)):
        return _read_model(path)


def _read_model(path: Path) -> "TaskModel":
    settings = read_json(path / CONFIG_FILE)
    del settings["model_type"]
    number = settings.pop("format", None)
    if number is True or number not in (FORMAT, FORMAT_IN_EIGHT_BITS):
        raise ElmoxError(
            f"{path} has format {shortened(number)}, expected {FORMAT} or {FORMAT_IN_EIGHT_BITS}: "
            "use the elmox that wrote it"
        )
    finetuned = settings.pop("finetuned", None)
    description = validated(ModelDescription, settings, str(path / CONFIG_FILE))
    words = validated(Words, read_json(path / WORDS_FILE, MAX_WORDS_BYTES), str(path / WORDS_FILE))
    elmo = None
    if description.recipe.elmo.finetune:
        elmo = _read_elmo(path / ELMO_FOLDER, finetuned)
    weights = read_weights(path / WEIGHTS_FILE, eight_bit=number == FORMAT_IN_EIGHT_BITS)
    num_numbers = sum(tensor.numel() for tensor in weights.values())
    try:
        with _Bounded(2 * num_numbers + EXTRA_NUMBERS, str(path / CONFIG_FILE)):
            model = TaskModel(description, words, elmo=elmo)
    except ElmoxError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ElmoxError(
            f"{path / CONFIG_FILE} does not describe a model of {description.task}: {error!r}"
        ) from error
    model.load({**weights, **model.bilm_weights()}, str(path / WEIGHTS_FILE))
    return model.eval()


def _in_format(weights: Mapping[str, Tensor], dtype: WeightType) -> Mapping[str, Tensor]:
    """Return a task's weights as they are stored."""
    if dtype == "float32":
        return weights
    large = {name for name, weight in weights.items() if weight.numel() >= SMALLEST_MATRIX}
    return packed(weights, lambda name: GROUP if dtype == "int8" and name in large else None)


def _read_elmo(path: Path, digest: object) -> Elmo:
    """Read the biLM that was fine-tuned with a task, and compare its digest."""
    if not path.is_dir():
        raise ElmoxError(f"{path} is missing, the biLM of the model: copy the model's whole folder")
    elmo = Elmo.from_pretrained(path, device="cpu")
    if elmo.digest() != digest:
        raise ElmoxError(
            f"{path} is not the biLM that was fine-tuned with this model: copy the model's whole "
            "folder"
        )
    return elmo


class _Bounded(TorchCalls):
    """A bound on the numbers of all networks made inside, whatever a file declares."""

    def __init__(self, most: int, source: str) -> None:
        super().__init__()
        self._most, self._left, self._source = most, most, source

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Count the numbers of a new tensor."""
        if func in (torch.empty, torch.zeros, torch.ones, torch.full, torch.arange):
            size = kwargs.get("size", args[0] if args and not isinstance(args[0], int) else args)
            self._left -= math.prod(size)
            if self._left < 0:
                raise ElmoxError(
                    f"{self._source} describes a model of more than {self._most:,} numbers, far "
                    f"more than {WEIGHTS_FILE} has"
                )
        return super().call(func, args, kwargs)


class TaskModel(nn.Module):
    """Embedder and head, and the biLM if it is fine-tuned.

    Attributes:
        description: the model without words and weights.
        words: the words with vectors, learned or static.
        finetuned: the biLM; None if ELMo's layers come with each batch, or are not used.
    """

    def __init__(
        self,
        description: ModelDescription,
        words: Words,
        static: Tensor | None = None,
        elmo: Elmo | None = None,
    ) -> None:
        """Make a model with fresh weights.

        Args:
            description: the model to make.
            words: the words that have vectors.
            static: (number of static words, S); None for zeros, which stored ones replace.
            elmo: a biLM to fine-tune, if the recipe does that.
        """
        super().__init__()
        self.description = description
        self.words = words
        recipe, used = description.recipe, description.elmo
        shape = None if used is None else used.shape
        assert (elmo is not None) == recipe.elmo.finetune
        self.finetuned = None if elmo is None else FinetunedElmo(elmo)
        if static is None and description.static_dim:
            static = torch.zeros(len(words.static), description.static_dim)
        self.embedder = Embedder(recipe.words, recipe.elmo, shape, len(words.learned), static)
        self.task = find_task(description.task)
        self.head = self.task.build_head(description.head, self.embedder.widths)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def loss(self, batch: TextBatch, examples: Sequence[Any]) -> Tensor:
        """Return the loss to minimize, including the mix's penalty: ()."""
        loss = self.head.loss(self._embedded(batch), examples)
        return loss + self.embedder.mix_penalty(self.description.recipe.elmo.penalty)

    @torch.no_grad()
    def predict(self, batch: TextBatch, examples: Sequence[Any]) -> list[Any]:
        """Return a prediction for each example."""
        return self.head.predict(self._embedded(batch), examples)

    def bilm_weights(self) -> dict[str, Tensor]:
        """Return the weights that are the biLM's, by their names in this model."""
        if self.finetuned is None:
            return {}
        weights: dict[str, Tensor] = self.finetuned.state_dict(prefix="finetuned.")
        return weights

    def load(self, tensors: dict[str, Tensor], source: str) -> None:
        """Copy weights, whose names and shapes must all match."""
        expected = self.state_dict()
        wrong = sorted(expected.keys() ^ tensors.keys()) or sorted(
            name for name, weight in expected.items() if weight.shape != tensors[name].shape
        )
        if wrong:
            raise ElmoxError(f"{source}: {', '.join(wrong)} missing, too many or of another shape")
        for name, weight in tensors.items():
            if weight.numel() and not all(end.isfinite() for end in weight.aminmax()):
                raise ElmoxError(
                    f"{source}: {name} contains NaN or infinite values: the file is damaged or "
                    "the fit diverged"
                )
        self.load_state_dict(tensors)

    def _embedded(self, batch: TextBatch) -> Embedded:
        if self.finetuned is not None:
            batch = replace(batch, layers=self.finetuned(batch.sentences))
        embedded: Embedded = self.embedder(batch)
        return embedded
