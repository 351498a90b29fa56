"""`elmox probe pos`: part-of-speech tags by a linear probe of each layer."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.options import ComputeOptions, ModelArgument, ModelOptions
from elmox.cli.reports import ReportOptions, model_facts
from elmox.cli.verb import verb
from elmox.config import BUNDLED


class TagKind(StrEnum):
    """A kind of tags in a treebank."""

    xpos = "xpos"
    upos = "upos"


@verb(
    "elmox probe pos --train train.conllu --dev dev.conllu --test test.conllu",
    "elmox probe pos --train train.conllu --dev dev.conllu --test test.conllu --seeds 1",
)
def command(
    train: Annotated[Path, "CoNLL-U file to train on."],
    dev: Annotated[Path, "CoNLL-U file to tune on."],
    test: Annotated[Path, "CoNLL-U file to score."],
    model: ModelArgument = BUNDLED,
    tags: Annotated[
        TagKind, "Tags of the treebank's own set, or the universal ones."
    ] = TagKind.xpos,
    seeds: Annotated[int, typer.Option(help="Number of probes per layer.", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="First seed; the others follow.", min=0)] = 0,
    *,
    files: ModelOptions,
    report: ReportOptions,
    run: ComputeOptions,
) -> None:
    """Predict part-of-speech tags from each layer with a linear classifier.

    Compares with the same layers of a random biLM of the same shape. The L2 penalty is tuned on
    --dev; --test is scored once. Files may be compressed (.gz, .xz, .bz2, .zst).
    """
    from elmox.io.conllu import read_conllu

    report.check("pos")
    paths = {"train": train, "dev": dev, "test": test}
    treebank = {part: read_conllu(path) for part, path in paths.items()}

    from elmox.probes.pos.probe import PosOptions, probe_pos
    from elmox.probes.pos.report import PosReport

    elmo = files.load(model, run, run.precision)
    options = PosOptions(tags=tags.value, num_seeds=seeds, seed=seed)
    scores = probe_pos(elmo, treebank, options, show_progress_bar=run.show_progress_bar)
    facts = {
        **model_facts(model, elmo, run.precision),
        **{part: str(path) for part, path in paths.items()},
    }
    report.finish(PosReport(facts, options, scores), "pos", run)
