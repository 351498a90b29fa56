"""Characters to ids: the spelling of a word for the character CNN.

AI2's models read UTF-8 *bytes*, not code points. A word fills `max_characters` slots:
begin-of-word, at most `max_characters - 2` bytes (a cut may fall inside a code point), end-of-word,
in-word padding. Every id is shifted by one, so that a row of zeros can mean "no word here".
ELMoForManyLangs has an inventory of code points instead (`spell_unicode`).

Both functions expect *distinct* words: text repeats words, so a batch spells each of them once.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BEGIN_SENTENCE = "<S>"
END_SENTENCE = "</S>"

FIRST_BYTE_ID = 1  # byte b has id b + 1; 0 pads sentences
BEGIN_SENTENCE_ID = 257
END_SENTENCE_ID = 258
BEGIN_WORD_ID = 259
END_WORD_ID = 260
WORD_PADDING_ID = 261

_BOUNDARIES = {BEGIN_SENTENCE: BEGIN_SENTENCE_ID, END_SENTENCE: END_SENTENCE_ID}


class Spelling(NamedTuple):
    """U spelled words; beyond its length a row holds in-word padding."""

    ids: NDArray[np.integer[Any]]  # (U, max_characters)
    lengths: NDArray[np.int64]  # (U,) used slots, with both word marks


def spell_bytes(words: Sequence[str], max_characters: int = 50) -> Spelling:
    """Spell words in UTF-8 bytes.

    `<S>` and `</S>` are one special id between the word marks, even if they occur literally in
    text. Code points that UTF-8 cannot encode (lone surrogates) are left out.
    """
    limit = max_characters - 2
    encoded = [word.encode("utf-8", "ignore")[:limit] for word in words]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    flat = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.int16) + FIRST_BYTE_ID
    spelling = _frame(flat, lengths, max_characters, BEGIN_WORD_ID, END_WORD_ID, WORD_PADDING_ID)
    for row, word in enumerate(words):
        if word in _BOUNDARIES:
            spelling.ids[row, 1:3] = _BOUNDARIES[word], END_WORD_ID
            spelling.ids[row, 3:] = WORD_PADDING_ID
            spelling.lengths[row] = 3
    return spelling


def spell_unicode(
    words: Sequence[str], characters: Mapping[str, int], max_characters: int = 50
) -> Spelling:
    """Spell words in the code points of an ELMoForManyLangs inventory.

    The original code swapped the two word marks, and the models were trained like that: a word
    begins with `<eow>` and ends with `<bow>`.
    """
    unknown = characters["<oov>"]
    spelled = [
        [characters[word]]
        if word in ("<bos>", "<eos>")
        else [characters.get(character, unknown) for character in word[: max_characters - 2]]
        for word in words
    ]
    lengths = np.fromiter(map(len, spelled), dtype=np.int64, count=len(spelled))
    flat = np.fromiter((i for word in spelled for i in word), dtype=np.int32, count=lengths.sum())
    return _frame(
        flat,
        lengths,
        max_characters,
        begin=characters["<eow>"],
        end=characters["<bow>"],
        padding=characters["<pad>"],
    )


def _frame(
    flat: NDArray[np.integer[Any]],
    lengths: NDArray[np.int64],
    max_characters: int,
    begin: int,
    end: int,
    padding: int,
) -> Spelling:
    """Lay out concatenated characters as rows of `begin, characters, end, padding...`."""
    ids = np.full((len(lengths), max_characters), padding, dtype=flat.dtype)
    ids[:, 0] = begin
    body = ids[:, 1:]
    body[np.arange(max_characters - 1) < lengths[:, None]] = flat
    ids[np.arange(len(lengths)), lengths + 1] = end
    return Spelling(ids, lengths + 2)
