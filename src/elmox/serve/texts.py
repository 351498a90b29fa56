"""The texts of a request, tokenized, with the position of each token in its text."""

from collections.abc import Sequence
from dataclasses import dataclass

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.serve.schemas import Text
from elmox.text.offsets import Offsets, token_offsets


@dataclass(frozen=True)
class TokenizedText:
    """A text, or a sentence of it.

    Attributes:
        input: index of the text in the request.
        tokens: its tokens.
        offsets: start and end of each token in the text; None for tokens that were given, and
            where the tokenizer has changed the text so that they cannot be found in it.
    """

    input: int
    tokens: Sequence[str]
    offsets: list[Offsets] | None


def tokenize_texts(elmo: Elmo, texts: Sequence[Text]) -> list[Sequence[str]]:
    """Tokenize strings as the library does; lists of tokens stay as they are."""
    return [elmo.tokenize(text) if isinstance(text, str) else text for text in texts]


def tokenize_with_offsets(elmo: Elmo, texts: Sequence[Text], split: bool) -> list[TokenizedText]:
    """Tokenize texts and locate their tokens.

    Args:
        elmo: whose tokenizer is used.
        texts: strings or lists of tokens.
        split: strings are running text: each of their sentences is an item of its own.
    """
    items: list[TokenizedText] = []
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            items.append(TokenizedText(index, text, None))
        elif split:
            sentences = elmo.split(text)
            items += [
                TokenizedText(index, sentence.tokens, sentence.offsets) for sentence in sentences
            ]
        else:
            tokens = elmo.tokenize(text)
            items.append(TokenizedText(index, tokens, _offsets(text, tokens)))
    return items


def _offsets(text: str, tokens: Sequence[str]) -> list[Offsets] | None:
    try:
        return token_offsets(text, tokens)
    except ElmoxError:  # the vectors are right all the same
        return None
