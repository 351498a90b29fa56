"""Tokens per second and peak memory of `elmox prepare`, for tokenized and for running English.

Runs the command, its start counted, in a fresh process, and adds up the time and memory of
all its processes. The text four times over has the same words: it must not take more memory.

    python benchmarks/prepare.py                      # a few minutes, 1 GB of disk
    python benchmarks/prepare.py --tokens 2000000
"""

import argparse
import gzip
import json
import lzma
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from machine import RESULTS, WIKI, cpu_name, running_english

from elmox.text.sentences import split_sentences
from elmox.text.tokenize import get_tokenizer

MB = 10**6


@dataclass(frozen=True)
class Result:
    """One run of the command."""

    name: str
    workers: int
    num_tokens: int
    num_words: int
    seconds: float
    cpu_seconds: float
    peak: int  # bytes, all processes together


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, help="running text; .xz is fine")
    parser.add_argument("--tokens", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        raw, tokenized = write_texts(folder, args.text, args.tokens)
        compressed = folder / "tokenized.gz"
        compressed.write_bytes(gzip.compress(tokenized.read_bytes(), 6))
        results = []
        for workers in args.workers:
            results += [
                measure("tokenized (`--tokenized`)", [tokenized], workers, "--tokenized"),
                measure("tokenized, four times over", [tokenized] * 4, workers, "--tokenized"),
                measure("tokenized, .gz", [compressed], workers, "--tokenized"),
                measure("running text", [raw], workers),
            ]
    text = table(results, load)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "prepare.md").write_text(text, encoding="utf-8")


def write_texts(folder: Path, path: Path | None, num_tokens: int) -> tuple[Path, Path]:
    """Write about so many tokens of running English, as it is and tokenized."""
    tokenize = get_tokenizer("treebank")
    written = 0
    with (folder / "raw").open("w") as raw, (folder / "tokenized").open("w") as tokenized:
        for paragraph in paragraphs(path):
            raw.write(f"{paragraph}\n")
            sentences = [tokenize(sentence) for sentence in split_sentences(paragraph)]
            tokenized.writelines(f"{' '.join(sentence)}\n" for sentence in sentences or [[]])
            written += sum(map(len, sentences))
            if written >= num_tokens:
                break
    return folder / "raw", folder / "tokenized"


def paragraphs(path: Path | None) -> Iterator[str]:
    """Yield lines of a file, of Wikipedia if available, or of Python's documentation."""
    wiki = WIKI.with_name("train.0.txt.xz")
    path = path or (wiki if wiki.exists() else None)
    if path is None or path.suffix != ".xz":
        yield from running_english(path).split("\n")
        return
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def measure(name: str, sources: list[Path], workers: int, *options: str) -> Result:
    """Run the command on some files."""
    output = sources[0].with_name("corpus")
    arguments = ["--out", output, "--force", "--json", "--workers", workers, *options]
    command = [sys.executable, "-m", "elmox", "prepare", *sources, *arguments]
    before, began = cpu_seconds(), time.perf_counter()
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(0.05)
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - before
    assert process.stdout is not None
    info = json.load(process.stdout)
    num_tokens: int = info["train"]["num_tokens"]
    return Result(name, workers, num_tokens, info["num_words"], seconds, cpu, peak)


def cpu_seconds() -> float:
    """Processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def resident(pid: int) -> int:
    """Resident memory of a process and all it started; shared pages count in each."""
    total = 0
    try:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total


def table(results: list[Result], load: float) -> str:
    """The results as Markdown."""
    lines = [
        "# `elmox prepare`",
        "",
        f"{cpu_name()}, {psutil.cpu_count()} cores; load average by other work {load:.1f}. Running "
        f"English, {results[0].num_words:,} different words. The whole command from start to end, "
        "one run each; processor time and memory are those of all its processes together. Made by "
        "`python benchmarks/prepare.py`.",
        "",
        "| text | workers | tokens | seconds | tokens/s | tokens per processor second "
        "| peak resident memory |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {r.name} | {r.workers} | {r.num_tokens:,} | {r.seconds:.1f} | "
            f"{r.num_tokens / r.seconds:,.0f} | {r.num_tokens / r.cpu_seconds:,.0f} | "
            f"{r.peak / MB:,.0f} MB |"
            for r in results
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
