"""`elmox finetune`: continue the training of a biLM on the text of a domain."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.interruption import RESUME, resumable
from elmox.cli.options import (
    FILES_HELP,
    HeldOutText,
    LanguageModelOptions,
    ModelArgument,
    OutDirectory,
    RunOptions,
    TextOptions,
)
from elmox.cli.verb import verb
from elmox.errors import Argument, ArgumentError, NothingHeldOut


@verb(
    "elmox finetune english-small domain.txt --out runs/domain --hold-out 2",
    "elmox finetune weights.hdf5 domain.txt --out runs/legacy --hold-out 2 --min-count 1",
)
def command(
    model: ModelArgument,
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...",
            help=f"Files or patterns of the domain's text, {FILES_HELP}. A blank line ends a "
            "document.",
        ),
    ],
    out: OutDirectory,
    valid: HeldOutText = None,
    hold_out: Annotated[
        int,
        typer.Option(
            min=0,
            help="Hold out every N-th document if there is no --valid; 0 for none, which leaves "
            "the perplexity before and after unknown.",
        ),
    ] = 10,
    new_vocab: Annotated[bool, "Predict the words of the domain."] = False,
    vocab_size: Annotated[int | None, "Maximum size of a new vocabulary."] = None,
    min_count: Annotated[int | None, "Minimum count of its words."] = None,
    epochs: Annotated[float, "Epochs in which all weights are trained."] = 1,
    softmax_epochs: Annotated[
        float, "Epochs before that, in which only a new softmax is trained."
    ] = 3,
    lr: Annotated[float, "Peak learning rate."] = 5e-4,
    hdf5: Annotated[Path | None, "Also write the result to this file in AI2's format."] = None,
    resume: Annotated[bool, "Continue an interrupted run of the same command."] = False,
    *,
    lines: TextOptions,
    files: LanguageModelOptions,
    run: RunOptions,
) -> None:
    """Fine-tune a biLM on the text of a domain.

    Prints the held-out perplexity before and after. DIR/model is the better of the two models. A
    model without a softmax gets a new one, which is trained first while all other weights are
    frozen.
    """
    from elmox.training.corpus.prepare import PrepareOptions
    from elmox.training.finetune import FinetuneOptions, finetune

    preparing = PrepareOptions(
        tokenized=lines.tokenized,
        valid=tuple(valid or ()),
        hold_out=None if valid or hold_out == 0 else hold_out,
        vocab_size=vocab_size,
        min_count=min_count,
    )
    training = FinetuneOptions(
        new_vocab=new_vocab, epochs=epochs, softmax_epochs=softmax_epochs, lr=lr
    )
    with resumable(RESUME), _hold_out_advice():
        report = finetune(
            files.load_checkpoint(model),
            texts,
            out,
            prepare=preparing,
            options=training,
            hdf5=hdf5,
            resume=resume,
            device=run.device,
            log=run.log,
            show_progress_bar=run.show_progress_bar,
        )
    if report.signal is not None:
        run.log(f"stopped; {RESUME}")
        raise typer.Exit(128 + report.signal)
    if not report.improved:
        run.log(
            "the perplexity did not fall, so the result is the model it started from: lower --lr, "
            "or give more text"
        )
    perplexity = f"perplexity before {_number(report.before)}, after {_number(report.after)}"
    run.result(asdict(report), [perplexity, str(out / "model")])


@contextmanager
def _hold_out_advice() -> Iterator[None]:
    """Text is held out by default here, so too little of it needs a way out."""
    try:
        yield
    except NothingHeldOut as error:
        raise ArgumentError(
            "{}; {} does without held-out text", error, Argument("hold_out", 0)
        ) from error


def _number(perplexity: float | None) -> str:
    return "unknown" if perplexity is None else f"{perplexity:.2f}"
