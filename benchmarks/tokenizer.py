"""Measure the rule tokenizer and the sentence splitter: agreement with treebanks, and speed.

    python benchmarks/tokenizer.py --shared DIR

Prints a Markdown table and writes it to benchmarks/results/tokenizer.md. DIR holds

    tasks/pos_parse_ud_ewt/en_ewt-ud-dev.conllu.xz   UD English-EWT: words and sentences of web text
    tasks/chunking_conll2000/test.txt.xz             CoNLL-2000: words of the Wall Street Journal
    corpora/english-wiki/valid.txt.xz                running text, a paragraph per line

All scores compare spans of characters, counted without white space: a word is right when both of
its ends are.
"""

import argparse
import lzma
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Set
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from elmox.text.sentences import sentences_of, split_sentences
from elmox.text.tokenize import Tokenizer, get_tokenizer

ROOT = Path(__file__).resolve().parents[1]


class Sentence(NamedTuple):
    """A sentence of a UD treebank: its text, its syntactic words, and the space after it."""

    text: str
    words: list[str]
    space: str


class Score(NamedTuple):
    """Precision, recall and F1, in percent."""

    precision: float
    recall: float
    f1: float


def read_conllu(path: Path) -> list[list[Sentence]]:
    """Read the paragraphs of a UD treebank."""
    paragraphs: list[list[Sentence]] = []
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for block in file.read().strip().split("\n\n"):
            lines = block.split("\n")
            text = next(line for line in lines if line.startswith("# text = "))
            rows = [line.split("\t") for line in lines if not line.startswith("#")]
            words = [row[1] for row in rows if row[0].isdigit()]
            # A multiword token (`3-4`) records for its words whether a space follows.
            token = next((row for row in rows if row[0].endswith(f"-{len(words)}")), rows[-1])
            space = "" if "SpaceAfter=No" in token[9] else " "
            if not paragraphs or any(line.startswith(("# newdoc", "# newpar")) for line in lines):
                paragraphs.append([])
            paragraphs[-1].append(Sentence(text.removeprefix("# text = "), words, space))
    return paragraphs


def read_conll2000(path: Path) -> list[list[str]]:
    """Read the sentences of CoNLL-2000 as lists of words."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    return [[line.split()[0] for line in block.split("\n")] for block in blocks]


def token_score(sentences: Iterable[Sentence], tokenizer: Tokenizer) -> Score:
    """Score a tokenizer against syntactic words, from the text of each sentence."""
    return _score((_spans(words), _spans(tokenizer(text))) for text, words, _ in sentences)


def count_unalignable(sentences: Iterable[Sentence]) -> int:
    """Count the sentences whose words, joined, are not their text: their spans mean nothing."""
    return sum("".join(words) != "".join(text.split()) for text, words, _ in sentences)


def sentence_scores(paragraphs: Iterable[list[Sentence]]) -> dict[str, Score]:
    """Score the splitter: all sentence ends, those inside paragraphs, and whole sentences."""
    pairs = [
        (
            _spans(sentence.text for sentence in paragraph),
            _spans(split_sentences("".join(text + space for text, _, space in paragraph))),
        )
        for paragraph in paragraphs
    ]
    ends = [({end for _, end in gold}, {end for _, end in system}) for gold, system in pairs]
    inside = [(gold - {max(gold)}, system - {max(gold)}) for gold, system in ends]
    return {"ends": _score(ends), "ends inside paragraphs": _score(inside), "whole": _score(pairs)}


def share_of_words_left_whole(sentences: list[list[str]], tokenizer: Tokenizer) -> float:
    """Percentage of words that, as a text of their own, come back as one token."""
    whole = [tokenizer(word) == [word] for words in sentences for word in words]
    return 100 * sum(whole) / len(whole)


def share_of_sentences_left_alone(sentences: list[list[str]], tokenizer: Tokenizer) -> float:
    """Percentage of sentences that, joined by spaces, come back as the same tokens."""
    same = [tokenizer(" ".join(words)) == words for words in sentences]
    return 100 * sum(same) / len(same)


def tokenize_lines(lines: list[str], tokenizer: Tokenizer) -> list[list[str]]:
    """Tokenize each line."""
    return [tokenizer(line) for line in lines]


def seconds(work: Callable[[], object], runs: int) -> float:
    """Median processor time of several runs."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return median(times)


def _spans(pieces: Iterable[str]) -> set[tuple[int, int]]:
    lengths = (len("".join(piece.split())) for piece in pieces)
    return set(pairwise(accumulate(lengths, initial=0)))


def _score(pairs: Iterable[tuple[Set[object], Set[object]]]) -> Score:
    common = num_gold = num_system = 0
    for gold, system in pairs:
        common += len(gold & system)
        num_gold += len(gold)
        num_system += len(system)
    return Score(
        100 * common / num_system, 100 * common / num_gold, 200 * common / (num_gold + num_system)
    )


def measure(shared: Path, runs: int) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the table: what was measured, on what, and the number."""
    paragraphs = read_conllu(shared / "tasks/pos_parse_ud_ewt/en_ewt-ud-dev.conllu.xz")
    sentences = [sentence for paragraph in paragraphs for sentence in paragraph]
    ewt = f"UD EWT dev ({len(sentences):,} sentences, {count_unalignable(sentences)} unalignable)"
    for name in ("treebank", "treebank:hyphens"):
        score = token_score(sentences, get_tokenizer(name))
        yield f"`{name}`, words", ewt, _show(score)
    for what, score in sentence_scores(paragraphs).items():
        yield f"sentences, {what}", f"UD EWT dev ({len(paragraphs):,} paragraphs)", _show(score)

    conll2000 = read_conll2000(shared / "tasks/chunking_conll2000/test.txt.xz")
    where = f"CoNLL-2000 test ({len(conll2000):,} sentences)"
    treebank = get_tokenizer("treebank")
    whole = share_of_words_left_whole(conll2000, treebank)
    yield "`treebank`, words left whole", where, f"{whole:.2f} %"
    alone = share_of_sentences_left_alone(conll2000, treebank)
    yield "`treebank`, tokenized sentences left alone", where, f"{alone:.2f} %"

    with lzma.open(shared / "corpora/english-wiki/valid.txt.xz", "rt", encoding="utf-8") as file:
        text = file.read()
    lines = text.splitlines()
    num_tokens = sum(map(len, tokenize_lines(lines, treebank)))
    jobs: dict[str, Callable[[], object]] = {
        "`treebank`": partial(tokenize_lines, lines, treebank),
        "`treebank:hyphens`": partial(tokenize_lines, lines, get_tokenizer("treebank:hyphens")),
        "`split_sentences`": partial(split_sentences, text),
        "`sentences_of`, `treebank`": partial(sentences_of, text, treebank),
    }
    for name, job in jobs.items():
        speed = num_tokens / seconds(job, runs) / 1e6
        where = f"English Wikipedia ({num_tokens:,} tokens), one core"
        yield f"{name}, speed", where, f"{speed:.2f} M tokens/s"


def _show(score: Score) -> str:
    return f"F1 {score.f1:.2f} (precision {score.precision:.2f}, recall {score.recall:.2f})"


def _machine() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.processor()}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the tokenizer and the sentence splitter.")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared", metavar="DIR")
    parser.add_argument("--runs", type=int, default=7, help="runs per speed; the median counts")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/tokenizer.md")
    options = parser.parse_args()
    if not (options.shared / "tasks").is_dir():
        print(f"No treebanks in {options.shared}: nothing measured (give their place as --shared).")
        return
    rows = [" | ".join(("", *row, "")).strip() for row in measure(options.shared, options.runs)]
    report = "\n".join(
        [
            "# Tokenizer and sentence splitter",
            "",
            f"By `benchmarks/tokenizer.py` on {_machine()}; speeds: median of {options.runs} runs.",
            "The rules were tuned on UD EWT train and CoNLL-2000 train.",
            "",
            "| what | on | result |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )
    options.out.write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
