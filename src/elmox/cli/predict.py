"""`elmox predict`: the most likely words in the gap of a sentence."""

from enum import StrEnum
from typing import Annotated

import typer

from elmox.cli.options import LanguageModelOptions, RunOptions, TextOptions
from elmox.cli.verb import verb
from elmox.config import BUNDLED


class Direction(StrEnum):
    """The context that is used."""

    both = "both"
    left = "left"
    right = "right"


@verb(
    'elmox predict "I will buy you a ___."',
    'elmox predict english-small "I will buy you a ___." -k 3 --direction left',
)
def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="[MODEL]", help=f"A model, as for the other verbs; {BUNDLED} if left out."
        ),
    ],
    sentence: Annotated[
        str | None,
        typer.Argument(metavar="SENTENCE", help='A sentence with a gap: "I will buy you a ___."'),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Number of words.", min=1)] = 10,
    direction: Annotated[
        Direction, "Use the words left of the gap, right of it, or both."
    ] = Direction.both,
    position: Annotated[
        int | None,
        typer.Option(help="Index of the token to predict, from 0, in place of the gap.", min=0),
    ] = None,
    *,
    lines: TextOptions,
    files: LanguageModelOptions,
    run: RunOptions,
) -> None:
    """Print the most likely words in the gap of a sentence, with their probabilities.

    With both directions, the two probabilities of each word are multiplied and divided by the
    frequency of the word. <S>, </S> and <UNK> are left out: the probabilities of all other words
    sum to 1.
    """
    if sentence is None:  # the only argument is the sentence
        model, sentence = BUNDLED, model
    elmo = files.load(model, run)
    text = sentence.split() if lines.tokenized else sentence
    predictions = elmo.predict(text, position, k, direction.value)
    run.result(
        [prediction._asdict() for prediction in predictions],
        (f"{prediction.probability:.6f}\t{prediction.word}" for prediction in predictions),
    )
