"""`elmox info`: what a checkpoint is."""

import json
from typing import Any, cast

import typer

from elmox.cli.model_options import Json, ModelPath, Options, TokenFile, VocabFile
from elmox.config import BUNDLED


def command(
    model: ModelPath = BUNDLED,
    options: Options = None,
    vocab: VocabFile = None,
    token_embeddings: TokenFile = None,
    as_json: Json = False,
) -> None:
    """Log what a model is, the one that comes with elmox where none is given.

    Format, architecture, size, what is stored with it.
    """
    facts = _facts(model, options, vocab, token_embeddings)
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False))
        return
    for name, value in facts.items():
        if name != "config":
            typer.echo(f"{name.replace('_', ' '):<18}{_shown(value)}")


def _facts(model: str, options: Any, vocab: Any, token_embeddings: Any) -> dict[str, Any]:
    from elmox.inference.device import resolve_device
    from elmox.kernels.paths import paths
    from elmox.model.checkpoint import build_bilm, build_indexer
    from elmox.model.lstm import LstmLayer
    from elmox.pretrained.load import load_checkpoint

    checkpoint = load_checkpoint(model, options, vocab, token_embeddings)
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
        "mixes": {name: [list(m.weights), m.gamma] for name, m in checkpoint.mixes.items()},
        "reads_here_by": kernels["reading"],
        "trains_here_by": kernels["training"],
        "config": config.to_dict(),
    }


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(value) or "none"
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
