"""The directory `OUTPUT.partial`, in which an output grows until it can take its name.

    job.json   which job this is, and the number of entries once the result is whole
    open-*.npy, shards/, index/   the parts (see `parts`)
    joined     the result in one file; for npy, `shards` itself is the result
    replaced   an old output on its way out, where the file system cannot exchange two names

`job.json` comes first and goes last, and every step leaves a state that the next run understands:

    no num_entries                          the parts count; any join is done again
    num_entries, and the result is here     it only has to take its name
    an output with this job's identity      it has its name; only cleaning up is left

An output stores the identity of its job, so that a job that is done is known as such: also when it
has replaced another output, which then has the result's name here.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from elmox.errors import ElmoxError
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
    """The first thing in which two jobs differ, for an error message."""
    for key in [*here, *there]:
        if there.get(key) != here.get(key):
            values = (json.dumps(job.get(key)) for job in (there, here))
            old, new = (v if len(v) <= _SHOWN else v[:_SHOWN] + "..." for v in values)
            return f"{key}: {old} there, {new} now"
    return "nothing"


def check_replaceable(output: Path, force: bool) -> None:
    """Refuse an output that is there already, or that even `force` must not replace."""
    if not os.path.lexists(output):
        return
    if output.is_dir():
        if not holds_only_vectors(output):
            raise ElmoxError(
                f"{output} is a directory with other things in it; name an output of its own"
            )
    elif not output.is_file():
        raise ElmoxError(f"{output} is no regular file; name a file or a new directory")
    if not force:
        raise ElmoxError(f"{output} exists already; use --force to replace it, or another name")


class Workspace:
    """The directory of one output, locked for this process, with the job checked.

    Attributes:
        directory: `OUTPUT.partial`.
        num_entries: number of entries of the result if it is whole, else None.
        identity: digest of the job, to be stored in the output; None where it cannot be repeated.
        is_published: whether the output is there and is this job's.
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
        """Take up the directory, or make it.

        Args:
            output: the final name, absolute.
            result_name: what takes that name in the end: "joined" or "shards".
            job: what must be the same for a run to go on from another's parts; goes through JSON.
            read_meta: reads the description that an output holds; empty if it is no such output.
            force: replace an existing output at the end, and drop the parts of another job now.
            repeatable: whether another run can have the same job.
        """
        self.output = output
        self.directory = workspace_of(output)
        self.result = self.directory / result_name
        self.num_entries: int | None = None
        self.is_published = False
        self._job: dict[str, Any] = json.loads(json.dumps(job))
        self.identity = _digest(self._job) if repeatable else None
        self._read_meta = read_meta
        self._lock: Lock | None = None
        self._record_path = self.directory / "job.json"
        self._force = force
        if not output.parent.is_dir():
            raise ElmoxError(f"{output}: there is no directory {output.parent}; make it first")
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
        """Note that the result is whole."""
        with writing(self.directory, resumable=True):
            self._write_record(self._job, num_entries)
        self.num_entries = num_entries

    def publish(self) -> None:
        """Give the result its name and remove the directory; fine to repeat after a crash."""
        with writing(self.output, resumable=True):
            if not self.is_published:
                check_replaceable(self.output, self._force)
                put_in_place(self.result, self.output, aside=self.directory / "replaced")
            if self.directory.exists():
                self._clear()
                self._record_path.unlink(missing_ok=True)
                self.directory.rmdir()
        self.release()

    def release(self) -> None:
        """Let other processes in."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _take_lock(self) -> Lock | None:
        try:
            return take_lock(self.directory)
        except BlockingIOError as error:
            raise ElmoxError(
                f"another process is writing {self.output} (in {self.directory}); wait for it"
            ) from error

    def _take_up(self) -> None:
        """Bring the directory into one of the states of the module's description, for this job."""
        there, num_entries = self._read_record()
        replaced = self.directory / "replaced"
        if os.path.lexists(replaced) and not os.path.lexists(self.output):
            replaced.rename(self.output)
        is_whole = there == self._job and num_entries is not None
        may_be_published = is_whole or (not self._force and there in (None, self._job))
        if may_be_published and self._find_published():
            return
        if is_whole:
            if self.result.exists():
                check_replaceable(self.output, self._force)
                self.num_entries = num_entries
                return
            there = None  # finished, and the output removed since: once more
        check_replaceable(self.output, self._force)
        if there is not None and there != self._job and not self._force:
            raise ElmoxError(
                f"{self.directory} belongs to another job ({difference(there, self._job)}); "
                "delete that directory, or use --force to start anew"
            )
        if there != self._job:
            # No job at all first: a crash in the midst must not leave old parts under a new job.
            self._write_record(None, None)
            self._clear()
            self._write_record(self._job, None)

    def _find_published(self) -> bool:
        """Whether the output is there and is this job's."""
        if self.identity is None or not (self.output.is_file() or self.output.is_dir()):
            return False
        meta = self._read_meta(self.output)
        if meta.get(IDENTITY_KEY) == self.identity:
            self.is_published = True
            self.num_entries = meta["num_entries"]
        return self.is_published

    def _read_record(self) -> tuple[dict[str, Any] | None, int | None]:
        """The job that the directory is for (None: nobody's) and its number of entries if whole."""
        if not self._record_path.exists():
            foreign = [p.name for p in self.directory.iterdir() if not is_leftover(p.name)]
            if foreign:
                raise ElmoxError(
                    f"{self.directory} is needed for the unfinished output, but holds "
                    f"{foreign[0]!r}, which elmox did not write; move it away"
                )
            return None, None
        try:
            record = json.loads(self._record_path.read_bytes())
            return cast(dict[str, Any] | None, record["job"]), record["num_entries"]
        except (ValueError, KeyError, TypeError) as error:
            raise ElmoxError(
                f"{self._record_path} is damaged ({error}); delete the directory"
            ) from error

    def _write_record(self, job: Mapping[str, Any] | None, num_entries: int | None) -> None:
        text = json.dumps({"job": job, "num_entries": num_entries}, indent=2)
        write_whole(self._record_path, [text.encode()])

    def _clear(self) -> None:
        """Remove everything but job.json."""
        for path in self.directory.iterdir():
            if path != self._record_path:
                remove(path)


def _digest(job: Mapping[str, Any]) -> str:
    text = json.dumps(job, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
