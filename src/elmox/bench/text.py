"""Running text for measurements: a file, or Python's documentation."""

from collections.abc import Callable, Iterator
from pathlib import Path

from elmox.errors import ElmoxError
from elmox.text.sentences import split_sentences
from elmox.training.corpus.sources import find_sources, read_blocks


def first_sentences(
    path: Path | None, tokenize: Callable[[str], list[str]], number: int
) -> list[list[str]]:
    """Return the first sentences of a text, tokenized; fewer if it is shorter.

    Args:
        path: a file, compressed or not; None for Python's documentation.
        tokenize: splits a sentence into tokens.
        number: maximum number of sentences.
    """
    sentences: list[list[str]] = []
    for sentence in _sentences(path):
        if tokens := tokenize(sentence):
            sentences.append(tokens)
        if len(sentences) == number:
            break
    if not sentences:
        raise ElmoxError(f"{path} contains no sentence: give a file of running text")
    return sentences


def distinct_words(
    path: Path | None, tokenize: Callable[[str], list[str]], number: int
) -> tuple[list[str], int]:
    """Return words of a text in the order of their first occurrence.

    Returns:
        `number` words, and the number of distinct ones among them: a text with fewer words is
        repeated, which costs a network the same.
    """
    seen: dict[str, None] = {}
    for sentence in _sentences(path):
        seen.update(dict.fromkeys(tokenize(sentence)))
        if len(seen) >= number:
            break
    if not seen:
        raise ElmoxError(f"{path} contains no word: give a file of running text")
    words = list(seen)[:number]
    return (words * -(-number // len(words)))[:number], len(words)


def _sentences(path: Path | None) -> Iterator[str]:
    for part in _documentation() if path is None else _parts(path):
        yield from split_sentences(part)


def _parts(path: Path) -> Iterator[str]:
    for source in find_sources([str(path)]):
        for block in read_blocks(source):
            try:
                yield block.data.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ElmoxError(
                    f"{path} is not UTF-8 (byte {error.start}): convert it first"
                ) from error


def _documentation() -> Iterator[str]:
    from pydoc_data.topics import topics

    yield from topics.values()
