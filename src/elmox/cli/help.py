"""Help texts: whole summaries, real names for values, examples at the end.

The layout of typer differs from version to version and cuts summaries, so the lists of arguments,
options and verbs are laid out here.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from typer.core import TyperCommand, TyperGroup

WIDTH = 100  # columns, on a terminal that has as many
_NO_LIMIT = 1000  # characters of a summary


class VerbCommand(TyperCommand):
    """A verb whose epilog lists examples, one per line."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what follows the verb in the usage line."""
        arguments = [p for p in self.params if p.param_type_name == "argument"]
        return [
            "[OPTIONS]",
            *(_metavar(p) if p.required else f"[{_metavar(p)}]" for p in arguments),
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options."""
        _write_parameters(self.get_params(ctx), formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples as they are: they are copied, so no line may be wrapped."""
        with formatter.section("Examples"):
            for line in (self.epilog or "").splitlines():
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class VerbGroup(TyperGroup):
    """Verbs in sections.

    Attributes:
        sections: names of verbs by the heading that they appear under; without it, all appear
            under one heading.
    """

    sections: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs, then the options."""
        sections = self.sections or {"Commands": tuple(self.list_commands(ctx))}
        width = max(len(name) for names in sections.values() for name in names)
        for heading, names in sections.items():
            rows = []
            for name in names:
                command: Any = self.get_command(ctx, name)
                rows.append((name.ljust(width), command.get_short_help_str(_NO_LIMIT)))
            with formatter.section(heading):
                formatter.write_dl(rows)
        _write_parameters(self.get_params(ctx), formatter)


def parameter_rows(parameters: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the names and help texts of arguments and options, required ones first."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in sorted(parameters, key=lambda parameter: not parameter.required):
        if not getattr(parameter, "hidden", False):
            is_argument = parameter.param_type_name == "argument"
            name = _metavar(parameter) if is_argument else _option(parameter)
            sections["Arguments" if is_argument else "Options"].append((name, _help(parameter)))
    return sections


def _write_parameters(parameters: Any, formatter: Any) -> None:
    for heading, rows in parameter_rows(parameters).items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar)


def _option(parameter: Any) -> str:
    """Return `--layers LAYERS`, `-k N` or `--same-word/--any-word`."""
    names = ", ".join(parameter.opts)
    if parameter.secondary_opts:
        names += f"/{', '.join(parameter.secondary_opts)}"
    return names if parameter.is_flag else f"{names} {_metavar(parameter)}"


def _help(parameter: Any) -> str:
    """Return the help of a parameter with its default, unless the help itself names it."""
    default = parameter.default
    has_default = not parameter.required and not getattr(parameter, "is_flag", False)
    note = ""
    if parameter.required and parameter.param_type_name == "option":
        note = " [required]"
    elif has_default and default is not None and not callable(default):
        note = f" [default: {getattr(default, 'value', default)}]"
    return f"{parameter.help or ''}{note}"
