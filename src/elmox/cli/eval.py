"""`elmox eval`: perplexity of a text and bits per character; or a fitted model's scores."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from elmox.cli.model_options import (
    Device,
    Json,
    ModelPath,
    Options,
    Raw,
    SoftmaxFile,
    SoftmaxVocab,
    TaskElmo,
    TokenFile,
    Tokenized,
    VocabFile,
)
from elmox.errors import ElmoxError


def command(
    model: ModelPath,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="For a language model: running text, or with --tokenized a tokenized sentence per "
            "line; .jsonl with text or tokens; - for stdin. For a model of elmox fit: a file of "
            "labeled data. Plain or compressed (.gz, .xz, .bz2, .zst).",
            show_default=False,
        ),
    ],
    tokenized: Tokenized = False,
    raw: Raw = False,
    softmax: SoftmaxFile = None,
    softmax_vocab: SoftmaxVocab = None,
    device: Device = None,
    options: Options = None,
    vocab: VocabFile = None,
    token_embeddings: TokenFile = None,
    elmo: TaskElmo = None,
    as_json: Json = False,
) -> None:
    """Evaluate a language model on a text, or a model of elmox fit on labeled data.

    A language model's full-softmax perplexity, from left and right: sentences are read one after
    the other and the LSTMs' state runs on, as in the paper. Bits per character make models of
    different vocabularies comparable: words outside the vocabulary pay for being spelled.
    """
    from elmox.elmo import Elmo
    from elmox.io.text_files import STDIN, check_text
    from elmox.tasks.model import is_task_model
    from elmox.text.lines import line_format, read_lines

    if is_task_model(Path(model)):
        if tokenized or any((softmax, softmax_vocab, options, vocab, token_embeddings)):
            raise ElmoxError(
                f"{model} is a model of elmox fit: it is scored on labeled data, and takes no "
                "option but --elmo, --device and --json"
            )
        if text == STDIN:
            raise ElmoxError(
                f"{model} is a model of elmox fit: give a file of its task's labeled data, not "
                "stdin: names tell the formats of such data apart"
            )
        _show_scores(model, Path(text), elmo, device, as_json)
        return
    if elmo is not None:
        raise ElmoxError(f"--elmo {elmo}: {model} is not a model of elmox fit, it needs no biLM")
    check_text(text)
    bilm = Elmo.from_pretrained(
        model,
        options=options,
        vocab=vocab,
        token_embeddings=token_embeddings,
        softmax=softmax,
        softmax_vocab=softmax_vocab,
        device=device,
    )
    lines = read_lines(text, line_format(text, tokenized), bilm.tokenize)
    sentences = (sentence for line in lines for sentence in line.sentences)
    facts = bilm.evaluate(sentences, show_progress_bar=sys.stderr.isatty()).to_dict()
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        typer.echo(f"{name.removeprefix('num_').replace('_', ' '):<29}{_shown(name, value)}")


def _show_scores(
    model: str, data: Path, elmo: str | None, device: str | None, as_json: bool
) -> None:
    from elmox.tasks.metrics.shown import shown_score
    from elmox.tasks.predictor import TaskPredictor

    scores = TaskPredictor.load(model, elmo=elmo, device=device).score(data)
    if as_json:
        typer.echo(json.dumps(scores))
        return
    for name, value in scores.items():
        typer.echo(f"{name:<29}{shown_score(value)}")


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "none: the model only reads forward"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2%}" if name.endswith("share") else f"{value:,.3f}"
