"""Writing so that nothing is ever half there: under a hidden name first, then renamed.

A full disk, an exception or a kill leaves the final name as it was. What is replaced is replaced in
one step: readers see the old or the new. The next run removes what a killed one left (`temporary`).
"""

import ctypes
import errno
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError, OutputExists
from elmox.io.inputs import MAX_JSON_BYTES, read_whole
from elmox.io.locks import locked
from elmox.io.temporary import (
    clear_leftovers,
    create_locked,
    remove,
    temporary_name,
    temporary_path,
)

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_GO_ON = "; fix that and run the same command again, it goes on from what is already there"
_NOT_SUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def is_vacant(path: Path) -> bool:
    """Whether nothing is lost by writing there. An empty directory may be filled."""
    if path.is_dir():
        return not any(path.iterdir())
    return not path.exists() and not path.is_symlink()


def refuse_existing(path: Path, force: bool) -> None:
    """Nothing is overwritten unless asked for, except what a killed process did not finish."""
    clear_leftovers(path)
    if not force and not is_vacant(path) and not is_unfinished(path):
        raise OutputExists(path)


@contextmanager
def writing(path: Path, resumable: bool = False) -> Iterator[None]:
    """Turn an `OSError` into an `ElmoxError` that names `path`.

    Args:
        path: what is being written.
        resumable: whether a second run goes on from what is already there.
    """
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error).partition("\n")[0]
        raise ElmoxError(f"cannot write {path}: {reason}{_GO_ON if resumable else ''}") from error


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a temporary path next to `path`; on success it becomes `path`, else it is removed."""
    with writing(path), temporary_path(path, directory=False) as temporary:
        yield temporary
        _settle(temporary)
        put_in_place(temporary, path)


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """The same for a directory. An existing one is replaced as a whole, and only at the end."""
    with writing(path), temporary_path(path, directory=True) as temporary:
        yield temporary
        for entry in temporary.rglob("*"):
            if entry.is_file():
                _settle(entry)
            else:
                sync_directory(entry)
        sync_directory(temporary)
        temporary.chmod(0o777 & ~_umask())
        put_in_place(temporary, path)


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file so that `path` is as it was or holds all of it; a full disk is an OSError."""
    with temporary_path(path, directory=False) as temporary:
        with temporary.open("wb") as file:
            file.writelines(chunks)
        _settle(temporary)
        put_in_place(temporary, path)


def write_together(
    contents: Mapping[Path, bytes | Callable[[Path], None]],
    force: bool,
    obsolete: Sequence[Path] = (),
) -> None:
    """Write several files; they appear when all of them are whole.

    Several names cannot be given in one step. Until all have theirs, the last file counts as
    unfinished (`is_unfinished`): its readers refuse it, and the next run may replace all of them.

    Args:
        contents: for each file its bytes, or a function that writes it to the path it is given.
        force: replace what is there.
        obsolete: files to remove at the same time: they belong to what is replaced.
    """
    if not contents:
        return
    *others, main = contents
    for path in (*contents, *obsolete):
        refuse_existing(path, force or is_unfinished(main))
    with ExitStack() as files:
        temporaries = {}
        for path, content in contents.items():
            with writing(path):
                temporary = files.enter_context(temporary_path(path, directory=False))
                temporaries[path] = temporary
                if isinstance(content, bytes):
                    temporary.write_bytes(content)
                else:
                    content(temporary)
                _settle(temporary)
        with writing(main), _unfinished(main) if others or obsolete else ExitStack():
            for path, temporary in temporaries.items():
                put_in_place(temporary, path)
            for path in obsolete:
                path.unlink(missing_ok=True)


def is_unfinished(path: Path) -> bool:
    """Whether a process was killed while it gave `path` and its companions their names."""
    return _marker(path).exists()


def refuse_unfinished(path: Path) -> None:
    """Refuse to read a file whose companions may be another's."""
    if is_unfinished(path):
        raise ElmoxError(
            f"{path} is not finished, it may not belong to the files next to it: write it again "
            f"(a process was killed at that; {_marker(path).name} marks it)"
        )


def put_in_place(new: Path, path: Path, aside: Path | None = None) -> None:
    """Give `new` the name `path`, and remove what had it.

    Args:
        new: a file or a directory on the same file system.
        path: the name.
        aside: where to put what is there meanwhile, if the file system cannot exchange two names:
            by default where `clear_leftovers` brings it back from.
    """
    if not os.path.lexists(path) or not (_is_directory(new) or _is_directory(path)):
        os.replace(new, path)
        sync_directory(path.parent)
    elif exchange(new, path):
        sync_directory(path.parent)
        remove(new)
    else:
        aside = aside or temporary_name(path, "old")
        with ExitStack() as stack:
            if path.exists():
                stack.enter_context(locked(path, wait=True))  # in use: nobody may bring it back
            path.rename(aside)
            new.rename(path)
            sync_directory(path.parent)
            remove(aside)


def exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step; False where the system or the file system cannot."""
    rename = _renameat2()
    if rename is None:
        return False
    sys.audit("os.rename", first, second, _AT_FDCWD, _AT_FDCWD)
    names = os.fsencode(first), os.fsencode(second)
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(second))


def sync_file(path: Path) -> None:
    """Flush the content of a closed file to the disk."""
    with path.open("rb+") as file:
        _sync(file.fileno())


def sync_directory(path: Path) -> None:
    """Flush a directory, so that a rename in it outlives a power cut (where the system allows)."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


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
def _unfinished(path: Path) -> Iterator[None]:
    """Mark `path` as unfinished; the mark stays where the process is killed, or an error comes.

    One process at a time: the others wait.
    """

    def create() -> Path:
        _marker(path).touch()
        return _marker(path)

    marker, lock = create_locked(create)
    sync_directory(path.parent)
    yield
    marker.unlink(missing_ok=True)
    if lock is not None:
        lock.release()


def _settle(path: Path) -> None:
    """Flush a new file, and give it the permissions of any new file: temporary ones are private."""
    sync_file(path)
    path.chmod(0o666 & ~_umask())


def _marker(path: Path) -> Path:
    return path.with_name(f".{path.name}.unfinished")


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


@cache
def _renameat2() -> Callable[..., int] | None:
    """Linux's call, if there is one."""
    if sys.platform != "linux":
        return None
    function: Any = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = (
        ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint
    )  # fmt: skip
    rename: Callable[..., int] = function
    return rename


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:  # some file systems cannot sync
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
