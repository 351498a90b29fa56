"""A made-up lexicon, a tagged corpus and test sets: small, in the formats of the real ones."""

import json
from pathlib import Path
from xml.sax.saxutils import escape

SHORE, FIRM = "bank%1:17:01::", "bank%1:14:00::"
PERFORM, COMPETE = "play%2:36:00::", "play%2:33:00::"
BIG, FAMOUS = "great%5:00:00:large:00", "great%3:00:00::"
HAPPEN = "take_place%2:30:00::"
ANIMAL, PATTERN = "zebra%1:05:00::", "zebra%1:07:00::"

SENSE_INDEX = f"""\
{FIRM} 08420278 1 20
{SHORE} 09213565 2 25
{FAMOUS} 01278818 2 12
{BIG} 01386883 1 40
{PERFORM} 01719921 2 9
{COMPETE} 01072949 1 30
{HAPPEN} 00339934 1 8
{ANIMAL} 02391049 1 0
{PATTERN} 04999999 2 0
"""

# Each sentence: its units, `_` between the words of one, and each unit's senses if it has any.
Sentence = list[tuple[str, tuple[str, ...]]]
TRAIN: list[Sentence] = [
    [("They", ()), ("sat", ()), ("on", ()), ("the", ()), ("bank", (SHORE,)), ("fishing", ())],
    [("The", ()), ("bank", (FIRM,)), ("lent", ()), ("him", ()), ("money", ())],
    [("A", ()), ("great", (BIG,)), ("river", ()), ("and", ()), ("its", ()), ("banks", (SHORE,))],
    [("It", ()), ("took_place", (HAPPEN,)), ("in", ()), ("Rome", ())],
    [("Actors", ()), ("play", (PERFORM, COMPETE)), ("it", ())],
    [("Teams", ()), ("play", (COMPETE,)), ("well", ())],
    [("Old", ("old%3:00:09::",)), ("men", ())],  # a sense that is not in the index
]
TESTS: dict[str, list[Sentence]] = {
    "senseval2": [
        [("The", ()), ("bank", (FIRM,)), ("lent", ()), ("him", ()), ("money", ())],
        [("A", ()), ("zebra", (ANIMAL,)), ("ran", ())],
    ],
    "semeval2015": [
        [("They", ()), ("sat", ()), ("on", ()), ("the", ()), ("bank", (SHORE,)), ("fishing", ())],
        [("a", ()), ("great", (FAMOUS, BIG)), ("man", ()), ("took_place", (HAPPEN,))],
        [("Teams", ()), ("play", (COMPETE,)), ("well", ())],
    ],
}
_POS = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}


def json_lines(sentences: list[Sentence]) -> str:
    """Return a corpus as JSON lines; SemCor writes the lemma of several senses once."""
    lines = []
    for sentence in sentences:
        sense = [
            ";".join([keys[0], *(key.partition("%")[2] for key in keys[1:])]) if keys else None
            for _, keys in sentence
        ]
        lines.append(json.dumps({"tokens": [unit for unit, _ in sentence], "sense": sense}))
    return "".join(f"{line}\n" for line in lines)


def xml_and_gold(sentences: list[Sentence]) -> tuple[str, str]:
    """Return a corpus as NAME.data.xml and NAME.gold.key.txt."""
    lines = ['<?xml version="1.0" encoding="UTF-8" ?>', '<corpus lang="en">', '<text id="d000">']
    gold = []
    for number, sentence in enumerate(sentences):
        lines.append(f'<sentence id="d000.s{number:03}">')
        for index, (unit, keys) in enumerate(sentence):
            shown = escape(unit.replace("_", " "))
            if not keys:
                lines.append(f'<wf lemma="{shown.lower()}" pos="X">{shown}</wf>')
                continue
            name = f"d000.s{number:03}.t{index:03}"
            lemma, _, tail = keys[0].partition("%")
            attributes = f'id="{name}" lemma="{lemma}" pos="{_POS[tail[0]]}"'
            lines.append(f"<instance {attributes}>{shown}</instance>")
            gold.append(f"{name} {' '.join(keys)}\n")
        lines.append("</sentence>")
    return "\n".join([*lines, "</text>", "</corpus>", ""]), "".join(gold)


def write_xml(folder: Path, name: str, sentences: list[Sentence]) -> Path:
    """Write NAME.data.xml and its gold keys; return the path of the data."""
    folder.mkdir(parents=True, exist_ok=True)
    data, gold = xml_and_gold(sentences)
    (folder / f"{name}.data.xml").write_text(data, "utf-8")
    (folder / f"{name}.gold.key.txt").write_text(gold, "utf-8")
    return folder / f"{name}.data.xml"


def write_sense_data(folder: Path) -> None:
    """Write semcor.jsonl, semcor.data.xml, Evaluation_Datasets and index.sense."""
    (folder / "semcor.jsonl").write_text(json_lines(TRAIN), "utf-8")
    write_xml(folder, "semcor", TRAIN)
    (folder / "index.sense").write_text(SENSE_INDEX, "utf-8")
    for name, sentences in TESTS.items():
        write_xml(folder / "Evaluation_Datasets" / name, name, sentences)
    together = [sentence for sentences in TESTS.values() for sentence in sentences]
    write_xml(folder / "Evaluation_Datasets" / "ALL", "ALL", together)
