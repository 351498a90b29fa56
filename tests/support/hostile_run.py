"""Loading a checkpoint in a process of its own, under limits, and watching what it does.

| outcome | |
|---|---|
| ok | it loads |
| error | one `ElmoxError`, of the command line one line and exit code 1 |
| traceback | any other exception, or more than one line on stderr |
| crash | the process died |
| hang | it took over `LONGEST` seconds |
| memory | it took over `MOST_BYTES` more than before |
| outside | it opened a file that was not given, or repeated its content |
"""

import contextlib
import ctypes
import json
import os
import resource
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forked import start

import elmox.cli.main
from elmox.elmo import Elmo
from elmox.errors import ElmoxError

SECRET = b"SECRETS of another file. "  # the content of the bait
LONGEST = 10.0
MOST_BYTES = 2**28
ADDRESS_BYTES = 2**31  # that may be allocated, beyond those of a process that has imported torch
VERBS = ("load", "info", "convert")
BAD = ("traceback", "crash", "hang", "memory", "outside")


@dataclass
class Outcome:
    """Outcome of loading a checkpoint.

    Attributes:
        verbs: the outcome of each verb.
        detail: the last words, or what was opened.
    """

    verbs: dict[str, str] = field(default_factory=dict)
    detail: str = ""

    @property
    def worst(self) -> str:
        """The worst of all verbs."""
        order = ("ok", "error", *BAD)
        return max(self.verbs.values(), key=order.index)


def try_checkpoint(
    path: Path, work: Path, bait: Path, options: Mapping[str, str] | None = None
) -> Outcome:
    """Load, describe and convert a checkpoint.

    Args:
        path: the checkpoint.
        work: an empty folder for temporary files and the output.
        bait: a folder that nothing may be read from.
        options: other arguments, see `Hostile`.
    """
    log = work / "log.jsonl"
    more = {key: str(bait / value) for key, value in (options or {}).items()}
    given = [path, *map(Path, more.values())]
    with opened_files(bait) as opened:
        process = start(_be_loader, path, work, log, more)
        process.join(LONGEST * len(VERBS))
        is_hanging = process.is_alive()
        if is_hanging:
            process.kill()
            process.join()
        touched = [name for name in opened() if bait / name not in given]
    outcome = Outcome()
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    for line in lines:
        outcome.verbs[line["verb"]] = line["outcome"]
        outcome.detail = line["detail"] if line["outcome"] in ("error", *BAD) else outcome.detail
    if is_hanging or len(lines) < len(VERBS):
        verb = VERBS[min(len(lines), len(VERBS) - 1)]
        outcome.verbs[verb] = "hang" if is_hanging else "crash"
        outcome.detail = f"exit code {process.exitcode} in {verb}"
    if touched:
        outcome.verbs["outside"] = "outside"
        outcome.detail = f"opened {', '.join(touched)}"
    return outcome


def _be_loader(path: Path, work: Path, log: Path, options: dict[str, str]) -> None:
    for name in ("tmp", "out"):
        (work / name).mkdir()
    tempfile.tempdir = str(work / "tmp")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.chdir(work)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ADDRESS_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    other: list[str] = []
    mine = (str(path), str(path.parent), str(work), *options.values())
    system = (sys.prefix, sys.base_prefix, str(Path(elmox.__file__).parent), "/usr/lib", "/proc")
    # What was given may be a device; a bait next to it is watched from outside.

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            name = os.path.abspath(os.fsdecode(arguments[0]))
            if not name.startswith((*mine, *system)) and name != os.devnull:
                other.append(name)

    sys.addaudithook(watch)
    with log.open("a", buffering=1) as lines:
        for verb in VERBS:
            before, began = _peak(), time.monotonic()
            other.clear()
            with _captured(work) as written:
                outcome, detail = _VERBS[verb](path, work, options)
                text = written()
            if outcome == "error" and verb != "load":
                message = text.splitlines()
                if len(message) != 1 or not message[0].startswith("elmox: "):
                    outcome, detail = "traceback", text[-300:]
                else:
                    detail = message[0]
            elif outcome in ("ok", "error") and "Traceback" in text:
                outcome, detail = "traceback", text[-300:]
            if "weights_only" in text + detail or _leaks(text + detail, work / "out"):
                outcome = "outside"
            if other:
                outcome, detail = "outside", f"opened {', '.join(other[:5])}"
            if _peak() - before > MOST_BYTES or "out of memory" in text:
                outcome, detail = "memory", f"{(_peak() - before) >> 20} MiB; {detail}"
            seconds = time.monotonic() - began
            if seconds > LONGEST:
                outcome, detail = "hang", f"{seconds:.1f} s; {detail}"
            record = {"verb": verb, "outcome": outcome, "detail": detail}
            lines.write(json.dumps(record) + "\n")


def _load(path: Path, work: Path, options: dict[str, str]) -> tuple[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            elmo = Elmo.from_pretrained(path, device="cpu", **options)  # type: ignore[arg-type]
            elmo.encode_tokens([["the", "cat"]])
    except ElmoxError as error:
        return ("error" if len(str(error).splitlines()) == 1 else "traceback"), str(error)
    except MemoryError:
        return "memory", "MemoryError"
    except BaseException:
        return "traceback", traceback.format_exc()[-600:]
    return "ok", ""


def _command(*arguments: object) -> tuple[str, str]:
    sys.argv = ["elmox", *map(str, arguments)]
    try:
        elmox.cli.main.run()
    except SystemExit as error:
        return ("ok", "") if not error.code else ("error", "")
    except MemoryError:
        return "memory", "MemoryError"
    except BaseException:
        return "traceback", traceback.format_exc()[-600:]
    return "ok", ""


def _flags(options: dict[str, str]) -> list[str]:
    return [word for k, v in options.items() for word in (f"--{k.replace('_', '-')}", v)]


_VERBS: dict[str, Callable[[Path, Path, dict[str, str]], tuple[str, str]]] = {
    "load": _load,
    "info": lambda path, work, options: _command("info", path, *_flags(options)),
    "convert": lambda path, work, options: _command(
        "convert", path, work / "out" / "model", *_flags(options)
    ),
}


@contextlib.contextmanager
def _captured(work: Path) -> Iterator[Callable[[], str]]:
    """Keep what is written to stdout (not read) and stderr, by C code too."""
    name = work / "stderr"
    old = [os.dup(number) for number in (1, 2)]
    with name.open("wb") as file, (work / "stdout").open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield lambda: name.read_text(errors="replace")
    finally:
        for number, copy in zip((1, 2), old, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def _leaks(text: str, folder: Path) -> bool:
    """Whether the bait's content shows up in messages or outputs."""
    word = SECRET.split()[0]
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return word.decode() in text or any(word in content for content in files)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def opened_files(folder: Path) -> Iterator[Callable[[], list[str]]]:
    """Give a function that lists what was opened in a folder, by whatever process or library."""
    library = ctypes.CDLL(None)
    is_open, nonblocking = 0x20, os.O_NONBLOCK
    descriptor = library.inotify_init1(nonblocking)
    assert descriptor >= 0
    assert library.inotify_add_watch(descriptor, os.fsencode(folder), is_open) >= 0

    def names() -> list[str]:
        try:
            content = os.read(descriptor, 2**16)
        except BlockingIOError:
            return []
        outcomes = []
        while content:
            *_, length = struct.unpack("iIII", content[:16])
            outcomes.append(os.fsdecode(content[16 : 16 + length].rstrip(b"\0")))
            content = content[16 + length :]
        return [name for name in dict.fromkeys(outcomes) if name]

    try:
        yield names
    finally:
        os.close(descriptor)
