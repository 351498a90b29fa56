"""`elmox finetune`: a finished biLM goes on learning on the text of a domain."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.interruption import RESUME, resumable
from elmox.cli.model_options import (
    Device,
    Json,
    ModelPath,
    Options,
    Raw,
    SoftmaxFile,
    SoftmaxVocab,
    Tokenized,
    VocabFile,
)
from elmox.errors import Argument, ArgumentError, NothingHeldOut


def command(
    model: ModelPath,
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT...", help="Files of the domain, or patterns.")
    ],
    out: Annotated[Path, typer.Option(help="The directory to make.", show_default=False)],
    tokenized: Tokenized = False,
    raw: Raw = False,
    valid: Annotated[list[str] | None, typer.Option(help="Held-out files.")] = None,
    hold_out: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Hold every N-th document out, where no --valid is given; 0 for none, then "
            "perplexity before and after is not known.",
        ),
    ] = 10,
    options: Options = None,
    vocab: VocabFile = None,
    softmax: SoftmaxFile = None,
    softmax_vocab: SoftmaxVocab = None,
    new_vocab: Annotated[
        bool, typer.Option("--new-vocab", help="Predict the domain's own words.")
    ] = False,
    vocab_size: Annotated[int | None, typer.Option(help="Most words of a new vocabulary.")] = None,
    min_count: Annotated[int | None, typer.Option(help="Least count of its words.")] = None,
    epochs: Annotated[float, typer.Option(help="With everything in training.")] = 1,
    softmax_epochs: Annotated[
        float, typer.Option(help="Before that, with only a new softmax in training.")
    ] = 3,
    lr: Annotated[float, typer.Option(help="Peak learning rate.")] = 5e-4,
    hdf5: Annotated[
        Path | None, typer.Option(help="Write the result in AI2's format as well.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the same command was interrupted.")
    ] = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Fine-tune a biLM on a domain's text; reports held-out perplexity before and after.

    OUT/model is the better one of the fine-tuned model and the one it started from. A model without
    a softmax gets a new one, which is trained first while the other weights are frozen.
    """
    from elmox.pretrained.load import load_checkpoint
    from elmox.training.corpus.prepare import PrepareOptions
    from elmox.training.finetune import FinetuneOptions, finetune

    preparing = PrepareOptions(
        tokenized=tokenized,
        valid=tuple(valid or ()),
        hold_out=None if valid or hold_out == 0 else hold_out,
        vocab_size=vocab_size,
        min_count=min_count,
    )
    training = FinetuneOptions(
        new_vocab=new_vocab, epochs=epochs, softmax_epochs=softmax_epochs, lr=lr
    )
    with resumable(RESUME), _hold_out_advice():
        found = finetune(
            load_checkpoint(model, options, vocab, softmax=softmax, softmax_vocab=softmax_vocab),
            texts,
            out,
            prepare=preparing,
            options=training,
            hdf5=hdf5,
            resume=resume,
            device=device,
            log=lambda message: typer.echo(f"elmox: {message}", err=True),
            show_progress_bar=sys.stderr.isatty(),
        )
    if found.signal is not None:
        typer.echo("elmox: stopped: go on with --resume", err=True)
        raise typer.Exit(128 + found.signal)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        typer.echo(f"perplexity before {_number(found.before)}, after {_number(found.after)}")
        if not found.improved:
            typer.echo(
                "elmox: the perplexity did not fall, so the result is the model it started from: "
                "lower --lr, or give more text",
                err=True,
            )
        typer.echo(f"{out / 'model'}")


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
