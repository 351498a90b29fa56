"""The result of an evaluation: perplexity, and bits per character.

Perplexities of different vocabularies cannot be compared: a model that reads every other word as
`<UNK>` predicts it easily. Bits per character can. They are the cost of transmitting the text with
the model's help: -log2 p for every word and sentence end. A word outside the vocabulary costs
`<UNK>` and then its spelling: log2(257) bits (one of 256 bytes or the end) for each of its UTF-8
bytes and its end. The sum is divided by the text's characters: the code points of its words, and
one for the space or line end after each.
"""

import math
from dataclasses import dataclass
from typing import Any

from elmox.inference.perplexity import StreamNll


@dataclass(frozen=True, repr=False)
class Evaluation:
    """A language model's figures on one text. Those of a missing backward model are None.

    Attributes:
        nll: negative log-likelihood by the full softmax.
        num_sentences: number of sentences that are not empty.
        num_characters: code points of all words, and one for the space or line end after each.
        num_unknown_bytes: UTF-8 bytes of the words outside the vocabulary, and one for each end.
    """

    nll: StreamNll
    num_sentences: int
    num_characters: int
    num_unknown_bytes: int

    @property
    def num_tokens(self) -> int:
        """Number of predicted positions of one direction: n+1 for a sentence of n words."""
        return self.nll.num_positions

    @property
    def num_words(self) -> int:
        """Number of words, sentence ends not counted."""
        return self.num_tokens - self.num_sentences

    @property
    def unknown_share(self) -> float:
        """Share of the words that are outside the vocabulary."""
        return self.nll.num_unknown / self.num_words

    @property
    def forward_perplexity(self) -> float:
        """Perplexity of the forward language model."""
        return self.nll.forward_perplexity

    @property
    def backward_perplexity(self) -> float | None:
        """Perplexity of the backward language model."""
        return self.nll.backward_perplexity

    @property
    def perplexity(self) -> float:
        """The geometric mean of both perplexities."""
        return self.nll.perplexity

    @property
    def forward_bits_per_character(self) -> float:
        """Bits per character of the forward language model."""
        return self._bits(self.nll.forward)

    @property
    def backward_bits_per_character(self) -> float | None:
        """Bits per character of the backward language model."""
        return None if self.nll.backward is None else self._bits(self.nll.backward)

    @property
    def bits_per_character(self) -> float:
        """The mean of both directions' bits per character."""
        backward = self.backward_bits_per_character
        forward = self.forward_bits_per_character
        return forward if backward is None else (forward + backward) / 2

    def to_dict(self) -> dict[str, Any]:
        """Return every figure by its name."""
        return {name: getattr(self, name) for name in FIGURES}

    def __repr__(self) -> str:
        """Return the main figures."""
        directions = f"forward {self.forward_perplexity:.2f}"
        if self.backward_perplexity is not None:
            directions += f", backward {self.backward_perplexity:.2f}"
        return (
            f"Evaluation(perplexity={self.perplexity:.2f} ({directions}), "
            f"bits_per_character={self.bits_per_character:.3f}, {self.num_words:,} words in "
            f"{self.num_sentences:,} sentences, {self.unknown_share:.1%} unknown)"
        )

    def _bits(self, nats: float) -> float:
        spelled = self.num_unknown_bytes * math.log2(257)
        return (nats / math.log(2) + spelled) / self.num_characters


FIGURES = (
    *("num_sentences", "num_tokens", "num_words", "num_characters", "unknown_share"),
    *("forward_perplexity", "backward_perplexity", "perplexity"),
    *("forward_bits_per_character", "backward_bits_per_character", "bits_per_character"),
)
