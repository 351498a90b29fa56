"""Library errors in the language of the command line: `hold_out=3` becomes `--hold-out 3`."""

import shlex

from elmox.errors import Argument, ArgumentError, ElmoxError

# The only flags that are not spelled like the parameter they set.
_FLAGS = {"num_workers": "workers", "top_k": "top"}


def error_message(error: ElmoxError) -> str:
    """Return the message of an error, with flags in place of Python arguments."""
    return error.message(flag) if isinstance(error, ArgumentError) else str(error)


def flag(argument: Argument) -> str:
    """Return an argument as a user types it: `--force`, `--no-softmax`, `--hold-out 3`.

    A name with a dot is a setting of a recipe: `--set data.dir=DIR`.
    """
    if "." in argument.name:
        return f"--set {shlex.quote(f'{argument.name}={argument.value}')}"
    name = _FLAGS.get(argument.name, argument.name).replace("_", "-")
    match argument.value:
        case False:
            return f"--no-{name}"
        case True:
            return f"--{name}"
    return f"--{name} {shlex.quote(str(argument.value))}" if argument.has_value else f"--{name}"
