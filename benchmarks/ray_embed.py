"""`elmox embed --ray local` with two workers against the plain command with two threads.

Both embed the same text in processes of their own, from their start to the finished Parquet file,
so starting Ray and the workers counts. The runs take turns; the outputs must hold the same vectors.

    python benchmarks/ray_embed.py english-small --tokens 400000
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from machine import RESULTS, running_english

from elmox.bench.machine import machine_facts, machine_line
from elmox.vectors.files import open_vectors

WORKERS = 2
WAYS = {
    "plain": ["--threads", str(WORKERS)],
    "--ray local": ["--threads", "1", "--ray", "local", "--workers", str(WORKERS)],
}


def write_text(path: Path, num_words: int) -> None:
    """Write about so many words of running English, repeated if it is shorter."""
    lines = running_english().splitlines(keepends=True)
    with path.open("w", encoding="utf-8") as file:
        while num_words > 0:
            for line in lines:
                file.write(line)
                num_words -= len(line.split())
                if num_words <= 0:
                    break


def seconds(model: str, text: Path, output: Path, options: list[str]) -> float:
    """Return the wall time of a command."""
    words = ["embed", model, text, output, "--layers", "top", "--device", "cpu", "--quiet"]
    command = [sys.executable, "-m", "elmox", *map(str, words), *options]
    began = time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    return time.perf_counter() - began


def assert_close(first: Path, second: Path) -> None:
    """Compare the vectors; the last bits depend on the number of threads."""
    with open_vectors(first) as a, open_vectors(second) as b:
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-4)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="english-small")
    parser.add_argument("--tokens", type=int, default=400_000, help="words of the text, about")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}/ray_embed.md")
    arguments = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as name:
        text = Path(name, "text.txt")
        write_text(text, arguments.tokens)
        for _ in range(arguments.repeats):
            outputs = []
            for number, (way, options) in enumerate(WAYS.items()):
                outputs.append(Path(name, f"{number}.parquet"))
                outputs[-1].unlink(missing_ok=True)
                times[way].append(seconds(arguments.model, text, outputs[-1], options))
            assert_close(*outputs)
    plain = statistics.median(times["plain"])
    rows = ["| | s | time / plain |", "|---|---|---|"]
    for way, runs in times.items():
        median = statistics.median(runs)
        rows.append(f"| {way} | {median:.1f} | {median / plain:.2f} |")
    facts = machine_line(machine_facts(torch.device("cpu")))
    what = f"{arguments.model}, about {arguments.tokens:,} words, median of {arguments.repeats}"
    lines = ["# Embedding with Ray on one machine", "", f"{facts}. {what}.", "", *rows]
    print(page := "\n".join(lines) + "\n")
    if arguments.save:
        (RESULTS / "ray_embed.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
