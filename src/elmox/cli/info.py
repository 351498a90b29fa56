"""`elmox info`: format, architecture, size and contents of a model."""

from pathlib import Path
from typing import Any, cast

from elmox.cli.options import ModelArgument, ModelOptions, PrintOptions
from elmox.cli.verb import verb
from elmox.config import BUNDLED


@verb(
    "elmox info",
    "elmox info weights.hdf5 --json",
)
def command(model: ModelArgument = BUNDLED, *, files: ModelOptions, show: PrintOptions) -> None:
    """Print the format, architecture, size and contents of a model.

    Without an argument: of the model that comes with elmox.
    """
    facts = _facts(model, files)
    show.result(
        facts,
        (
            f"{name.replace('_', ' '):<18}{_shown(value)}"
            for name, value in facts.items()
            if name != "config"
        ),
    )


def _facts(model: str, files: ModelOptions) -> dict[str, Any]:
    from elmox.inference.device import resolve_device
    from elmox.kernels.paths import paths
    from elmox.model.checkpoint import build_bilm, build_indexer
    from elmox.model.lstm import LstmLayer

    checkpoint = files.load_checkpoint(model)
    build_indexer(checkpoint, model)
    bilm = build_bilm(checkpoint, model)
    layer = cast(LstmLayer, bilm.lstm[0])
    kernels = paths(layer.weights(), resolve_device())
    config, lstm, cnn = checkpoint.config, checkpoint.config.lstm, checkpoint.config.char_cnn
    return {
        "description": checkpoint.description,
        "parameters": sum(p.numel() for p in bilm.parameters()),
        "layers": config.num_layers,
        "dim": config.dim,
        "lstm": f"{lstm.num_layers} x {lstm.cell_dim} cells -> {lstm.projection_dim}, "
        f"{lstm.num_directions} direction{'s' if lstm.bidirectional else ''}",
        "clips": f"cell {lstm.cell_clip}, projection {lstm.proj_clip}",
        "skip_connections": lstm.skip_connections,
        "characters": cnn
        and f"{cnn.max_characters} {cnn.inventory}, {cnn.num_filters} filters up to "
        f"{max(width for width, _ in cnn.filters)} wide, {cnn.activation}, "
        f"{cnn.num_highways} highway{'' if cnn.num_highways == 1 else 's'}",
        "input_words": config.words and config.words.num_words,
        "tokenizer": config.text.tokenizer,
        "softmax": checkpoint.softmax is not None,
        "warm_state": checkpoint.warm_state is not None,
        "weighted_pooling": checkpoint.pooling is not None,
        "taggers": _taggers(model),
        "mixes": {name: [list(m.weights), m.gamma] for name, m in checkpoint.mixes.items()},
        "inference_path": kernels["inference"],
        "training_path": kernels["training"],
        "config": config.to_dict(),
    }


def _taggers(model: str) -> list[str]:
    """Return the names of the ready taggers of a model directory."""
    from elmox.pretrained.load import find_model
    from elmox.pretrained.packages import installed_names
    from elmox.tasks.ready import ready_taggers

    is_directory = Path(model).is_dir() or model in installed_names()
    return list(ready_taggers(find_model(model))) if is_directory else []


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return ", ".join(value) or "none"
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
