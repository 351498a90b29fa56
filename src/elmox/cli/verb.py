"""Verbs: functions whose parameters become arguments and options of the command line.

Options that several verbs share are fields of a dataclass (see `options`). A verb declares a
parameter of that type, and each field becomes an option:

    @verb("elmox score english-small text.txt")
    def command(model: ModelArgument, text: TextArgument, *, lines: TextOptions, run: RunOptions):
        ...

An option that needs nothing but a help text is annotated with the text:

    lr: Annotated[float, "Peak learning rate."] = 5e-4
"""

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from elmox.cli.help import VerbCommand, VerbGroup

_METAVARS = {Path: "FILE", int: "N", float: "X", str: "TEXT"}


@dataclass(frozen=True)
class Verb:
    """A verb of the command line.

    Attributes:
        run: the function, with one parameter per argument or option.
        examples: commands for the end of its help; a test runs them.
    """

    run: Callable[..., None]
    examples: tuple[str, ...]

    def add_to(self, app: typer.Typer, name: str, *, hidden: bool = False) -> None:
        """Register the verb under a name."""
        epilog = "\n".join(self.examples)
        app.command(name, cls=VerbCommand, epilog=epilog, hidden=hidden)(self.run)


def verb(*examples: str) -> Callable[[Callable[..., None]], Verb]:
    """Make a verb of a function; `examples` end its help."""

    def decorate(function: Callable[..., None]) -> Verb:
        return Verb(_with_flat_options(function), examples)

    return decorate


def verb_group(
    help: str, verbs: Mapping[str, Verb], cls: type[VerbGroup] = VerbGroup
) -> typer.Typer:
    """Make one verb of several: `elmox bench lstm`, `elmox bench cnn`."""
    app = typer.Typer(cls=cls, help=help, no_args_is_help=True, rich_markup_mode=None)
    for name, member in verbs.items():
        member.add_to(app, name)
    return app


def _with_flat_options(function: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters that are dataclasses by the fields of these."""
    hints = get_type_hints(function, include_extras=True)
    bundles: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(function)
    def flat(**values: Any) -> None:
        for name, bundle in bundles.items():
            options = {field.name: values.pop(field.name) for field in fields(bundle)}
            values[name] = bundle(**options)
        function(**values)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in bundles:
            bundle = bundles[parameter.name]
            types = get_type_hints(bundle, include_extras=True)
            parameters += [_keyword(f.name, types[f.name], f.default) for f in fields(bundle)]
        else:
            parameters.append(_keyword(parameter.name, hints[parameter.name], parameter.default))
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=_completed(name, annotation, default),
    )


def _completed(name: str, annotation: Any, default: Any) -> Any:
    """Name the value in the help: an argument by its name, an option's by its type.

    A switch that is off by default is `--name` alone; typer would add `--no-name`.
    """
    kind, info = get_args(annotation)
    info = typer.Option(help=info) if isinstance(info, str) else copy(info)
    if kind is bool and default is False and info.default is ...:  # no name is given
        info.param_decls = (f"--{name.replace('_', '-')}",)
    if info.metavar is None:
        info.metavar = name.upper() if isinstance(info, ArgumentInfo) else _metavar(kind)
    return Annotated[kind, info]


def _metavar(kind: Any) -> str | None:
    """Return `FILE`, `N`, `small|medium`, ...; None for a flag."""
    if get_origin(kind) is not None:  # Path | None, list[str]
        return _metavar(get_args(kind)[0])
    if issubclass(kind, Enum):
        return "|".join(member.value for member in kind)
    return _METAVARS.get(kind)
