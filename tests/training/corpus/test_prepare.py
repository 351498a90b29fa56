"""`elmox prepare`: text to the corpus that a plain reference implementation makes of it."""

import gzip
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compressed import COMPRESS
from corpora import some_text
from corpus_reference import Document, documents_of, expected_corpus, stream_of
from hypothesis import given, settings
from hypothesis import strategies as st
from shell import tree

from elmox.errors import ElmoxError, NothingHeldOut, UnreadableFile
from elmox.text.sentences import sentences_of
from elmox.text.tokenize import get_tokenizer
from elmox.training.corpus import sources
from elmox.training.corpus.corpus import Corpus, open_corpus
from elmox.training.corpus.prepare import PrepareOptions, Progress, prepare_corpus

WORDS = ("the", "cat", "sat", ".", "naïve", "天", "😀", "\0", "a\0b", "x" * 60, "ﬁ", "<UNK>", "<S>")
SPACES = (" ", "  ", "\t", "\u00a0", "\u2028", "\x1c", "\r")
BLANK_LINES = ("", " ", "\t\u3000", "\r")

sentence = st.lists(
    st.tuples(st.sampled_from((*WORDS, "</S>")), st.sampled_from(SPACES)), max_size=6
)
line = st.sampled_from(BLANK_LINES) | sentence.map(lambda pairs: "".join(w + s for w, s in pairs))
text = st.tuples(
    st.sampled_from(("", "\ufeff")), st.lists(line, max_size=12), st.sampled_from(("", "\n"))
).map(lambda parts: parts[0] + "\n".join(parts[1]) + parts[2])


def prepare(
    folder: Path, texts: list[str], workers: int = 1, block_bytes: int = 2**20, **options: Any
) -> Corpus:
    """Write texts to files and make the corpus `out` of them."""
    names = []
    for number, content in enumerate(texts):
        names.append(str(folder / f"text-{number}"))
        Path(names[-1]).write_bytes(content.encode())
    prepare_corpus(
        names,
        folder / "out",
        PrepareOptions(**{"tokenized": True, **options}),
        num_workers=workers,
        block_bytes=block_bytes,
    )
    return open_corpus(folder / "out", verify=True)


def shards(folder: Path, split: str) -> list[list[int]]:
    return [np.load(path).tolist() for path in sorted((folder / "out").glob(f"{split}-*.npy"))]


def words_of(corpus: Corpus, split: str = "train") -> list[str]:
    """The stream of a split as words."""
    stream = corpus.train if split == "train" else corpus.valid
    assert stream is not None
    return corpus.lexicon.words(stream.read(0, stream.num_positions + 1))


@settings(deadline=None)  # it waits for the disk
@given(
    texts=st.lists(text, min_size=1, max_size=3),
    valid=text,
    hold_out=st.sampled_from([None, 2, 3]),
    vocab_words=st.sampled_from([(), ("mat", "sat", "天", "cat")]),
    min_count=st.integers(1, 3),
    vocab_size=st.sampled_from([None, 4, 6]),
    shard_tokens=st.sampled_from([1, 5, 20, 2**22]),
    block_bytes=st.sampled_from([1, 7, 40, 2**20]),
)
def test_against_the_reference(
    texts: list[str],
    valid: str,
    hold_out: int | None,
    vocab_words: tuple[str, ...],
    min_count: int,
    vocab_size: int | None,
    shard_tokens: int,
    block_bytes: int,
) -> None:
    documents, held_out = documents_of(texts), documents_of([valid])
    options: dict[str, Any] = {"shard_tokens": shard_tokens}
    if hold_out is not None:
        held_out = documents[hold_out - 1 :: hold_out]
        documents = [d for i, d in enumerate(documents) if i % hold_out != hold_out - 1]
        options["hold_out"] = hold_out
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if hold_out is None:
            (folder / "valid").write_bytes(valid.encode())
            options["valid"] = (str(folder / "valid"),)
        if vocab_words:
            vocab = folder / "vocab"
            vocab.write_text("\n".join(["</S>", "<S>", "<UNK>", *vocab_words]), encoding="utf-8")
            options["vocab"] = vocab
        else:
            options |= {"min_count": min_count, "vocab_size": vocab_size}
        if not documents or (hold_out and not held_out):
            with pytest.raises(ElmoxError, match=r"no words in|holds out nothing"):
                prepare(folder, texts, block_bytes=block_bytes, **options)
            assert not (folder / "out").exists()
            return
        corpus = prepare(folder, texts, block_bytes=block_bytes, **options)
        expected = expected_corpus(
            documents,
            held_out,
            vocab=vocab_words,
            min_count=min_count,
            max_vocab_size=vocab_size,
            shard_tokens=shard_tokens,
        )
        assert corpus.lexicon.words(range(len(corpus.lexicon))) == expected.words
        assert corpus.counts().tolist() == expected.counts
        assert corpus.vocab() == tuple(expected.words[: expected.vocab_size])
        assert shards(folder, "train") == expected.train
        assert shards(folder, "valid") == expected.valid
        assert_described(corpus, documents, held_out)
        splits = (corpus.info.train, corpus.info.valid)
        for split, number in zip(splits, expected.num_boundary_words, strict=True):
            assert (split.num_boundary_words if split else 0) == number


def assert_described(corpus: Corpus, train: list[Document], valid: list[Document]) -> None:
    """The numbers of corpus.json, counted from the text."""
    vocab = {*corpus.vocab()[3:]}
    for split, documents in ((corpus.info.train, train), (corpus.info.valid, valid)):
        if split is None:
            assert not documents
            continue
        tokens = [word for document in documents for sentence in document for word in sentence]
        assert split.num_documents == len(documents)
        assert split.num_sentences == sum(map(len, documents))
        assert split.num_tokens == len(tokens)
        assert split.unknown_share == sum(word not in vocab for word in tokens) / len(tokens)
    tokens = [word for document in train for sentence in document for word in sentence]
    distinct = {*tokens} - {"<S>", "</S>", "<UNK>"}
    is_long = [len(word.encode()) > 48 for word in tokens]
    assert corpus.info.num_distinct_words == len(distinct)
    assert corpus.info.cut_share == sum(is_long) / len(tokens)
    num_long = sum(len(word.encode()) > 48 for word in distinct)
    assert corpus.info.cut_distinct_share == num_long / max(len(distinct), 1)


def test_any_number_of_workers_gives_the_same_bytes(tmp_path: Path) -> None:
    texts = [some_text(3000), "", some_text(500, seed=1), some_text(10, seed=2)]
    results = []
    for workers, block_bytes in ((1, 2**20), (2, 2**16), (3, 2**14)):
        folder = tmp_path / f"{workers}"
        folder.mkdir()
        prepare(folder, texts, workers, block_bytes, hold_out=7, shard_tokens=10_000)
        results.append(tree(folder / "out"))
    assert len([name for name in results[0] if name.startswith("train-")]) > 3
    assert results[0] == results[1] == results[2]


def test_raw_text(tmp_path: Path) -> None:
    raw = "Mr. Smith isn't here. He left!\nIt's 5 p.m.\n\n \nA new document… yes?\n"
    corpus = prepare(tmp_path, [raw], tokenized=False, block_bytes=20)
    assert corpus.info.tokenizer == "treebank"
    assert corpus.info.train.num_documents == 2
    expected = [
        word
        for line in raw.split("\n")
        for tokens in sentences_of(line, get_tokenizer("treebank"))
        for word in [*tokens, "</S>"]
    ]
    assert expected[:4] == ["Mr.", "Smith", "is", "n't"]
    assert words_of(corpus) == ["</S>", *expected]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "whitespace"),
        ({"tokenized": False}, "treebank"),
        ({"tokenizer": "treebank"}, "treebank"),
        ({"tokenizer": "spacy:de"}, "spacy:de"),
        ({"tokenized": False, "tokenizer": "whitespace"}, "whitespace"),
        ({"tokenized": False, "tokenizer": "treebank:hyphens"}, "treebank:hyphens"),
    ],
)
def test_the_tokenizer_is_recorded(tmp_path: Path, options: dict[str, Any], name: str) -> None:
    assert prepare(tmp_path, ["a b-c\n"], **options).info.tokenizer == name


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed(tmp_path: Path, suffix: str) -> None:
    plain = some_text(2000)
    prepare(tmp_path, [plain])
    expected = tree(tmp_path / "out")
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS[suffix](plain.encode()))
    options = PrepareOptions(tokenized=True)
    prepare_corpus([str(path)], tmp_path / "again", options, num_workers=1, block_bytes=10_000)
    assert tree(tmp_path / "again") == expected


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_compression(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS[suffix](some_text(500).encode())[:-20])
    with pytest.raises(UnreadableFile, match=f"text{suffix} is damaged"):
        prepare_corpus([str(path)], tmp_path / "out", num_workers=1)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"one\r\ntwo words\r\n\r\nthree\r\n", "one | two words | three |"),
        (b"\xef\xbb\xbfone\ntwo", "one | two |"),
        (b"a\0b \0\n\0\n", "a\0b \0 | \0 |"),
        (b"a", "a |"),
        (b"\n\n\na\nb\n\n\n", "a | b |"),
        (b" \ta\x0b\x0cb\xc2\x85c\xe3\x80\x80d \n", "a b c d |"),
        (b"a\rb\n", "a b |"),
        (b"<S> a </S>\n<UNK>\n", "<UNK> a <UNK> | <UNK> |"),
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 2**20])
def test_nasty_text(tmp_path: Path, content: bytes, words: str, block_bytes: int) -> None:
    corpus = prepare(tmp_path, [content.decode()], block_bytes=block_bytes)
    expected = ["</S>", *("</S>" if word == "|" else word for word in words.split(" "))]
    assert words_of(corpus) == expected


def test_lines_of_megabytes(tmp_path: Path) -> None:
    lines = ["w " * 1_500_000, "x" * 3_000_000, "short", "naïve " * 300_000]
    corpus = prepare(tmp_path, ["\n".join(lines)], workers=2)
    assert corpus.info.train.num_sentences == 4
    assert corpus.info.train.num_tokens == 1_500_000 + 1 + 1 + 300_000
    assert words_of(corpus) == ["</S>", *(w for s in lines for w in [*s.split(), "</S>"])]
    assert corpus.lexicon.spell([corpus.vocab_size]).ids.shape == (1, 50)


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_LINE_BYTES", 2**20)
    with pytest.raises(ElmoxError, match="line 2: longer than 1 MiB"):
        prepare(tmp_path, ["a\n" + "\0" * 3 * 2**20], block_bytes=2**16)
    assert not (tmp_path / "out").exists()


def test_empty_files_among_others(tmp_path: Path) -> None:
    corpus = prepare(tmp_path, ["", "a b\n", "", "\n\n", "c", ""], hold_out=2)
    assert words_of(corpus) == ["</S>", "a", "b", "</S>"]
    assert words_of(corpus, "valid") == ["</S>", "c", "</S>"]
    assert corpus.info.train.num_documents == 1


@pytest.mark.parametrize("texts", [[""], ["", ""], ["\n \n\t\n"], ["\ufeff"], ["\r\n\r\n"]])
def test_no_words_at_all(tmp_path: Path, texts: list[str]) -> None:
    with pytest.raises(ElmoxError, match="no words in"):
        prepare(tmp_path, texts)
    assert len(os.listdir(tmp_path)) == len(texts)


def test_empty_held_out_text(tmp_path: Path) -> None:
    (tmp_path / "valid").write_text("\n\n")
    corpus = prepare(tmp_path, ["a b\n"], valid=(str(tmp_path / "valid"),))
    assert corpus.valid is None
    assert corpus.info.valid is None


def test_held_out_words_are_in_the_lexicon_but_not_in_the_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "valid").write_text("b new new new\n")
    corpus = prepare(tmp_path, ["a b b\n"], valid=(str(tmp_path / "valid"),), min_count=1)
    assert corpus.vocab() == ("<S>", "</S>", "<UNK>", "b", "a")
    assert corpus.lexicon.words([5]) == ["new"]
    assert corpus.counts().tolist() == [1, 1, 0, 2, 1, 0]
    assert corpus.info.valid is not None
    assert corpus.info.valid.unknown_share == 0.75


@pytest.mark.parametrize("bad", [b"\xff", b"ok \xc3\x28", b"\xe5\xa4", b"un \xe9t\xe9"])
@pytest.mark.parametrize("workers", [1, 2])
def test_invalid_utf8(tmp_path: Path, bad: bytes, workers: int) -> None:
    good = ("naïve cat\n" * 50).encode()
    (tmp_path / "good").write_bytes(good)
    (tmp_path / "bad").write_bytes(b"\xef\xbb\xbf" + good + bad + b"\n" + good)
    with pytest.raises(ElmoxError, match=r"bad, line 51: byte \d+ is not UTF-8 \(0x") as raised:
        prepare_corpus(
            [str(tmp_path / "good"), str(tmp_path / "bad")],
            tmp_path / "out",
            num_workers=workers,
            block_bytes=200,
        )
    assert "\n" not in str(raised.value)
    assert sorted(os.listdir(tmp_path)) == ["bad", "good"]


def test_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt", "deep/down/c.txt", "odd[1].txt", "other"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    Path("d.txt").mkdir()
    paths = [source.path for source in sources.find_sources(["[ab].txt", "**/c.txt", "odd[1].txt"])]
    assert paths == ["a.txt", "b.txt", "deep/down/c.txt", "odd[1].txt"]
    for name, message in (
        ("x*", "matches no file"),
        ("x", "does not exist"),
        ("deep", "directory"),
    ):
        with pytest.raises(ElmoxError, match=message):
            sources.find_sources([name])
    Path("lines.jsonl.gz").write_bytes(b"")
    with pytest.raises(ElmoxError, match="JSON lines, expected text"):
        sources.find_sources(["lines.*"])
    with pytest.raises(ElmoxError, match="only once"):
        sources.find_sources(["-", "a.txt", "-"])


def test_fixed_vocabulary(tmp_path: Path) -> None:
    vocab = tmp_path / "vocab"
    vocab.write_text("<S>\n</S>\n<UNK>\nmat\ncat\nmat\n天\n", encoding="utf-8")
    corpus = prepare(tmp_path, ["the cat the cat the cat\nb a\n"], vocab=vocab)
    assert corpus.vocab() == ("<S>", "</S>", "<UNK>", "mat", "cat", "天")
    assert corpus.lexicon.words(range(6, len(corpus.lexicon))) == ["the", "a", "b"]
    assert corpus.counts().tolist() == [2, 2, 0, 0, 3, 0, 3, 1, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\nb\n", "lacks <S> and </S> and <UNK>"),
        ("<S>\n</S>\na\n", "lacks <UNK>"),
        ("<S>\n</S>\n<UNK>\na\n\nb\n", "line 5: empty"),
        ("", "no words"),
    ],
)
def test_bad_vocabulary(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "vocab").write_text(content)
    with pytest.raises(ElmoxError, match=message):
        prepare(tmp_path, ["a\n"], vocab=tmp_path / "vocab")


def test_a_single_document_to_hold_out(tmp_path: Path) -> None:
    with pytest.raises(NothingHeldOut, match=r"hold_out=2 .* only 1 document:") as raised:
        prepare(tmp_path, ["a\nb\n"], hold_out=2)
    assert (raised.value.hold_out, raised.value.num_documents) == (2, 1)


def test_progress(tmp_path: Path) -> None:
    content = some_text(300)
    (tmp_path / "a").write_text(content)
    (tmp_path / "b.gz").write_bytes(gzip.compress(content.encode()))
    seen: list[Progress] = []
    texts = [str(tmp_path / "a"), str(tmp_path / "b.gz")]
    prepare_corpus(
        texts,
        tmp_path / "out",
        PrepareOptions(tokenized=True),
        num_workers=1,
        block_bytes=999,
        on_progress=seen.append,
    )
    size = sum(os.path.getsize(text) for text in texts)
    assert len(seen) > 10
    assert [p.bytes_read for p in seen] == sorted(p.bytes_read for p in seen)
    assert seen[-1] == Progress(size, size, 2 * len(content.split()))


def test_stream_of_the_reference() -> None:
    """The oracle itself, on an example by hand."""
    expected = expected_corpus(documents_of(["b a\na\n\nc </S>", "a"]), [], min_count=1)
    assert expected.words == ["<S>", "</S>", "<UNK>", "a", "b", "c"]
    assert expected.counts == [4, 4, 1, 3, 1, 1]
    assert stream_of(expected.train) == [1, 4, 3, 1, 3, 1, 5, 2, 1, 3, 1]
    assert expected.num_documents == (3, 0)
