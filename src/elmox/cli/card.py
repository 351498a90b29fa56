"""`elmox card`: the model card of a model directory."""

from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.options import Force, PrintOptions
from elmox.cli.verb import verb
from elmox.errors import ElmoxError


@verb(
    "elmox card trained-model --language en --license CC-BY-4.0 --force",
    "elmox card trained-model --name welsh-small --out card.md --dataset wikipedia",
)
def command(
    model: Annotated[Path, typer.Argument(help="A model directory.")],
    name: Annotated[str | None, "Name of the model; by default that of its directory."] = None,
    language: Annotated[list[str] | None, "ISO code of a language. May be repeated."] = None,
    license: Annotated[str | None, "License of the weights, as an SPDX identifier."] = None,
    dataset: Annotated[
        list[str] | None, "Name of a training corpus on the hub. May be repeated."
    ] = None,
    data: Annotated[Path | None, "Description of the training data, in Markdown."] = None,
    limits: Annotated[
        Path | None, "Limits of the model, in Markdown; general ones by default."
    ] = None,
    scores: Annotated[
        Path | None, "JSON list of objects with task, dataset, metric and value."
    ] = None,
    out: Annotated[Path | None, "The card; by default README.md in the directory."] = None,
    force: Force = False,
    *,
    show: PrintOptions,
) -> None:
    """Write a model card: facts, data, recipe, scores, taggers, limits and license.

    Its header is the one that the Hugging Face hub reads. The recipe is that of training.toml in
    the directory, if there is one. A plain card, which every model has, is replaced with --force.
    """
    from elmox.io.files import atomic_write, refuse_existing
    from elmox.io.inputs import MAX_JSON_BYTES, read_whole
    from elmox.pretrained.card import CardText, full_card, read_scores
    from elmox.pretrained.load import load_checkpoint
    from elmox.pretrained.native import is_model_directory

    if not is_model_directory(model):
        raise ElmoxError(f"{model} is not a model directory: make one with elmox convert")

    def markdown(path: Path | None) -> str | None:
        try:
            return None if path is None else read_whole(path, MAX_JSON_BYTES).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ElmoxError(f"{path} is not UTF-8 (byte {error.start})") from error

    path = out or model / "README.md"
    refuse_existing(path, force)
    text = CardText(
        name=name or model.resolve().name,
        languages=language or (),
        license=license,
        datasets=dataset or (),
        data=markdown(data),
        limits=markdown(limits),
        scores=read_scores(scores) if scores else (),
    )
    card = full_card(load_checkpoint(model), model, text)
    with atomic_write(path) as temporary:
        temporary.write_text(card, encoding="utf-8")
    show.result({"card": str(path)}, [str(path)])
