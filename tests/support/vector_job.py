"""A small job that writes vectors, run as a script by tests that kill it or limit its disk space.

`python vector_job.py OUTPUT ...` writes entries that depend only on their number; `sweep` kills the
job with SIGKILL at each of its operations on files in turn, and runs it again after each.
"""

import argparse
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from elmox.vectors.files import format_of, open_vectors, open_writer
from elmox.vectors.formats import Format
from elmox.vectors.layout import Array, DType, Layout

FILE_EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"}


def make_entry(i: int, layout: Layout, num_tokens: int | None = None) -> Array:
    """Return entry number `i`: always the same, of 0 to 7 tokens by default."""
    rng = np.random.default_rng(i)
    num_tokens = i * 5 % 8 if num_tokens is None else num_tokens
    return rng.standard_normal(layout.shape(num_tokens)).astype(layout.dtype)


def write_job(
    output: Path,
    num_entries: int,
    layout: Layout,
    *,
    num_tokens: int | None = None,
    delay: float = 0.0,
    format: Format | None = None,
    force: bool = False,
    part_bytes: int = 1 << 10,
    options: str = "",
    before_entry: Callable[[int], None] = lambda i: None,
) -> int:
    """Write the missing entries and return the number of existing ones."""
    job = {"input": "lines.txt", "num_entries": num_entries, "options": [options]}
    with open_writer(
        output,
        layout=layout,
        job=job,
        about={"model": "tiny"},
        format=format,
        force=force,
        part_bytes=part_bytes,
    ) as writer:
        for i in range(writer.num_done, num_entries):
            before_entry(i)
            writer.append(make_entry(i, layout, num_tokens))
            time.sleep(delay)
    return writer.num_done


def kill_at(event_number: int, directory: Path) -> None:
    """Kill this process at its operation of that number on files in `directory`."""
    events = count(1)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        here = event == "open" and str(arguments[0]).startswith(str(directory))
        if (here or event in FILE_EVENTS) and next(events) == event_number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def limit_files(num_bytes: int) -> None:
    """Limit the size of files, as on a full disk."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))


def in_child(work: Callable[[], object]) -> int:
    """Run `work` in a forked process and return its exit code, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def write_killed(
    event_number: int, output: Path, num_entries: int, layout: Layout, force: bool
) -> None:
    """Write until the process is killed at an operation on files."""
    kill_at(event_number, output.parent)
    write_job(output, num_entries, layout, force=force)


def leave_parts(output: Path, layout: Layout) -> None:
    """Start another job with other entries and leave it unfinished."""

    def leave(i: int) -> None:
        if i == 40:
            os._exit(3)

    write_job(output, 300, layout, num_tokens=3, force=True, before_entry=leave)


def sweep(directory: Path, name: str, num_entries: int, layout: Layout, force: bool) -> int:
    """Kill the job at its 1st, 2nd, ... operation on files, and run it again each time.

    With `force`, an old output and the parts of another job are in its way. The output of the
    second run stays at `directory/<number>/<name>`.

    Returns:
        How many kills there were before the job survived.
    """
    for number in count(1):
        output = directory / str(number) / name
        output.parent.mkdir()
        if force:
            write_job(output, 2, layout, options="old")
            assert in_child(partial(leave_parts, output, layout)) == 3
        write = partial(write_job, output, num_entries, layout, force=force)
        status = in_child(partial(write_killed, number, output, num_entries, layout, force))
        if status == 0:
            return number - 1
        assert status == -signal.SIGKILL, status
        if output.exists():  # the old one or the new one, but complete
            assert len(list(open_vectors(output))) in (2, num_entries)
        assert in_child(write) == 0, number
    raise AssertionError


def memory_of(output: Path, layout: Layout, num_entries: int, num_tokens: int) -> int:
    """Write half of the tokens as one entry and half as many; return the growth of memory."""
    write_job(output.with_name(f"small-{output.name}"), 9, layout, format=format_of(output))
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    window = make_entry(0, layout, num_tokens)
    with open_writer(output, layout=layout, job={}) as writer:
        entry = writer.reserve(num_entries * num_tokens)
        for start in range(0, entry.num_tokens, num_tokens):
            entry[..., start : start + num_tokens, :] = window
        for _ in range(num_entries):
            writer.append(window)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("--entries", type=int, default=60)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--dim", type=int, default=4)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--part-bytes", type=int, default=1 << 10)
    parser.add_argument("--max-file", type=int, help="no file may grow beyond this many bytes")
    parser.add_argument(
        "--limit-at", type=int, default=0, help="the entry from which on that holds"
    )
    parser.add_argument("--sweep", help="the name of the outputs; the output is their directory")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--force", action="store_true")
    args = parser.parse_args()
    dtype: DType = args.dtype
    layout = Layout(args.layers or None, args.dim, dtype)

    def before_entry(i: int) -> None:
        if args.max_file and i == args.limit_at:
            limit_files(args.max_file)

    if args.sweep:
        result: object = sweep(args.output, args.sweep, args.entries, layout, args.force)
    elif args.memory:
        result = memory_of(args.output, layout, args.entries, args.tokens)
    else:
        result = write_job(
            args.output,
            args.entries,
            layout,
            num_tokens=args.tokens,
            delay=args.delay,
            force=args.force,
            part_bytes=args.part_bytes,
            before_entry=before_entry,
        )
    sys.stdout.write(f"{result}\n")


if __name__ == "__main__":
    main()
