"""The directory `OUTPUT.partial`, in which an output grows until it can take its name.

    job.json   which job this is, and the number of entries once the result is whole
    open-*.npy, shards/, index/   the parts (see `parts`)
    joined     the result in one file; for npy, `shards` itself is the result
    replaced   an old output directory on its way out (--force)

`job.json` comes first and goes last, and every step leaves a state that the next run understands:

    no num_entries                        the parts count; any join is done again
    num_entries, and the result is here   it only has to take its name
    num_entries, and it is not            it has its name; only cleaning up is left
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from elmox.bulk.durable import lock_directory, remove, sync_directory, write_whole, writing
from elmox.bulk.npy import holds_only_vectors
from elmox.errors import ElmoxError

_SHOWN = 60


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
    """

    def __init__(
        self, output: Path, result_name: str, job: Mapping[str, Any], force: bool = False
    ) -> None:
        """Take up the directory, or make it.

        Args:
            output: the final name, absolute.
            result_name: what takes that name in the end: "joined" or "shards".
            job: what must be the same for a run to go on from another's parts; goes through JSON.
            force: replace an existing output at the end, and drop the parts of another job now.
        """
        self.output = output
        self.directory = Path(f"{output}.partial")
        self.result = self.directory / result_name
        self.num_entries: int | None = None
        self._job: dict[str, Any] = json.loads(json.dumps(job))
        self._record_path = self.directory / "job.json"
        self._force = force
        if not output.parent.is_dir():
            raise ElmoxError(f"{output}: there is no directory {output.parent}; make it first")
        if not self.directory.exists():
            check_replaceable(output, force)
        with writing(self.directory):
            self.directory.mkdir(exist_ok=True)
            self._lock = self._take_lock()
            try:
                self._take_up()
            except BaseException:
                self.release()
                raise

    def complete(self, num_entries: int) -> None:
        """Note that the result is whole."""
        with writing(self.directory):
            self._write_record(self._job, num_entries)
        self.num_entries = num_entries

    def publish(self) -> None:
        """Give the result its name and remove the directory; fine to repeat after a crash."""
        with writing(self.output):
            if self.result.exists():
                check_replaceable(self.output, self._force)
                if self.output.is_dir() or (self.output.exists() and self.result.is_dir()):
                    # Only files can be replaced in one step: between the next two renames there is
                    # no output, but a run that is killed there has the result, complete, here.
                    remove(self.directory / "replaced")
                    self.output.rename(self.directory / "replaced")
                self.result.replace(self.output)
                sync_directory(self.output.parent)
            self._clear()
            self._record_path.unlink()
            self.directory.rmdir()
        self.release()

    def release(self) -> None:
        """Let other processes in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_lock(self) -> int | None:
        try:
            return lock_directory(self.directory)
        except BlockingIOError as error:
            raise ElmoxError(
                f"another process is writing {self.output} (in {self.directory}); wait for it"
            ) from error

    def _take_up(self) -> None:
        """Bring the directory into one of the states of the module's description, for this job."""
        there, num_entries = self._read_record()
        if there == self._job and num_entries is not None:
            if self.result.exists() or self.output.exists():
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

    def _read_record(self) -> tuple[dict[str, Any] | None, int | None]:
        """The job that the directory is for (None: nobody's) and its number of entries if whole."""
        if not self._record_path.exists():
            foreign = [p.name for p in self.directory.iterdir() if p.name != "job.json.tmp"]
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
        write_whole(self._record_path, iter([text.encode()]))

    def _clear(self) -> None:
        """Remove everything but job.json."""
        for path in self.directory.iterdir():
            if path != self._record_path:
                remove(path)
