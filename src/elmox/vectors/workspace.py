"""The directory `OUTPUT.partial`, in which an output is written until it is complete.

    job.json   the job; once the result is complete, its number of entries and its stamp
    open-*, shards/, index/, records/   the parts (see `parts`)
    joined     the result as one file; for npy, `shards` itself is the result
    replaced   an old output that is being removed, if the file system cannot exchange two names

`job.json` is written first and removed last. Every step leaves one of these states:

    no num_entries                           continue from the parts, and join them again
    num_entries, and the result is here      rename the result
    an output with its identity or stamp     the result was renamed; remove this directory

An output stores the identity of its job, so that a finished job is recognized, except in formats
without metadata: there a run recognizes only, by its stamp, an output that has just been renamed.
That holds also if it has replaced another output, which then has the result's name in this
directory.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from elmox.errors import Argument, ArgumentError, ElmoxError, OutputExists
from elmox.io.files import put_in_place, write_whole, writing
from elmox.io.locks import Lock, take_lock
from elmox.io.temporary import is_leftover, remove
from elmox.vectors.layout import IDENTITY_KEY
from elmox.vectors.npy import holds_only_vectors

ReadMeta = Callable[[Path], Mapping[str, Any]]

_SHOWN = 60


def workspace_of(output: Path) -> Path:
    """Return the directory in which an output grows; it is there while work is left to do."""
    return Path(f"{output}.partial")


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Describe the first difference between two jobs, for an error message."""
    for key in [*here, *there]:
        if there.get(key) != here.get(key):
            values = (json.dumps(job.get(key)) for job in (there, here))
            old, new = (v if len(v) <= _SHOWN else v[:_SHOWN] + "..." for v in values)
            return f"{key}: {old} before, {new} now"
    return "nothing"


def check_replaceable(output: Path, force: bool) -> None:
    """Refuse an output that exists already, or that even `force` must not replace."""
    if not os.path.lexists(output):
        return
    if output.is_dir():
        if not holds_only_vectors(output):
            raise ElmoxError(
                f"{output} is a directory with other files in it: choose another output"
            )
    elif not output.is_file():
        raise ElmoxError(f"{output} is not a regular file: choose a file or a new directory")
    if not force:
        raise OutputExists(output)


class Workspace:
    """The directory of one output, locked by this process.

    Attributes:
        directory: `OUTPUT.partial`.
        num_entries: number of entries of the result if it is complete, otherwise None.
        identity: digest of the job, to be stored in the output; None if it cannot be repeated.
        is_published: whether the output exists and is this job's.
    """

    def __init__(
        self,
        output: Path,
        result_name: str,
        job: Mapping[str, Any],
        read_meta: ReadMeta,
        *,
        force: bool = False,
        repeatable: bool = True,
    ) -> None:
        """Open the directory, or create it.

        Args:
            output: absolute path of the output.
            result_name: name of the complete result in the directory: "joined" or "shards".
            job: JSON values that must be equal for a run to continue from another's parts.
            read_meta: returns the metadata of an output; empty if it is not one of vectors.
            force: replace an existing output at the end, and discard the parts of another job now.
            repeatable: whether another run can have the same job.
        """
        self.output = output
        self.directory = workspace_of(output)
        self.result = self.directory / result_name
        self.num_entries: int | None = None
        self.is_published = False
        self._job: dict[str, Any] = json.loads(json.dumps(job))
        self.identity = digest(self._job) if repeatable else None
        self._read_meta = read_meta
        self._lock: Lock | None = None
        self._record_path = self.directory / "job.json"
        self._force = force
        if not output.parent.is_dir():
            raise ElmoxError(f"{output}: there is no directory {output.parent}: create it first")
        if not self.directory.exists():
            if not force and self._find_published():
                return
            check_replaceable(output, force)
        with writing(self.directory, resumable=True):
            self.directory.mkdir(exist_ok=True)
            self._lock = self._take_lock()
            try:
                self._take_up()
            except BaseException:
                self.release()
                raise

    def complete(self, num_entries: int) -> None:
        """Record that the result is complete."""
        with writing(self.directory, resumable=True):
            self._write_record(self._job, num_entries, _stamp(self.result))
        self.num_entries = num_entries

    def publish(self) -> None:
        """Rename the result to the output and remove the directory; safe after a crash."""
        with writing(self.output, resumable=True):
            if not self.is_published:
                check_replaceable(self.output, self._force)
                put_in_place(self.result, self.output, aside=self.directory / "replaced")
            self._remove()
        self.release()

    def discard(self) -> None:
        """Remove the directory, because nothing in it is of use to a later run."""
        with writing(self.directory, resumable=True):
            self._remove()
        self.release()

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _take_lock(self) -> Lock | None:
        try:
            return take_lock(self.directory)
        except BlockingIOError as error:
            raise ElmoxError(
                f"another process is writing {self.output} (in {self.directory}): wait for it"
            ) from error

    def _take_up(self) -> None:
        """Bring the directory into one of the states in the module's docstring, for this job."""
        stored, num_entries, stamp = self._read_record()
        replaced = self.directory / "replaced"
        if os.path.lexists(replaced) and not os.path.lexists(self.output):
            replaced.rename(self.output)
        is_complete = stored == self._job and num_entries is not None
        may_be_published = is_complete or (not self._force and stored in (None, self._job))
        if may_be_published and self._find_published():
            return
        if is_complete and stamp is not None and stamp == _stamp(self.output):
            self.is_published, self.num_entries = True, num_entries
            return
        if is_complete:
            if self.result.exists():
                check_replaceable(self.output, self._force)
                self.num_entries = num_entries
                return
            stored = None  # the output was removed since it was finished: start again
        check_replaceable(self.output, self._force)
        if stored is not None and stored != self._job and not self._force:
            raise ArgumentError(
                "{} belongs to another job ({}): delete that directory, or discard it with {}",
                self.directory,
                difference(stored, self._job),
                Argument("force", True),
            )
        if stored != self._job:
            # First no job: a crash during `_clear` must not leave old parts under the new job.
            self._write_record(None)
            self._clear()
            self._write_record(self._job)

    def _find_published(self) -> bool:
        """Return whether the output exists and is this job's."""
        if self.identity is None or not (self.output.is_file() or self.output.is_dir()):
            return False
        meta = self._read_meta(self.output)
        if meta.get(IDENTITY_KEY) == self.identity:
            self.is_published = True
            self.num_entries = meta["num_entries"]
        return self.is_published

    def _read_record(self) -> tuple[dict[str, Any] | None, int | None, list[int] | None]:
        """Return the job, if any, and number of entries and stamp of a complete result."""
        if not self._record_path.exists():
            foreign = [p.name for p in self.directory.iterdir() if not is_leftover(p.name)]
            if foreign:
                raise ElmoxError(
                    f"{self.directory} is needed for the unfinished output, but holds "
                    f"{foreign[0]!r}, which elmox did not write: move it away"
                )
            return None, None, None
        try:
            record = json.loads(self._record_path.read_bytes())
            job = cast(dict[str, Any] | None, record["job"])
            return job, record["num_entries"], record.get("stamp")
        except (ValueError, KeyError, TypeError) as error:
            raise ElmoxError(
                f"{self._record_path} is damaged ({error}): delete the directory"
            ) from error

    def _write_record(
        self,
        job: Mapping[str, Any] | None,
        num_entries: int | None = None,
        stamp: list[int] | None = None,
    ) -> None:
        record = {"job": job, "num_entries": num_entries, "stamp": stamp}
        text = json.dumps(record, indent=2)
        write_whole(self._record_path, [text.encode()])

    def _remove(self) -> None:
        """Remove the directory, job.json last."""
        if self.directory.exists():
            self._clear()
            self._record_path.unlink(missing_ok=True)
            self.directory.rmdir()

    def _clear(self) -> None:
        """Remove everything except job.json."""
        for path in self.directory.iterdir():
            if path != self._record_path:
                remove(path)


def _stamp(path: Path) -> list[int] | None:
    """Return numbers of a file that a rename keeps, and a copy or a change does not."""
    if not path.is_file():
        return None
    status = path.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def digest(job: Mapping[str, Any]) -> str:
    """Return a digest of a job, which its output stores."""
    text = json.dumps(job, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
