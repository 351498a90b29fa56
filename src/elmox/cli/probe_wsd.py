"""`elmox probe wsd`: word senses by nearest neighbor, layer by layer."""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.probes.wsd.senses import SenseSentence


def command(
    train: Annotated[
        Path,
        typer.Option(
            help="Sense-tagged text to learn from: SemCor as NAME.data.xml, with "
            "NAME.gold.key.txt beside it, or as JSON lines (.jsonl).",
            show_default=False,
        ),
    ],
    test: Annotated[
        Path,
        typer.Option(
            help="The directory of the test sets: NAME/NAME.data.xml and NAME.gold.key.txt, as in "
            "Raganato et al.'s Evaluation_Datasets.",
            show_default=False,
        ),
    ],
    senses: Annotated[Path, typer.Option(help="index.sense of WordNet 3.0.", show_default=False)],
    model: ModelPath = BUNDLED,
    precision: Annotated[Precision, typer.Option(help="Of the computation.")] = Precision.float32,
    device: Device = None,
    options: Options = None,
    vocab: VocabFile = None,
    token_embeddings: TokenFile = None,
    out: OutDirectory = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Disambiguate words by the nearest average vector of a sense, in every layer.

    Vectors of each sense are averaged over the tagged text; a test word gets the nearest sense, by
    cosine, of those of its lemma and part of speech that were seen, WordNet's first sense where
    none was. F1 for every test set and for ALL, beside the first sense alone.
    """
    # As for elmox embed: compiled code for the last thousand shapes would fill half a gigabyte.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    from elmox.probes.wsd.raganato import find_test_sets, read_raganato
    from elmox.probes.wsd.wordnet import read_sense_index

    check_files(out, "wsd", force)
    training = _tagged_text(train)
    tests = {name: list(read_raganato(path)) for name, path in find_test_sets(test).items()}
    index = read_sense_index(senses)

    from elmox.elmo import Elmo
    from elmox.probes.wsd.probe import answer_senses
    from elmox.probes.wsd.report import SenseReport, score_answers

    elmo = Elmo.from_pretrained(
        model,
        options=options,
        vocab=vocab,
        token_embeddings=token_embeddings,
        device=device,
        dtype=precision.value,
    )
    answers, counts = answer_senses(
        elmo, training, tests, index, show_progress_bar=sys.stderr.isatty()
    )
    facts = {
        "command": shlex.join(["elmox", *sys.argv[1:]]),
        "model": f"{model} ({elmo.description})",
        "precision": f"{precision.value} on {elmo.device.type}",
        "train": str(train),
        "test": str(test),
        "senses": str(senses),
    }
    report = SenseReport(facts, counts, score_answers(answers))
    if as_json:
        typer.echo(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        typer.echo(report.to_markdown(), nl=False)
    if out is not None:
        write_files(report, out, "wsd", force)


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
        f"--train {path}: expected NAME.data.xml (Raganato et al.'s format) or NAME.jsonl, perhaps "
        "compressed (.gz, .xz, .bz2, .zst)"
    )
