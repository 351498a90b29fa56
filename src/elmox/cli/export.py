"""`elmox export`: a model as ONNX graphs, for onnxruntime, browsers and other languages."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast

import typer

from elmox.cli.model_options import Force, Json, ModelPath, Options, TokenFile, VocabFile


class WeightType(StrEnum):
    """Number formats of stored weights."""

    float16 = "float16"
    float32 = "float32"
    int8 = "int8"


def command(
    model: ModelPath,
    out: Annotated[
        Path,
        typer.Argument(help="Folder to write; it appears whole or not at all.", show_default=False),
    ],
    single: Annotated[
        bool,
        typer.Option(
            "--single", help="Write one graph, elmo.onnx. It cannot cache the vectors of words."
        ),
    ] = False,
    state: Annotated[
        bool,
        typer.Option("--state", help="Add a start state to the inputs, the final one to outputs."),
    ] = False,
    softmax: Annotated[
        bool, typer.Option("--softmax", help="Write softmax.onnx too, to score and to predict.")
    ] = False,
    weights: Annotated[
        WeightType | None,
        typer.Option(
            help="Number format of the weights. Default: float16 where lossless, otherwise float32."
        ),
    ] = None,
    options: Options = None,
    vocab: VocabFile = None,
    token_embeddings: TokenFile = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Export a model to ONNX: words.onnx and context.onnx, with config, tokenizer and a test case.

    The export is compared with the model in onnxruntime before it appears.
    """
    from elmox.elmo import Elmo
    from elmox.export.export import export_onnx
    from elmox.export.graph import Weights

    elmo = Elmo.from_pretrained(
        model, options=options, vocab=vocab, token_embeddings=token_embeddings, device="cpu"
    )
    report = export_onnx(
        elmo,
        out,
        single=single,
        state=state,
        softmax=softmax,
        weights=cast(Weights | None, weights and weights.value),
        force=force,
    )
    if as_json:
        typer.echo(json.dumps(report.to_dict(), ensure_ascii=False))
        return
    for name, size in report.files.items():
        typer.echo(f"{size:>12,}  {out / name}")
    typer.echo(
        f"elmox: exported {elmo.description} with {report.weights} weights; largest difference "
        f"{report.difference:.1e}, smallest cosine {report.cosine:.6f}",
        err=True,
    )
