"""Settings in TOML files: reading, changing and writing them."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias, get_type_hints

from elmox.config import Strict
from elmox.errors import ElmoxError
from elmox.io.inputs import MAX_JSON_BYTES, read_whole

LARGEST_RATE = 1e30  # float32 ends at 3e38, and optimizers multiply the rate


def read_settings(path: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """Read a recipe's tables and apply `changes`, each of them `section.key=value`."""
    if not path.exists():
        raise ElmoxError(f"{path} does not exist: give a recipe, a TOML file")
    try:
        values = tomllib.loads(read_whole(path, MAX_JSON_BYTES).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ElmoxError(f"{path} is not TOML: {error}") from error
    for change in changes:
        change_setting(values, change)
    return values


def change_setting(values: dict[str, Any], change: str) -> None:
    """Apply one `section.key=value` to the tables."""
    key, equals, text = change.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts) or len(parts) < 2:
        raise ElmoxError(f"setting {change!r}: expected section.key=value, as in a recipe")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string: a shell eats quotes
    table: Any = values
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ElmoxError(f"setting {change!r}: {part} is a value, expected a section")
    table[parts[-1]] = value


def to_toml(values: Mapping[str, Mapping[str, Any]]) -> str:
    """Return tables of settings as a TOML file; values of None are left out."""
    return "\n".join(_table(name, table) for name, table in values.items())


def at_least(least: float, name: str, value: float) -> None:
    """Refuse a number below `least`, or one that is not finite."""
    if not least <= value < float("inf"):
        raise ElmoxError(f"{name} is {value}, expected at least {least}")


def above(bound: float, name: str, value: float) -> None:
    """Refuse a number that is not above `bound`, or not finite."""
    if not bound < value < float("inf"):
        raise ElmoxError(f"{name} is {value}, expected more than {bound}")


def rate(name: str, value: float) -> None:
    """Refuse a number that is no learning rate; torch fails deep inside with a huge one."""
    if not 0 < value <= LARGEST_RATE:
        raise ElmoxError(f"{name} is {value}, expected more than 0 and at most {LARGEST_RATE:g}")


def share(name: str, value: float) -> None:
    """Refuse a number that is not at least 0 and below 1."""
    if not 0 <= value < 1:
        raise ElmoxError(f"{name} is {value}, expected from 0 to below 1")


PositiveInt: TypeAlias = Annotated[int, partial(at_least, 1)]
NonNegativeInt: TypeAlias = Annotated[int, partial(at_least, 0)]
PositiveFloat: TypeAlias = Annotated[float, partial(above, 0)]
NonNegativeFloat: TypeAlias = Annotated[float, partial(at_least, 0)]
Rate: TypeAlias = Annotated[float, rate]
Share: TypeAlias = Annotated[float, share]


class Section(Strict):
    """A dataclass of settings, in which every field is checked against the range of its type.

    Attributes:
        section: name of the table in a recipe, for error messages.
    """

    section: ClassVar[str]

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for check in getattr(hint, "__metadata__", ()):  # of `Annotated`
                check(f"{self.section}.{name}", getattr(self, name))


def _table(name: str, values: Mapping[str, Any]) -> str:
    plain = {k: v for k, v in values.items() if not isinstance(v, dict) and v is not None}
    lines = [f"[{name}]", *(f"{key} = {_value(value)}" for key, value in plain.items()), ""]
    for key, value in values.items():
        if isinstance(value, dict) and value:
            lines.append(_table(f"{name}.{key}", value))
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)
