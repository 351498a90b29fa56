"""`elmox neighbors`: the nearest neighbors of a word, in context and without context."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmox.cli.options import (
    LayersOption,
    ModelArgument,
    ModelOptions,
    RunOptions,
    TextArgument,
    TextOptions,
    parse_layers,
)
from elmox.cli.verb import verb

if TYPE_CHECKING:
    from elmox.probes.neighbors import Neighbors


@verb(
    'elmox neighbors english-small text.txt "I will buy you a present." --word present',
    'elmox neighbors english-small text.txt "A present for you" --word present --same-word -k 3',
)
def command(
    model: ModelArgument,
    text: TextArgument,
    sentence: Annotated[
        str,
        typer.Argument(help="A sentence that contains the word."),
    ],
    word: Annotated[str, typer.Option(metavar="WORD", help="The word.")],
    occurrence: Annotated[
        int, typer.Option(help="Which occurrence of the word in the sentence, from 1.", min=1)
    ] = 1,
    layers: LayersOption = "top",
    k: Annotated[int, typer.Option("-k", help="Number of neighbors per list.", min=1)] = 5,
    same_word: Annotated[
        bool, "Search only other occurrences of the word, in any case: much faster."
    ] = False,
    *,
    lines: TextOptions,
    files: ModelOptions,
    run: RunOptions,
) -> None:
    """Print the nearest neighbors of a word in a text, by cosine.

    The first list has words in context: at most one per sentence of TEXT, with similarity, word and
    sentence, in which the word is in [brackets]. The second list has the neighbors of the word
    without context (layer 0) among the distinct words of TEXT. SENTENCE itself is left out, and
    repeated sentences count once.
    """
    from elmox.io.text_files import check_text
    from elmox.probes.neighbors import find_neighbors, find_word

    check_text(text)
    elmo = files.load(model, run)
    tokens = sentence.split() if lines.tokenized else elmo.tokenize(sentence)
    position = find_word(tokens, word, occurrence)
    neighbors = find_neighbors(
        elmo,
        tokens,
        position,
        lines.sentences(text, elmo.tokenize),
        layers=parse_layers(layers),
        k=k,
        same_word=same_word,
        show_progress_bar=run.show_progress_bar,
    )
    query = {"sentence": tokens, "position": position, "word": word, "layers": layers}
    heading = f"in context, layers {layers}: {_marked(tokens, position)}"
    run.result({**query, **_values(neighbors)}, [heading, *_rows(neighbors, word)])


def _rows(neighbors: "Neighbors", word: str) -> Iterator[str]:
    for near in neighbors.in_context:
        yield f"{near.similarity:.4f}\t{near.word}\t{_marked(near.sentence, near.position)}"
    yield ""
    yield f"without context: {word}"
    for alike in neighbors.context_free:
        yield f"{alike.similarity:.4f}\t{alike.word}"


def _marked(sentence: Sequence[str], position: int) -> str:
    """Return a sentence with one of its words in brackets."""
    before, after = sentence[:position], sentence[position + 1 :]
    return " ".join([*before, f"[{sentence[position]}]", *after])


def _values(neighbors: "Neighbors") -> dict[str, Any]:
    values = asdict(neighbors)
    for near, neighbor in zip(values["in_context"], neighbors.in_context, strict=True):
        near["word"] = neighbor.word
    return values
