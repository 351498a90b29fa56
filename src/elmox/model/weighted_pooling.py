"""Token vectors to sentence vectors, by what unlabeled text shows of words and of sentences.

Frequent words say little about a sentence, so each word is weighted by its rarity. What all
sentences have in common says nothing about one of them, so their mean and the directions in which
they differ most are removed. Each layer is then scaled to the same size.

Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings"; Mu and Viswanath
2018, "All-but-the-Top".

Shapes: J layers, N tokens, B sentences, D width of a vector, k directions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_LARGEST_STORED = 0.95  # rarer words are left out: they weigh 1
_DIGITS = 4


@dataclass(frozen=True)
class WeightedPooling:
    """A pooling of all layers of a model.

    Attributes:
        weights: of frequent words, between 0 and 1; every other word weighs 1.
        means: (J, D) mean of sentence vectors.
        directions: (J, k, D) orthonormal in each layer; removed from sentence vectors.
        scales: (J,) size of what is left: root of the mean square of its length.
    """

    weights: Mapping[str, float]
    means: Tensor
    directions: Tensor
    scales: Tensor

    @classmethod
    def of_weights(
        cls, weights: Mapping[str, float], num_layers: int, dim: int
    ) -> "WeightedPooling":
        """Return a pooling that weights words and does nothing else."""
        return cls(
            weights,
            torch.zeros(num_layers, dim),
            torch.zeros(num_layers, 0, dim),
            torch.ones(num_layers),
        )

    def pool(self, values: Tensor, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Return sentence vectors in float32, (J, B, D); zeros for an empty sentence.

        Args:
            values: (J, N, D), all layers of the sentences' tokens, sentence after sentence.
            sentences: the tokens of each of the B sentences.
        """
        device = values.device
        lengths = torch.tensor([len(sentence) for sentence in sentences], device=device)
        weights = torch.tensor(
            [self.weights.get(word, 1.0) for sentence in sentences for word in sentence],
            device=device,
        )
        weighted = values.float().transpose(0, 1) * weights[:, None, None]
        sums = torch.segment_reduce(weighted, "sum", lengths=lengths, axis=0)  # (B, J, D)
        totals = torch.segment_reduce(weights, "sum", lengths=lengths, axis=0)
        pooled = (
            sums / totals.clamp_min(torch.finfo(torch.float32).tiny)[:, None, None]
        ).transpose(0, 1)
        directions = self.directions.to(device)
        centered = pooled - self.means.to(device)[:, None]
        shared = centered @ directions.transpose(1, 2) @ directions
        cleaned = (centered - shared) / self.scales.to(device)[:, None, None]
        return cleaned * (lengths > 0)[:, None]


def word_weights(sentences: Iterable[Sequence[str]], smoothing: float) -> dict[str, float]:
    """Return a / (a + p) of the frequent words of a text, most frequent first.

    Args:
        sentences: tokenized sentences.
        smoothing: a; a word with this share p of all words has half the weight of a rare one.
    """
    counts = Counter(word for sentence in sentences for word in sentence)
    total = counts.total()
    weights = {
        word: round(smoothing / (smoothing + count / total), _DIGITS)
        for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    }
    smallest = 10.0**-_DIGITS
    return {word: max(w, smallest) for word, w in weights.items() if w <= _LARGEST_STORED}


def fit_directions(
    weights: Mapping[str, float], vectors: Tensor, num_directions: int
) -> WeightedPooling:
    """Return a pooling for sentence vectors (B, J, D) that were pooled by `weights` alone."""
    values = vectors.double().transpose(0, 1)  # (J, B, D)
    means = values.mean(1)
    centered = values - means[:, None]
    covariances = centered.transpose(1, 2) @ centered / centered.shape[1]  # (J, D, D)
    spread, axes = torch.linalg.eigh(covariances)  # ascending
    kept = spread.shape[1] - num_directions
    directions = axes[:, :, kept:].flip(-1).transpose(1, 2)
    scales = spread[:, :kept].clamp_min(0).sum(1).sqrt()
    return WeightedPooling(
        weights, means.float(), directions.float().contiguous(), scales.float().contiguous()
    )
