"""Hypothesis strategies for sentences that are hard on an encoder.

Words longer than the character slots, cuts inside a multi-byte character, emoji, empty words, lone
surrogates (which UTF-8 cannot encode), whitespace and control characters, the boundary tokens as
literal words, sentences of no or one word.
"""

from hypothesis import strategies as st

LITERALS = (
    *("<S>", "</S>", "<UNK>", "<s>", "<S", "<bos>", "<eos>", "<pad>", "<oov>"),
    *("", " ", "\u3000", "\t", "a b", "\x00", "\x7f", "\ufeff", "\r\n"),
    *("naïve", "天氣", "😀", "👩‍👩‍👧", "e\u0301", "ﬁ", "\ud800", "x\udcffy", "<S>\ud800"),
)
TWO_TO_FOUR_BYTES = "é€😀"


@st.composite
def boundary_words(draw: st.DrawFn, max_characters: int = 50) -> str:
    """Words whose bytes end near, at or after the last free slot, often inside a character."""
    room = max_characters - 2
    prefix = "a" * draw(st.integers(max(0, room - 4), room + 2))
    return prefix + draw(st.text(TWO_TO_FOUR_BYTES, max_size=4))


def long_words(max_characters: int = 50) -> st.SearchStrategy[str]:
    """Words of multi-byte characters, from half as long as the slots to twice as long."""
    room = max_characters - 2
    return st.text("aé€😀", min_size=max(1, room // 4), max_size=room * 2)


def words(max_characters: int = 50) -> st.SearchStrategy[str]:
    """Any word."""
    return st.one_of(
        st.text("abcT.", min_size=1, max_size=4),
        st.sampled_from(LITERALS),
        st.text(st.characters(), max_size=8),  # any code point, surrogates included
        boundary_words(max_characters),
        long_words(max_characters),
    )


def sentences(max_characters: int = 50, max_words: int = 6) -> st.SearchStrategy[list[str]]:
    """Any sentence, the empty one and those of one word included."""
    return st.lists(words(max_characters), max_size=max_words)


def batches(
    max_characters: int = 50, max_sentences: int = 4, max_words: int = 6
) -> st.SearchStrategy[list[list[str]]]:
    """One or more sentences of different lengths."""
    return st.lists(sentences(max_characters, max_words), min_size=1, max_size=max_sentences)
