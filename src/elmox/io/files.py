"""Atomic writes: under a hidden name first, then renamed.

A full disk, an exception or a kill leaves the final name as it was. Files are replaced in one step:
readers see the old or the new one. The next run removes what a killed one left (`temporary`).

An output that is a symbolic link stays one: its target is written, as by a shell's redirection.
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
_RESUME = "; fix that and run the same again, it continues from what is already there"
_NOT_SUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def is_vacant(path: Path) -> bool:
    """Return whether writing there loses nothing. An empty directory may be filled."""
    if path.is_dir():
        return not any(path.iterdir())
    return not path.exists() and not path.is_symlink()


def target_of(path: Path) -> Path:
    """Return the target of a symbolic link, which need not exist; any other path as it is."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def refuse_existing(path: Path, force: bool) -> None:
    """Refuse to overwrite anything without `force`, except what a killed process left unfinished.

    Raises:
        OutputExists: there is something at `path`.
    """
    target = target_of(path)
    clear_leftovers(target)
    if not force and not is_vacant(target) and not is_unfinished(path):
        raise OutputExists(path)


@contextmanager
def writing(path: Path, resumable: bool = False) -> Iterator[None]:
    """Turn an `OSError` into an `ElmoxError` that names `path`.

    Args:
        path: what is being written.
        resumable: whether a second run continues from what is already there.
    """
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error).partition("\n")[0]
        if (file := next(filter(Path.is_file, path.parents), None)) is not None:
            reason = f"{file} is a file, expected a directory"
        raise ElmoxError(f"cannot write {path}: {reason}{_RESUME if resumable else ''}") from error


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path that becomes `path` on success, and is removed otherwise."""
    target = target_of(path)
    with writing(path), temporary_path(target, directory=False) as temporary:
        yield temporary
        _settle(temporary)
        put_in_place(temporary, target)


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory that replaces `path` as a whole on success."""
    target = target_of(path)
    with writing(path), temporary_path(target, directory=True) as temporary:
        yield temporary
        for entry in temporary.rglob("*"):
            if entry.is_file():
                _settle(entry)
            else:
                sync_directory(entry)
        sync_directory(temporary)
        temporary.chmod(0o777 & ~_umask())
        put_in_place(temporary, target)


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file so that `path` holds all of it or stays as it was; a full disk is an OSError."""
    target = target_of(path)
    with temporary_path(target, directory=False) as temporary:
        with temporary.open("wb") as file:
            file.writelines(chunks)
        _settle(temporary)
        put_in_place(temporary, target)


def write_together(
    contents: Mapping[Path, bytes | Callable[[Path], None]],
    force: bool,
    obsolete: Sequence[Path] = (),
) -> None:
    """Write several files that belong together; they appear when all of them are complete.

    Several files cannot be renamed in one step. Until all of them are, the last one counts as
    unfinished (`is_unfinished`): its readers refuse it, and the next run may replace all of them.

    Args:
        contents: for each file its bytes, or a function that writes them to a path.
        force: replace existing files.
        obsolete: files to remove at the same time, because they belong to what is replaced.
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
                target = target_of(path)
                temporary = files.enter_context(temporary_path(target, directory=False))
                temporaries[target] = temporary
                if isinstance(content, bytes):
                    temporary.write_bytes(content)
                else:
                    content(temporary)
                _settle(temporary)
        with writing(main), _unfinished(main) if others or obsolete else ExitStack():
            for target, temporary in temporaries.items():
                put_in_place(temporary, target)
            for path in obsolete:
                path.unlink(missing_ok=True)


def is_unfinished(path: Path) -> bool:
    """Return whether a process was killed while it renamed `path` and its companions."""
    return _marker(path).exists()


def refuse_unfinished(path: Path) -> None:
    """Refuse to read a file that may not belong to the files next to it."""
    if is_unfinished(path):
        raise ElmoxError(
            f"{path} is unfinished and may not belong to the files next to it, because the process "
            f"that wrote it was killed ({_marker(path).name} marks that): write it again"
        )


def put_in_place(new: Path, path: Path, aside: Path | None = None) -> None:
    """Rename `new` to `path`, and remove what was there.

    Args:
        new: a file or a directory on the same file system.
        path: the new name.
        aside: a name for what was there, in the moment between two renames on file systems that
            cannot exchange names; by default one from which `clear_leftovers` restores it.
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
                stack.enter_context(locked(path, wait=True))  # no other process may restore it
            path.rename(aside)
            new.rename(path)
            sync_directory(path.parent)
            remove(aside)


def exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step; return False if the file system cannot."""
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
    """Flush a directory, so that a rename in it survives a power cut, if the system allows."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def to_json(values: Mapping[str, Any]) -> bytes:
    """Return an object as indented JSON."""
    return f"{json.dumps(values, indent=2, ensure_ascii=False)}\n".encode()


def read_json(path: Path, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """Return a JSON object from a file; errors name the file."""
    values = read_json_value(path, max_bytes)
    if not isinstance(values, dict):
        raise ElmoxError(f"{path} holds a {type(values).__name__}, expected a JSON object")
    return values


def read_json_value(path: Path, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Return any JSON value from a file; errors name the file."""
    content = read_whole(path, max_bytes)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:  # also bad UTF-8, and numbers of 5,000 digits
        raise ElmoxError(f"{path} is not JSON: {error}") from error


@contextmanager
def _unfinished(path: Path) -> Iterator[None]:
    """Mark `path` as unfinished; the mark stays if the process is killed or an error is raised.

    Other processes wait.
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
    """Flush a new file, and make it as accessible as any new file: temporary ones are private."""
    sync_file(path)
    path.chmod(0o666 & ~_umask())


def _marker(path: Path) -> Path:
    target = target_of(path)
    return target.with_name(f".{target.name}.unfinished")


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


@cache
def _renameat2() -> Callable[..., int] | None:
    """Return the system call of Linux that exchanges two names, if there is one."""
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
