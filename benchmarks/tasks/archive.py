"""All records of a work folder in one file, kept with the results, as fits are easily lost.

A .tar.xz of WORK/results and of the tables, setups and pictures in WORK/ablations; no fits. It
includes the counts of examples, which tasks.json omits, so that the table can be extended later.
The same records give the same bytes, without absolute paths.
"""

import io
import json
import lzma
import re
import tarfile
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.io.files import atomic_write, read_json, write_together
from tasks.commands import without_absolute_paths

# None begins with a dot: those are half-written files, of a process that was killed.
_NAME = re.compile(
    r"results/[\w-]+/[\w-]+/(trial|seed)-\d+\.json|ablations/[\w-]+/[\w-]+\.(json|svg)", re.ASCII
)
_NAMES = "results/TASK/COLUMN/trial-K.json or seed-S.json, ablations/TASK/NAME.json or .svg"


def keep(work: Path, path: Path) -> None:
    """Write the archive.

    Args:
        work: the folder of the fits.
        path: the .tar.xz file, which is replaced if it exists.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in _names_in(work):
            content = _kept(work / name)
            member = tarfile.TarInfo(name)  # no owner, no time, mode 644
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    with atomic_write(path) as temporary:
        temporary.write_bytes(lzma.compress(packed.getvalue()))


def check_nothing_is_lost(work: Path, path: Path) -> None:
    """Refuse to replace an archive by one that lacks some of its records.

    Args:
        work: the folder of the fits, which would be kept.
        path: the .tar.xz file that would be replaced; it need not exist.
    """
    if not path.exists():
        return
    lost = sorted({*_contents(path)} - {*_names_in(work)})
    if lost:
        raise ElmoxError(
            f"{path} has {len(lost)} records that {work} lacks, {lost[0]} is the first: restore "
            "them (run.py restore), or keep the new ones elsewhere (--records)"
        )


def restore(path: Path, work: Path) -> int:
    """Unpack the records of an archive and return the number of files written.

    Existing files stay unchanged. The whole archive is checked before anything is written, and
    files appear only when all of them are complete.

    Args:
        path: the .tar.xz file.
        work: the folder of the fits; it need not exist.
    """
    contents = {work / name: content for name, content in _contents(path).items()}
    missing = {file: content for file, content in contents.items() if not file.exists()}
    write_together(missing, force=False)
    return len(missing)


def _names_in(work: Path) -> list[str]:
    paths = [*work.glob("results/*/*/*"), *work.glob("ablations/*/*")]
    names = (file.relative_to(work).as_posix() for file in paths if file.is_file())
    return sorted(name for name in names if _NAME.fullmatch(name))


def _kept(path: Path) -> bytes:
    """Return a file without absolute paths; pictures unchanged, in which slashes are not paths."""
    if path.suffix == ".svg":
        return path.read_bytes()
    return json.dumps(_shown(read_json(path))).encode()


def _shown(value: Any) -> Any:
    """A JSON value without absolute paths, string by string: in a file's text they are escaped."""
    if isinstance(value, str):
        return without_absolute_paths(value)
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if isinstance(value, dict):
        return {name: _shown(item) for name, item in value.items()}
    return value


def _contents(path: Path) -> dict[str, bytes]:
    """Return the contents of all files of an archive, by name."""
    try:
        unpacked = lzma.decompress(path.read_bytes())  # to the end, where the checksum is
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as tar:
            return {member.name: _content(tar, member, path) for member in tar}
    except FileNotFoundError:
        raise ElmoxError(f"{path} does not exist: give the --records of `run.py report`") from None
    except OSError as error:
        raise ElmoxError(f"{path} cannot be read: {error.strerror or error}") from error
    except (lzma.LZMAError, tarfile.TarError) as error:
        raise ElmoxError(
            f"{path} is damaged or cut short ({error}), expected a .tar.xz as `run.py report` "
            "writes it: nothing was unpacked, get the file again"
        ) from error


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bytes:
    """Return the content of a file that `keep` may have written; refuse all others."""
    is_known = member.isreg() and _NAME.fullmatch(member.name)
    file = tar.extractfile(member) if is_known else None
    if file is None:
        kind = "the file" if member.isreg() else "a folder, link or device,"
        raise ElmoxError(
            f"{path} holds {kind} {member.name!r}, expected only files {_NAMES}: nothing was "
            "unpacked, take an archive of `run.py report`"
        )
    return file.read()
