"""The Treebank tokenizer: conventions by example, no text lost, linear time, agreement with EWT."""

import pickle
import runpy
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_data import SHARED, needs_shared

from elmox.errors import ElmoxError
from elmox.text.tokenize import get_tokenizer

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "tokenizer.py"
VARIANTS = ["treebank", "treebank:hyphens"]

BOTH_VARIANTS = [
    # contractions and possessives
    ("I don't, can't, won't.", "I do n't , ca n't , wo n't ."),
    ("DON'T! Isn’t it?", "DO N'T ! Is n’t it ?"),
    (
        "John's book, they're, I'm, we've, she'll, he'd",
        "John 's book , they 're , I 'm , we 've , she 'll , he 'd",
    ),
    ("the parents' house", "the parents ' house"),
    (
        "You cannot; Cannot? gonna wanna gotta gimme lemme",
        "You can not ; Can not ? gon na wan na got ta gim me lem me",
    ),
    ("'Twas the '60s, rock 'n roll, give 'em", "'T was the '60s , rock 'n roll , give 'em"),
    ("O'Connor o'clock d'état", "O'Connor o'clock d'état"),
    # periods
    ("Mr. Smith went to Washington.", "Mr. Smith went to Washington ."),
    ("The U.S. and, e.g., the U.K. agreed.", "The U.S. and , e.g. , the U.K. agreed ."),
    ("It opens at 5 p.m. and closes at 6 a.m.", "It opens at 5 p.m. and closes at 6 a.m ."),
    (
        "by J. R. R. Tolkien, Ph.D., of Acme Inc. here",
        "by J. R. R. Tolkien , Ph.D. , of Acme Inc. here",
    ),
    ("No. 5 was bought? No.", "No. 5 was bought ? No ."),
    ("apples, pears, etc.", "apples , pears , etc ."),
    ('He said "stop."', 'He said " stop . "'),
    ("Good food.They smiled.", "Good food . They smiled ."),
    ("Wait... what?! No!!! Yes…", "Wait ... what ?! No !!! Yes …"),
    # numbers and money
    ("$3,000.50 or 5% of £20 and US$7", "$ 3,000.50 or 5 % of £ 20 and US$ 7"),
    ("at 12:30 on 12/31/1999, the 20th", "at 12:30 on 12/31/1999 , the 20th"),
    ("Call 713-853-3989 about .5 and 1,000,000.", "Call 713-853-3989 about .5 and 1,000,000 ."),
    # addresses
    (
        "See http://a.org/b?c=d&e=f#g, (www.x.co.uk).",
        "See http://a.org/b?c=d&e=f#g , ( www.x.co.uk ) .",
    ),
    ("Mail jo.e+x@mail.example.com, now.", "Mail jo.e+x@mail.example.com , now ."),
    ("Open report.pdf on example.com.", "Open report.pdf on example.com ."),
    # signs
    ("well--no—yes – (a) [b] {c}", "well -- no — yes – ( a ) [ b ] { c }"),
    ("\"a\" 'b' “c” ‘d’ ``e''", "\" a \" ' b ' “ c ” ‘ d ’ `` e ''"),
    ("AT&T R&B a; b: c", "AT&T R&B a ; b : c"),
    ("fine :) ;-) <3", "fine :) ;-) <3"),
    ("-LRB- 5 -RRB-", "-LRB- 5 -RRB-"),
    # other scripts, marks, emoji
    ("naïve café cafe\u0301 Гоголь हिन्दी", "naïve café cafe\u0301 Гоголь हिन्दी"),
    ("日本語。 中文！", "日本語 。 中文 ！"),
    ("ok 👍🏽 👩‍💻 ❤️ 🇫🇷🇩🇪", "ok 👍🏽 👩‍💻 ❤️ 🇫🇷 🇩🇪"),
    ("a\r\nb\tc\u00a0d", "a b c d"),
    ("a\0b", "a \0 b"),
    ("", ""),
    (" \n ", ""),
]
# text, Penn, web
VARIANTS_DIFFER = [
    ("a 15-year-old", "a 15-year-old", "a 15 - year - old"),
    ("the son-in-law's", "the son-in-law 's", "the son - in - law 's"),
    ("U.S.-based, non-U.S.", "U.S.-based , non-U.S .", "U.S. - based , non-U.S ."),
    ("an 80%-owned unit", "an 80%-owned unit", "an 80 % - owned unit"),
    ("a non-human e-mail", "a non-human e-mail", "a non-human e-mail"),
    ("and/or 1/2", "and/or 1/2", "and / or 1 / 2"),
    ("since 9/11", "since 9/11", "since 9/11"),
    ("1990-1995", "1990-1995", "1990 - 1995"),
    ("at 5pm, 10k, 3rd", "at 5pm , 10k , 3rd", "at 5 pm , 10 k , 3rd"),
    ("I dont, im", "I dont , im", "I do nt , i m"),
    ("the 1960's", "the 1960 's", "the 1960's"),
]

# What the pieces of the expression match, so that random texts contain it.
SIGNS = "aAb.,-'’`\"10:/\\@&%$()_+=*#~!?…é日。 \u0301\u200d\U0001f3fd\0\r\n\t\u00a0\x1c"
WORDS = "-- Mr e.g U.S n't 's www. http:// .com non- 'em cannot dont 5pm -LRB- :) \\/ Ph.D"
nasty_texts = st.text() | st.lists(st.sampled_from([*SIGNS, *WORDS.split()])).map("".join)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(("text", "tokens"), BOTH_VARIANTS)
def test_conventions_of_both_variants(name: str, text: str, tokens: str) -> None:
    assert (
        get_tokenizer(name)(text) == tokens.split(" ") if tokens else not get_tokenizer(name)(text)
    )


@pytest.mark.parametrize(("text", "penn", "web"), VARIANTS_DIFFER)
def test_conventions_that_differ(text: str, penn: str, web: str) -> None:
    assert " ".join(get_tokenizer("treebank")(text)) == penn
    assert " ".join(get_tokenizer("treebank:hyphens")(text)) == web


@pytest.mark.parametrize(
    "word", ["U.S.", "Mr.", "e.g.", "Inc.", "J.", "n't", "'s", "--", "...", "1\\/2"]
)
def test_a_word_of_the_treebank_stays_whole_on_its_own(word: str) -> None:
    assert get_tokenizer("treebank")(word) == [word]


@pytest.mark.parametrize("name", [*VARIANTS, "whitespace"])
@given(text=nasty_texts)
def test_every_character_except_white_space_is_in_one_token(name: str, text: str) -> None:
    tokens = get_tokenizer(name)(text)
    assert "".join(tokens) == "".join(text.split())
    assert all(token and not any(map(str.isspace, token)) for token in tokens)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(
    "unit", ["a.", "A.", "ab.", "a-", "-", "'", "1,", " ", "A.)", "a@", "www.,", "\u0301"]
)
def test_time_is_linear(name: str, unit: str) -> None:
    """A megabyte takes seconds at most; a quadratic expression would take hours."""
    tokenizer = get_tokenizer(name)
    text = unit * (1_000_000 // len(unit)) + "b!"
    start = time.process_time()
    tokens = tokenizer(text)
    assert time.process_time() - start < 30
    assert "".join(tokens) == "".join(text.split())


def test_whitespace() -> None:
    assert get_tokenizer("whitespace")(" It 's\tfine\n. ") == ["It", "'s", "fine", "."]


@pytest.mark.parametrize("name", [*VARIANTS, "whitespace"])
def test_tokenizers_can_be_sent_to_other_processes(name: str) -> None:
    tokenizer = pickle.loads(pickle.dumps(get_tokenizer(name)))
    assert tokenizer("so it is") == ["so", "it", "is"]


@pytest.mark.parametrize("name", ["", "moses", "Treebank", "treebank:"])
def test_an_unknown_name_lists_the_legal_ones(name: str) -> None:
    with pytest.raises(
        ElmoxError, match=r"'treebank', 'treebank:hyphens', 'whitespace' or 'spacy:LANG'"
    ):
        get_tokenizer(name)


def test_missing_spacy_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)  # makes `import spacy` fail
    with pytest.raises(ElmoxError, match=r"pip install 'elmox\[spacy\]'"):
        get_tokenizer("spacy:de")


def test_spacy() -> None:
    pytest.importorskip("spacy")
    assert get_tokenizer("spacy:de")("Das  ist z.B. gut.\n") == ["Das", "ist", "z.B.", "gut", "."]
    with pytest.raises(ElmoxError, match="spacy:nowhere"):
        get_tokenizer("spacy:nowhere")


@needs_shared
def test_agreement_with_ud_ewt() -> None:
    benchmark = runpy.run_path(str(BENCHMARK))
    paragraphs = benchmark["read_conllu"](SHARED / "tasks/pos_parse_ud_ewt/en_ewt-ud-dev.conllu.xz")
    sentences = [sentence for paragraph in paragraphs for sentence in paragraph]
    assert len(sentences) == 2001
    assert benchmark["count_unalignable"](sentences) == 0
    assert benchmark["token_score"](sentences, get_tokenizer("treebank:hyphens")).f1 >= 99.0
    assert benchmark["token_score"](sentences, get_tokenizer("treebank")).f1 >= 98.0


@needs_shared
def test_agreement_with_conll2000() -> None:
    benchmark = runpy.run_path(str(BENCHMARK))
    sentences = benchmark["read_conll2000"](SHARED / "tasks/chunking_conll2000/test.txt.xz")
    tokenizer = get_tokenizer("treebank")
    assert benchmark["share_of_words_left_whole"](sentences, tokenizer) >= 99.9
    assert benchmark["share_of_sentences_left_alone"](sentences, tokenizer) >= 99.5
