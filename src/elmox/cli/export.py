"""`elmox export`: a model as ONNX graphs, for onnxruntime, browsers and other languages."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from elmox.cli.options import Force, ModelArgument, ModelOptions, PrintOptions, WeightType
from elmox.cli.verb import verb
from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.export import ExportReport
    from elmox.export.graph import Weights


@verb(
    "elmox export english-small elmo-onnx",
    "elmox export english-small elmo-onnx-small --weights int8 --softmax --json",
)
def command(
    model: ModelArgument,
    out: Annotated[
        Path, typer.Argument(help="Directory to create; it appears whole or not at all.")
    ],
    single: Annotated[
        bool, "Write one graph, elmo.onnx. It cannot cache the vectors of words."
    ] = False,
    state: Annotated[
        bool, "Add a start state to the inputs and the final state to the outputs."
    ] = False,
    softmax: Annotated[bool, "Write softmax.onnx too, to score text and to fill gaps."] = False,
    weights: Annotated[
        WeightType | None,
        "Number format of the weights. Default: float16 where that is lossless, otherwise float32.",
    ] = None,
    page: Annotated[bool, "Write the explorer with the model in it, for any web host."] = False,
    force: Force = False,
    *,
    files: ModelOptions,
    show: PrintOptions,
) -> None:
    """Export a model to ONNX, to run it without PyTorch or in other languages.

    The directory holds the graphs words.onnx and context.onnx, config.json, the tokenizer and a
    sentence with its vectors. The export is compared with the model before it appears.
    """
    from elmox.elmo import Elmo
    from elmox.export import export_onnx
    from elmox.io.files import refuse_existing

    refuse_existing(out, force)
    elmo = Elmo(files.load_checkpoint(model), model)
    stored = cast("Weights | None", weights and weights.value)
    report: ExportReport
    if page:
        if single or state:
            raise ElmoxError("--page takes neither --single nor --state: leave them out")
        from elmox.explore.folder import export_page

        report = export_page(elmo, out, weights=stored, force=force)
    else:
        report = export_onnx(
            elmo, out, single=single, state=state, softmax=softmax, weights=stored, force=force
        )
    lines = (f"{size:>12,}  {out / name}" for name, size in report.files.items())
    show.result(report.to_dict(), lines)
    show.log(
        f"{elmo.description} is now {out}, with {report.weights} weights; largest difference "
        f"{report.difference:.1e}, smallest cosine {report.cosine:.6f}"
    )
