"""`elmox probe pos`: part-of-speech tags by a linear probe, layer by layer."""

import json
import os
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.embed import Precision
from elmox.cli.model_options import (
    Device,
    Force,
    Json,
    ModelPath,
    Options,
    TokenFile,
    VocabFile,
)
from elmox.cli.probe_files import OutDirectory, check_files, write_files
from elmox.config import BUNDLED


class TagKind(StrEnum):
    """Which tags of a treebank."""

    xpos = "xpos"
    upos = "upos"


def command(
    train: Annotated[Path, typer.Option(help="CoNLL-U file to learn from.", show_default=False)],
    dev: Annotated[Path, typer.Option(help="CoNLL-U file to choose by.", show_default=False)],
    test: Annotated[Path, typer.Option(help="CoNLL-U file to report.", show_default=False)],
    model: ModelPath = BUNDLED,
    tags: Annotated[
        TagKind, typer.Option(help="The treebank's own fine tags, or the universal ones.")
    ] = TagKind.xpos,
    seeds: Annotated[int, typer.Option(help="Probes for each layer.", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="Of the first; the others count on.", min=0)] = 0,
    precision: Annotated[Precision, typer.Option(help="Of the vectors.")] = Precision.float32,
    device: Device = None,
    options: Options = None,
    vocab: VocabFile = None,
    token_embeddings: TokenFile = None,
    out: OutDirectory = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Read part-of-speech tags off every layer with a linear classifier.

    Beside the same layers of a biLM of the same shape with random weights. The penalty is chosen on
    --dev; --test is looked at once. Files may be compressed (.gz, .xz, .bz2, .zst).
    """
    # As for elmox embed: compiled code for the last thousand shapes would fill half a gigabyte.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    from elmox.io.conllu import read_conllu

    check_files(out, "pos", force)
    files = {"train": train, "dev": dev, "test": test}
    treebank = {part: read_conllu(path) for part, path in files.items()}

    from elmox.elmo import Elmo
    from elmox.probes.pos.probe import PosOptions, probe_pos
    from elmox.probes.pos.report import PosReport

    elmo = Elmo.from_pretrained(
        model,
        options=options,
        vocab=vocab,
        token_embeddings=token_embeddings,
        device=device,
        dtype=precision.value,
    )
    how = PosOptions(tags=tags.value, num_seeds=seeds, seed=seed)
    scores = probe_pos(elmo, treebank, how, show_progress_bar=sys.stderr.isatty())
    facts = {
        "command": shlex.join(["elmox", *sys.argv[1:]]),
        "model": f"{model} ({elmo.description})",
        "precision": f"{precision.value} on {elmo.device.type}",
        **{part: str(path) for part, path in files.items()},
    }
    report = PosReport(facts, how, scores)
    if as_json:
        typer.echo(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        typer.echo(report.to_markdown(), nl=False)
    if out is not None:
        write_files(report, out, "pos", force)
