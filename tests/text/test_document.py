"""Documents: sentences and tokens with the positions they have in the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmox.errors import ElmoxError
from elmox.text.document import Sentence, split_document
from elmox.text.offsets import joined_offsets, token_offsets
from elmox.text.tokenize import get_tokenizer

TOKENIZERS = ["treebank", "treebank:hyphens", "whitespace", "spacy:en", "spacy:de"]

# What tokenizers and the sentence splitter match, so that random texts contain it.
SIGNS = "aA1.,-'’`\"“”:/\\&%$()[]{}!?…é日。 \u0301\u200d\U0001f3fd\0\r\n\t\u00a0\u2028\x1c"
WORDS = "-- Mr. U.S. n't 's www.x.com e.g. z.B. 'em cannot 5pm -LRB- :) \\/ Ph.D. The ``a''"
PIECES = (*SIGNS, *WORDS.split(), "\n\n")
texts = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_offsets_of_any_text(name: str) -> None:
    if name.startswith("spacy:"):
        pytest.importorskip("spacy")
    tokenize = get_tokenizer(name)

    @given(text=texts, wrapped=st.booleans())
    def check(text: str, wrapped: bool) -> None:
        end = 0
        for sentence in split_document(text, tokenize, wrapped):
            assert not text[end : sentence.start].strip()
            assert text[sentence.start : sentence.end] == sentence.text == sentence.text.strip()
            assert sentence.tokens == tokenize(sentence.text)
            end = sentence.start
            for token, (start, stop) in zip(sentence.tokens, sentence.offsets, strict=True):
                assert end <= start < stop <= sentence.end
                assert not text[end:start].strip()
                assert text[start:stop] == token
                end = stop
            assert end == sentence.end
        assert not text[end:].strip()

    check()


def test_a_document() -> None:
    text = "  It's a U.S. film.\tReally?\n\n“Yes.” "
    tokens = ["It", "'s", "a", "U.S.", "film", "."]
    offsets = [(2, 4), (4, 6), (7, 8), (9, 13), (14, 18), (18, 19)]
    yes = [(29, 30), (30, 33), (33, 34), (34, 35)]
    sentences = split_document(text, get_tokenizer("treebank"))
    assert sentences == [
        Sentence("It's a U.S. film.", 2, 19, tokens, offsets),
        Sentence("Really?", 20, 27, ["Really", "?"], [(20, 26), (26, 27)]),
        Sentence("“Yes.”", 29, 35, ["“", "Yes", ".", "”"], yes),
    ]
    assert list(map(len, sentences)) == [6, 2, 4]


@pytest.mark.parametrize("text", ["", " \n "])
def test_nothing_has_no_sentences(text: str) -> None:
    assert split_document(text, str.split) == []


@pytest.mark.parametrize("text", [None, b"bytes", ["a", "list"]])
def test_other_types(text: object) -> None:
    with pytest.raises(ElmoxError, match=r"^text is .*: expected a string$"):
        split_document(text, str.split)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "tokens", "source_forms"),
    [
        ('He said "no".', "He said `` no '' .", 'He said " no " .'),
        ("“Don’t!”", "`` Do n't ! ''", "“ Do n’t ! ”"),
        ("‘a’", "` a '", "‘ a ’"),
        ("f(x[1])", "f -LRB- x -LSB- 1 -RSB- -RRB-", "f ( x [ 1 ] )"),
        ("{a} 1/2 *", "-LCB- a -RCB- 1\\/2 \\*", "{ a } 1/2 *"),
        ("so… yes—no", "so ... yes -- no", "so … yes — no"),
        ("a ``b''", 'a " b "', "a `` b ''"),
    ],
)
def test_rewritten_tokens_keep_the_offsets_of_their_source(
    text: str, tokens: str, source_forms: str
) -> None:
    offsets = token_offsets(text, tokens.split())
    assert [text[start:end] for start, end in offsets] == source_forms.split()


def test_a_rewritten_space() -> None:
    assert token_offsets("New\u00a0 York", ["New York"]) == [(0, 9)]


@pytest.mark.parametrize(
    ("text", "tokens", "message"),
    [
        ("Naïve text", ["naive", "text"], "token 'naive' is not in the text at character 0"),
        ("a b c", ["a", "c"], "token 'c' is not in the text at character 2"),
        ("a b", ["a", "", "b"], "token '' is not in the text"),
        ("a b c", ["a", "b"], "the text from character 4, 'c', is in no token"),
        ("a", ["a", "a"], "token 'a' is not in the text at character 1"),
    ],
)
def test_tokens_of_another_text(text: str, tokens: list[str], message: str) -> None:
    with pytest.raises(ElmoxError, match=message):
        token_offsets(text, tokens)


@given(tokens=st.lists(st.text(max_size=3)))
def test_offsets_of_joined_tokens(tokens: list[str]) -> None:
    text = " ".join(tokens)
    assert [text[start:end] for start, end in joined_offsets(tokens)] == tokens
