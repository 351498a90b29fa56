"""Spelling: the released models' character ids."""

import numpy as np
import oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import words

from elmox.text.chars import (
    BEGIN_SENTENCE_ID,
    BEGIN_WORD_ID,
    END_SENTENCE_ID,
    END_WORD_ID,
    WORD_PADDING_ID,
    spell_bytes,
    spell_unicode,
)


def row(word: str, max_characters: int = 50) -> list[int]:
    ids: list[int] = spell_bytes([word], max_characters).ids[0].tolist()
    return ids


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(3, 60))
def test_ids_are_the_contract(data: st.DataObject, max_characters: int) -> None:
    some = data.draw(st.lists(words(max_characters), max_size=6))
    spelling = spell_bytes(some, max_characters)
    expected = [oracle.byte_ids(word, max_characters) for word in some]
    assert spelling.ids.tolist() == expected
    used = [sum(i != WORD_PADDING_ID for i in ids) for ids in expected]
    assert spelling.lengths.tolist() == used


def test_a_word_is_its_bytes_between_marks() -> None:
    assert row("é")[:5] == [BEGIN_WORD_ID, 0xC3 + 1, 0xA9 + 1, END_WORD_ID, WORD_PADDING_ID]


def test_long_words_are_cut_inside_a_character() -> None:
    ids = row("€" * 17)  # 51 bytes, of which 48 fit
    assert ids[48] == 0xAC + 1
    assert ids[49] == END_WORD_ID
    assert row("a" * 47 + "é")[48] == 0xC3 + 1


def test_boundaries_are_single_ids_also_as_literal_words() -> None:
    assert row("<S>")[:4] == [BEGIN_WORD_ID, BEGIN_SENTENCE_ID, END_WORD_ID, WORD_PADDING_ID]
    assert row("</S>")[:4] == [BEGIN_WORD_ID, END_SENTENCE_ID, END_WORD_ID, WORD_PADDING_ID]
    assert row("<UNK>")[1] == ord("<") + 1


def test_empty_words_and_lone_surrogates() -> None:
    assert row("")[:3] == [BEGIN_WORD_ID, END_WORD_ID, WORD_PADDING_ID]
    assert row("\ud800") == row("")


def test_no_words() -> None:
    assert spell_bytes([]).ids.shape == (0, 50)


def test_unicode_inventory_swaps_the_word_marks() -> None:
    inventory = {"<oov>": 0, "<bos>": 1, "<eos>": 2, "<pad>": 3, "<bow>": 4, "<eow>": 5, "a": 6}
    spelling = spell_unicode(["ab", "<bos>"], inventory, 5)
    np.testing.assert_array_equal(spelling.ids, [[5, 6, 0, 4, 3], [5, 1, 4, 3, 3]])
    np.testing.assert_array_equal(spelling.lengths, [4, 3])
