"""The packages that the integrations belong to, which are installed only by those who want them."""

from collections.abc import Iterator
from contextlib import contextmanager

from elmox.errors import MissingPackage, install_hint


@contextmanager
def importing(name: str, extra: str, *modules: str) -> Iterator[None]:
    """Turn the lack of a package into an error that states how to install it.

    Args:
        name: the package, as people write it.
        extra: the extra of elmox that installs it.
        *modules: its top-level modules. A failure to import anything else keeps its traceback: the
            package is installed and damaged.

    Raises:
        MissingPackage: the package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in modules:
            raise
        message = f"{name} is not installed: {install_hint(extra)}"
        raise MissingPackage(message, error.name) from None
