"""Corpora of named entities with one set of types: PER, ORG and LOC.

Tags of other names are mapped, tags of other types are dropped, and so are sentences that a
held-out part contains too. The script prints what it dropped.

    python benchmarks/entities.py data/entities --train btc/train.conll gmb/train.conll.xz \
        wnut17train.conll --dev btc/dev.conll emerging.dev.conll --test btc/test.conll

Corpora differ in what is an organization: `corporation` and `group` of WNUT-17 become ORG, `geo`
and `gpe` of the Groningen Meaning Bank are LOC.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from elmox.errors import ElmoxError
from elmox.io.files import atomic_directory, refuse_existing
from elmox.tasks.tagging.columns import TaggedSentence, read_columns

TYPES = {
    "PER": "PER", "person": "PER", "per": "PER",
    "ORG": "ORG", "corporation": "ORG", "group": "ORG", "org": "ORG",
    "LOC": "LOC", "location": "LOC", "geo": "LOC", "gpe": "LOC",
}  # fmt: skip
PARTS = ("train", "dev", "test")


def mapped(tag: str, dropped: Counter[str]) -> str:
    """Return a tag with one of the three types, or O; count a span's first tag if it is dropped."""
    prefix, hyphen, kind = tag.partition("-")
    if not hyphen:
        return tag
    if kind in TYPES:
        return f"{prefix}-{TYPES[kind]}"
    dropped[kind] += prefix != "I"
    return "O"


def merged(
    files: Sequence[Path], held_out: set[tuple[str, ...]]
) -> tuple[list[TaggedSentence], list[str]]:
    """Return the sentences of files with mapped tags, and a line per file about what was dropped.

    Args:
        files: in CoNLL columns, the word first and its tag last.
        held_out: sentences to leave out.
    """
    sentences: list[TaggedSentence] = []
    report = []
    for path in files:
        dropped: Counter[str] = Counter()
        kept, num_words, num_held_out = 0, 0, 0
        for sentence in read_columns(path):
            if sentence.words in held_out:
                num_held_out += 1
                continue
            tags = tuple(mapped(tag, dropped) for tag in sentence.tags)
            sentences.append(TaggedSentence(sentence.words, tags))
            kept, num_words = kept + 1, num_words + len(tags)
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in dropped.most_common())
        report.append(
            f"{path.name}: {kept:,} sentences, {num_words:,} words; dropped {num_held_out:,} "
            f"sentences that are held out, and the spans {kinds or 'of no type'}"
        )
    return sentences, report


def write_columns(path: Path, sentences: Iterable[TaggedSentence]) -> None:
    """Write a word and its tag per line, and a blank line after each sentence."""
    with path.open("w", encoding="utf-8") as file:
        for sentence in sentences:
            rows = zip(sentence.words, sentence.tags, strict=True)
            file.write("".join(f"{word}\t{tag}\n" for word, tag in rows) + "\n")


def write_entities(
    out: Path, train: Sequence[Path], dev: Sequence[Path], test: Sequence[Path]
) -> list[str]:
    """Write `train.txt`, `dev.txt` and `test.txt`; return what was dropped, a line per file.

    No sentence of test is in dev or train, and none of dev in train, except those of up to three
    words, which repeat by chance.
    """
    held_out: set[tuple[str, ...]] = set()
    report: list[str] = []
    with atomic_directory(out) as new:
        for part, files in reversed(list(zip(PARTS, (train, dev, test), strict=True))):
            sentences, lines = merged(files, held_out)
            held_out |= {s.words for s in sentences if len(s.words) > 3}
            write_columns(new / f"{part}.txt", sentences)
            report += [f"{part}: {line}" for line in lines]
    return report


def main() -> None:
    """Write the files and print what was dropped."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, help="directory to create")
    for part in PARTS:
        parser.add_argument(f"--{part}", type=Path, nargs="+", required=True, metavar="FILE")
    arguments = parser.parse_args()
    try:
        refuse_existing(arguments.out, force=False)
        report = write_entities(arguments.out, arguments.train, arguments.dev, arguments.test)
    except ElmoxError as error:
        sys.exit(f"entities.py: {error}")
    print("\n".join(report))


if __name__ == "__main__":
    main()
