"""`elmox eval`: perplexity and bits per character of a text, or scores of a fitted task model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from elmox.cli.options import (
    FILES_HELP,
    LanguageModelOptions,
    ModelArgument,
    RunOptions,
    TaskElmo,
    TextOptions,
)
from elmox.cli.verb import verb
from elmox.errors import ElmoxError


@verb(
    "elmox eval english-small text.txt",
    "elmox eval runs/names/seed-0/model names.txt --json",
)
def command(
    model: ModelArgument,
    text: Annotated[
        str,
        typer.Argument(
            help="For a language model: running text, .jsonl with text or tokens, or - for stdin. "
            f"For a fitted task model: a file of labeled data. Files are {FILES_HELP}.",
        ),
    ],
    elmo: TaskElmo = None,
    *,
    lines: TextOptions,
    files: LanguageModelOptions,
    run: RunOptions,
) -> None:
    """Evaluate a language model on text, or a fitted task model on labeled data.

    A language model gets the perplexity of its full softmax, per direction and overall. As in the
    paper, sentences are read one after the other and the LSTM state is carried over. Bits per
    character can be compared between models of different vocabularies: words outside a vocabulary
    cost what it takes to spell them.
    """
    from elmox.io.text_files import check_text
    from elmox.tasks.model import is_task_model
    from elmox.tasks.ready import find_tagger

    if is_task_model(find_tagger(model)):
        if lines.tokenized or any(files.arguments().values()):
            raise ElmoxError(
                f"{model} is a fitted task model: only --elmo, --device, --threads, --quiet and "
                "--json apply to it"
            )
        _evaluate_task(model, text, elmo, run)
        return
    if elmo is not None:
        raise ElmoxError(f"--elmo {elmo}: {model} is not a fitted task model, leave out the option")
    check_text(text)
    bilm = files.load(model, run)
    sentences = lines.sentences(text, bilm.tokenize)
    values = bilm.evaluate(sentences, show_progress_bar=run.show_progress_bar).to_dict()
    run.result(
        values,
        (
            f"{name.removeprefix('num_').replace('_', ' '):<29}{_shown(name, value)}"
            for name, value in values.items()
        ),
    )


def _evaluate_task(model: str, data: str, elmo: str | None, run: RunOptions) -> None:
    from elmox.io.text_files import STDIN
    from elmox.tasks.metrics.tally import format_score
    from elmox.tasks.predictor import TaskPredictor

    if data == STDIN:
        raise ElmoxError(
            f"{model} is a fitted task model: give a file of labeled data, not stdin, because the "
            "format is recognized by the file's name"
        )
    scores = TaskPredictor.from_pretrained(model, elmo=elmo, device=run.device).score(Path(data))
    run.result(scores, (f"{name:<29}{format_score(value)}" for name, value in scores.items()))


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "none: the model only reads forward"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2%}" if name.endswith("share") else f"{value:,.3f}"
