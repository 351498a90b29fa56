"""Vocabularies: ids in file order, unknown words, files."""

from pathlib import Path

import pytest

from elmox import ElmoxError
from elmox.text.vocab import Vocab, read_vocab


def test_ids_are_positions_and_unknown_words_share_one() -> None:
    vocab = Vocab(["<S>", "</S>", "<UNK>", "the"])
    assert vocab.ids(["the", "absent", "<S>"]).tolist() == [3, 2, 0]


def test_without_an_unknown_word_an_error_names_the_word() -> None:
    with pytest.raises(ElmoxError, match="'absent' is not among the 1 words"):
        Vocab(["the"]).ids(["absent"])


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes("<S>\r\n\u3000\n\nthe\n".encode())
    assert read_vocab(path).words == ("<S>", "\u3000", "", "the")
    path.write_bytes(b"")
    with pytest.raises(ElmoxError, match="holds no words"):
        read_vocab(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ElmoxError, match="not UTF-8"):
        read_vocab(path)
