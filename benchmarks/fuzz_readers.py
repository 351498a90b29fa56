"""Every reader of files on damaged files: none may crash, hang, take memory or raise a traceback.

Bits are flipped, files cut, pieces moved, sizes, numbers and fields of texts replaced. What reads
the files, and the outcomes, are in tests/support/fuzz.py; the test suite runs a few cases of each
reader. `hostile_files.py` is about whole checkpoints, and what loading them opens.

    python benchmarks/fuzz_readers.py                      # 10,000 cases; writes the table
    python benchmarks/fuzz_readers.py --cases 500 --only vectors
"""

import argparse
import os
import platform
import sys
import time
from collections import Counter
from pathlib import Path

from machine import RESULTS, ROOT

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(ROOT / "tests" / "support"))

OUTCOMES = ("same", "other", "error", "silent", "traceback", "crash", "hang", "memory")


def main() -> None:
    """Run all, write the table; exit code 1 if anything is bad."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000, help="of all readers together")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="part of the names of readers")
    parser.add_argument("--out", type=Path, default=RESULTS / "fuzz_readers.md")
    given = parser.parse_args()

    from fuzz import BAD, run, targets

    chosen = [target for target in targets() if given.only in target.name]
    cases = -(-given.cases // len(chosen))
    counts: dict[str, Counter[str]] = {}
    num_bad, began = 0, time.monotonic()
    for target in chosen:
        count = counts[target.name] = Counter()
        for seed, outcome, detail in run(target, range(given.first, given.first + cases)):
            count[outcome] += 1
            if outcome in BAD:
                num_bad += 1
                print(f"{target.name} {seed}: {outcome}: {detail[:300]}", flush=True)
    table = _table(counts)
    print(table, f"{time.monotonic() - began:.0f} s", sep="\n")
    if not given.only:
        given.out.write_text(_page(table), encoding="utf-8")
    sys.exit(1 if num_bad else 0)


def _table(counts: dict[str, Counter[str]]) -> str:
    lines = [f"| reader | cases | {' | '.join(OUTCOMES)} |", "|---" * (len(OUTCOMES) + 2) + "|"]
    total: Counter[str] = Counter()
    for name, count in {**counts, "all": total}.items():
        if name != "all":
            total += count
        numbers = " | ".join(str(count[outcome]) for outcome in OUTCOMES)
        lines.append(f"| {name} | {count.total()} | {numbers} |")
    return "\n".join(lines)


def _page(table: str) -> str:
    from fuzz import ADDRESS_BYTES, LONGEST

    return f"""# Readers on damaged files

{table}

| outcome | |
|---|---|
| same | the content of the sound file: the damage is in something that is not read |
| other | other content, of a format without checksums |
| error | one line that names the file and what is wrong |
| silent | other content, of a format with checksums |
| traceback | any other exception, or more than one line |
| crash | the process died |
| hang | over {LONGEST} s |
| memory | over {ADDRESS_BYTES >> 20} MiB |

Made by `python benchmarks/fuzz_readers.py` with fixed seeds; Python {platform.python_version()}.
"""


if __name__ == "__main__":
    main()
