"""`elmox index`: the uses of words in a text, to be searched by sense."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.interruption import resumable
from elmox.cli.options import (
    BatchTokens,
    ComputeOptions,
    Force,
    LayersOption,
    ModelArgument,
    ModelOptions,
    TextArgument,
    TextOptions,
    parse_layers,
)
from elmox.cli.verb import verb
from elmox.search import MAX_PER_WORD, MIN_COUNT


@verb(
    "elmox index english-small text.txt text.index --min-count 1",
    "elmox index english-small text.txt present.index --words present,live --layers average",
)
def command(
    model: ModelArgument,
    text: TextArgument,
    output: Annotated[Path, typer.Argument(help="The index to write, one file.")],
    words: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS",
            help="Words to index, with commas between them, in any case; by default all content "
            "words: words of letters that are no stop words.",
        ),
    ] = None,
    stop_words: Annotated[
        Path | None, "Words that are not content words, one per line; English by default."
    ] = None,
    min_count: Annotated[
        int, typer.Option(help="Minimum number of uses of a content word.", min=1)
    ] = MIN_COUNT,
    max_per_word: Annotated[
        int,
        typer.Option(
            help="Maximum number of uses to store per word, taken evenly from the text.", min=1
        ),
    ] = MAX_PER_WORD,
    layers: LayersOption = "top",
    force: Force = False,
    batch_tokens: BatchTokens = None,
    *,
    lines: TextOptions,
    files: ModelOptions,
    run: ComputeOptions,
) -> None:
    """Write an index of the uses of words, for elmox search.

    OUTPUT has the vector of every use in 8 bits, its position and its sentence. TEXT is read twice,
    so it cannot be stdin. An interrupted command continues when it is run again.
    """
    from elmox.io.text_files import check_text, open_text
    from elmox.search.build import build_index

    check_text(text)
    stop = None
    if stop_words is not None:
        with open_text(stop_words) as file:
            stop = file.read().split()
    elmo = files.load(model, run, run.precision)
    with resumable():
        summary = build_index(
            elmo,
            text,
            output,
            layers=parse_layers(layers),
            words=None if words is None else [word.strip() for word in words.split(",")],
            stop_words=stop,
            min_count=min_count,
            max_per_word=max_per_word,
            tokenized=lines.tokenized,
            force=force,
            batch_tokens=batch_tokens,
            show_progress_bar=run.show_progress_bar,
        )
    if run.as_json:
        run.result({"output": str(output), **asdict(summary)}, "")
        return
    size = f"{summary.num_uses:,} uses of {summary.num_words:,} words in {output}"
    if summary.was_complete:
        run.log(f"{size}: complete, no work left")
    else:
        run.log(
            f"{size}; {summary.num_embedded:,} tokens in {summary.seconds:.1f} s, by "
            f"{elmo.description}"
        )
