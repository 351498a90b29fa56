"""elmox: ELMo, deep contextualized word representations, for today's PyTorch.

Public names are loaded when they are first used, so that `import elmox` does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from elmox.config import ElmoConfig
    from elmox.elmo import Elmo
    from elmox.embedding import ElmoEmbedding
    from elmox.errors import (
        ArgumentError,
        ElmoxError,
        MissingPackage,
        NothingHeldOut,
        NothingToLearn,
        OutputExists,
        RunExists,
        UnreadableFile,
    )
    from elmox.integrations.load_sentence_transformer import load_sentence_transformer
    from elmox.model.layer_mix import LayerMix
    from elmox.search.occurrence_index import OccurrenceIndex
    from elmox.tasks.fit.api import fit
    from elmox.tasks.predictor import TaskPredictor
    from elmox.threads import set_threads
    from elmox.vectors.embed import embed_file, embed_sentences
    from elmox.vectors.files import open_vectors

_HOMES = {
    "ArgumentError": "elmox.errors",
    "Elmo": "elmox.elmo",
    "ElmoConfig": "elmox.config",
    "ElmoEmbedding": "elmox.embedding",
    "ElmoxError": "elmox.errors",
    "LayerMix": "elmox.model.layer_mix",
    "MissingPackage": "elmox.errors",
    "NothingHeldOut": "elmox.errors",
    "NothingToLearn": "elmox.errors",
    "OccurrenceIndex": "elmox.search.occurrence_index",
    "OutputExists": "elmox.errors",
    "RunExists": "elmox.errors",
    "TaskPredictor": "elmox.tasks.predictor",
    "UnreadableFile": "elmox.errors",
    "embed_file": "elmox.vectors.embed",
    "embed_sentences": "elmox.vectors.embed",
    "fit": "elmox.tasks.fit.api",
    "load_sentence_transformer": "elmox.integrations.load_sentence_transformer",
    "open_vectors": "elmox.vectors.files",
    "set_threads": "elmox.threads",
}

__all__ = [
    "ArgumentError",
    "Elmo",
    "ElmoConfig",
    "ElmoEmbedding",
    "ElmoxError",
    "LayerMix",
    "MissingPackage",
    "NothingHeldOut",
    "NothingToLearn",
    "OccurrenceIndex",
    "OutputExists",
    "RunExists",
    "TaskPredictor",
    "UnreadableFile",
    "__version__",
    "embed_file",
    "embed_sentences",
    "fit",
    "load_sentence_transformer",
    "open_vectors",
    "set_threads",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'elmox' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
