"""The command line: one file per verb, one line per error.

Nothing here imports torch: `elmox --help` must answer at once. Data goes to stdout, progress and
messages to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

import os
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from elmox import __version__
from elmox.cli import (
    ablate,
    bench,
    convert,
    embed,
    finetune,
    fit,
    info,
    neighbors,
    plan,
    predict,
    prepare,
    probe,
    score,
    serve,
    tag,
    train,
)
from elmox.cli import eval as cli_eval
from elmox.cli.flags import error_message
from elmox.errors import ElmoxError


class _Verbs(TyperGroup):
    """The verbs; typer would turn Ctrl-C into an exit code before `run` sees it."""

    def invoke(self, ctx: Any) -> Any:  # a `click.Context`, or a `typer.Context`: versions differ
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one ends everything at once
            how = "".join(f"; {text}" for text in error.args)  # see `interruption`
            typer.echo(f"elmox: interrupted{how}", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="elmox",
    cls=_Verbs,
    help="ELMo: deep contextualized word representations, for today's PyTorch.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("embed")(embed.command)
app.command("info")(info.command)
app.command("convert")(convert.command)
app.command("prepare")(prepare.command)
app.command("plan")(plan.command)
app.command("train")(train.command)
app.command("finetune")(finetune.command)
app.command("eval")(cli_eval.command)
app.command("score")(score.command)
app.command("predict")(predict.command)
app.command("fit")(fit.command)
app.command("tag")(tag.command)
app.command("serve")(serve.command)
app.command("ablate")(ablate.command)
app.command("neighbors")(neighbors.command)
app.command("neighbours", hidden=True)(neighbors.command)  # its former spelling
app.add_typer(probe.app, name="probe")
app.add_typer(bench.app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"elmox {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options before the verb."""


def run() -> None:
    """Run the command line and leave with the right exit code."""
    try:
        app()
    except ElmoxError as error:
        _fail(error_message(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}")
    except MemoryError as error:
        _fail(f"out of memory {error}")


def _fail(message: str) -> None:
    """One line on stderr, exit code 1; the traceback too where ELMOX_DEBUG is set."""
    if os.environ.get("ELMOX_DEBUG"):
        raise
    typer.echo(f"elmox: {' '.join(message.split())}", err=True)
    sys.exit(1)
