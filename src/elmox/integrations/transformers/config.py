"""The configuration: elmox's own, and what transformers expects next to it."""

from pathlib import Path
from typing import Any, Literal, TypeAlias

from transformers import PreTrainedConfig

from elmox.config import ElmoConfig as Architecture
from elmox.config import config_from_dict
from elmox.errors import ElmoxError
from elmox.pretrained.native import MODEL_TYPE

OutputLayers: TypeAlias = Literal["average", "top"] | int

_ARCHITECTURE = ("lstm", "char_cnn", "words", "token_projection", "text")
_SOURCE = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")


class ElmoConfig(PreTrainedConfig):  # type: ignore[misc]  # transformers has no types mypy reads
    """Configuration of `ElmoModel`.

    Args:
        elmo: the content of elmox's config.json; None for AI2's original model.
        layers: the layer that is `last_hidden_state`: "average", "top" or an index.
        freeze_bilm: do not learn the biLM's weights.
        classifier_dropout: dropout of `ElmoForTokenClassification`.
        classifier_dim: cells per direction of its LSTM.
        **options: of every configuration. The fields of elmox's config.json may be given here, in
            place of `elmo`: this is how a model directory of elmox is read.
    """

    model_type = MODEL_TYPE

    def __init__(
        self,
        elmo: dict[str, Any] | None = None,
        layers: OutputLayers = "average",
        freeze_bilm: bool = True,
        classifier_dropout: float = 0.5,
        classifier_dim: int = 128,
        **options: Any,
    ) -> None:
        fields = {name: options.pop(name) for name in _ARCHITECTURE if name in options}
        options.pop("format", None)
        source = str(options.get("name_or_path") or "the configuration")
        architecture = config_from_dict(elmo if elmo is not None else fields, source)
        char_cnn = architecture.char_cnn
        if char_cnn is None or char_cnn.inventory != "bytes" or architecture.words is not None:
            raise ElmoxError(
                f"{source} is a model of words or code points: transformers gets byte ids, use "
                "elmox.Elmo or elmox.ElmoEmbedding"
            )
        self.elmo = architecture.to_dict()
        self.layers = layers
        self.freeze_bilm = freeze_bilm
        self.classifier_dropout = classifier_dropout
        self.classifier_dim = classifier_dim
        self.hidden_size = architecture.dim
        self.num_hidden_layers = architecture.lstm.num_layers
        self.vocab_size = char_cnn.num_characters
        for name in ("hidden_size", "num_hidden_layers", "vocab_size"):
            options.pop(name, None)  # follow from the architecture
        super().__init__(**options)

    @property
    def architecture(self) -> Architecture:
        """The architecture as elmox's own configuration."""
        return config_from_dict(self.elmo, "the configuration")


def source_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return those options of a `from_pretrained` that name the source of files."""
    return {name: options[name] for name in _SOURCE if options.get(name) is not None}


def is_native(path: str | Path, options: dict[str, Any]) -> bool:
    """Return whether a directory or a hub id is a model that elmox saved, not transformers.

    Args:
        path: a directory or a hub id.
        options: of the `from_pretrained` that was called.
    """
    settings, _ = ElmoConfig.get_config_dict(path, **source_options(options))
    return settings.get("model_type") == MODEL_TYPE and "lstm" in settings
