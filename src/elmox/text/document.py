"""Running text as sentences and tokens, each with its position in the text."""

from dataclasses import dataclass

from elmox.errors import ElmoxError
from elmox.text.inputs import described
from elmox.text.offsets import Offsets, token_offsets
from elmox.text.sentences import split_sentences
from elmox.text.tokenize import Tokenizer


@dataclass(frozen=True)
class Sentence:
    """A sentence of a text.

    Attributes:
        text: the sentence, without the white space around it.
        start, end: its position: `document[start:end]` is the sentence.
        tokens: its tokens.
        offsets: the (start, end) of each token in the document, not in the sentence.
    """

    text: str
    start: int
    end: int
    tokens: list[str]
    offsets: list[Offsets]

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.tokens)


def split_document(text: str, tokenize: Tokenizer, wrapped: bool = False) -> list[Sentence]:
    """Split running text into sentences and tokens that remember their positions.

    Args:
        text: running text, a paragraph per line.
        tokenize: splits a sentence into tokens.
        wrapped: the lines are wrapped, so that only a blank line ends a paragraph.

    Raises:
        ElmoxError: the text is not a string, or the tokenizer changes it in a way that cannot be
            traced back.
    """
    if not isinstance(text, str):
        raise ElmoxError(f"text is {described(text)}: expected a string")
    sentences = []
    pieces = split_sentences(text, wrapped)
    for (start, end), sentence in zip(token_offsets(text, pieces), pieces, strict=True):
        if tokens := tokenize(sentence):
            offsets = [(start + a, start + b) for a, b in token_offsets(sentence, tokens)]
            sentences.append(Sentence(sentence, start, end, tokens, offsets))
    return sentences
