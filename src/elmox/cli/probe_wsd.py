"""`elmox probe wsd`: word senses by nearest neighbor in each layer."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.options import ComputeOptions, ModelArgument, ModelOptions
from elmox.cli.reports import ReportOptions, model_facts
from elmox.cli.verb import verb
from elmox.config import BUNDLED
from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.probes.wsd.senses import SenseSentence


@verb(
    "elmox probe wsd --train semcor.data.xml --test Evaluation_Datasets --senses index.sense",
    "elmox probe wsd --train semcor.data.xml --test Evaluation_Datasets --senses index.sense "
    "--json",
)
def command(
    train: Annotated[
        Path,
        "Sense-tagged text: SemCor as NAME.data.xml with NAME.gold.key.txt next to it, or "
        "JSON lines (.jsonl).",
    ],
    test: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Directory of the test sets: NAME/NAME.data.xml and NAME.gold.key.txt, as in "
            "Raganato et al.'s Evaluation_Datasets.",
        ),
    ],
    senses: Annotated[Path, "index.sense of WordNet 3.0."],
    model: ModelArgument = BUNDLED,
    *,
    files: ModelOptions,
    report: ReportOptions,
    run: ComputeOptions,
) -> None:
    """Disambiguate word senses by the nearest average vector, in each layer.

    The vectors of each sense are averaged over the tagged text. A test word gets the nearest sense,
    by cosine, among the seen senses of its lemma and part of speech, or the first sense of WordNet
    if none was seen. Prints F1 per test set and over all, next to that of the first sense alone.
    """
    from elmox.probes.wsd.raganato import find_test_sets, read_raganato
    from elmox.probes.wsd.wordnet import read_sense_index

    report.check("wsd")
    training = _tagged_text(train)
    tests = {name: list(read_raganato(path)) for name, path in find_test_sets(test).items()}
    index = read_sense_index(senses)

    from elmox.probes.wsd.probe import predict_senses
    from elmox.probes.wsd.report import SenseReport, score_predictions

    elmo = files.load(model, run, run.precision)
    predictions, counts = predict_senses(
        elmo, training, tests, index, show_progress_bar=run.show_progress_bar
    )
    facts = {
        **model_facts(model, elmo, run.precision),
        "train": str(train),
        "test": str(test),
        "senses": str(senses),
    }
    report.finish(SenseReport(facts, counts, score_predictions(predictions)), "wsd", run)


def _tagged_text(path: Path) -> "Iterator[SenseSentence]":
    from elmox.probes.wsd.raganato import read_raganato
    from elmox.probes.wsd.semcor import read_semcor

    readers = {r"\.data\.xml(\.\w+)?$": read_raganato, r"\.jsonl(\.\w+)?$": read_semcor}
    if not path.is_file():
        raise ElmoxError(f"--train {path} is not a file, expected NAME.data.xml or NAME.jsonl")
    for pattern, read in readers.items():
        if re.search(pattern, path.name):
            return read(path)
    raise ElmoxError(
        f"--train {path}: expected NAME.data.xml (Raganato et al.'s format) or NAME.jsonl, plain "
        "or compressed (.gz, .xz, .bz2, .zst)"
    )
