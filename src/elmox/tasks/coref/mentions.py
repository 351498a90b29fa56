"""Spans of a document that may be mentions: how good each one is, and the best of them.

Lee et al. 2017, sections 4 and 5. A span is what its first and its last word have become in the
LSTM, a mean of its words that attention weights (in place of a syntactic head), and its width. A
feed-forward net says how much it looks like a mention, and only the best spans go on: a share of
the number of words, none of which crosses another.

All spans of a document are a table of first words and widths. The net's first layer takes the sum
of a product with each part of a span, so that words are multiplied once, not once for every span.

Shapes: P words of a document, W widths, M spans that are kept, X and E the widths of a word's
vectors after the LSTM and before it, D of a span's. The span of `width` words that begins with word
`start` stands at `start * W + width - 1` in the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROUNDS_AT_ONCE = 16  # of `best_spans`, on a GPU: on documents of novels 8 to 17 were needed


@dataclass(frozen=True)
class Mentions:
    """The spans that are kept, by their first words, the shorter ones first."""

    indices: Tensor  # (M,) in the table
    starts: Tensor  # (M,) their first words
    lasts: Tensor  # (M,) their last words
    vectors: Tensor  # (M, D)
    scores: Tensor  # (M,)


class MentionScorer(nn.Module):
    """Words of a document to its likeliest mentions.

    Attributes:
        width: D, of a span's vector.
    """

    def __init__(
        self,
        encoded: int,
        embedded: int,
        *,
        max_width: int,
        feature_dim: int,
        hidden: Sequence[int],
        dropout: float,
    ) -> None:
        """Make it.

        Args:
            encoded: X.
            embedded: E.
            max_width: W.
            feature_dim: width of the vector that stands for a span's width.
            hidden: widths of the layers of the feed-forward nets.
            dropout: on these layers, and on the vectors of widths.
        """
        super().__init__()
        self.width = 2 * encoded + embedded + feature_dim
        self.widths = nn.Embedding(max_width, feature_dim)
        nn.init.normal_(self.widths.weight, std=0.1)
        # A softmax takes no note of a bias.
        self.importance = feed_forward(encoded, hidden, dropout, bias=False)
        self.start = nn.Linear(encoded, hidden[0])
        self.last = nn.Linear(encoded, hidden[0], bias=False)
        self.head = nn.Linear(embedded, hidden[0], bias=False)
        self.feature = nn.Linear(feature_dim, hidden[0], bias=False)
        self.rest = nn.Sequential(
            *activation(dropout), feed_forward(hidden[0], hidden[1:], dropout)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        encoded: Tensor,
        embedded: Tensor,
        ends: Tensor,
        count: int,
        known: Tensor | None = None,
    ) -> Mentions:
        """Return the best spans.

        Args:
            encoded: (P, X) words after the LSTM.
            embedded: (P, E) and before it.
            ends: (P,) end of each word's sentence: the index after its last word.
            count: maximum number of spans.
            known: (P, W) true for spans that come before all others, whatever their scores; None
                for none.
        """
        most = self.widths.num_embeddings
        widths = self.dropout(self.widths.weight)  # (W, feature_dim), the same for all spans
        weights = _weights(self.importance(encoded).squeeze(-1), most)  # (P, W, W)
        hidden = self.start(encoded)[:, None] + _windows(self.last(encoded), most)
        hidden = hidden + weights @ _windows(self.head(embedded), most) + self.feature(widths)
        scores = self.rest(hidden).squeeze(-1)  # (P, W)
        steps = torch.arange(most, device=ends.device)
        words = torch.arange(len(ends), device=ends.device)
        outside = words[:, None] + steps >= ends[:, None]
        ranked = scores.detach()
        if known is not None:
            ranked = ranked.masked_fill(known, float("inf"))
        places = best_spans(ranked.masked_fill(outside, float("-inf")), count)
        starts, steps_to_last = places // most, places % most
        lasts = starts + steps_to_last
        members = torch.clamp(starts[:, None] + steps, max=len(ends) - 1)  # (M, W)
        span_weights = F.embedding(places, weights.flatten(0, 1))  # (M, W)
        heads = span_weights[:, None] @ F.embedding(members, embedded)
        parts = [
            F.embedding(starts, encoded),
            F.embedding(lasts, encoded),
            heads.squeeze(1),
            F.embedding(steps_to_last, widths),
        ]
        best = scores.flatten().gather(0, places)
        return Mentions(places, starts, lasts, torch.cat(parts, dim=-1), best)


def feed_forward(
    size: int, hidden: Sequence[int], dropout: float, *, bias: bool = True
) -> nn.Sequential:
    """Return ReLU layers that score a vector: (..., size) to (..., 1)."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(size, width), *activation(dropout)]
        size = width
    return nn.Sequential(*layers, nn.Linear(size, 1, bias=bias))


def activation(dropout: float) -> tuple[nn.Module, nn.Module]:
    """Return the modules that follow each hidden layer."""
    return nn.ReLU(), nn.Dropout(dropout)


def best_spans(scores: Tensor, count: int) -> Tensor:
    """Return the indices of the best spans that do not cross, in order: (M,).

    Spans are taken by falling score, unless they cross one that was taken before; at most `count`.
    Whether a span is taken depends on better ones alone. So if all are assumed to be taken and
    every one is looked at again, round after round, the best N are right after N rounds, and what
    no longer changes is right altogether. It takes few rounds. Whether they were enough is the one
    question for which the host waits for a GPU.

    Args:
        scores: (P, W), -inf where there is no span.
        count: maximum number.
    """
    order = scores.flatten().argsort(descending=True, stable=True)
    numbers = torch.arange(len(order), device=order.device)
    ranks = torch.empty_like(order).scatter_(0, order, numbers).view_as(scores)
    better = _around(_framed(ranks)) < ranks[..., None, None]  # (P, W, W, 2W - 1)
    rivals = better & _crossing(scores.shape[1], scores.device)
    taken, num_taken = _without_rivals(scores > float("-inf"), rivals)
    by_rank = ranks.masked_fill(~taken, len(order)).flatten()
    best = by_rank.topk(min(count, num_taken), largest=False, sorted=False).indices
    return best.sort().values


def _without_rivals(there: Tensor, rivals: Tensor) -> tuple[Tensor, int]:
    """Return the spans that are taken, (P, W), and their number.

    Args:
        there: (P, W) true where there is a span.
        rivals: (P, W, W, 2W - 1) true for the better spans that a span crosses, as `_crossing` has
            them.
    """
    frame = there.shape[1] - 1
    framed = _framed(there)
    taken, around = framed[frame : len(framed) - frame], _around(framed)

    def look_again() -> None:
        torch.gt(there, (rivals & around).any((2, 3)), out=taken)

    while True:
        for _ in range(0 if there.device.type == "cpu" else ROUNDS_AT_ONCE - 1):
            look_again()
        before = taken.clone()
        look_again()
        num_changed, num_taken = torch.stack([(taken != before).sum(), taken.sum()]).tolist()
        if not num_changed:
            return taken, num_taken


def _crossing(most: int, device: torch.device) -> Tensor:
    """Return whether a span crosses another: starts in it and ends after it, or vice versa.

    Indexed by the width of the first, the width of the second, and the offset of the second's
    start from the first's (from 1 - W to W - 1): (W, W, 2W - 1).
    """
    widths = torch.arange(1, most + 1, device=device)
    stop = widths[:, None, None]
    start = torch.arange(1 - most, most, device=device)
    other_stop = start + widths[:, None]
    after = (start > 0) & (start < stop) & (other_stop > stop)
    before = (start < 0) & (other_stop > 0) & (other_stop < stop)
    return after | before


def _framed(table: Tensor) -> Tensor:
    """A table (P, W) with W - 1 rows of zeros before and after it."""
    frame = table.shape[1] - 1
    return F.pad(table, (0, 0, frame, frame))


def _around(framed: Tensor) -> Tensor:
    """For each first word, the table's rows from W - 1 before to W - 1 after: (P, 1, W, 2W - 1)."""
    return framed.unfold(0, 2 * framed.shape[1] - 1, 1)[:, None]


def _windows(words: Tensor, most: int) -> Tensor:
    """For each word, itself and those after it: (P, H) to (P, W, H); zero after the last."""
    return F.pad(words, (0, 0, 0, most - 1)).unfold(0, most, 1).transpose(1, 2)


def _weights(importance: Tensor, most: int) -> Tensor:
    """Return the weights of each span's words, zero after its last: (P, W, W).

    Args:
        importance: (P,) of words.
        most: W.
    """
    near = F.pad(importance, (0, most - 1)).unfold(0, most, 1)  # (P, W)
    later = torch.ones(most, most, dtype=torch.bool, device=near.device).triu(1)
    return near[:, None].masked_fill(later, float("-inf")).softmax(-1)
