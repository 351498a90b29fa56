"""The exceptions that elmox raises on purpose.

Everything a user can get wrong (a path, a file's content, an argument) ends in an `ElmoxError`
whose message is one sentence: what was given, what was expected, what to do. The command line
prints that message as one line; anything else that escapes is a bug and keeps its traceback.

A message that names an argument of a function is an `ArgumentError`. Library users read Python in
it, users of the command line read flags:

    raise ArgumentError("{} exists: set {} to overwrite it", path, Argument("force", True))

    Python          out.npy exists: set force=True to overwrite it
    command line    out.npy exists: set --force to overwrite it

The library writes the template and the names of its parameters; `elmox.cli.flags` does the rest.
Code that must react to a particular error catches a subclass and reads its attributes. It never
looks into a message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_MESSAGE = 2000  # characters


class ElmoxError(ValueError):
    """Bad input, with a message that explains how to correct it.

    The message is one line, whatever a file's names contain: control characters are escaped, so
    that they reach no terminal, and the middle of a very long message is cut out.
    """

    def __init__(self, message: str = "") -> None:
        """Keep a message that can be printed."""
        super().__init__(_printable(message))


@dataclass(frozen=True)
class Argument:
    """An argument of a function as an error message mentions it: by name, or with its value.

    Attributes:
        name: the parameter's name in Python, such as `hold_out`.
        value: the value to show or to recommend; without one only the name is shown.
    """

    name: str
    value: Any = ...

    @property
    def has_value(self) -> bool:
        """Whether the message mentions a value."""
        return self.value is not ...

    def __str__(self) -> str:
        """Return `hold_out` or `hold_out=3`."""
        return f"{self.name}={self.value!r}" if self.has_value else self.name


class ArgumentError(ElmoxError):
    """An error whose message names arguments.

    Attributes:
        template: the message, with a `{}` for each of the values.
        values: what fills the template: every `Argument` and every other `ArgumentError` is
            translated for the command line, anything else is the same in both languages.
    """

    def __init__(self, template: str, *values: object) -> None:
        """Fill the template; names of files belong into `values`, because they may hold braces."""
        self.template = template
        self.values = values
        super().__init__(self.message(str))

    def message(self, name_of: Callable[[Argument], str]) -> str:
        """Return the message with each argument replaced by what `name_of` returns for it."""
        shown = []
        for value in self.values:
            if isinstance(value, Argument):
                value = name_of(value)
            elif isinstance(value, ArgumentError):
                value = value.message(name_of)
            shown.append(value)
        return _printable(self.template.format(*shown))

    def __reduce__(self) -> Any:
        """Pickle what the error was made of, so that a worker process can raise it."""
        return _rebuilt, (type(self), self.template, self.values, self.__dict__)


class OutputExists(ArgumentError):
    """An output exists already, and overwriting it was not requested.

    Attributes:
        path: the existing file or directory.
    """

    _template = "{} exists already: choose another name, or overwrite it with {}"
    _remedy = Argument("force", True)

    def __init__(self, path: Path) -> None:
        """Name the path and the argument that permits its use."""
        self.path = path
        super().__init__(self._template, path, self._remedy)


class RunExists(OutputExists):
    """A directory holds a run already, and continuing it was not requested."""

    _template = "{} holds a run already: continue it with {}, or choose another directory"
    _remedy = Argument("resume", True)


class NothingHeldOut(ArgumentError):
    """Text has too few documents to hold out every N-th one.

    Attributes:
        hold_out: N.
        num_documents: documents of the text.
    """

    def __init__(self, hold_out: int, num_documents: int) -> None:
        """Recommend blank lines, a smaller N or held-out files."""
        self.hold_out, self.num_documents = hold_out, num_documents
        super().__init__(
            "{} holds out nothing, because the text has only {}: separate documents by blank "
            "lines, choose a smaller {}, or give held-out text as {}",
            Argument("hold_out", hold_out),
            "1 document" if num_documents == 1 else f"{num_documents} documents",
            Argument("hold_out"),
            Argument("valid"),
        )


class UnreadableFile(ElmoxError):
    """A file that is missing, damaged, of the wrong kind or not UTF-8."""


class MissingPackage(ElmoxError, ModuleNotFoundError):
    """A package that is installed only on request is missing.

    Attributes:
        name: the module that cannot be imported.
    """

    def __init__(self, message: str = "", name: str | None = None) -> None:
        """State the package and how to install it."""
        super().__init__(message)
        self.name = name


class NothingToLearn(ElmoxError):
    """The training examples contain nothing to learn from; more data may help."""


def require_at_least(least: int, name: str, value: int | None) -> None:
    """Refuse an argument below `least`; None passes."""
    if value is not None and value < least:
        raise ArgumentError("{} is {}, expected at least {}", Argument(name), value, least)


def install_hint(extra: str) -> str:
    """Return the commands that install an optional dependency: from an index, and from a clone."""
    return f"pip install 'elmox[{extra}]' (in a clone of the repository: pip install '.[{extra}]')"


def shortened(value: object, max_length: int = 100) -> str:
    """Return the repr of a value from a file, cut for an error message."""
    text = repr(value)
    return text if len(text) <= max_length else f"{text[:max_length]}..."


def _rebuilt(
    kind: type[ArgumentError], template: str, values: tuple[object, ...], state: dict[str, Any]
) -> ArgumentError:
    """Return an error as it was before it was pickled, whatever its class takes to make one."""
    error = kind.__new__(kind)
    ArgumentError.__init__(error, template, *values)
    error.__dict__.update(state)
    return error


def _printable(message: str) -> str:
    """Return a message as one line that a terminal can show."""
    if len(message) > MAX_MESSAGE:
        half = MAX_MESSAGE // 2
        message = f"{message[:half]} [...] {message[-half:]}"
    return "".join(c if c.isprintable() else _escaped(c) for c in message)


def _escaped(character: str) -> str:
    return " " if character == "\n" else character.encode("unicode_escape").decode("ascii")
