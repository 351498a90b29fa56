"""`elmox predict`: the likeliest words at a place of a sentence."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from elmox.cli.model_options import (
    Device,
    Json,
    ModelPath,
    Options,
    Raw,
    SoftmaxFile,
    SoftmaxVocab,
    TokenFile,
    Tokenized,
    VocabFile,
)


class Direction(StrEnum):
    """Which words are looked at."""

    both = "both"
    left = "left"
    right = "right"


def command(
    model: ModelPath,
    sentence: Annotated[
        str,
        typer.Argument(
            help='A sentence with a gap ___: "I will buy you a ___."',
            show_default=False,
        ),
    ],
    k: Annotated[int, typer.Option("-k", help="How many words.", min=1)] = 10,
    direction: Annotated[
        Direction, typer.Option(help="Look at the words to its left, to its right, or at both.")
    ] = Direction.both,
    position: Annotated[
        int | None, typer.Option(help="The place, counted from 0, instead of ___.", min=0)
    ] = None,
    tokenized: Tokenized = False,
    raw: Raw = False,
    softmax: SoftmaxFile = None,
    softmax_vocab: SoftmaxVocab = None,
    device: Device = None,
    options: Options = None,
    vocab: VocabFile = None,
    token_embeddings: TokenFile = None,
    as_json: Json = False,
) -> None:
    """Predict a word: the likeliest ones and their probabilities, a line each.

    With both directions, the two probabilities of each word are multiplied and divided by its
    frequency. <S>, </S> and <UNK> are left out: the probabilities of all other words sum to 1.
    """
    from elmox.elmo import Elmo

    elmo = Elmo.from_pretrained(
        model,
        options=options,
        vocab=vocab,
        token_embeddings=token_embeddings,
        softmax=softmax,
        softmax_vocab=softmax_vocab,
        device=device,
    )
    text = sentence.split() if tokenized else sentence
    found = elmo.predict(text, position, k, direction.value)
    if as_json:
        words = [{"word": word, "probability": probability} for word, probability in found]
        typer.echo(json.dumps(words, ensure_ascii=False))
        return
    for word, probability in found:
        typer.echo(f"{probability:.6f}\t{word}")
