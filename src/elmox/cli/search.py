"""`elmox search`: the uses of a word in one sense, or the senses of a word."""

import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.options import RunOptions
from elmox.cli.verb import verb

if TYPE_CHECKING:
    from elmox.search.occurrence_index import OccurrenceIndex
    from elmox.search.senses import Sense


@verb(
    'elmox search text.index "I will buy you a **present**." --top 5',
    "elmox search text.index present --cluster",
)
def command(
    index: Annotated[Path, typer.Argument(help="A file made by elmox index.")],
    query: Annotated[
        str,
        typer.Argument(
            help="A sentence with ** on both sides of one word; with --cluster, a word.",
        ),
    ],
    top: Annotated[int, typer.Option("--top", "-k", help="Maximum number of uses.", min=1)] = 10,
    word: Annotated[
        str | None, typer.Option(metavar="WORD", help="The word, if it is not marked.")
    ] = None,
    any_word: Annotated[bool, "Search all words; needs the extra faiss to be fast."] = False,
    cluster: Annotated[bool, "Group the uses of a word into senses, with examples."] = False,
    senses: Annotated[
        int | None,
        typer.Option(help="Number of senses for --cluster; chosen by default.", min=1),
    ] = None,
    elmo: Annotated[
        str | None,
        typer.Option("--elmo", metavar="MODEL", help="The index's model, if it has moved."),
    ] = None,
    *,
    run: RunOptions,
) -> None:
    """Print the uses that are most similar to a word in a sentence, by cosine.

    A line has similarity, number of the line in the text, and sentence, in which the word is in
    [brackets]. QUERY itself is left out, and repeated sentences count once. The model is loaded
    from where it was when the index was made.
    """
    from elmox.errors import ElmoxError
    from elmox.search.occurrence_index import OccurrenceIndex

    with OccurrenceIndex.open(index) as uses:
        if cluster:
            _print_senses(uses, query, senses, run)
            return
        if senses is not None:
            raise ElmoxError("--senses needs --cluster")
        uses.load_model(elmo, run.device)
        with warnings.catch_warnings(record=True) as notices:
            warnings.simplefilter("always", UserWarning)
            matches = uses.search(query, word=word, top_k=top, any_word=any_word)
        for notice in notices:
            run.log(str(notice.message))
        values = [{"similarity": match.similarity, **asdict(match.use)} for match in matches]
        run.result(
            {"query": query, "matches": values},
            [f"{match.similarity:.4f}\t{match.use.line}\t{match.use}" for match in matches],
        )


def _print_senses(
    index: "OccurrenceIndex", word: str, num_senses: int | None, run: RunOptions
) -> None:
    senses = index.cluster(word.strip("*"), num_senses=num_senses)
    values = [
        {name: value for name, value in asdict(sense).items() if name != "rows"} for sense in senses
    ]
    run.result({"word": word, "senses": values}, _sense_lines(senses))


def _sense_lines(senses: "list[Sense]") -> Iterator[str]:
    for number, sense in enumerate(senses, start=1):
        yield f"sense {number}: {sense.num_uses:,} uses, {sense.share:.0%}"
        for use in sense.examples:
            yield f"\t{use.line}\t{use}"
