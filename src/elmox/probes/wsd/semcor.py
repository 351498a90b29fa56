"""SemCor as JSON lines: a sentence per line.

    {"tokens": ["It", "took_place", "."], "sense": [null, "take_place%2:30:00::", null]}

`sense` has a WordNet sense key, or null, for every token; a token may be several words, joined by
`_`. Other fields of a line (lemma, pos, id) are ignored, because a key includes lemma and part of
speech. Keys may have SemCor's notation, see `sense_keys`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.io.json_lines import read_json_lines
from elmox.probes.wsd.senses import SenseSentence, SenseTag, entry_of, split_unit

_MARKER = re.compile(r"\((?:a|p|ip)\)")


def read_semcor(path: Path) -> Iterator[SenseSentence]:
    """Read the sentences of a file, plain or compressed."""
    return read_json_lines(path, _sentence)


def sense_keys(text: str) -> tuple[str, ...]:
    """Split SemCor's notation of several keys.

    If the annotators did not decide, the lemma is written only once: `year%1:28:02::;1:28:01::`.
    The head of a satellite has its syntactic marker, `previous%5:00:00:preceding(a):00`, which the
    keys of WordNet 3.0 omit.
    """
    lemma, _, tails = _MARKER.sub("", text).partition("%")
    return tuple(dict.fromkeys(f"{lemma}%{tail}" for tail in tails.split(";")))


def _sentence(values: dict[str, Any]) -> SenseSentence:
    words: list[str] = []
    tags: list[SenseTag] = []
    for token, sense in zip(*_columns(values), strict=True):
        start = len(words)
        words += split_unit(token)
        if sense is not None:
            if len(words) == start:
                raise ElmoxError(f"a token without words, {token!r}, has the sense {sense!r}")
            keys = sense_keys(sense)
            entries = [entry_of(key) for key in keys]
            tags.append(SenseTag(start, len(words), entries[0], keys))
    return SenseSentence(tuple(words), tuple(tags))


def _columns(values: dict[str, Any]) -> tuple[list[str], list[str | None]]:
    tokens, senses = values.get("tokens"), values.get("sense")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ElmoxError("expected tokens, a list of strings")
    if not isinstance(senses, list) or not all(
        sense is None or isinstance(sense, str) for sense in senses
    ):
        raise ElmoxError("expected sense, a list of sense keys and nulls")
    if len(tokens) != len(senses):
        raise ElmoxError(f"{len(tokens)} tokens but {len(senses)} senses: expected one for each")
    return tokens, senses
