"""`elmox score`: log-probabilities of sentences and of their words."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.model_options import (
    Device,
    Json,
    ModelPath,
    Options,
    Raw,
    SoftmaxFile,
    SoftmaxVocab,
    TextFile,
    TokenFile,
    Tokenized,
    VocabFile,
)

if TYPE_CHECKING:
    from elmox.inference.language_model import SentenceScore

LINES_AT_ONCE = 1024


def command(
    model: ModelPath,
    text: TextFile,
    tokens: Annotated[
        bool,
        typer.Option("--tokens", help="A line for every token, a blank one between sentences."),
    ] = False,
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
    """Score sentences: natural log-probability, perplexity and the sentence, between tabs.

    A sentence is scored by itself, from the left and from the right; its log-probability is the
    mean of both. An empty line stays one. With --tokens: token, log-probability given its left,
    given its right, and "unknown" where it is outside the vocabulary and was scored as <UNK>.
    """
    from elmox.elmo import Elmo
    from elmox.io.text_files import check_text
    from elmox.text.lines import line_format, read_lines

    check_text(text)
    elmo = Elmo.from_pretrained(
        model,
        options=options,
        vocab=vocab,
        token_embeddings=token_embeddings,
        softmax=softmax,
        softmax_vocab=softmax_vocab,
        device=device,
    )
    lines = read_lines(text, line_format(text, tokenized), elmo.tokenize)
    number = 0
    while chunk := list(islice(lines, LINES_AT_ONCE)):
        scores = iter(elmo.score([sentence for line in chunk for sentence in line.sentences]))
        for line in chunk:
            number += 1
            own = list(islice(scores, len(line.sentences)))
            if not own and not tokens and not as_json:
                typer.echo("")
            for score in own:
                if as_json:
                    typer.echo(_json(score, number))
                elif tokens:
                    typer.echo("\n".join(_token_lines(score)) + "\n")
                else:
                    sentence = " ".join(score.tokens)
                    typer.echo(f"{score.log_prob:.4f}\t{score.perplexity:.3f}\t{sentence}")


def _token_lines(score: "SentenceScore") -> Iterator[str]:
    backward = [""] * len(score.forward)
    if score.backward is not None:
        backward = [f"{value:.4f}" for value in score.backward]
        yield f"<S>\t\t{backward[-1]}\t"
    for token, left, right, unknown in zip(
        score.tokens, score.forward, backward, score.unknown, strict=False
    ):
        yield f"{token}\t{left:.4f}\t{right}\t{'unknown' if unknown else ''}"
    yield f"</S>\t{score.forward[-1]:.4f}\t\t"


def _json(score: "SentenceScore", number: int) -> str:
    values = {
        "line": number,
        "tokens": score.tokens,
        "log_prob": score.log_prob,
        "perplexity": score.perplexity,
        "forward": score.forward.tolist(),
        "backward": None if score.backward is None else score.backward.tolist(),
        "unknown": score.unknown.tolist(),
    }
    return json.dumps(values, ensure_ascii=False)
