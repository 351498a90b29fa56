"""The exceptions that elmox raises on purpose.

Everything a user can get wrong (a path, a file's content, an argument) ends in an `ElmoxError`
whose message names what was given, what was expected and what to do. The command line prints that
message as one line; anything else that escapes is a bug and keeps its traceback.
"""

MAX_MESSAGE = 2000  # characters


class ElmoxError(ValueError):
    """Bad input, with a message that says what to do about it.

    The message is one line, whatever a file's names contain: control characters are escaped, so
    that they reach no terminal, and what is too long is cut in the middle.
    """

    def __init__(self, message: str = "") -> None:
        """Keep a message that can be printed."""
        if len(message) > MAX_MESSAGE:
            half = MAX_MESSAGE // 2
            message = f"{message[:half]} [...] {message[-half:]}"
        super().__init__("".join(c if c.isprintable() else _escaped(c) for c in message))


class NothingToLearn(ElmoxError):
    """Training examples of which a task can learn nothing; of more of them perhaps it can."""


def _escaped(character: str) -> str:
    return " " if character == "\n" else character.encode("unicode_escape").decode("ascii")


def shortened(value: object, max_length: int = 100) -> str:
    """Return the repr of a value from a file, cut for an error message."""
    text = repr(value)
    return text if len(text) <= max_length else f"{text[:max_length]}..."
