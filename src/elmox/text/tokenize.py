"""Tokenizers: a text to the list of its words.

ELMo embeds words, so its input must be tokenized like its training text. A checkpoint's config
therefore names its tokenizer, and `get_tokenizer` returns the function of that name:

    treebank           Penn Treebank words, as in the CoNLL and PropBank data: `do n't`, `John 's`
    treebank:hyphens   the same, split further as in web treebanks: `15 - year`, `and / or`, `5 pm`
    whitespace         for text that is tokenized already
    spacy:LANG         the rules of spaCy for one language, for example `spacy:de`

The Treebank tokenizer is one regular expression per variant: an ordered choice between kinds of
token, the last of which is "any character". So it never changes a text: its tokens, joined, are the
text without the white space, and quotes and brackets stay as they are. It expects one sentence at a
time, because a period at the end of the text is a token by itself even after an abbreviation.
Repetitions are possessive (`++`) or bounded, so the time is linear in the length of any text.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache

from elmox.errors import ElmoxError, install_hint

Tokenizer = Callable[[str], list[str]]

LEGAL_NAMES = (
    "'treebank', 'treebank:hyphens', 'whitespace' or 'spacy:LANG' (for example 'spacy:de')"
)

# The word lists are strings of words with spaces between them.
#
# Words that keep the period after them. These precede a name, an example or a number ...
LEADING_ABBREVIATIONS = (
    "Adm Atty Attys Brig Capt Cmdr Col Cpl Dr Fr Gen Gov Hon Lt Maj Messrs Mr Mrs Ms Mt Pres Prof "
    "Rep Reps Rev Sen Sens Sgt St Ste Supt "
    "approx Attn attn ca cf eg Eg Esp esp ie incl tel Tel v viz vs"
)
NUMBER_ABBREVIATIONS = "Art art c Chap Ch Eq eq Fig Figs fig figs No no Nos nos p pp Vol vol"
# ... and these may end a sentence too.
ABBREVIATIONS = (
    # organisations, addresses, families
    "Assn Ave Bhd Bldg Blvd Bros Cie Co Corp Cos Dept Depts Est Ft Inc Jr Ltd Sr Univ "
    # months and days
    "Jan Feb Apr Aug Sept Sep Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun "
    # states and provinces
    "Ala Ariz Ark Calif Colo Conn Del Fla Ga Ill Ind Kan Ky La Mass Md Mich Minn Miss Mo Mont Neb "
    "Nev Okla Ont Ore Pa Que Tenn Tex Va Vt Wash Wis Wyo "
    # measures, tables, the rest
    "al est etc Ext ext ft hrs lb lbs mins misc oz Para Ph Sc Sec yrs"
)

# Endings that make `name.ending` one token, where `word.Word` is two sentences without a space.
_SUFFIXES = (
    "com org net edu gov mil int info biz tv eu uk us ca au nz de fr io co me "
    "asp bmp cfm cpp csv dll docx? eml exe gif html? ini java jpe?g js jsp json log md mp[34] pdf "
    "php png pptx? py rar rtf tar tgz tiff? toml txt url wav wmv xlsx? xml ya?ml zip"
)
# Two words written as one, split at the bar: in all English, and only by the web treebanks.
_CUT_WORDS = "can|not gon|na wan|na got|ta gim|me lem|me"
_CUT_WEB_WORDS = (
    "do|nt did|nt does|nt is|nt are|nt was|nt were|nt have|nt has|nt had|nt would|nt could|nt "
    "should|nt ca|nt wo|nt ai|nt i|m i|ve that|s what|s there|s here|s he|s else|s you|re they|re"
)
# Prefixes that the web treebanks leave on a word although they split at hyphens ...
_PREFIXES = (
    "anti arch co counter cross e ex intra micro mid multi neo non over post pre pro pseudo psycho "
    "quasi re semi socio sub ultra un"
)
# ... and units that they split from a number.
_UNITS = (
    "[aApP][mM] [ap]\\.m [kKmMbBxp] bn mn mm MM cm km kg lbs? ft sq hh [kKMG]?Hz [kKMG][bB] mins? "
    "minutes hrs? hours days mph percent"
)


# Pieces of the expressions. A word may end at _END, and the text after a period at _FINAL.
_END = r"(?!\w)"
_FINAL = r"""["'”’)\]}]*\s*\Z"""
_ABBREVIATION = "|".join(f"{LEADING_ABBREVIATIONS} {ABBREVIATIONS}".split())
_ACRONYM = rf"[A-Za-z](?:\.[A-Za-z]){{1,20}}+{_END}|Ph\.D"  # without its last period
_WHOLE_ACRONYM = rf"(?:{_ACRONYM})(?:\.(?!{_FINAL}|\.\.))?+"
_SUFFIX = rf"\.(?i:{'|'.join(_SUFFIXES.split())}){_END}"
_CLITIC = rf"['’`](?:[sSdDmM]|ll|LL|re|RE|ve|VE){_END}"
_NUMBER = r"\d++(?:[.,:]\d++)*+"


def get_tokenizer(name: str) -> Tokenizer:
    """Return a tokenizer: a function from a text to the list of its tokens.

    Args:
        name: `treebank`, `treebank:hyphens`, `whitespace` or `spacy:LANG`.

    Raises:
        ElmoxError: there is no such name, spaCy is not installed, or it lacks that language.
    """
    if name == "whitespace":
        return str.split
    if name in ("treebank", "treebank:hyphens"):
        return treebank_pattern(cut_hyphens=name == "treebank:hyphens").findall
    if name.startswith("spacy:"):
        return _spacy(name.removeprefix("spacy:"))
    raise ElmoxError(f"unknown tokenizer {name!r}: expected {LEGAL_NAMES}")


def _spacy(language: str) -> Tokenizer:
    """Return the rule tokenizer of spaCy for one language, without its white space tokens."""
    try:
        import spacy
    except ImportError:
        raise ElmoxError(
            f"tokenizer 'spacy:{language}' needs spaCy, which is not installed: "
            f"{install_hint('spacy')}"
        ) from None
    try:
        tokenizer = spacy.blank(language).tokenizer
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise ElmoxError(f"tokenizer 'spacy:{language}' cannot be loaded: {reason}") from None
    return lambda text: [token.text for token in tokenizer(text) if not token.is_space]


@cache
def treebank_pattern(cut_hyphens: bool) -> re.Pattern[str]:
    """Compile the Treebank tokenizer: an ordered choice between kinds of token, without groups.

    `re` skips a choice at once if it starts with a literal or a class that does not match. So the
    choices are a flat list and start with one if they can. The plain word comes early for the same
    reason.
    """
    # \w lacks combining marks, the soft hyphen and the non-joiner, which do not end a word.
    mark = rf"{_combining_marks()}\u00ad\u200c"
    char = rf"[0-9A-Za-z_{mark}\w]"
    cut_words = f"{_CUT_WORDS} {_CUT_WEB_WORDS}" if cut_hyphens else _CUT_WORDS
    joined, compounds = _web_compounds(char) if cut_hyphens else _penn_compounds(char)
    kinds = [
        *map(_first_half, cut_words.split()),
        r"[A-Za-z]++(?=[\s,])",  # most words
        r"""[,"“”()\[\]{}]|\.(?!\S)""",  # most signs
        # Addresses and names of files.
        r"""(?:(?i:https?|ftp)://|mailto:|[wW]{3}\.)[^\s<>"]*[^\s<>".,;:!?'’)\]]""",
        r"\w[\w.+%-]{0,63}+@\w[\w-]*+(?:\.\w[\w-]*+)*+|@[A-Za-z]\w*+",
        rf"(?:\w++[.-]){{0,8}}\w++{_SUFFIX}|{_SUFFIX}",
        *compounds,
        # Abbreviations: not at the end of the text, unless they are the whole text.
        rf"\A(?:{_ACRONYM}|{_ABBREVIATION}|[A-Z])\.\Z",
        _WHOLE_ACRONYM,
        rf"(?:{_ABBREVIATION}|[A-Z])\.(?!{_FINAL}|\.)",
        rf"(?:{'|'.join(NUMBER_ABBREVIATIONS.split())})\.(?=\s?\d)",
        rf"[A-Za-z]\w*+(?:\.[A-Za-z]\w*+){{2,}}+|w/(?:out|o)?{_END}",  # comp.sources.unix
        # Money, and the numbers that do not start with a digit.
        r"(?:US|HK|NZ|NT|[ACMSU])\$",
        r"(?<!\w)\.\d++|\+\d++",
        # Contractions.
        rf"[A-Za-z]+?(?=[nN]['’][tT]{_END})|[nN]['’][tT]{_END}",
        _CLITIC,
        rf"(?<!\d)['’](?:\d\ds?|(?i:em|n|til|cause|bout|round)){_END}",
        rf"['’][tT](?=(?:is|was){_END})",
        rf"{char}++{joined}",  # all other words
        # Signs: bracket tokens and escapes of the Treebank's files, faces, runs.
        r"-[LR][RCS]B-|\\[/*]",
        rf"[:;=]-?(?:[()]++|[DPpO/](?![\w/]))|<3{_END}|\^_?\^",
        r"\.{2,}+|[.!?…]{2,}+|[-=<>|+~*#]{2,}+|'{2,}+|`{2,}+|[‘’]{2,}+",
        r"[\U0001f1e6-\U0001f1ff]{2}",  # flags
        rf"\S(?:[{mark}\U0001f3fb-\U0001f3ff]|\u200d\S)*+",  # anything, with its marks
    ]
    return re.compile(r"(?=\S)(?:" + "|".join(kinds) + ")")


def _penn_compounds(char: str) -> tuple[str, list[str]]:
    """Return what may follow in a word after a hyphen or the like, and more kinds of token."""
    part = rf"(?:{_WHOLE_ACRONYM}|{_NUMBER}%(?=-{char})|{_NUMBER}{char}*+|{char}++)"
    joined = rf"(?:(?:(?!{_CLITIC})['’&-]|\\?/){part})*+"  # O'Connor, AT&T, and/or, non-U.S.
    return joined, [
        rf"(?:{_ACRONYM}|{_ABBREVIATION})\.(?=-{char}){joined}",  # U.S.-based
        rf"{_NUMBER}(?:%(?=-{char})|{char}*+){joined}",  # 80%-owned, 3,000, 12:30, 20th, 1/2
    ]


def _web_compounds(char: str) -> tuple[str, list[str]]:
    """Return what may follow in a word after an apostrophe or the like, and more kinds of token."""
    joined = rf"(?:(?!{_CLITIC})['’&]{char}++)*+"  # O'Connor, AT&T
    return joined, [
        r"\d++(?:[-/]\d++){2,}+",  # 1999-12-31, 12/31/99, 713-853-3989
        r"\d{3}-\d{4}(?!\d)|\d{5}-\d{4}(?!\d)",  # 853-3989, 77042-2016
        r"(?:0?[1-9]|1[0-2])/[0-3]\d(?!\d)",  # 9/11, but not 1/2
        rf"{_NUMBER}(?=(?:{'|'.join(_UNITS.split())}){_END})",  # 5 pm
        rf"\d{{0,3}}0['’]s{_END}|{_NUMBER}{char}*+",  # 1960's, 3,000, 12:30, 20th
        rf"(?<![\w-])(?i:{'|'.join(_PREFIXES.split())})-(?:{_WHOLE_ACRONYM}|{char}++{joined})",
    ]


def _first_half(word: str) -> str:
    """Return an expression for the first half of a word like `can|not`, in any case."""
    first, second = (
        "".join(f"[{letter}{letter.upper()}]" for letter in half) for half in word.split("|")
    )
    return f"{first}(?={second}{_END})"


def _combining_marks() -> str:
    """Return all combining marks, as the inside of a character class."""
    characters = map(chr, range(0x300, 0x1F000))
    return "".join(c for c in characters if unicodedata.category(c).startswith("M"))
