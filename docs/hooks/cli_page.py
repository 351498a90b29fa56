"""The page of the command line, made of the commands themselves."""

from collections.abc import Iterator
from typing import Any

import typer
from mkdocs.structure.files import File

from elmox.cli.help import parameter_rows
from elmox.cli.main import VERBS, app

PAGE = "reference/cli.md"
INTRODUCTION = """\
# Command line

Data goes to stdout, progress and messages to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage,
130 interrupted. `elmox VERB --help` prints what this page contains.
"""


def on_files(files: Any, config: Any) -> Any:
    """Add the page."""
    files.append(File.generated(config, PAGE, content="\n".join(page())))
    return files


def page() -> Iterator[str]:
    """Yield the page's parts: a heading for each section, and for each verb."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("elmox", [], resilient_parsing=True)
    yield INTRODUCTION
    for section, names in VERBS.items():
        yield f"## {section}\n"
        for name in names:
            yield from _verb(root.commands[name], name, context)


def _verb(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = type(parent)(command, info_name=name, parent=parent)
    yield f"### {context.command_path}\n"
    yield f"{_prose(command.help or '')}\n"
    if members := getattr(command, "commands", None):
        for member, child in members.items():
            yield from _verb(child, member, context)
        return
    yield f"```\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```\n"
    for heading, rows in parameter_rows(command.get_params(context)).items():
        if rows:
            yield f"| {heading.lower()} | |\n|---|---|"
            yield from (f"| `{_cell(left)}` | {_cell(_prose(right))} |" for left, right in rows)
            yield ""
    if command.epilog:
        yield f"```bash\n{command.epilog}\n```\n"


def _prose(text: str) -> str:
    """Escape what Markdown would take for markup: NAME_options, <S>."""
    text = text.replace("\b\n", "").replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_")
    return text.replace("[", r"\[")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
