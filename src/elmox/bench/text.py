"""Running text to measure on: a file, or prose that every machine has."""

from collections.abc import Callable, Iterator
from pathlib import Path

from elmox.errors import ElmoxError
from elmox.text.sentences import split_sentences
from elmox.training.corpus.sources import find_sources, read_blocks


def first_sentences(
    path: Path | None, tokenize: Callable[[str], list[str]], number: int
) -> list[list[str]]:
    """The first sentences of a text, tokenized; fewer where it is shorter.

    Args:
        path: a file, compressed or not; None for Python's own documentation.
        tokenize: splits a sentence.
        number: most sentences.
    """
    found: list[list[str]] = []
    for sentence in _sentences(path):
        if tokens := tokenize(sentence):
            found.append(tokens)
        if len(found) == number:
            break
    if not found:
        raise ElmoxError(f"{path} holds no sentence: give a file of running text")
    return found


def distinct_words(
    path: Path | None, tokenize: Callable[[str], list[str]], number: int
) -> tuple[list[str], int]:
    """Words of a text in the order of their first occurrence.

    Returns:
        `number` words, and how many of them are distinct: a text that has fewer is gone through
        again, which costs a network the same.
    """
    seen: dict[str, None] = {}
    for sentence in _sentences(path):
        seen.update(dict.fromkeys(tokenize(sentence)))
        if len(seen) >= number:
            break
    if not seen:
        raise ElmoxError(f"{path} holds no word: give a file of running text")
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
