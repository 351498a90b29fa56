"""Every reader of files, with sound files to damage, and processes that read the damaged ones.

| outcome | |
|---|---|
| same | the content of the sound file: the damage is in something that is not read |
| other | other content, of a format without checksums |
| error | an `ElmoxError` of one line |
| silent | other content, of a format with checksums |
| traceback | any other exception |
| crash | the process died |
| hang | over `LONGEST` seconds |
| memory | over `ADDRESS_BYTES` |
"""

import json
import os
import random
import re
import resource
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from checkpoints import random_options, write_ai2
from compressed import COMPRESS
from labeled_files import FILES, READABLE
from mutations import FORMATS, mutate
from vector_job import write_job

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.io.hdf5_reader import Hdf5Reader
from elmox.io.text_files import open_text
from elmox.tasks.data.word_vectors import read_word_vectors
from elmox.tasks.registry import find_task
from elmox.text.lines import LineFormat, read_lines
from elmox.vectors.files import open_vectors
from elmox.vectors.layout import Layout

LONGEST = 10
ADDRESS_BYTES = 2**30  # beyond those of the process that forks
BATCH = 50
BAD = ("silent", "traceback", "crash", "hang", "memory")
NUMBERS = ("-1", "0", "1e400", "1e39", str(10**30), str(2**63), "NaN", "null", '"x"', "[]", "{}")
CHARACTERS = '\t \n\r\0"\\{}[]()<>,:;-*_|#0١é\u2028\ufeff\U0001f600'
TEXTS = {
    ".json", ".jsonl", ".txt", ".csv", ".conllu", ".conll", ".tsv", ".train", ".gold_conll",
}  # fmt: skip
LINES = '{"tokens": ["Ada", "slept"], "id": 7}\n{"text": "It rains. It pours.", "n": [1.5, null]}\n'


@dataclass(frozen=True)
class Target:
    """A reader.

    Attributes:
        name: what it reads.
        build: writes sound files into an empty folder and returns the path to read.
        read: reads it whole and returns something that is equal for equal content.
        has_checksums: whether damage that changes content must be an error.
    """

    name: str
    build: Callable[[Path], Path]
    read: Callable[[Path], object]
    has_checksums: bool = False


def _model(path: Path) -> object:
    elmo = Elmo.from_pretrained(path, device="cpu")
    return [vectors.tobytes() for vectors in elmo.encode_tokens([["the", "cat"], ["a"]])]


def _options(folder: Path) -> Path:
    """A checkpoint whose options alone are damaged: the weights are elsewhere."""
    write_ai2(folder, random_options(), np.random.default_rng(0)).unlink()
    return folder / "options.json"


def _model_of_options(path: Path) -> object:
    with tempfile.TemporaryDirectory() as other:
        weights = write_ai2(Path(other), random_options(), np.random.default_rng(0))
        elmo = Elmo.from_pretrained(weights, options=path, device="cpu")
        return elmo.encode_tokens([["the", "cat"]])[0].tobytes()


def _arrays(folder: Path) -> Path:
    with h5py.File(folder / "a.hdf5", "w") as file:
        values = np.arange(600, dtype=np.float32).reshape(3, 10, 20)
        file["plain"] = values
        file.create_dataset("packed", data=values, compression="gzip", shuffle=True)
        file.create_dataset(
            "group/small", data=np.array([1, 2], np.int16), fletcher32=True, chunks=(1,)
        )
    return folder / "a.hdf5"


def _all_arrays(path: Path) -> object:
    reader = Hdf5Reader(path)
    try:
        return [reader.read(name).tobytes() for name in ("plain", "packed", "group/small")]
    finally:
        reader.close()


def _vectors(name: str) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        write_job(folder / name, 12, Layout(3, 16, "float32"))
        return folder / name

    return build


def _all_vectors(path: Path) -> object:
    with open_vectors(path) as vectors:
        return [(entry.shape, entry.tobytes()) for entry in vectors]


def _file(name: str, content: str | bytes) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        content_bytes = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(content_bytes)
        return folder / name

    return build


def _lines(format: LineFormat) -> Callable[[Path], object]:
    return lambda path: [
        (line.sentences, line.extra) for line in read_lines(str(path), format, str.split)
    ]


def _text(path: Path) -> object:
    with open_text(path) as file:
        return file.read()


def _parquet(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table({"text": ["It rains.", "It pours."] * 20, "tokens": [["a", "b"], []] * 20})
    pa.parquet.write_table(table, folder / "lines.parquet")
    return folder / "lines.parquet"


def targets() -> list[Target]:
    """Return all readers."""
    all_targets = [Target(name, build, _model, name == "elmox") for name, build in FORMATS.items()]
    all_targets.append(Target("options.json", _options, _model_of_options))
    all_targets.append(Target("HDF5 arrays", _arrays, _all_arrays))
    for name in ("out.hdf5", "out.parquet", "out"):
        kind = Path(name).suffix or "npy"
        all_targets.append(Target(f"vectors, {kind}", _vectors(name), _all_vectors, True))
    for task, kinds in READABLE.items():
        for kind in sorted(kinds):
            read = find_task(task).read
            all_targets.append(Target(f"{task}: {kind}", _file(*FILES[kind]), read))
    all_targets.append(Target("JSON lines", _file("lines.jsonl", LINES), _lines("jsonl")))
    all_targets.append(Target("Parquet lines", _parquet, _lines("parquet")))
    vectors = "the 0.1 0.2 -3e-2\ncat 1 2 3\nA\u00a0b 4 5 6\n"
    all_targets.append(Target("word vectors", _file("glove.txt", vectors), _word_vectors))
    for suffix, compress in COMPRESS.items():
        content = compress(b"It rains.\nIt pours.\n" * 50)
        all_targets.append(Target(f"text{suffix}", _file(f"text.txt{suffix}", content), _text))
    return all_targets


def _word_vectors(path: Path) -> object:
    vectors = read_word_vectors(path)
    return vectors.words, vectors.vectors.tobytes()


def damage(folder: Path, seed: str) -> str:
    """Damage one file; a text may stay one. Return what was done."""
    chance = random.Random(seed)
    texts = [path for path in sorted(folder.rglob("*")) if path.suffix in TEXTS]
    if not texts or chance.random() < 0.4:
        return mutate(folder, seed)
    path = chance.choice(texts)
    content = path.read_text(encoding="utf-8")
    edit = chance.choice([_number, _characters, _fields, _lines_moved])
    path.write_text(edit(content, chance), encoding="utf-8")
    return f"{edit.__name__.strip('_')} in {path.name}"


def _number(content: str, chance: random.Random) -> str:
    """Another number or value."""
    matches = [*re.finditer(r"-?\d+(\.\d+)?|true|false|null", content)]
    if not matches:
        return content
    match = chance.choice(matches)
    return content[: match.start()] + chance.choice(NUMBERS) + content[match.end() :]


def _characters(content: str, chance: random.Random) -> str:
    """Some characters replaced, put in or left out."""
    for _ in range(chance.choice([1, 1, 3])):
        at = chance.randrange(len(content))
        content = (
            content[:at]
            + chance.choice(["", *CHARACTERS])
            + content[at + chance.choice([0, 1, 1, 5]) :]
        )
    return content


def _fields(content: str, chance: random.Random) -> str:
    """One field in the place of another."""
    matches = [*re.finditer(r"[^\s,:]+", content)]
    old, new = chance.choice(matches), chance.choice([*matches, None])
    return content[: old.start()] + (new[0] if new else "") + content[old.end() :]


def _lines_moved(content: str, chance: random.Random) -> str:
    """A line left out, or twice, or elsewhere."""
    lines = content.splitlines(keepends=True)
    line = lines.pop(chance.randrange(len(lines)))
    for _ in range(chance.choice([0, 1, 2])):
        lines.insert(chance.randrange(len(lines) + 1), line)
    return "".join(lines)


def run(target: Target, seeds: range) -> Iterator[tuple[int, str, str]]:
    """Yield for each seed the outcome and a description, from processes of their own."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        sound = Path(name, "sound")
        sound.mkdir()
        relative = target.build(sound).relative_to(sound)
        start = seeds.start
        while start < seeds.stop:
            stop = min(start + BATCH, seeds.stop)
            log = Path(name, "log")
            log.write_bytes(b"")
            pid = os.fork()
            if pid == 0:
                _be_reader(target, relative, Path(name), range(start, stop), log)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            lines = [tuple(json.loads(line)) for line in log.read_text().splitlines()]
            yield from lines
            start += len(lines)
            if start < stop:
                yield start, "hang" if code == -signal.SIGALRM else "crash", f"exit code {code}"
                start += 1


def _be_reader(target: Target, relative: Path, folder: Path, seeds: range, log: Path) -> None:
    try:
        warnings.simplefilter("ignore")
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + ADDRESS_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        expected = target.read(folder / "sound" / relative)
        with log.open("a", buffering=1) as lines:
            for seed in seeds:
                shutil.rmtree(folder / "damaged", ignore_errors=True)
                shutil.copytree(folder / "sound", folder / "damaged")
                what = damage(folder / "damaged", f"{target.name} {seed}")
                signal.alarm(LONGEST)
                outcome, detail = _try(target, folder / "damaged" / relative, expected)
                signal.alarm(0)
                lines.write(json.dumps([seed, outcome, f"{what}: {detail}"]) + "\n")
    except BaseException:
        os._exit(1)
    os._exit(0)


def _try(target: Target, path: Path, expected: Any) -> tuple[str, str]:
    try:
        content = target.read(path)
    except ElmoxError as error:
        return ("error" if len(str(error).splitlines()) == 1 else "traceback"), str(error)
    except MemoryError:
        return "memory", "MemoryError"
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"
    if content == expected:
        return "same", ""
    return ("silent" if target.has_checksums else "other"), ""
