"""The command line as a user meets it: real processes, their exit codes and their output."""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from forked import start

import elmox
import elmox.cli.main

SOURCE = Path(elmox.__file__).parents[1]


def environment(**more: str) -> dict[str, str]:
    """This process's environment, in which the package can be imported whether installed or not."""
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", **more}


def command(*arguments: object) -> list[str]:
    """Return the command line of `elmox ARGUMENTS`."""
    return [sys.executable, "-m", "elmox", *map(str, arguments)]


def run_elmox(
    *arguments: object, stdin: bytes = b"", max_file_bytes: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `elmox ARGUMENTS` to its end, in a process that need not import torch first.

    Args:
        arguments: paths and numbers are fine.
        stdin: what it reads from there.
        max_file_bytes: no file can become larger, as if the disk were full at that size.
    """
    words = [*map(str, arguments)]
    with TemporaryDirectory() as folder:
        input_file = Path(folder, "stdin")
        input_file.write_bytes(stdin)
        (out, its_out), (err, its_err) = (multiprocessing.Pipe(duplex=False) for _ in range(2))
        where = Path.cwd(), environment()
        process = start(_be_elmox, words, *where, input_file, its_out, its_err, max_file_bytes)
        its_out.close()
        its_err.close()
        with ThreadPoolExecutor() as pool:  # both at once: it would wait at a pipe that is full
            outputs = [text.decode() for text in pool.map(_read, (out, err))]
        process.join()
    assert process.exitcode is not None
    return subprocess.CompletedProcess(words, process.exitcode, *outputs)


def _read(end: Connection) -> bytes:
    with end, open(end.fileno(), "rb", closefd=False) as stream:
        return stream.read()


def _be_elmox(
    arguments: list[str],
    folder: Path,
    variables: dict[str, str],
    stdin: Path,
    out: Connection,
    err: Connection,
    max_file_bytes: int | None,
) -> None:
    source_of_stdin = os.open(stdin, os.O_RDONLY)
    for number, source in enumerate((source_of_stdin, out.fileno(), err.fileno())):
        os.dup2(source, number)
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115 (as long as the process lives)
    sys.argv = ["elmox", *arguments]
    os.chdir(folder)
    os.environ.update(variables)
    limit_files(max_file_bytes)
    elmox.cli.main.run()


def run_in_new_python(
    *arguments: object, max_file_bytes: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `elmox ARGUMENTS` to its end, all from the start of Python on."""
    return subprocess.run(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        # Python 3.11 would cache cut-off bytecode under such a limit.
        env=environment(PYTHONDONTWRITEBYTECODE="1") if max_file_bytes else environment(),
        preexec_fn=partial(limit_files, max_file_bytes),
        encoding="utf-8",
        check=False,
    )


def limit_files(max_bytes: int | None) -> None:
    """Let no file that this process writes become larger, if there is a limit."""
    if max_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))


def kill_after_lines(arguments: Sequence[object], path: Path, num_lines: int) -> None:
    """Start `elmox ARGUMENTS`, and kill -9 it when a file that it writes has so many lines."""
    process = subprocess.Popen(command(*arguments), env=environment(), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (path.exists() and len(path.read_text().splitlines()) >= num_lines):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()


def kill_at_rename(number: int, *arguments: object) -> None:
    """Run `elmox ARGUMENTS`, and kill -9 it before it renames anything for that time."""
    process = start(_be_killed_elmox, number, [*map(str, arguments)], environment())
    process.join()
    assert process.exitcode == -signal.SIGKILL


def _be_killed_elmox(number: int, arguments: list[str], variables: dict[str, str]) -> None:
    names = count(1)

    def hook(event: str, _: object) -> None:
        if event == "os.rename" and next(names) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.argv = ["elmox", *arguments]
    os.environ.update(variables)
    sys.addaudithook(hook)
    elmox.cli.main.run()


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything under a folder: names and contents."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def run_here(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """`elmox ARGUMENTS` in this process: exit code, stdout, stderr."""
    old = sys.argv
    sys.argv = ["elmox", *map(str, arguments)]
    try:
        with pytest.raises(SystemExit) as left:
            elmox.cli.main.run()
    finally:
        sys.argv = old
    captured = capsys.readouterr()
    return int(left.value.code or 0), captured.out, captured.err


def assert_one_line(code: int, out: str, err: str, *messages: str) -> None:
    """Check a failure: exit code 1, nothing on stdout, one line on stderr with the messages."""
    assert code == 1, err
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("elmox: "), err
    for text in messages:
        assert text in lines[0]
