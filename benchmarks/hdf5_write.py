"""Writing vectors in each format against a plain write of the same bytes.

Random vectors go through the writer of `elmox embed`, without a model. "parts" is the time until
all of them are in parts, "join" is the writing of the final file from these. The plain write is
sequential, with a sync as often as parts have one. The runs take turns.

    python benchmarks/hdf5_write.py --megabytes 4000 --folder /data
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from machine import RESULTS

from elmox.bench.embed import write_plainly
from elmox.bench.machine import machine_facts, machine_line
from elmox.io.temporary import remove
from elmox.vectors.files import open_writer
from elmox.vectors.formats import FORMATS, ReadableFormat
from elmox.vectors.layout import Layout
from elmox.vectors.parts import PART_BYTES

LINES = 128  # written at a time, as `embed_file` writes chunks


def write_vectors(path: Path, layout: Layout, lines: int, tokens: int) -> tuple[float, float]:
    """Return the seconds of writing the parts, and of joining them."""
    values = np.random.default_rng(0).standard_normal((LINES * tokens, *layout.row_shape))
    rows = values.astype(layout.dtype)
    began = time.perf_counter()
    with open_writer(path, layout=layout, job={}, repeatable=False) as writer:
        for start in range(0, lines, LINES):
            number = min(LINES, lines - start)
            writer.append_rows(rows[: number * tokens], np.full(number, tokens))
        written = time.perf_counter()
    return written - began, time.perf_counter() - written


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds of each run of each way."""
    layout = Layout(arguments.layers, arguments.dim, arguments.dtype)
    lines = max(1, int(arguments.megabytes * 1e6) // (arguments.tokens * layout.row_bytes))
    num_bytes = lines * arguments.tokens * layout.row_bytes
    times: dict[str, list[tuple[float, float]]] = {"plain write": []}
    for _ in range(arguments.repeats):
        began = time.perf_counter()
        write_plainly(folder / "plain", num_bytes, PART_BYTES)
        times["plain write"].append((time.perf_counter() - began, 0.0))
        remove(folder / "plain")
        for format in ReadableFormat:
            path = folder / f"vectors{FORMATS[format.value].suffixes[0]}"
            seconds = write_vectors(path, layout, lines, arguments.tokens)
            times.setdefault(format.value, []).append(seconds)
            remove(path)
    return times


def table(times: dict[str, list[tuple[float, float]]]) -> list[str]:
    """Return the rows of the table: medians, and the speed relative to the plain write."""
    plain = statistics.median(map(sum, times["plain write"]))
    lines = ["| | parts, s | join, s | speed / plain write |", "|---|---|---|---|"]
    for name, runs in times.items():
        parts, join = (statistics.median(column) for column in zip(*runs, strict=True))
        ratio = plain / statistics.median(map(sum, runs))
        lines.append(f"| {name} | {parts:.2f} | {join:.2f} | {ratio:.0%} |")
    return lines


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=float, default=2000)
    parser.add_argument("--tokens", type=int, default=20, help="per line")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}/hdf5_write.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        rows = table(measure(arguments, Path(folder)))
    facts = machine_line(machine_facts(torch.device("cpu")))
    what = f"{arguments.megabytes:g} MB, {arguments.tokens} tokens per line"
    text = "\n".join(["# Writing vectors", "", f"{facts}. {what}.", "", *rows]) + "\n"
    print(text)
    if arguments.save:
        (RESULTS / "hdf5_write.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
