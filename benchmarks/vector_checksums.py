"""What the checksums of vectors cost, when they are read and when they are written.

Random vectors are written as `elmox embed` writes them, without a model: with checksums, and with
the computation of checksums replaced by nothing. They are read whole, entry by entry, with `verify`
and without; the files are in the page cache, so that no disk hides the cost. The runs take turns.

    python benchmarks/vector_checksums.py
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from hdf5_write import write_vectors
from machine import RESULTS

from elmox.bench.machine import machine_facts, machine_line
from elmox.io.temporary import remove
from elmox.vectors.files import open_vectors
from elmox.vectors.formats import FORMATS, ReadableFormat
from elmox.vectors.layout import Layout


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a function takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def read(path: Path, verify: bool) -> None:
    """Use every value once."""
    with open_vectors(path, verify=verify) as vectors:
        for entry in vectors:
            np.add.reduce(entry, axis=None)


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, list[list[float]]]:
    """Return for each format the seconds of reading and writing, with and without, of each run."""
    layout = Layout(arguments.layers, arguments.dim, "float32")
    lines = max(1, int(arguments.megabytes * 1e6) // (arguments.tokens * layout.row_bytes))
    times: dict[str, list[list[float]]] = {format.value: [] for format in ReadableFormat}
    for _ in range(arguments.repeats):
        for name, runs in times.items():
            path = folder / f"vectors{FORMATS[ReadableFormat(name).value].suffixes[0]}"
            write = partial(write_vectors, path, layout, lines, arguments.tokens)
            with mock.patch("elmox.vectors.parts.add_rows", lambda checksum, rows: checksum):
                without = timed(write)
            remove(path)
            with_checksums = timed(write)
            read(path, verify=False)
            reading = [timed(partial(read, path, verify)) for verify in (True, False)]
            runs.append([*reading, with_checksums, without])
            remove(path)
    return times


def table(times: dict[str, list[list[float]]], megabytes: float) -> list[str]:
    """Return the rows of the table: medians."""
    lines = [
        "| | read, with checksums | without | cost | write, with checksums | without | cost |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, runs in times.items():
        columns = [statistics.median(column) for column in zip(*runs, strict=True)]
        cells = []
        for seconds, without in (columns[:2], columns[2:]):
            cells += [f"{megabytes / 1e3 / s:.2f} GB/s" for s in (seconds, without)]
            cells.append(f"{seconds / without - 1:+.0%}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=float, default=300)
    parser.add_argument("--tokens", type=int, default=20, help="per line")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the files are written")
    parser.add_argument("--out", type=Path, default=RESULTS / "vector_checksums.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        lines = table(measure(given, Path(folder)), given.megabytes)
    text = f"""# Checksums of vectors

{chr(10).join(lines)}

{given.megabytes:,.0f} MB of float32 vectors, {given.layers} layers of {given.dim}, {given.tokens}
tokens per line; the medians of {given.repeats} runs that took turns. The file that is read is in
the page cache, and every value is used once; a disk, or work on the vectors, makes the share
smaller. Writing does not include the model that computes the vectors.

Made by `python benchmarks/vector_checksums.py`. {machine_line(machine_facts(torch.device("cpu")))}
"""
    print(text)
    given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
