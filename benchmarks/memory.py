"""Peak memory of `elmox embed`: it must not depend on the size of the input.

Runs the command in a fresh process on a little and on a lot of running English, a tokenized
sentence per line; on one raw line; and on one line that is a single sentence. The model has random
weights of the small size; all layers are written in float16.

    python benchmarks/memory.py                        # several minutes and GB of disk
    python benchmarks/memory.py --sizes 0.2 2 --raw-line 0.5 --sentence 0.05
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from machine import RESULTS, ROOT, cpu_name, running_english

# Nothing here imports torch: the peak that the system reports for a child is never below what its
# parent had when it started it, so the parent stays small.

MB = 10**6
OUTPUTS = {"hdf5": "vectors.hdf5", "npy": "vectors", "parquet": "vectors.parquet"}


@dataclass(frozen=True)
class Case:
    """One run of the command."""

    name: str
    source: Path
    format: str
    tokenized: bool = True


@dataclass(frozen=True)
class Result:
    """Peak memory of a case."""

    case: Case
    num_tokens: int
    peak: int  # bytes


def sentences(text: str) -> Iterator[str]:
    """Sentences without end: those of the text, then the same in another order."""
    from elmox.text.sentences import split_sentences

    pieces = split_sentences(text)
    while True:
        yield from pieces
        random.Random(0).shuffle(pieces)


def take(pieces: Iterator[str], size: float, separator: str) -> str:
    """As many pieces as fit into so many megabytes."""
    taken: list[str] = []
    total = 0
    for piece in pieces:
        total += len(f"{piece}{separator}".encode())
        if total > size * MB:
            break
        taken.append(piece)
    return separator.join(taken)


def prepare(folder: Path, text: Path | None, arguments: argparse.Namespace) -> None:
    """Write the model and all inputs."""
    from elmox.model.init import random_checkpoint
    from elmox.pretrained.native import write_directory
    from elmox.text.tokenize import get_tokenizer

    write_directory(random_checkpoint("small"), folder / "model")
    running, tokenize = running_english(text), get_tokenizer("treebank")
    tokenized = (" ".join(tokens) for s in sentences(running) if (tokens := tokenize(s)))
    for size in arguments.sizes:
        (folder / f"lines-{size}.txt").write_text(take(tokenized, size, "\n"), "utf-8")
    for size in arguments.raw_line:
        (folder / f"raw-{size}.txt").write_text(take(sentences(running), size, " "), "utf-8")
    for size in arguments.sentence:
        (folder / f"sentence-{size}.txt").write_text(take(tokenized, size, " "), "utf-8")


def measure(case: Case, folder: Path) -> Result:
    """Run the command and read its peak of resident memory."""
    output = folder / OUTPUTS[case.format]
    command = [sys.executable, "-m", "elmox", "embed", str(folder / "model"), str(case.source)]
    command += [str(output), "--dtype", "float16", "--device", "cpu", "--json"]
    command += ["--tokenized"] if case.tokenized else []
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with (folder / "summary.json").open("w+b") as summary:
        process = subprocess.Popen(command, env=environment, stdout=summary)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            raise SystemExit(f"{' '.join(command)} failed")
        summary.seek(0)
        num_tokens = json.load(summary)["num_tokens"]
    if output.is_dir():
        shutil.rmtree(output)
    else:
        output.unlink()
    unit = 1 if sys.platform == "darwin" else 1024
    return Result(case, num_tokens, usage.ru_maxrss * unit)


def table(results: list[Result]) -> str:
    """The results in Markdown."""
    lines = [
        "# Peak memory of `elmox embed`",
        "",
        f"{cpu_name()}, {os.cpu_count()} cores. Random weights of the small size, all layers, "
        "float16. Made by `python benchmarks/memory.py`.",
        "",
        "| input | output | tokens | peak resident memory |",
        "|---|---|---|---|",
    ]
    for r in results:
        peak = f"{r.peak / MB:,.0f} MB"
        lines.append(f"| {r.case.name} | {r.case.format} | {r.num_tokens:,} | {peak} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, help="running English, plain or .xz")
    parser.add_argument("--sizes", type=float, nargs="*", default=[2, 20], help="MB of lines")
    parser.add_argument("--raw-line", type=float, nargs="*", default=[5], help="MB")
    parser.add_argument("--sentence", type=float, nargs="*", default=[0.5], help="MB")
    parser.add_argument("--formats", nargs="+", choices=OUTPUTS, default=["hdf5", "npy"])
    parser.add_argument("--scratch", type=Path, help="where the inputs and outputs go meanwhile")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as name:
        folder = Path(name)
        context = multiprocessing.get_context("spawn")
        preparation = context.Process(target=prepare, args=(folder, arguments.text, arguments))
        preparation.start()
        preparation.join()
        if preparation.exitcode:
            raise SystemExit("the inputs could not be written")
        for format in arguments.formats:
            cases = [
                *(
                    Case(f"{size:g} MB, a sentence per line", folder / f"lines-{size}.txt", format)
                    for size in arguments.sizes
                ),
                *(
                    Case(f"{size:g} MB, one raw line", folder / f"raw-{size}.txt", format, False)
                    for size in arguments.raw_line
                ),
                *(
                    Case(f"{size:g} MB, one sentence", folder / f"sentence-{size}.txt", format)
                    for size in arguments.sentence
                ),
            ]
            for case in cases:
                results.append(measure(case, folder))
                print(table(results[-1:]).splitlines()[-1], flush=True)
    print(f"\n{table(results)}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "memory.md").write_text(table(results), encoding="utf-8")


if __name__ == "__main__":
    main()
