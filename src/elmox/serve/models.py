"""The table of loaded models: the only place where a name of a request is looked up."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from elmox.elmo import Elmo
from elmox.serve.config import ServeConfig
from elmox.serve.refusals import not_loaded
from elmox.tasks.predictor import TaskPredictor

# Alone and in a batch: the two run through different kernels, and both have something to set up.
WARM_UP = ([["Ready", "."]], [["Ready", "."], ["Set", "."], ["Go", "!"]])


@dataclass(frozen=True)
class LoadedModel:
    """A model under the name that requests use.

    Attributes:
        name: the name.
        elmo: the model.
        has_softmax: whether it can score text and predict words.
    """

    name: str
    elmo: Elmo
    has_softmax: bool


@dataclass(frozen=True)
class ModelTable:
    """Models and taggers by name; the first model is the default."""

    models: Mapping[str, LoadedModel] = field(default_factory=dict)
    taggers: Mapping[str, TaskPredictor] = field(default_factory=dict)

    def model(self, name: str | None) -> LoadedModel:
        """Return the model of a name, or the default one; refuse an unknown name with 404."""
        model = next(iter(self.models.values())) if name is None else self.models.get(name)
        if model is None:
            raise not_loaded("model", name, list(self.models))
        return model

    def tagger(self, name: str) -> TaskPredictor:
        """Return the tagger of a name; refuse an unknown name with 404."""
        tagger = self.taggers.get(name)
        if tagger is None:
            raise not_loaded("task", name, list(self.taggers))
        return tagger


def load_models(config: ServeConfig) -> ModelTable:
    """Load every model and tagger, and run each model once so that the first request is fast.

    Raises:
        ElmoxError: where one of them cannot be loaded.
    """
    import torch

    torch.set_num_threads(config.threads)
    models = {name: _load_model(name, path, config) for name, path in config.models.items()}
    taggers = {
        name: TaskPredictor.from_pretrained(path, device=config.device)
        for name, path in config.taggers.items()
    }
    return ModelTable(models, taggers)


def _load_model(name: str, path: str, config: ServeConfig) -> LoadedModel:
    elmo = Elmo.from_pretrained(path, device=config.device, dtype=config.dtype)
    for sentences in WARM_UP:
        elmo.encode_tokens(sentences, show_progress_bar=False)
    return LoadedModel(name, elmo, _load_softmax(elmo))


def _load_softmax(elmo: Elmo) -> bool:
    """Read the softmax now, so that no request waits for it; return whether there is one."""
    if elmo.checkpoint().softmax is None:
        return False
    elmo.score(WARM_UP[1], show_progress_bar=False)
    return True
