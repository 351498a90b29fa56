"""Labeled files of every task, as small as they can be, for the examples of the docs."""

import json
from pathlib import Path

ROLES = (
    ("Ada gave him the book", 1, [("ARG0", 0, 0), ("V", 1, 1), ("ARG2", 2, 2), ("ARG1", 3, 4)]),
    ("He fell", 1, [("ARG1", 0, 0), ("V", 1, 1)]),
    ("She slept yesterday", 1, [("ARG0", 0, 0), ("V", 1, 1), ("ARGM-TMP", 2, 2)]),
)
PAIRS = (
    ("A man eats.", "A man is eating.", "ENTAILMENT"),
    ("A man eats.", "The man does not eat.", "CONTRADICTION"),
    ("A man eats.", "He is old.", "NEUTRAL"),
)
TREES = (
    "(4 (2 The) (4 (2 film) (4 shines)))",
    "(0 (2 The) (0 (2 film) (0 bores)))",
    "(2 (2 The) (2 film))",
)
CONTEXT = "Ada Lovelace lived in London."
QUESTIONS = (("Who lived in London?", "Ada Lovelace"), ("Where did she live?", "London"))
DOCUMENTS = (
    (("Ada", "(1)"), ("met", "-"), ("Charles", "(2)"), (".", "-")),
    (("She", "(1)"), ("liked", "-"), ("him", "(2)"), (".", "-")),
)
REVIEWS = (
    ("The film shines.", "good"),
    ("A wonderful story, well told.", "good"),
    ("It bores from start to end.", "bad"),
    ("Dull and far too long.", "bad"),
)


def write_task_files(folder: Path) -> None:
    """Write a labeled file and an input file for every task."""
    _write(folder / "roles.jsonl", [json.dumps(_roles(*role)) for role in ROLES])
    predicates = {"tokens": ["Ada", "gave", "him", "the", "book"], "predicates": [1]}
    _write(folder / "predicates.jsonl", [json.dumps(predicates)])
    rows = [f"{i}\t{a}\t{b}\t{label}" for i, (a, b, label) in enumerate(PAIRS)]
    header = "pair_ID\tsentence_A\tsentence_B\tentailment_judgment"
    _write(folder / "SICK_train.txt", [header, *rows])
    _write(folder / "pairs.jsonl", [json.dumps({"premise": "A man eats.", "hypothesis": "He is."})])
    _write(folder / "trees.txt", TREES)
    _write(folder / "squad.json", [json.dumps(_squad())])
    question = {"question": "Where did she live?", "context": CONTEXT}
    _write(folder / "questions.jsonl", [json.dumps(question)])
    _write(folder / "documents.conll", _conll())
    lines = [f'"{text}",{label}' for text, label in REVIEWS]
    _write(folder / "reviews.csv", ["text,label", *lines])


def _write(path: Path, lines: tuple[str, ...] | list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _roles(text: str, predicate: int, spans: list[tuple[str, int, int]]) -> dict[str, object]:
    words = text.split()
    prop = {"pred": predicate, "lemma": "x", "frame": "x.01", "args": [list(s) for s in spans]}
    return {"sent_id": text, "words": words, "xpos": ["X"] * len(words), "props": [prop]}


def _squad() -> dict[str, object]:
    questions = [
        {
            "id": f"q{number}",
            "question": question,
            "answers": [{"text": answer, "answer_start": CONTEXT.index(answer)}],
        }
        for number, (question, answer) in enumerate(QUESTIONS)
    ]
    return {"version": "1.1", "data": [{"paragraphs": [{"context": CONTEXT, "qas": questions}]}]}


def _conll() -> list[str]:
    lines = ["#begin document (d0); part 0"]
    for sentence in DOCUMENTS:
        for position, (word, mention) in enumerate(sentence):
            lines.append("\t".join(["d0", "0", str(position), word, *"______", "_", "_", mention]))
        lines.append("")
    return [*lines, "#end document"]
