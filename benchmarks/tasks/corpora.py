"""The tasks' corpora as train, dev and test files, made once from the published ones.

    ewt        UD_English-EWT, as published
    wnut17     leondz/emerging_entities_17, as published
    conll2000  the shared task on chunking; every tenth training sentence is dev
    propbank   PropBank's roles on EWT's words, as JSON lines; EWT's split
    sick       SICK, as published; its trial part is dev
    sst        trees of the Stanford Sentiment Treebank, as published
    subjqa     SubjQA's questions with an answer, of domains that have a training file
    litbank    LitBank's coreference; documents by name: of ten, the ninth is dev, the tenth test

`SOURCES` lists the published files, below one folder.
"""

import json
import lzma
import shutil
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from machine import ROOT

from elmox.errors import ElmoxError
from elmox.io.files import atomic_directory
from elmox.tasks.qa.questions import Question
from elmox.tasks.qa.subjqa import read_subjqa

DATA = ROOT.parent / "shared" / "tasks"
PARTS = ("train", "dev", "test")
Make: TypeAlias = Callable[[Path, Path], None]  # from the published files into a folder


class Files(NamedTuple):
    """Train, dev and test files of a corpus."""

    train: Path
    dev: Path
    test: Path


def corpus_files(corpus: str, data: Path, work: Path) -> Files:
    """Return a corpus's three files below `work`, made from the published ones if missing."""
    folder = work / corpus
    make, suffix = SOURCES[corpus]
    if not folder.exists():
        if not data.is_dir():
            raise ElmoxError(
                f"{data} is not a folder: give the folder of the tasks' data with --data"
            )
        with atomic_directory(folder) as new:
            make(data, new)
    return Files(*(folder / f"{part}{suffix}" for part in PARTS))


def _published(suffix: str, pattern: str, names: Sequence[str]) -> tuple[Make, str]:
    """Unchanged files, unpacked."""

    def make(data: Path, out: Path) -> None:
        for part, name in zip(PARTS, names, strict=True):
            (out / f"{part}{suffix}").write_bytes(_read(data / pattern.format(name)))

    return make, suffix


def _conll2000(data: Path, out: Path) -> None:
    text = _read(data / "chunking_conll2000" / "train.txt.xz").decode()
    sentences = [sentence for sentence in text.strip("\n").split("\n\n") if sentence.strip()]
    for part, chosen in (("train", range(9)), ("dev", range(9, 10))):
        selected = [sentence for i, sentence in enumerate(sentences) if i % 10 in chosen]
        (out / f"{part}.txt").write_text("\n\n".join(selected) + "\n", encoding="utf-8")
    (out / "test.txt").write_bytes(_read(data / "chunking_conll2000" / "test.txt.xz"))


def _subjqa(data: Path, out: Path) -> None:
    """SQuAD's JSON of the answerable questions of all domains that can be learned."""
    folder = out / "archive"
    _unpack(data / "qa_subjqa" / "subjqa-splits.tar.xz", folder)
    domains = sorted(path.parents[1] for path in folder.rglob("train.csv"))
    for part in PARTS:
        files = [domain / "splits" / f"{part}.csv" for domain in domains]
        questions = {
            question.id: question
            for file in files
            for question in read_subjqa(file)
            if question.answers
        }
        (out / f"{part}.json").write_text(json.dumps(_squad(questions.values())), encoding="utf-8")
    shutil.rmtree(folder)


def _litbank(data: Path, out: Path) -> None:
    folder = out / "archive"
    _unpack(data / "coref_litbank" / "litbank-coref-conll.tar.xz", folder)
    documents = sorted(folder.rglob("*.conll"), key=lambda path: path.name)
    texts: dict[str, list[str]] = {part: [] for part in PARTS}
    for number, path in enumerate(documents):
        part = {8: "dev", 9: "test"}.get(number % 10, "train")
        texts[part].append(path.read_text("utf-8").rstrip("\n") + "\n")
    for part, documents_of_part in texts.items():
        (out / f"{part}.conll").write_text("".join(documents_of_part), encoding="utf-8")
    shutil.rmtree(folder)


def _squad(questions: Iterable[Question]) -> dict[str, object]:
    """Return questions in the format of SQuAD 1.1, one paragraph per question."""
    paragraphs = [
        {
            "context": question.context,
            "qas": [
                {
                    "id": question.id,
                    "question": question.question,
                    "answers": [
                        {"text": a.text, "answer_start": a.start} for a in question.answers
                    ],
                }
            ],
        }
        for question in questions
    ]
    return {"version": "1.1", "data": [{"title": "SubjQA", "paragraphs": paragraphs}]}


def _read(path: Path) -> bytes:
    if not path.exists():
        raise ElmoxError(f"{path} does not exist: expected it in the tasks' data")
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def _unpack(path: Path, out: Path) -> None:
    if not path.exists():
        raise ElmoxError(f"{path} does not exist: expected it in the tasks' data")
    with tarfile.open(path) as archive:
        archive.extractall(out, filter="data")


SOURCES: dict[str, tuple[Make, str]] = {
    "ewt": _published(".conllu", "pos_parse_ud_ewt/en_ewt-ud-{}.conllu.xz", PARTS),
    "wnut17": _published(
        ".txt",
        "ner_wnut17/{}",
        ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"),
    ),
    "conll2000": (_conll2000, ".txt"),
    "propbank": _published(".jsonl", "srl_propbank_ewt/{}.jsonl.xz", PARTS),
    "sick": _published(".txt", "entailment_sick/SICK_{}.txt", ("train", "trial", "test_annotated")),
    "sst": _published(".txt", "sentiment_sst5/{}.txt.xz", PARTS),
    "subjqa": (_subjqa, ".json"),
    "litbank": (_litbank, ".conll"),
}
