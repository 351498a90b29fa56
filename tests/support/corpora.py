"""Small real corpora for the tests of training: the documentation that comes with Python."""

from functools import cache
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

from elmox.text.sentences import split_sentences
from elmox.text.tokenize import get_tokenizer
from elmox.training.corpus.corpus import Corpus, open_corpus
from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus


@cache
def documents() -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Return tokenized documents of a few dozen sentences each."""
    tokenize = get_tokenizer("treebank")
    texts = []
    for name in sorted(topics):
        sentences = [tuple(tokenize(s)) for s in split_sentences(topics[name])]
        texts.append(tuple(s for s in sentences if s))
    return tuple(document for document in texts if document)


def write_documents(path: Path, start: int, stop: int) -> Path:
    """Write documents to a text file: a tokenized sentence per line, a blank line between them."""
    text = "\n".join(
        "".join(f"{' '.join(sentence)}\n" for sentence in document)
        for document in documents()[start:stop]
    )
    path.write_text(text, encoding="utf-8")
    return path


def small_corpus(folder: Path, num_documents: int = 12, **options: object) -> Corpus:
    """Prepare a corpus of a few thousand words, with every fourth document held out."""
    text = write_documents(folder / "text.txt", 0, num_documents)
    chosen: dict[str, object] = {
        "tokenized": True,
        "hold_out": 4,
        "min_count": 2,
        "shard_tokens": 1000,
        **options,
    }
    prepare_corpus(
        [str(text)],
        folder / "corpus",
        PrepareOptions(**chosen),  # type: ignore[arg-type]
        num_workers=1,
    )
    return open_corpus(folder / "corpus")


def some_text(num_lines: int, seed: int = 0) -> str:
    """Return lines of Zipfian words, some of them blank."""
    rng = np.random.default_rng(seed)
    lines = [
        " ".join(f"w{number}" for number in rng.zipf(1.3, rng.integers(1, 30)) % 10**6)
        for _ in range(num_lines)
    ]
    return "".join(
        f"{line}\n\n" if number % 9 == 8 else f"{line}\n" for number, line in enumerate(lines)
    )
