"""The exceptions that elmox raises on purpose.

Everything a user can get wrong (a path, a file's content, an argument) ends in an `ElmoxError`
whose message names what was given, what was expected and what to do. The command line prints that
message as one line; anything else that escapes is a bug and keeps its traceback.
"""


class ElmoxError(ValueError):
    """Bad input, with a message that says what to do about it."""


class NothingToLearn(ElmoxError):
    """Training examples of which a task can learn nothing; of more of them perhaps it can."""
