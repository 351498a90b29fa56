"""Hostile and damaged checkpoints: none may crash, hang, take memory, or read other files.

Every checkpoint is loaded, described (`elmox info`) and converted (`elmox convert`) in a process of
its own with limits. A folder of bait is watched by inotify, and every file that Python opens by an
audit hook. The checkpoints and their mutations are those of the tests (tests/hostile*.py,
tests/mutations.py); the suite runs a part of them.

    python benchmarks/hostile_files.py                      # ten minutes; writes the table
    python benchmarks/hostile_files.py --mutations 5 --every 20
"""

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from machine import RESULTS, ROOT

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(ROOT / "tests"))

OUTCOMES = ("ok", "error", "traceback", "crash", "hang", "memory", "outside")
Case = tuple[str, str, Callable[[Path, Path], Path], Mapping[str, str]]


def cases(num_mutations: int, every: int) -> Iterator[Case]:
    """Group, name, builder and other arguments of each checkpoint."""
    from hostile_archives import ARCHIVED
    from hostile_hdf5 import HDF5
    from hostile_pickles import PICKLED
    from hostile_sizes import SIZES
    from hostile_tf1 import TENSORFLOW
    from mutations import FORMATS, mutate

    groups = {
        "HDF5": HDF5,
        "declared sizes, JSON, safetensors": SIZES,
        "torch files": PICKLED,
        "TensorFlow": TENSORFLOW,
        "archives, folders, devices": ARCHIVED,
    }
    for group, hostiles in groups.items():
        for hostile in hostiles[::every]:
            yield group, hostile.name, hostile.build, hostile.options
    for name, build in FORMATS.items():
        for seed in range(num_mutations):

            def mutated(
                folder: Path,
                bait: Path,
                build: Callable[[Path], Path] = build,
                seed: str = f"{name} {seed}",
            ) -> Path:
                path = build(folder)
                mutate(folder, seed)
                return path

            yield f"mutated {name}", f"mutated {name} {seed}", mutated, {}


def main() -> None:
    """Run all, write the table; exit code 1 if anything is bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=60, help="of each format")
    parser.add_argument("--every", type=int, default=1, help="run every n-th hostile file")
    parser.add_argument("--out", type=Path, default=RESULTS / "hostile_files.md")
    given = parser.parse_args()

    from hostile import lay_bait
    from hostile_run import BAD, LONGEST, opened_files, try_checkpoint

    counts: dict[str, Counter[str]] = {}
    bad: list[str] = []
    slowest = 0.0
    with tempfile.TemporaryDirectory(prefix="elmox-hostile-") as name:
        folder = Path(name)
        bait = lay_bait(folder / "bait")
        with opened_files(bait) as opened:  # the watch must work, or it proves nothing
            (bait / "text").read_bytes()
            assert opened() == ["text"]
        for group, title, build, options in cases(given.mutations, given.every):
            (folder / "case" / "given").mkdir(parents=True)
            (folder / "case" / "work").mkdir()
            path = build(folder / "case" / "given", bait)
            start = time.perf_counter()
            outcome = try_checkpoint(path, folder / "case" / "work", bait, options)
            slowest = max(slowest, time.perf_counter() - start)
            counts.setdefault(group, Counter())[outcome.worst] += 1
            if outcome.worst in BAD:
                bad.append(f"{title}: {outcome.verbs}: {outcome.detail}")
                print(bad[-1], file=sys.stderr)
            shutil.rmtree(folder / "case")
    table = _table(counts)
    print(table)
    if given.every == 1:
        text = _page(table, slowest, LONGEST)
        given.out.write_text(text, encoding="utf-8")
    sys.exit(1 if bad else 0)


def _table(counts: Mapping[str, Counter[str]]) -> str:
    lines = [f"| checkpoints | number | {' | '.join(OUTCOMES)} |", "|---" * 9 + "|"]
    total: Counter[str] = Counter()
    for group, count in counts.items():
        total += count
        lines.append(_row(group, count))
    return "\n".join([*lines, _row("all", total)])


def _row(name: str, count: Counter[str]) -> str:
    numbers = " | ".join(str(count[outcome]) for outcome in OUTCOMES)
    return f"| {name} | {count.total()} | {numbers} |"


def _page(table: str, slowest: float, longest: float) -> str:
    import h5py
    import torch

    versions = (
        f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"h5py {h5py.__version__} with HDF5 {h5py.version.hdf5_version}"
    )
    return f"""# Hostile and damaged checkpoints

{table}

Each checkpoint is loaded, described (`elmox info`) and converted (`elmox convert`) in a process of
its own; the worst of the three outcomes counts. The slowest took {slowest:.1f} s for all three, the
start of the process included.

| outcome | |
|---|---|
| ok | it loads: the damage does not matter, or what is hostile in it is never read |
| error | one line that names the file and what is wrong |
| traceback | any other exception, or more than one line |
| crash | the process died |
| hang | over {longest:.0f} s |
| memory | over 256 MiB |
| outside | another file was opened or repeated, or a message advises to load a pickle anyway |

Made by `python benchmarks/hostile_files.py` with fixed seeds; {versions}.
"""


if __name__ == "__main__":
    main()
