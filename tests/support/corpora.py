"""Small real corpora for the tests of training: Python's own documentation, which is everywhere."""

from functools import cache
from pathlib import Path
from pydoc_data.topics import topics

from elmox.text.sentences import split_sentences
from elmox.text.tokenize import get_tokenizer
from elmox.training.corpus.corpus import Corpus, open_corpus
from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus


@cache
def documents() -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Tokenized documents: each a few dozen sentences."""
    tokenize = get_tokenizer("treebank")
    found = []
    for name in sorted(topics):
        sentences = [tuple(tokenize(s)) for s in split_sentences(topics[name])]
        found.append(tuple(s for s in sentences if s))
    return tuple(document for document in found if document)


def write_documents(path: Path, start: int, stop: int) -> Path:
    """Some documents as a text file: a tokenized sentence a line, a blank line after each."""
    text = "\n".join(
        "".join(f"{' '.join(sentence)}\n" for sentence in document)
        for document in documents()[start:stop]
    )
    path.write_text(text, encoding="utf-8")
    return path


def small_corpus(folder: Path, num_documents: int = 12, **options: object) -> Corpus:
    """A prepared corpus of a few thousand words, every fourth document held out."""
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
