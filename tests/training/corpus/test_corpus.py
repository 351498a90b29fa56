"""A corpus on disk: reading it across shards, and errors for damaged files."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from corpus_reference import documents_of, expected_corpus, stream_of
from hypothesis import given, settings
from hypothesis import strategies as st

from elmox.errors import ElmoxError
from elmox.text.chars import spell_bytes
from elmox.training.corpus.corpus import Corpus, TokenStream, open_corpus
from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus

TEXT = (
    """\
the cat sat .
the naïve cat sat on the mat .

天 😀 the cat
a
"""
    + "x" * 47
    + " "
    + "y" * 48
    + " "
    + "z" * 200
    + " ö" * 30
    + """
天天天天天天天天天天天天天天天天天天天天 the

the cat sat .
<S> and </S> and <UNK>

one more sentence .
and another one .
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of several shards with held-out text."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text").write_text(TEXT, encoding="utf-8")
    options = PrepareOptions(tokenized=True, hold_out=3, min_count=2, shard_tokens=7)
    prepare_corpus([str(folder / "text")], folder / "out", options, num_workers=1)
    return folder / "out"


@pytest.fixture
def corpus(folder: Path) -> Corpus:
    return open_corpus(folder, verify=True)


def expected_stream(split: str = "train") -> list[int]:
    documents = documents_of([TEXT])
    held_out = documents[2::3]
    train = [document for document in documents if document not in held_out]
    expected = expected_corpus(train, held_out, min_count=2, shard_tokens=7)
    return stream_of(expected.train if split == "train" else expected.valid)


def read_all(stream: TokenStream) -> list[int]:
    ids: list[int] = stream.read(0, stream.num_positions + 1).tolist()
    return ids


def test_the_whole_stream(corpus: Corpus) -> None:
    assert corpus.train.num_shards >= 3
    assert read_all(corpus.train) == expected_stream()
    assert corpus.valid is not None
    assert read_all(corpus.valid) == expected_stream("valid")
    info = corpus.info.train
    assert corpus.train.num_positions == info.num_tokens + info.num_sentences


@settings(deadline=None)
@given(data=st.data())
def test_any_part_of_the_stream(folder: Path, data: st.DataObject) -> None:
    corpus = open_corpus(folder)
    whole = expected_stream()
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))
    ids = corpus.train.read(start, stop)
    assert ids.dtype == np.uint32
    assert ids.tolist() == whole[start:stop]


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 1), (0, 10**6)])
def test_outside_the_stream(corpus: Corpus, start: int, stop: int) -> None:
    with pytest.raises(IndexError):
        corpus.train.read(start, stop)


@settings(deadline=None)
@given(data=st.data())
def test_shards_in_another_order(folder: Path, data: st.DataObject) -> None:
    stream = open_corpus(folder).train
    shards = [np.load(path).tolist() for path in sorted(folder.glob("train-*.npy"))]
    order = data.draw(st.permutations(range(len(shards))))
    permuted = stream.permuted(order)
    assert permuted.num_positions == stream.num_positions
    assert read_all(permuted) == stream_of([shards[number] for number in order])
    assert read_all(stream) == expected_stream()


def test_not_a_permutation(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="permutation"):
        corpus.train.permuted([0] * corpus.train.num_shards)


def test_both_directions_read_the_text(corpus: Corpus) -> None:
    """Inputs and targets by the rule of the module, against sentences with their boundaries."""
    stream = corpus.train.read(0, corpus.train.num_positions + 1).astype(np.int64)
    sentences: list[list[int]] = [[]]
    for id in stream[1:].tolist():
        if id == 1:
            sentences.append([])
        else:
            sentences[-1].append(id)
    assert sentences.pop() == []
    as_begin = np.where(stream == 1, 0, stream)
    forward = list(zip(as_begin[:-1].tolist(), stream[1:].tolist(), strict=True))
    backward = list(zip(stream[1:].tolist(), as_begin[:-1].tolist(), strict=True))[::-1]
    expected_forward, expected_backward = [], []
    for words in sentences:
        expected_forward += list(pairwise([0, *words, 1]))
    for words in reversed(sentences):
        expected_backward += list(pairwise([1, *words[::-1], 0]))
    assert forward == expected_forward
    assert backward == expected_backward
    reversed_text = [corpus.lexicon.word(id) for id, _ in backward if id != 1]
    text = [corpus.lexicon.word(id) for _, id in forward if id != 1]
    assert reversed_text == text[::-1]


@pytest.mark.parametrize("max_characters", [3, 4, 12, 50, 300])
def test_spelling(corpus: Corpus, max_characters: int) -> None:
    words = corpus.lexicon.words(range(len(corpus.lexicon)))
    ids = np.random.default_rng(0).permutation(len(words)).astype(np.uint32)
    ours = corpus.lexicon.spell(ids, max_characters)
    theirs = spell_bytes([words[id] for id in ids], max_characters)
    np.testing.assert_array_equal(ours.ids, theirs.ids, strict=True)
    np.testing.assert_array_equal(ours.lengths, theirs.lengths, strict=True)
    assert corpus.lexicon.spell([], max_characters).ids.shape == (0, max_characters)


def test_words(corpus: Corpus) -> None:
    assert corpus.lexicon.words([0, 1, 2]) == ["<S>", "</S>", "<UNK>"]
    assert corpus.lexicon.word(3) == corpus.vocab()[3]
    assert len(corpus.vocab()) == corpus.vocab_size
    assert (corpus.path / "vocab.txt").read_text("utf-8").split("\n")[:-1] == [*corpus.vocab()]
    counts = corpus.counts()
    assert counts.shape == (len(corpus.lexicon),)
    assert counts[3:].sum() + counts[2] == corpus.info.train.num_tokens
    for id in (-1, len(corpus.lexicon)):
        with pytest.raises(IndexError):
            corpus.lexicon.word(id)


def test_nothing_is_writable(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="read-only"):
        corpus.counts()[0] = 1


def copied(folder: Path, target: Path) -> Path:
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


@pytest.mark.parametrize(
    "name", ["vocab.txt", "words.bin", "words.npy", "counts.npy", "train-00001.npy"]
)
@pytest.mark.parametrize("damage", ["missing", "cut", "longer", "changed"])
def test_damage(folder: Path, tmp_path: Path, name: str, damage: str) -> None:
    path = copied(folder, tmp_path / "copy") / name
    content = path.read_bytes()
    path.unlink()
    changes: dict[str, Callable[[], object]] = {
        "missing": lambda: None,
        "cut": lambda: path.write_bytes(content[:-1]),
        "longer": lambda: path.write_bytes(content + b"\0"),
        "changed": lambda: path.write_bytes(content[:-1] + bytes([content[-1] ^ 1])),
    }
    changes[damage]()
    with pytest.raises(ElmoxError, match=name):
        open_corpus(tmp_path / "copy", verify=True)
    if damage != "changed":
        with pytest.raises(ElmoxError, match=name):
            open_corpus(tmp_path / "copy")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 2"),
        ({"format": True}, "format True"),
        ({"vocab_size": 4}, "digest"),
        ({"vocab_size": 10**6}, "vocab_size"),
        ({"tokenizer": "whitespaces"}, "digest"),
        ({"digest": "0"}, "digest"),
        ({"digest": None}, "digest"),
        ({"more": 1}, "more"),
        ({"train": None}, "train"),
        ({"valid": None}, "digest"),
        ({"lexicon": []}, "lexicon"),
    ],
)
def test_changed_description(
    folder: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = copied(folder, tmp_path / "copy") / "corpus.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **change}))
    with pytest.raises(ElmoxError, match=message) as raised:
        open_corpus(path.parent)
    assert "\n" not in str(raised.value)


def test_not_a_corpus(tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match="elmox prepare"):
        open_corpus(tmp_path)
    with pytest.raises(ElmoxError, match="missing does not exist, expected a corpus"):
        open_corpus(tmp_path / "missing")
    (tmp_path / "corpus.json").write_text("[]")
    with pytest.raises(ElmoxError, match="JSON object"):
        open_corpus(tmp_path)


def test_shards_of_another_kind(folder: Path, tmp_path: Path) -> None:
    """A shard of the right size with a wrong header is an error when it is read."""
    path = copied(folder, tmp_path / "copy") / "train-00000.npy"
    path.write_bytes(path.read_bytes().replace(b"<u4", b"<f4"))
    stream = open_corpus(tmp_path / "copy").train
    with pytest.raises(ElmoxError, match="float32"):
        stream.read(0, 3)


def test_the_digest_distinguishes_corpora(folder: Path, tmp_path: Path) -> None:
    digests = {open_corpus(folder).info.digest}
    for number, (text, options) in enumerate(
        [
            (TEXT, PrepareOptions(tokenized=True, hold_out=3, min_count=2)),
            (TEXT, PrepareOptions(tokenized=True, hold_out=3, min_count=1, shard_tokens=7)),
            (
                TEXT,
                PrepareOptions(
                    tokenized=True, hold_out=3, min_count=2, shard_tokens=7, tokenizer="treebank"
                ),
            ),
            (
                f"{TEXT}more",
                PrepareOptions(tokenized=True, hold_out=3, min_count=2, shard_tokens=7),
            ),
        ]
    ):
        (tmp_path / "text").write_text(text, encoding="utf-8")
        out = tmp_path / str(number)
        info = prepare_corpus([str(tmp_path / "text")], out, options, num_workers=1)
        assert open_corpus(out).info == info
        digests.add(info.digest)
    assert len(digests) == 5


def test_gather_agrees_with_read(corpus: Corpus) -> None:
    """At any positions in any order, over shards in any order."""
    order = list(range(corpus.train.num_shards))[::-1]
    for stream in (corpus.train, corpus.train.permuted(order)):
        size = stream.num_positions + 1
        positions = np.random.default_rng(0).integers(0, size, (3, 50))
        np.testing.assert_array_equal(stream.gather(positions), stream.read(0, size)[positions])
        np.testing.assert_array_equal(stream.gather(np.arange(size)), stream.read(0, size))
        assert stream.gather(np.empty((2, 0), np.int64)).shape == (2, 0)
        for outside in (-1, size):
            with pytest.raises(IndexError):
                stream.gather(np.array([0, outside]))
