"""Writing so that nothing is ever half there: under a temporary name first, then renamed.

A full disk, an exception or a kill leaves the final name as it was.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.inputs import MAX_JSON_BYTES, read_whole


def is_vacant(path: Path) -> bool:
    """Whether nothing is lost by writing there. An empty directory may be filled."""
    if path.is_dir():
        return not any(path.iterdir())
    return not path.exists() and not path.is_symlink()


def refuse_existing(path: Path, force: bool) -> None:
    """Nothing is overwritten unless asked for."""
    if not force and not is_vacant(path):
        raise ElmoxError(
            f"{path} exists already: choose another name, or overwrite it with --force"
        )


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it becomes `path`, else it is removed."""
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent
        )
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            _sync(temporary)
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """The same for a directory. An existing one is replaced as a whole, and only at the end."""
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    _sync(file)
                    file.chmod(0o666 & ~_umask())  # safetensors hides its files from others
            temporary.chmod(0o777 & ~_umask())
            replaced = None
            if path.exists() or path.is_symlink():
                replaced = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
                path.rename(replaced / path.name)
            temporary.rename(path)
            if replaced is not None:
                shutil.rmtree(replaced)
        finally:
            if temporary.exists():
                shutil.rmtree(temporary)


def recover_directory(path: Path) -> None:
    """Clear away what a kill inside `atomic_directory` left behind.

    Killed between its two renames, the old directory is brought back; everything else there is
    half-written or was about to be removed. Nobody else may be writing `path` meanwhile.
    """
    for old in path.parent.glob(f".{path.name}.old.*"):
        if (old / path.name).exists() and not path.exists():
            (old / path.name).rename(path)
        shutil.rmtree(old)
    for new in path.parent.glob(f".{path.name}.*"):
        shutil.rmtree(new)


def write_together(contents: Mapping[Path, bytes | Callable[[Path], None]], force: bool) -> None:
    """Write several files; they appear when all of them are whole, the last one first.

    Args:
        contents: for each file its bytes, or a function that writes it to the path it is given.
        force: replace what is there.
    """
    for path in contents:
        refuse_existing(path, force)
    with ExitStack() as files:
        for path, content in contents.items():
            temporary = files.enter_context(atomic_write(path))
            if isinstance(content, bytes):
                temporary.write_bytes(content)
            else:
                content(temporary)


def to_json(values: Mapping[str, Any]) -> bytes:
    """An object as indented JSON."""
    return f"{json.dumps(values, indent=2, ensure_ascii=False)}\n".encode()


def read_json(path: Path, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """A JSON object from a file, or an error that names the file."""
    values = read_json_value(path, max_bytes)
    if not isinstance(values, dict):
        raise ElmoxError(f"{path} holds a {type(values).__name__}, expected a JSON object")
    return values


def read_json_value(path: Path, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Any JSON value from a file, or an error that names the file."""
    content = read_whole(path, max_bytes)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:  # also bad UTF-8, and numbers of 5,000 digits
        raise ElmoxError(f"{path} is not JSON: {error}") from error


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ElmoxError(f"cannot write {path}: {error.strerror or error}") from error


def _sync(path: Path) -> None:
    with path.open("rb") as file, suppress(OSError):  # some file systems cannot sync
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
