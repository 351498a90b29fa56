"""Antecedents: for each mention of a document, the earlier one that it refers back to, if any.

Lee et al. 2017, section 4. The score of a pair is the sum of three: of either span as a mention,
and of the two as a pair, which a feed-forward net gives from both spans, their product value by
value, how far apart they are, and whether one and the same person speaks. No antecedent has score
0. The candidates are the nearest mentions before.

The net's first layer is again a sum of products, of which only one is taken pair by pair; and pairs
are scored some at a time, in training once more for the gradient, so that memory grows with the
mentions and not with the pairs.

Shapes: M mentions, K candidates at most, R pairs, D the width of a mention's vector.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from elmox.tasks.coref.mentions import Mentions, activation, feed_forward

MOST_PAIRS = 2**13  # that are scored together: a bound on memory
# Of a GPU's memory that the vectors of all of them may take; there are half a dozen of such tables.
# Few pairs at a time would keep the host busy, and the GPU waiting for it.
PAIRS_SHARE = 1 / 256

DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)  # where a bin of distances, in mentions, begins


class AntecedentScorer(nn.Module):
    """Mentions to scores of their antecedents."""

    _bins: Tensor

    def __init__(
        self,
        width: int,
        *,
        most: int,
        feature_dim: int,
        hidden: Sequence[int],
        dropout: float,
        speakers: bool,
    ) -> None:
        """Make it.

        Args:
            width: D.
            most: K.
            feature_dim: width of the vectors that stand for distances and speakers.
            hidden: widths of the net's layers.
            dropout: on these layers, and on the vectors of features.
            speakers: whether speakers are a feature.
        """
        super().__init__()
        self._most = most
        self.register_buffer("_bins", torch.tensor(DISTANCES), persistent=False)
        self.distances = nn.Embedding(len(DISTANCES), feature_dim)
        self.speakers = nn.Embedding(2, feature_dim) if speakers else None
        for features in (self.distances, self.speakers):
            if features is not None:
                nn.init.normal_(features.weight, std=0.1)
        self.anaphor = nn.Linear(width, hidden[0])
        self.antecedent = nn.Linear(width, hidden[0], bias=False)
        self.product = nn.Linear(width, hidden[0], bias=False)
        self.features = nn.Linear((1 + speakers) * feature_dim, hidden[0], bias=False)
        self.rest = nn.Sequential(
            *activation(dropout), feed_forward(hidden[0], hidden[1:], dropout)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, mentions: Mentions, speakers: Tensor) -> Tensor:
        """Score no antecedent, then the preceding mentions, nearest first: (M, 1 + K).

        Scores of candidates that do not exist are -inf.

        Args:
            mentions: of one document, in order.
            speakers: (P,) a number for the speaker of each of its words.
        """
        # At least one candidate, even if it does not exist: a loss must depend on the weights.
        count = len(mentions.scores)
        shape = count, max(1, min(self._most, count - 1))  # M, K
        # The first mention has no candidate, the second one, and so on.
        anaphors, steps = torch.tril_indices(*shape, offset=-1, device=speakers.device)
        antecedents = anaphors - steps - 1
        vectors = mentions.vectors
        tables = vectors, self.anaphor(vectors), self.antecedent(vectors)
        speaking = speakers[mentions.starts]
        portions = (
            torch.split(indices, _most_pairs(vectors)) for indices in (anaphors, antecedents)
        )
        pair_scores = [
            _recomputed(self._pairs, *both, speaking, *tables)
            for both in zip(*portions, strict=True)
        ]
        mention_scores = mentions.scores[:, None]
        scores = torch.cat(pair_scores) + F.embedding(antecedents, mention_scores).squeeze(
            -1
        )  # (R,)
        pairs = scores.new_full(shape, float("-inf")).index_put_((anaphors, steps), scores)
        return F.pad(mention_scores + pairs, (1, 0))

    def _pairs(
        self,
        anaphors: Tensor,
        antecedents: Tensor,
        speaking: Tensor,
        vectors: Tensor,
        as_anaphors: Tensor,
        as_antecedents: Tensor,
    ) -> Tensor:
        """Score pairs, (R,); the other arguments are tables with one row per mention."""
        bins = torch.bucketize(anaphors - antecedents, self._bins, right=True) - 1
        features = [self.distances(bins)]
        if self.speakers is not None:
            features.append(self.speakers((speaking[anaphors] == speaking[antecedents]).long()))
        product = F.embedding(anaphors, vectors) * F.embedding(antecedents, vectors)
        hidden = F.embedding(anaphors, as_anaphors) + F.embedding(antecedents, as_antecedents)
        hidden = hidden + self.product(product)
        hidden = hidden + self.features(self.dropout(torch.cat(features, dim=-1)))
        scores: Tensor = self.rest(hidden).squeeze(-1)
        return scores


def gold_antecedents(entities: Tensor, num_candidates: int) -> Tensor:
    """Mark the gold candidates of each mention, in the layout of the scores: (M, 1 + K).

    Column 0 is marked if no candidate has the same entity, or the mention has none.

    Args:
        entities: (M,) index of each mention's entity, from 1 on; 0 for none.
        num_candidates: K.
    """
    numbers = torch.arange(len(entities), device=entities.device)
    antecedents = numbers[:, None] - torch.arange(1, 1 + num_candidates, device=entities.device)
    same = entities[antecedents.clamp(min=0)] == entities[:, None]
    right = same & (antecedents >= 0) & (entities[:, None] > 0)
    return torch.cat([~right.any(1, keepdim=True), right], dim=1)


def antecedent_loss(scores: Tensor, right: Tensor) -> Tensor:
    """Return the mean negative log-likelihood of all gold antecedents of a mention: ().

    Args:
        scores: (M, 1 + K).
        right: (M, 1 + K) true for at least one of each row.
    """
    likely = scores.masked_fill(~right, float("-inf")).logsumexp(1)
    return (scores.logsumexp(1) - likely).mean()


def _most_pairs(vectors: Tensor) -> int:
    """Return how many pairs of these mentions (M, D) are scored at once."""
    if vectors.device.type != "cuda":
        return MOST_PAIRS
    memory = torch.cuda.get_device_properties(vectors.device).total_memory
    return pairs_that_fit(memory, vectors.shape[1] * vectors.element_size())


def pairs_that_fit(memory: int, pair: int) -> int:
    """Return a power of 2, so that GPUs of about the same size draw the same dropout.

    Args:
        memory: bytes of the GPU.
        pair: bytes of a pair's vector.
    """
    fitting = int(PAIRS_SHARE * memory) // pair
    return max(MOST_PAIRS, 1 << fitting.bit_length() >> 1)


def _recomputed(function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Call a function whose intermediate results are recomputed for the gradient, not stored."""
    if not torch.is_grad_enabled():
        return function(*inputs)
    output: Tensor = checkpoint(function, *inputs, use_reentrant=False)
    return output
