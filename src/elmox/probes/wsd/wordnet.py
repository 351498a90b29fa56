"""WordNet's inventory of senses, from the file `index.sense` of its release.

A line has four fields: sense key, synset offset, sense number, tag count. Senses of an entry are
numbered from 1, the most frequent first: number 1 is "WordNet's first sense".
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from elmox.errors import ElmoxError
from elmox.io.text_files import open_text
from elmox.probes.wsd.senses import LemmaPos, entry_of


@dataclass(frozen=True)
class SenseIndex:
    """The sense keys of every entry, in the order of their numbers: the first sense first."""

    senses: dict[LemmaPos, tuple[str, ...]]

    @cached_property
    def keys(self) -> frozenset[str]:
        """All sense keys."""
        return frozenset(key for keys in self.senses.values() for key in keys)


def read_sense_index(path: Path) -> SenseIndex:
    """Read an `index.sense`, plain or compressed."""
    numbered: dict[LemmaPos, dict[int, str]] = {}
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                key, sense_number = _parsed(line)
                entry = entry_of(key)
            except ElmoxError as error:
                raise ElmoxError(f"{path}, line {number}: {error}") from None
            of_entry = numbered.setdefault(entry, {})
            if sense_number in of_entry or key in of_entry.values():
                raise ElmoxError(
                    f"{path}, line {number}: {key} is sense {sense_number} of {entry}, but this "
                    "number or key occurs before: expected each once"
                )
            of_entry[sense_number] = key
    if not numbered:
        raise ElmoxError(f"{path} is empty, expected WordNet's index.sense")
    for entry, of_entry in numbered.items():
        if 1 not in of_entry:
            raise ElmoxError(f"{path} has no sense number 1 of {entry}: the file is incomplete")
    return SenseIndex(
        {
            entry: tuple(of_entry[number] for number in sorted(of_entry))
            for entry, of_entry in numbered.items()
        }
    )


def _parsed(line: str) -> tuple[str, int]:
    fields = line.split()
    if len(fields) != 4 or not all(field.isdecimal() for field in fields[1:]):
        raise ElmoxError(
            f"{line.strip()!r}: expected a sense key and three numbers, as in WordNet's index.sense"
        )
    return fields[0], int(fields[2])
