"""Kill `prepare`, `convert`, `embed`, `train` and `fit` before each of their operations on files.

A library in front of C's (kill_points.c, built by gcc) counts what changes files under a work
folder, whether Python, h5py, pyarrow or safetensors does it, and sends SIGKILL before the N-th such
operation. After each kill, readers must see the old output or the new one, or a clear error. The
same command (`train`: with --resume) must then end well and leave every byte that an undisturbed
run leaves, and no other file. Not compared: `seconds` and `tokens_per_second` in JSON, and
`.launch`, which holds a process id.

    python benchmarks/kill_points.py                              # every point; an hour
    python benchmarks/kill_points.py --points 4 --only fit train  # a few points of two commands
"""

import argparse
import ctypes
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from pydoc_data.topics import topics

LIBRARY = "ELMOX_KILL_POINTS"  # the environment variable with its path
SOURCE = Path(__file__).with_suffix(".c")
RESULTS = Path(__file__).parent / "results"
TIMES = re.compile(rb'"(seconds|tokens_per_second)": [-+.0-9e]+')
SMALL_PART = 2**12
# What changes which names there are: states between these differ in the content of files only.
NAMING = ("rename", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat")

RECIPE = """
data.dir = "{folder}/corpus"
model.preset = "small"
model.lstm = {{ cell_dim = {cells}, projection_dim = 6 }}
model.char_cnn = {{ filters = [[1, 4], [2, 4]], num_highways = 1 }}
softmax.samples = 32
train = {{ rows = 4, steps = 5, max_steps = 6 }}
optim = {{ name = "adamw", lr = 0.01, clip_norm = 1.0, sum_over_steps = false }}
report = {{ log_every = 2, eval_every = 3, eval_rows = 2, save_every = 2 }}
"""
NAMES = "Ada\tB-PER\nlived\tO\nin\tO\nLondon\tB-LOC\n\nParis\tB-LOC\nis\tO\nlarge\tO\n"
FIT = (
    "words.dim=4", "words.filters=4", "words.min_count=1", "head.hidden=[4]", "fit.epochs=2",
    "fit.least_updates=1",
)  # fmt: skip

# The later ones are imported by torch and by elmox when they are first used.
IMPORTED = (
    "elmox.vectors.embed",
    "elmox.cli.main",
    "elmox.pretrained.ai2",
    "elmox.tasks.fit.session",
    "elmox.training.loop",
    "elmox.training.corpus.prepare",
    "pyarrow.parquet",
    "pydantic.dataclasses",
    "safetensors.torch",
    "torch._dynamo",
    "torch.fx.experimental.symbolic_shapes",
    "torch.utils._device",
)

Tree = dict[str, bytes | None]


@dataclass(frozen=True)
class Scenario:
    """A command to kill.

    Attributes:
        name: of the scenario.
        command: its words; `IN/` and `OUT/` stand for the folder of inputs and the work folder.
        outputs: what readers read, in the work folder.
        old: commands that make an old output to be replaced.
        resume: words that a rerun has in addition, once there is something to resume.
        exchange: whether the file system may exchange two names.
    """

    name: str
    command: str
    outputs: tuple[str, ...]
    old: tuple[str, ...] = ()
    resume: str = ""
    exchange: bool = True


@dataclass
class Count:
    """Outcome of a scenario."""

    points: int = 0
    complete: int = 0  # refused by the rerun, because everything was there
    bad: list[str] = field(default_factory=list)


def scenarios() -> list[Scenario]:
    """All of them: fresh outputs, replaced ones, and replaced ones without an exchange of names."""
    prepare = (
        "prepare IN/text.txt --out OUT/corpus --tokenized --hold-out 4 --min-count 2 --workers 1"
    )
    old_corpus = ("prepare IN/other.txt --out OUT/corpus --tokenized --workers 1",)
    pair = tuple(f"out{end}" for end in (".hdf5", "_options.json", "_vocab.txt", "_softmax.hdf5"))
    fit = " ".join(f"--set {setting}" for setting in FIT)
    data = "--train IN/names.txt --dev IN/names.txt --test IN/names.txt"
    cases = [
        Scenario("prepare", prepare, ("corpus",)),
        Scenario("prepare --force", f"{prepare} --force", ("corpus",), old_corpus),
        Scenario("convert, unpacking", "convert IN/model.zip OUT/model", ("model",)),
        Scenario(
            "convert --force",
            "convert IN/model OUT/model --force",
            ("model",),
            ("convert IN/large OUT/model",),
        ),
        Scenario("convert to hdf5", "convert IN/model OUT/out.hdf5", pair),
        Scenario(
            "convert to hdf5 --force",
            "convert IN/model OUT/out.hdf5 --force --no-softmax",
            pair,
            ("convert IN/large OUT/out.hdf5",),
        ),
        Scenario(
            "train",
            "train IN/recipe.toml --out OUT/run --device cpu",
            ("run/best", "run/last"),
            resume="--resume",
        ),
        Scenario(
            "fit",
            f"fit ner {data} --out OUT/fit --elmo IN/model --device cpu {fit}",
            ("fit/seed-0/model",),
        ),
    ]
    for output in ("out.hdf5", "out.parquet", "out"):
        embed = f"embed IN/model IN/lines.txt OUT/{output} --tokenized --device cpu"
        old = (f"embed IN/model IN/few.txt OUT/{output} --tokenized --device cpu",)
        kind = {"out": "npy"}.get(output, Path(output).suffix[1:])
        cases.append(Scenario(f"embed, {kind}", embed, (output,)))
        cases.append(Scenario(f"embed --force, {kind}", f"{embed} --force", (output,), old))
    for one in list(cases):
        if one.name in ("prepare --force", "convert --force", "embed --force, npy", "train", "fit"):
            name = f"{one.name}, no exchange"
            without = Scenario(name, one.command, one.outputs, one.old, one.resume, False)
            cases.append(without)
    return cases


def make_inputs(folder: Path) -> None:
    """Texts, a corpus, two models of different sizes, and an archive of one."""
    folder.mkdir()
    documents = [topics[name] for name in sorted(topics)[:12]]
    sentences = "\n".join("\n".join(text.split("\n")[:30]) + "\n" for text in documents)
    (folder / "text.txt").write_text(sentences, encoding="utf-8")
    (folder / "other.txt").write_text(sentences[: len(sentences) // 3], encoding="utf-8")
    lines = sentences.split("\n")
    (folder / "lines.txt").write_text("\n".join(lines[:40]) + "\n", encoding="utf-8")
    (folder / "few.txt").write_text("\n".join(lines[:5]) + "\n", encoding="utf-8")
    (folder / "names.txt").write_text(NAMES, encoding="utf-8")
    must_run(
        folder,
        folder,
        "prepare IN/text.txt --out IN/corpus --tokenized --hold-out 4 --min-count 2 --workers 1",
    )
    for name, cells in (("recipe", 12), ("large", 16)):
        text = RECIPE.format(folder=folder, cells=cells)
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
        must_run(folder, folder, f"train IN/{name}.toml --out IN/{name}-run --device cpu")
    (folder / "recipe-run" / "last").rename(folder / "model")
    (folder / "large-run" / "last").rename(folder / "large")
    must_run(folder, folder, "convert IN/model IN/weights.hdf5")
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.write(folder / "weights.hdf5", "weights.hdf5")
        archive.write(folder / "weights_options.json", "options.json")


def run(
    inputs: Path, work: Path, words: str, number: int | None = None, exchange: bool = True
) -> tuple[int, str]:
    """`elmox WORDS` in a forked process; its exit code, negative for a signal, and its output.

    Args:
        inputs, work: the folders.
        words: the command.
        number: kill it before that operation; 0 to list them in `journal` next to the work folder.
        exchange: whether two names can be exchanged.
    """
    output = work.with_name("output")
    pid = os.fork()
    if pid == 0:
        try:
            _be_elmox(inputs, work, words, number, exchange, output)
        except SystemExit as end:
            sys.stderr.flush()
            os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(99)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, output.read_text(encoding="utf-8", errors="replace")


def _be_elmox(
    inputs: Path, work: Path, words: str, number: int | None, exchange: bool, log: Path
) -> None:
    import elmox.cli.main
    import elmox.io.files
    import elmox.vectors.chunks

    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    tempfile.tempdir = str(work / "tmp")
    os.environ["ELMOX_CACHE"] = str(work / "cache")
    elmox.vectors.embed.default_part_bytes = lambda elmo: SMALL_PART  # type: ignore[attr-defined]
    elmox.vectors.chunks.CHUNK_BYTES = SMALL_PART
    if not exchange:
        elmox.io.files._renameat2 = lambda: None  # type: ignore[assignment]
    sys.argv = ["elmox", *(_located(word, inputs, work) for word in words.split())]
    if number is not None:
        journal = os.open(work.with_name("journal"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        arm = ctypes.CDLL(os.environ[LIBRARY]).kill_points_arm
        arm(os.fsencode(work), ctypes.c_long(number), journal)
    elmox.cli.main.run()


def _located(word: str, inputs: Path, work: Path) -> str:
    return re.sub("^IN/", f"{inputs}/", re.sub("^OUT/", f"{work}/", word))


def must_run(inputs: Path, work: Path, words: str, exchange: bool = True) -> None:
    """Run a command that must end well."""
    code, output = run(inputs, work, words, exchange=exchange)
    if code != 0:
        raise RuntimeError(f"elmox {words} ended with {code}:\n{output}")


def tree(folder: Path) -> Tree:
    """All names below a folder, and what the files hold; without what no two runs share."""
    contents: Tree = {}
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else None
        if content is not None and path.suffix in (".json", ".jsonl"):
            content = TIMES.sub(rb'"\1": 0', content)
        contents[str(path.relative_to(folder))] = b"" if path.name == ".launch" else content
    return contents


def part_of(whole: Tree, names: Sequence[str]) -> Tree:
    """Return the entries of some names and of folders of those names."""
    return {
        path: content
        for path, content in whole.items()
        if any(path == name or path.startswith(f"{name}/") for name in names)
    }


def check_points(scenario: Scenario, inputs: Path, root: Path, num_points: int | None) -> Count:
    """Kill a command at some of its operations, or at all of them.

    Args:
        scenario: the command.
        inputs: what it reads.
        root: a folder for this alone.
        num_points: how many, evenly spread over those of `NAMING`; None for all operations.
    """
    root.mkdir()
    work, start = root / "work", root / "start"
    (work / "tmp").mkdir(parents=True)
    for words in scenario.old:
        must_run(inputs, work, words)
    shutil.copytree(work, start)
    old = tree(work)
    code, output = run(inputs, work, scenario.command, 0, scenario.exchange)
    if code != 0:
        raise RuntimeError(f"{scenario.name} ended with {code}:\n{output}")
    new = tree(work)
    operations = [line.split()[0] for line in (root / "journal").read_text().splitlines()]
    result = Count()
    for number in _numbers(operations, num_points):
        _restore(start, work)
        code, output = run(inputs, work, scenario.command, number, scenario.exchange)
        if code == 0:
            break  # it came to its end before
        last = (root / "journal").read_text().splitlines()[-1]
        result.points += 1
        problem = f"it ended with {code}: {output}" if code != -signal.SIGKILL else None
        problem = problem or _see_readers(scenario, inputs, work, old, new)
        problem = problem or _rerun(scenario, inputs, work, new, result)
        if problem:
            result.bad.append(f"{scenario.name}, before operation {number} ({last}): {problem}")
    shutil.rmtree(root)
    return result


def _numbers(operations: Sequence[str], num_points: int | None) -> Iterator[int]:
    """Numbers of operations, from 1 on."""
    if num_points is None:
        return iter(count(1))  # threads make a few more or less: until one survives
    naming = [number for number, name in enumerate(operations, 1) if name in NAMING]
    step = (len(naming) - 1) / max(1, num_points - 1)
    return iter(sorted({naming[round(i * step)] for i in range(num_points)}))


def _restore(start: Path, work: Path) -> None:
    shutil.rmtree(work)
    shutil.copytree(start, work)


def _see_readers(scenario: Scenario, inputs: Path, work: Path, old: Tree, new: Tree) -> str | None:
    """Describe the fault in the files that readers see after a kill, if any."""
    from elmox.io.files import is_unfinished
    from elmox.io.temporary import hidden_copy

    there = tree(work)
    if scenario.name.startswith(("train", "fit")):
        return None  # each output is replaced many times; what they end with is compared
    seen = part_of(there, scenario.outputs)
    if seen in (part_of(old, scenario.outputs), part_of(new, scenario.outputs)):
        return None
    output = work / scenario.outputs[0]
    if len(scenario.outputs) > 1 and is_unfinished(output):
        code, printed = run(inputs, work, f"info OUT/{output.name}")
        is_clear = code == 1 and ("is not finished" in printed or "does not exist" in printed)
        return None if is_clear else f"readers see old and new files: {code} {printed}"
    is_hidden = hidden_copy(output) is not None or Path(f"{output}.partial").exists()
    if not scenario.exchange and not output.exists() and is_hidden:
        return None
    return f"readers see neither the old nor the new output: {sorted(seen)}"


def _rerun(scenario: Scenario, inputs: Path, work: Path, new: Tree, result: Count) -> str | None:
    """Describe the fault in the result of the same command, if any."""
    killed = tree(work)
    state = work.with_name("killed")
    shutil.copytree(work, state, symlinks=True)
    reruns = [f"{scenario.command} {scenario.resume}"]
    if scenario.resume and "run/recipe.toml" not in killed:
        reruns.append(scenario.command)  # nothing has begun: that works too
    problem = None
    for words in reruns:
        _restore(state, work)
        code, output = run(inputs, work, words, exchange=scenario.exchange)
        if code == 1 and "exists already" in output and killed == new:
            result.complete += 1
        elif code != 0:
            problem = problem or f"the rerun ended with {code}: {output.strip()}"
        if tree(work) != new:
            problem = problem or f"the rerun left other files: {_differences(tree(work), new)}"
    shutil.rmtree(state)
    return problem


def _differences(one: Tree, other: Tree) -> str:
    names = [name for name in {**one, **other} if one.get(name, 0) != other.get(name, 0)]
    return ", ".join(sorted(names)[:5])


def table(counts: dict[str, Count], seconds: float) -> str:
    """The results in Markdown."""
    num_points = sum(one.points for one in counts.values())
    num_bad = sum(len(one.bad) for one in counts.values())
    lines = [
        "# Killed before every operation on files",
        "",
        f"{num_bad} bad points of {num_points}. Each point is a `kill -9` of the command before "
        "one operation that changes files (open, write, truncate, rename, exchange, unlink, mkdir, "
        "rmdir, chmod, fsync, flock), a look at what readers see then, and a rerun of the command. "
        "A point is bad if readers see anything but the old output, the new one or a clear error, "
        "if the rerun fails, or if it leaves any other byte or file than an undisturbed run. "
        "Not compared: `seconds` and `tokens_per_second` in JSON, and `.launch`. "
        "Refused: the output was complete, so the rerun reported that it exists. "
        f"Made by `python benchmarks/kill_points.py` in {seconds / 60:.0f} minutes.",
        "",
        "| command | points | refused | bad |",
        "|---|---|---|---|",
    ]
    for name, one in counts.items():
        lines.append(f"| {name} | {one.points} | {one.complete} | {len(one.bad)} |")
    lines.append(
        f"| all | {num_points} | {sum(one.complete for one in counts.values())} | {num_bad} |"
    )
    return "\n".join(lines) + "\n"


def build_library(folder: Path) -> Path:
    """Compile what counts and kills."""
    library = folder / "kill_points.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


def start_again_with_library(folder: Path) -> int:
    """Run this script in a Python that has the library loaded."""
    library = str(build_library(folder))
    more = {
        "LD_PRELOAD": library,
        LIBRARY: library,
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = [sys.executable, *sys.argv, "--folder", str(folder)]
    return subprocess.run(words, env={**os.environ, **more}, check=False).returncode


def import_all() -> None:
    """Import what the commands need, so that forked processes start fast. Nothing is computed."""
    for name in IMPORTED:
        with suppress(ImportError):
            import_module(name)


def main() -> int:
    """Parse the arguments and run; 1 where there is a bad point."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--points", type=int, help="of each command, among those that make, rename or remove"
    )
    parser.add_argument("--only", nargs="*", help="names of commands, as in the table")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if LIBRARY not in os.environ:
        memory = Path("/dev/shm")  # thousands of tiny files, each of them synced
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
            return start_again_with_library(Path(name))
    began = time.monotonic()
    import_all()
    make_inputs(args.folder / "in")
    chosen = [one for one in scenarios() if args.only is None or one.name in args.only]
    roots = [args.folder / str(number) for number in range(len(chosen))]
    check: Callable[[Scenario, Path], Count] = partial(_check, args.folder / "in", args.points)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(args.jobs, context) as pool:
        counts = {}
        for scenario, result in zip(chosen, pool.map(check, chosen, roots), strict=True):
            counts[scenario.name] = result
            print(f"{scenario.name}: {len(result.bad)} bad points of {result.points}", flush=True)
            for text in result.bad:
                print(f"  {text}", flush=True)
    if args.points is None and args.only is None:
        (RESULTS / "kill_points.md").write_text(table(counts, time.monotonic() - began))
    return int(any(one.bad for one in counts.values()))


def _check(inputs: Path, num_points: int | None, scenario: Scenario, root: Path) -> Count:
    return check_points(scenario, inputs, root, num_points)


if __name__ == "__main__":
    sys.exit(main())
