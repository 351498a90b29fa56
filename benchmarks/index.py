"""Building and searching indexes of uses: time, memory and recall.

A text is indexed with a real model. For larger sizes its vectors are repeated with noise of
`--noise` times their length, so that they keep the clusters of real vectors: random vectors would
be much harder to search. Writing these rows is measured without embedding. Recall is the share of
the 10 exact nearest neighbors, by cosine in float32 before rounding to 8 bits, that a search
returns.

    python benchmarks/index.py --sizes 1000000 10000000
"""

import argparse
import multiprocessing
import resource
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from machine import RESULTS, running_english
from numpy.typing import NDArray

from elmox import Elmo
from elmox.bench.machine import machine_facts, machine_line
from elmox.io.temporary import remove
from elmox.search.any_word import AnyWordSearch, faiss_path
from elmox.search.build import build_index
from elmox.search.index_file import IndexFile
from elmox.search.index_writer import IndexWriter, Rows
from elmox.search.quantized import quantize
from elmox.search.scan import descending, scan, unit_vectors
from elmox.search.words import WordTable

K = 10
BUFFER_BYTES = 2**26
Float32 = NDArray[np.float32]


class Replicas:
    """The uses of a small index, repeated with noise.

    Replica r of use j of a word of c uses is its use r * c + j. Replica 0 has no noise.
    """

    def __init__(self, file: IndexFile, num_replicas: int, noise: float) -> None:
        self.file, self.num_replicas, self.noise = file, num_replicas, noise
        self.unit = unit_vectors(file, np.arange(file.num_uses))
        self.counts = np.diff(file.word_starts)
        self.table = WordTable(file.words(), self.counts * num_replicas, None)

    def rows(self, replica: int) -> NDArray[np.int64]:
        """Return the row of each use of a replica."""
        index = np.arange(self.file.num_uses) - np.repeat(self.file.word_starts[:-1], self.counts)
        first = self.table.starts[:-1] + replica * self.counts
        rows: NDArray[np.int64] = np.repeat(first, self.counts) + index
        return rows

    def vectors(self, replica: int) -> Float32:
        """Return the unit vectors of a replica."""
        if replica == 0:
            return self.unit
        rng = np.random.default_rng(replica)
        noise = rng.standard_normal(self.unit.shape, dtype=np.float32)
        vectors = self.unit + noise * np.float32(self.noise / np.sqrt(self.file.dim))
        unit: Float32 = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def parts(self) -> Iterator[Rows]:
        """Yield what `IndexWriter.add` takes, replica by replica."""
        uses = self.file.read("uses")
        order = np.argsort(uses[:, 0], kind="stable")
        uses = uses[order]
        sentences = [self.file.sentence(number) for number in range(self.file.num_sentences)]
        bounds = np.searchsorted(uses[:, 0], np.arange(self.file.num_sentences + 1))
        columns = [tuple(row) for row in uses[:, 1:].tolist()]
        tokens = [columns[a:b] for a, b in pairwise(bounds)]
        for replica in range(self.num_replicas):
            vectors, scales = quantize(torch.from_numpy(self.vectors(replica)[order]))
            yield Rows(self.rows(replica)[order], vectors, scales, sentences, tokens)


def write_replicas(base: Path, path: Path, num_replicas: int, noise: float) -> dict[str, float]:
    """Write an index of replicas; return seconds and the peak of memory in GB."""
    replicas = Replicas(IndexFile(base), num_replicas, noise)
    folder = path.with_suffix(".partial")
    folder.mkdir()
    began = time.perf_counter()
    with IndexWriter(folder, replicas.table, replicas.file.dim, BUFFER_BYTES) as writer:
        for part in replicas.parts():
            writer.add(part)
        writer.finish({**replicas.file.meta, "num_entries": int(replicas.table.starts[-1])})
    (folder / "joined").rename(path)
    return {"seconds": time.perf_counter() - began, "gigabytes": peak()}


def search_all(
    base: Path, path: Path, num_replicas: int, noise: float, num_queries: int
) -> dict[str, Any]:
    """Measure searches of one word and of all words."""
    file = IndexFile(path)
    replicas = Replicas(IndexFile(base), num_replicas, noise)
    rng = np.random.default_rng(1)
    chosen = rng.choice(replicas.file.num_uses, num_queries, replace=False)
    noisy = Replicas(replicas.file, 2, noise).vectors(2**20)[chosen]
    words = np.repeat(np.arange(file.num_words), replicas.counts)[chosen]
    exact_all, exact_word = exact_nearest(replicas, noisy, words)

    def in_word(i: int) -> list[int]:
        start, stop = file.word_starts[words[i] : words[i] + 2].tolist()
        nearest = descending(scan(file, noisy[i], start, stop), K)
        return [start + index for index, _ in zip(nearest, range(K), strict=False)]

    results: dict[str, Any] = {
        "num_uses": file.num_uses,
        "gigabytes_of_file": path.stat().st_size / 1e9,
    }
    results["word"] = timed(in_word, exact_word)
    results["word"]["largest"] = int(np.diff(file.word_starts)[words].max())
    results["any"] = search_any(file, noisy, exact_all)
    results["gigabytes"] = peak()
    return results


def search_any(file: IndexFile, queries: Float32, exact: list[set[int]]) -> dict[str, Any]:
    """Measure searches of all words."""
    any_word = AnyWordSearch(file)

    def in_all(i: int) -> list[int]:
        rows = any_word.rows(queries[i], 4 * K + 64)
        return [row for (row, _), _ in zip(rows, range(K), strict=False)]

    began = time.perf_counter()
    in_all(0)
    first = time.perf_counter() - began
    cache = faiss_path(file)
    size = cache.stat().st_size / 1e9 if cache.exists() else 0.0
    return {**timed(in_all, exact), "first_seconds": first, "gigabytes_of_cache": size}


def exact_nearest(
    replicas: Replicas, queries: Float32, words: NDArray[np.int64]
) -> tuple[list[set[int]], list[set[int]]]:
    """Return the rows of the exact nearest neighbors: of all uses, and of those of the word."""
    best = [[(np.empty(0, np.float32), np.empty(0, np.int64))] * 2 for _ in queries]
    for replica in range(replicas.num_replicas):
        similarities = replicas.vectors(replica) @ queries.T
        rows = replicas.rows(replica)
        for i, word in enumerate(words.tolist()):
            start, stop = replicas.file.word_starts[word : word + 2].tolist()
            for which, part in enumerate((slice(None), slice(start, stop))):
                values = np.concatenate([best[i][which][0], similarities[part, i]])
                numbers = np.concatenate([best[i][which][1], rows[part]])
                top = np.argpartition(-values, K)[:K] if len(values) > K else slice(None)
                best[i][which] = (values[top], numbers[top])
    of_all, of_word = ([set(pair[which][1].tolist()) for pair in best] for which in (0, 1))
    return of_all, of_word


def timed(search: Callable[[int], list[int]], exact: list[set[int]]) -> dict[str, float]:
    """Return milliseconds per query and the recall."""
    search(0)
    milliseconds, shares = [], []
    for i, expected in enumerate(exact):
        began = time.perf_counter()
        rows = search(i)
        milliseconds.append(1000 * (time.perf_counter() - began))
        shares.append(len(expected & set(rows)) / len(expected))
    return {
        "median": statistics.median(milliseconds),
        "slowest": max(milliseconds),
        "recall": statistics.mean(shares),
    }


def peak() -> float:
    """Return the largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def to_markdown(report: dict[str, Any]) -> str:
    """Return the table."""
    base = report["base"]
    lines = [
        "# Indexes of uses: building and searching",
        "",
        f"{machine_line(report['machine'])}. Made by `{report['command']}`.",
        "",
        f"Building with {report['model']}: {base['num_embedded']:,} tokens and "
        f"{base['num_uses']:,} uses of {base['num_words']:,} words in {base['seconds']:.1f} s. "
        f"Larger sizes repeat these vectors with noise of {report['noise']:g} times their length.",
        "",
        "| uses | file, GB | written in, s | memory, GB "
        "| one word: median, slowest, ms | recall@10 "
        "| all words: median, slowest, ms | recall@10 | first search, s | memory, GB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        word, every = row["search"]["word"], row["search"]["any"]
        lines.append(
            f"| {row['search']['num_uses']:,} | {row['search']['gigabytes_of_file']:.2f} "
            f"| {row['write']['seconds']:.1f} | {row['write']['gigabytes']:.2f} "
            f"| {word['median']:.2f}, {word['slowest']:.2f} | {word['recall']:.3f} "
            f"| {every['median']:.2f}, {every['slowest']:.2f} | {every['recall']:.3f} "
            f"| {every['first_seconds']:.1f} | {row['search']['gigabytes']:.2f} |"
        )
    lines += ["", "Times of a search start from the vector; embedding a sentence comes on top."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="english-small")
    parser.add_argument("--text", type=Path, help="running text; held-out Wikipedia by default")
    parser.add_argument("--characters", type=int, default=1_000_000, help="of the text")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**6], help="uses, about")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument("--folder", type=Path, help="parent of the folder for the indexes")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}/")
    arguments = parser.parse_args()
    elmo = Elmo.from_pretrained(arguments.model, device="cpu")
    with TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        (folder / "text.txt").write_text(running_english(arguments.text)[: arguments.characters])
        base = build_index(elmo, folder / "text.txt", folder / "base", min_count=2)
        rows = []
        # Each in a process of its own, for its peak of memory.
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            for size in arguments.sizes:
                num_replicas = max(1, round(size / base.num_uses))
                job = (folder / "base", folder / "large", num_replicas, arguments.noise)
                write = pool.apply(write_replicas, job)
                search = pool.apply(search_all, (*job, min(arguments.queries, base.num_uses)))
                rows.append({"write": write, "search": search})
                remove(folder / "large")
                remove(folder / "large.partial")
                for cache in folder.glob("large.*.faiss"):
                    remove(cache)
    report = {
        "machine": machine_facts(elmo.device),
        "command": shlex.join(["python", "benchmarks/index.py", *sys.argv[1:]]),
        "model": elmo.description,
        "noise": arguments.noise,
        "base": vars(base),
        "rows": rows,
    }
    markdown = to_markdown(report)
    print(markdown)
    if arguments.write:
        (RESULTS / "index.md").write_text(markdown, encoding="utf-8")


if __name__ == "__main__":
    main()
