"""`elmox score`: log-probabilities of sentences and of their tokens."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmox.cli.options import (
    LanguageModelOptions,
    ModelArgument,
    RunOptions,
    TextArgument,
    TextOptions,
)
from elmox.cli.verb import verb

if TYPE_CHECKING:
    from elmox.inference.language_model import SentenceScore

_CHUNK_LINES = 1024


@verb(
    "elmox score english-small text.txt",
    "elmox score english-small text.txt --tokens",
)
def command(
    model: ModelArgument,
    text: TextArgument,
    tokens: Annotated[bool, "Print one line per token, and a blank line per sentence."] = False,
    *,
    lines: TextOptions,
    files: LanguageModelOptions,
    run: RunOptions,
) -> None:
    """Print the log-probability and the perplexity of each sentence.

    Each sentence is scored on its own. Its log-probability (natural logarithm) is the mean of both
    directions. An empty line stays empty. With --tokens the columns are token, log-probability
    given the left context, the same given the right context, and "unknown" for a token outside the
    vocabulary, which is scored as <UNK>.
    """
    from elmox.io.text_files import check_text
    from elmox.text.lines import read_lines

    check_text(text)
    elmo = files.load(model, run)
    entries = read_lines(text, lines.line_format(text), elmo.tokenize)
    number = 0
    while chunk := list(islice(entries, _CHUNK_LINES)):
        sentences = [sentence for line in chunk for sentence in line.sentences]
        scores = iter(elmo.score(sentences, show_progress_bar=run.show_progress_bar))
        for line in chunk:
            number += 1
            if not line.sentences and not tokens and not run.as_json:
                typer.echo("")
            for score in islice(scores, len(line.sentences)):
                run.result(_values(score, number), _token_rows(score) if tokens else [_row(score)])


def _row(score: "SentenceScore") -> str:
    return f"{score.log_prob:.4f}\t{score.perplexity:.3f}\t{' '.join(score.tokens)}"


def _token_rows(score: "SentenceScore") -> Iterator[str]:
    backward = [""] * len(score.forward)
    if score.backward is not None:
        backward = [f"{value:.4f}" for value in score.backward]
        yield f"<S>\t\t{backward[-1]}\t"
    for token, left, right, unknown in zip(
        score.tokens, score.forward, backward, score.unknown, strict=False
    ):
        yield f"{token}\t{left:.4f}\t{right}\t{'unknown' if unknown else ''}"
    yield f"</S>\t{score.forward[-1]:.4f}\t\t"
    yield ""


def _values(score: "SentenceScore", number: int) -> dict[str, Any]:
    return {
        "line": number,
        "tokens": score.tokens,
        "log_prob": score.log_prob,
        "perplexity": score.perplexity,
        "forward": score.forward.tolist(),
        "backward": None if score.backward is None else score.backward.tolist(),
        "unknown": score.unknown.tolist(),
    }
