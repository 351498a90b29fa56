"""Small labeled files for the tests of taggers, in the formats that people have."""

from collections.abc import Sequence
from pathlib import Path

Tagged = Sequence[tuple[str, str]]

NAMES: tuple[Tagged, ...] = (
    (("Ada", "B-PER"), ("Lovelace", "I-PER"), ("lived", "O"), ("in", "O"), ("London", "B-LOC")),
    (("Paris", "B-LOC"), ("is", "O"), ("large", "O")),
    (("Charles", "B-PER"), ("met", "O"), ("Ada", "B-PER"), ("in", "O"), ("Paris", "B-LOC")),
    (("New", "B-LOC"), ("York", "I-LOC"), ("is", "O"), ("not", "O"), ("London", "B-LOC")),
    (("He", "O"), ("slept", "O")),
    (("Grace", "B-PER"), ("Brewster", "I-PER"), ("Hopper", "I-PER"), ("slept", "O")),
    (("Stop", "O"),),
    (("The", "O"), ("train", "O"), ("to", "O"), ("New", "B-LOC"), ("York", "I-LOC")),
    (("Ada", "B-PER"), ("and", "O"), ("Charles", "B-PER"), ("Babbage", "I-PER")),
    (("in", "O"), ("London", "B-LOC"), ("he", "O"), ("met", "O"), ("Grace", "B-PER")),
)


def write_columns(path: Path, sentences: Sequence[Tagged]) -> Path:
    """A word and its tag a line, a blank line after each sentence."""
    lines = ("".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in sentences)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
