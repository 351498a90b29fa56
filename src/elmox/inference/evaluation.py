"""What an evaluation found: perplexity, and bits per character.

Perplexities of different vocabularies cannot be compared: a model that calls every other word
`<UNK>` predicts it easily. Bits per character can. Whoever has to transmit the text with the
model's help pays -log2 p for every word and sentence end; for a word outside the vocabulary he pays
`<UNK>`, and then spells it: one of 256 bytes or the end, log2(257) bits for each of its UTF-8 bytes
and its end. The sum is divided by the text's characters: the code points of its words, and one for
the space or line end after each.
"""

import math
from dataclasses import dataclass
from typing import Any

from elmox.inference.perplexity import StreamNll


@dataclass(frozen=True)
class Evaluation:
    """A language model's figures on one text. Backward ones are None where it reads only forward.

    Attributes:
        nll: negative log-likelihood by the full softmax.
        num_sentences: sentences, empty ones not counted.
        num_characters: code points of all words, and one for what ends each of them.
        num_unknown_bytes: UTF-8 bytes of the words outside the vocabulary, and one for each end.
    """

    nll: StreamNll
    num_sentences: int
    num_characters: int
    num_unknown_bytes: int

    @property
    def num_tokens(self) -> int:
        """Predicted positions of one direction: n+1 for a sentence of n words."""
        return self.nll.num_positions

    @property
    def num_words(self) -> int:
        """Words, sentence ends not counted."""
        return self.num_tokens - self.num_sentences

    @property
    def unknown_share(self) -> float:
        """Share of the words that are outside the vocabulary."""
        return self.nll.num_unknown / self.num_words

    @property
    def forward_perplexity(self) -> float:
        """Of the forward language model."""
        return self.nll.forward_perplexity

    @property
    def backward_perplexity(self) -> float | None:
        """Of the backward language model."""
        return self.nll.backward_perplexity

    @property
    def perplexity(self) -> float:
        """The geometric mean of both."""
        return self.nll.perplexity

    @property
    def forward_bits_per_character(self) -> float:
        """See the module."""
        return self._bits(self.nll.forward)

    @property
    def backward_bits_per_character(self) -> float | None:
        """The same of the backward language model."""
        return None if self.nll.backward is None else self._bits(self.nll.backward)

    @property
    def bits_per_character(self) -> float:
        """The mean of both."""
        backward = self.backward_bits_per_character
        forward = self.forward_bits_per_character
        return forward if backward is None else (forward + backward) / 2

    def to_dict(self) -> dict[str, Any]:
        """Every figure by its name."""
        return {name: getattr(self, name) for name in FIGURES}

    def _bits(self, nats: float) -> float:
        spelled = self.num_unknown_bytes * math.log2(257)
        return (nats / math.log(2) + spelled) / self.num_characters


FIGURES = (
    *("num_sentences", "num_tokens", "num_words", "num_characters", "unknown_share"),
    *("forward_perplexity", "backward_perplexity", "perplexity"),
    *("forward_bits_per_character", "backward_bits_per_character", "bits_per_character"),
)
