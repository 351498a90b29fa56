"""The command line: one file per verb, one line per error.

Nothing here imports torch: `elmox --help` must be immediate. Data goes to stdout, progress and
messages to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

import os
import signal
import sys
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import typer

from elmox.cli import (
    ablate,
    bench,
    card,
    convert,
    embed,
    explore,
    export,
    finetune,
    fit,
    index,
    info,
    neighbors,
    package,
    plan,
    predict,
    prepare,
    probe,
    score,
    search,
    serve,
    tag,
    train,
)
from elmox.cli import eval as eval_
from elmox.cli.flags import error_message
from elmox.cli.help import WIDTH, VerbGroup
from elmox.cli.verb import Verb
from elmox.cli.version import version_text
from elmox.errors import ElmoxError

VERBS: Mapping[str, Mapping[str, Verb | typer.Typer]] = {
    "Vectors": {"embed": embed.command, "neighbors": neighbors.command},
    "Search by sense": {"index": index.command, "search": search.command},
    "Language model": {
        "predict": predict.command,
        "score": score.command,
        "eval": eval_.command,
    },
    "Tasks": {"fit": fit.command, "tag": tag.command, "ablate": ablate.command},
    "Training": {
        "prepare": prepare.command,
        "plan": plan.app,
        "train": train.command,
        "finetune": finetune.command,
    },
    "Models": {
        "info": info.command,
        "convert": convert.command,
        "export": export.command,
        "card": card.command,
        "package": package.command,
    },
    "Service": {"serve": serve.command, "explore": explore.command},
    "Measurements": {"probe": probe.app, "bench": bench.app},
}


class _Verbs(VerbGroup):
    """The verbs. Typer would turn Ctrl-C into an exit code before `run` sees it."""

    sections: ClassVar = {heading: tuple(verbs) for heading, verbs in VERBS.items()}

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one ends everything at once
            advice = "".join(f"; {text}" for text in error.args)  # see `interruption`
            typer.echo(f"elmox: interrupted{advice}", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="elmox",
    cls=_Verbs,
    help="ELMo: deep contextualized word representations, for today's PyTorch.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": WIDTH},
)
for _verbs in VERBS.values():
    for _name, _verb in _verbs.items():
        if isinstance(_verb, Verb):
            _verb.add_to(app, _name)
        else:
            app.add_typer(_verb, name=_name)
neighbors.command.add_to(app, "neighbours", hidden=True)  # its former spelling


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(version_text())
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options before the verb."""


def run() -> None:
    """Run the command line and exit with the right code."""
    try:
        app(prog_name="elmox")
    except ElmoxError as error:
        _fail(error_message(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}")
    except UnicodeEncodeError as error:
        _fail(
            f"stdout is {error.encoding}, which has no {error.object[error.start]!a}: set "
            "PYTHONIOENCODING=utf-8, or use --json"
        )
    except MemoryError as error:
        _fail(f"out of memory {error}")


def _fail(message: str) -> None:
    """Print one line on stderr and exit with code 1; with ELMOX_DEBUG, print the traceback."""
    if os.environ.get("ELMOX_DEBUG"):
        raise
    typer.echo(f"elmox: {' '.join(message.split())}", err=True)
    sys.exit(1)
