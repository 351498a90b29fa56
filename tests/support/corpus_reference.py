"""A plain reference implementation of `elmox prepare`, with everything in memory."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Document = list[list[str]]

SPECIAL = ["<S>", "</S>", "<UNK>"]


@dataclass(frozen=True)
class Expected:
    """A corpus as lists."""

    words: list[str]
    counts: list[int]
    vocab_size: int
    train: list[list[int]]  # shards
    valid: list[list[int]]
    num_documents: tuple[int, int]
    num_boundary_words: tuple[int, int]


def documents_of(texts: Sequence[str]) -> list[Document]:
    """Return documents of sentences of words; a blank line or the end of a text ends one."""
    documents = []
    for text in texts:
        document: Document = []
        for line in [*text.removeprefix("\ufeff").split("\n"), ""]:
            if line.split():
                document.append(line.split())
            elif document:
                documents.append(document)
                document = []
    return documents


def expected_corpus(
    train: list[Document],
    valid: list[Document],
    *,
    vocab: Sequence[str] = (),
    min_count: int = 3,
    max_vocab_size: int | None = None,
    shard_tokens: int = 2**22,
) -> Expected:
    """Return the corpus of a training text and a held-out text."""
    literal = tuple(
        sum(word in SPECIAL[:2] for document in split for s in document for word in s)
        for split in (train, valid)
    )
    train, valid = _replaced(train), _replaced(valid)
    num_sentences = sum(map(len, train))
    counts = Counter(word for document in train for sentence in document for word in sentence)
    counts["<S>"] = counts["</S>"] = num_sentences
    seen = {word for split in (train, valid) for d in split for s in d for word in s}
    fixed = [*SPECIAL, *vocab]
    others = sorted(seen - set(fixed), key=lambda word: (-counts[word], word.encode()))
    words = fixed + others
    vocab_size = len(fixed)
    if not vocab:
        vocab_size += sum(counts[word] >= min_count for word in others)
        vocab_size = min(vocab_size, max_vocab_size or vocab_size)
    ids = {word: id for id, word in enumerate(words)}
    return Expected(
        words=words,
        counts=[counts[word] for word in words],
        vocab_size=vocab_size,
        train=_shards(train, ids, shard_tokens),
        valid=_shards(valid, ids, shard_tokens),
        num_documents=(len(train), len(valid)),
        num_boundary_words=(literal[0], literal[1]),
    )


def stream_of(shards: list[list[int]]) -> list[int]:
    """Return the virtual stream: a separator, then every sentence followed by one."""
    return [1] + [id for shard in shards for id in shard[1:]]


def _replaced(documents: list[Document]) -> list[Document]:
    return [
        [["<UNK>" if word in SPECIAL else word for word in sentence] for sentence in document]
        for document in documents
    ]


def _shards(documents: list[Document], ids: dict[str, int], full: int) -> list[list[int]]:
    shards = [[1]]
    for document in documents:
        for sentence in document:
            shards[-1] += [ids[word] for word in sentence] + [1]
            if len(shards[-1]) - 1 >= full + full // 4:
                shards.append([1])
        if len(shards[-1]) - 1 >= full:
            shards.append([1])
    return [shard for shard in shards if len(shard) > 1]
