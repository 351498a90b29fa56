"""Embedding on a GPU: tokens per second to its memory, and bytes per second to the disk.

To memory: `encode_tokens(..., layers="all", convert_to_tensor=True)` on tokenized sentences, with
an empty word cache ("cold") and a filled one ("warm"). To the disk: `embed_file`, which is what
`elmox embed` runs, all layers in float16, next to a plain sequential write of the same number of
bytes to the same disk with the same care (an fsync every 256 MB), in turns. Random weights of the
original size in bfloat16.

    python benchmarks/embed_gpu.py                              # running English, as in embed.py
    python benchmarks/embed_gpu.py --tokens tokens.txt          # a tokenized sentence per line

A million tokens are 6 GB on the disk, three times that for HDF5 while it is being made; everything
is removed again. `--scratch` sets the folder.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from machine import RESULTS, cpu_name, running_english

from elmox import Elmo
from elmox.model.init import random_checkpoint
from elmox.text.sentences import split_sentences
from elmox.vectors.embed import embed_file
from elmox.vectors.job import PART_BYTES_CUDA

OUTPUTS = {"npy": "vectors", "hdf5": "vectors.hdf5"}
ROOM = {"npy": 1.5, "hdf5": 4}  # times the vectors' size that the disk must have free
PROBE_BYTES = 2**29


def seconds(run: Callable[[], object]) -> float:
    """Wall time of one run, the GPU's work included."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    kept = run()
    torch.cuda.synchronize()
    taken = time.perf_counter() - began
    del kept
    return taken


def write_plainly(path: Path, num_bytes: int) -> None:
    """One file, written in order, flushed to the disk as often as `embed_file` does it."""
    block = os.urandom(1 << 20) * (PART_BYTES_CUDA >> 20)
    with path.open("wb", buffering=0) as file:
        for start in range(0, num_bytes, len(block)):
            rest = memoryview(block)[: num_bytes - start]
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())


def to_memory(elmo: Elmo, sentences: list[list[str]], args: argparse.Namespace) -> list[str]:
    """Rows of the table: tokens per second for each size of a batch."""
    num_tokens = sum(map(len, sentences))
    rows = []
    for batch_tokens in (None, *args.batch_tokens):

        def run(batch_tokens: int | None = batch_tokens) -> object:
            return elmo.encode_tokens(
                sentences, layers="all", convert_to_tensor=True, batch_tokens=batch_tokens
            )

        seconds(run)  # compiles kernels, fills the allocator
        times: dict[str, list[float]] = {"cold": [], "warm": []}
        for _ in range(args.repeats):
            elmo.reader.cache.clear()
            for name in times:
                times[name].append(seconds(run))
        cold, warm = (
            num_tokens / statistics.median(seconds_taken) for seconds_taken in times.values()
        )
        size = "default" if batch_tokens is None else f"{batch_tokens:,}"
        rows.append(f"| {size} | {cold:,.0f} | {warm:,.0f} |")
        print(rows[-1], flush=True)
    return rows


def to_disk(
    elmo: Elmo, source: Path, folder: Path, num_bytes: int, args: argparse.Namespace
) -> list[str]:
    """Rows of the table: MB/s of each format, and of a plain write just before or after it."""
    rows = []
    for format in args.formats:
        for turn in range(args.turns):
            output = folder / OUTPUTS[format]
            work: dict[str, Callable[[], object]] = {
                "ours": partial(
                    embed_file,
                    elmo,
                    str(source),
                    output,
                    layers="all",
                    dtype="float16",
                    tokenized=True,
                ),
                "plain": partial(write_plainly, folder / "plain", num_bytes),
            }
            taken = {}
            for kind in sorted(work, reverse=turn % 2 == 0):
                taken[kind] = seconds(work[kind])
                remove(folder / "plain")
                remove(output)
            ours, plain = (num_bytes / taken[kind] / 1e6 for kind in ("ours", "plain"))
            first = "plain" if turn % 2 == 0 else "elmox"
            rows.append(f"| {format} | {first} | {ours:,.0f} | {plain:,.0f} | {ours / plain:.0%} |")
            print(rows[-1], flush=True)
    return rows


def remove(path: Path) -> None:
    """A file or a directory, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def shorten(
    sentences: list[list[str]], row_bytes: int, args: argparse.Namespace
) -> list[list[str]]:
    """As many sentences as the disk takes in about `args.seconds`, and as fit on it."""
    with tempfile.TemporaryDirectory(dir=args.scratch) as name:
        rate = PROBE_BYTES / seconds(lambda: write_plainly(Path(name, "probe"), PROBE_BYTES))
        room = shutil.disk_usage(name).free
    share = max(ROOM[format] for format in args.formats)
    budget = min(rate * args.seconds, room / share) / row_bytes
    taken: list[list[str]] = []
    for sentence in sentences:
        budget -= len(sentence)
        if budget < 0:
            break
        taken.append(sentence)
    return taken


def read_sentences(elmo: Elmo, path: Path | None) -> list[list[str]]:
    """Tokenized sentences, a line each, or running English through the model's own tokenizer."""
    if path is not None:
        return [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [tokens for s in split_sentences(running_english()) if (tokens := elmo.tokenize(s))]


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=Path, help="a tokenized sentence per line")
    parser.add_argument("--size", default="original")
    parser.add_argument("--batch-tokens", type=int, nargs="*", default=[2**16, 2**17, 2**19])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--formats", nargs="+", choices=list(OUTPUTS), default=list(OUTPUTS))
    parser.add_argument("--turns", type=int, default=2, help="to the disk")
    parser.add_argument("--seconds", type=float, default=10, help="most of one plain write")
    parser.add_argument("--scratch", type=Path, help="where the outputs go meanwhile")
    parser.add_argument("--output", type=Path, default=RESULTS / "embed_gpu.md")
    args = parser.parse_args()
    elmo = Elmo(random_checkpoint(args.size))
    elmo.to("cuda", "bfloat16")
    sentences = read_sentences(elmo, args.tokens)
    memory = to_memory(elmo, sentences, args)
    torch.cuda.empty_cache()
    row_bytes = elmo.num_layers * elmo.dim * 2
    written = shorten(sentences, row_bytes, args)
    num_bytes = sum(map(len, written)) * row_bytes
    with tempfile.TemporaryDirectory(dir=args.scratch) as name:
        source = Path(name, "tokens.txt")
        source.write_text("".join(" ".join(s) + "\n" for s in written), "utf-8")
        disk = to_disk(elmo, source, Path(name), num_bytes, args)
    lines = [
        "# Embedding on a GPU",
        "",
        f"{torch.cuda.get_device_name()}, {cpu_name()}, {os.cpu_count()} cores, torch "
        f"{torch.__version__}. Random weights of the {args.size} size in bfloat16, all layers. "
        "Made by `python benchmarks/embed_gpu.py`.",
        "",
        f"Tokens per second to device memory: {len(sentences):,} tokenized sentences, "
        f"{sum(map(len, sentences)):,} tokens, medians of {args.repeats}.",
        "",
        "| tokens in a batch | cold cache | warm cache |",
        "|---|---|---|",
        *memory,
        "",
        f"To the disk in float16, {num_bytes / 1e9:.1f} GB, and a plain write of as many bytes "
        "with an fsync every 256 MB, in turns.",
        "",
        "| format | first | elmox MB/s | plain MB/s | elmox / plain |",
        "|---|---|---|---|---|",
        *disk,
    ]
    print("\n".join(lines))
    args.output.parent.mkdir(exist_ok=True)
    args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
