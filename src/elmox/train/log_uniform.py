"""The wrong answers that a sampled softmax tells the right one from: log-uniform candidates.

A vocabulary sorted by falling count is roughly Zipfian, so word c is drawn with
P(c) = (log(c + 2) - log(c + 1)) / log(V + 1), again and again until S distinct words have come up.

Drawing one after the other is slow, and how many draws it takes is not known beforehand. The same
distribution comes from clocks: let draws arrive at random times, one per unit of time on average (a
Poisson process). Then each word arrives on its own, first after an exponential time of mean
1 / P(c). The first S distinct words are the S earliest first arrivals; T is the time of the last of
them; and those words have by then come up again as often as a Poisson number of mean
sum_c P(c) (T - t_c) says. All of it has a fixed shape, so a GPU never waits for the host.

Shapes: V words, S samples.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.train.keys import mixed_seed


class Candidates(NamedTuple):
    """One draw."""

    ids: Tensor  # (S,) int64, distinct, rising
    tries: Tensor  # () float64: draws it took, the last new word's included


class LogUniformSampler:
    """Draws S distinct words out of V; all of them, without drawing, where S is V."""

    def __init__(self, num_words: int, num_samples: int) -> None:
        if not 1 <= num_samples <= num_words:
            raise ElmoxError(
                f"{num_samples} samples: expected from 1 to the vocabulary's {num_words} words; "
                "for a small vocabulary choose the full softmax"
            )
        self.num_words = num_words
        self.num_samples = num_samples
        self._mean_waits: dict[torch.device, Tensor] = {}

    def probability(self, ids: Tensor) -> Tensor:
        """P(c), float64, of word ids of any shape."""
        return (1.0 / (ids.double() + 1.0)).log1p() / math.log(self.num_words + 1)

    def draw(self, seed: int, step: int, direction: int, device: torch.device | str) -> Candidates:
        """Draw the candidates of one step and direction, which its key fully determines.

        The numbers are the same on every machine with this kind of device, not across kinds.
        """
        device = torch.device(device)
        if self.num_samples == self.num_words:
            # After endless tries every word has come up: every expected count is 1.
            every = torch.arange(self.num_words, device=device)
            return Candidates(every, torch.full((), math.inf, dtype=torch.float64, device=device))
        generator = torch.Generator(device)
        generator.manual_seed(mixed_seed("candidates", seed, step, direction))
        waits = torch.rand(self.num_words, dtype=torch.float64, device=device, generator=generator)
        # log1p(-u), as u may be 0 but never 1.
        waits.neg_().log1p_().neg_().mul_(self._mean_wait(device))
        first = waits.topk(self.num_samples, largest=False, sorted=False)
        since = first.values.max() - first.values
        repeats = torch.poisson((since * self.probability(first.indices)).sum(), generator)
        return Candidates(first.indices.sort().values, repeats + self.num_samples)

    def log_expected(self, ids: Tensor, tries: Tensor) -> Tensor:
        """Log of how often a word is expected among the candidates of so many tries.

        Args:
            ids: word ids of any shape, candidates or not.
            tries: () as drawn.

        Returns:
            float32, the shape of `ids`; at most 0, since candidates are distinct.
        """
        never_drawn = tries * (-self.probability(ids)).log1p()  # log of the chance
        return (-never_drawn.expm1()).log().float()

    def _mean_wait(self, device: torch.device) -> Tensor:
        """(V,) 1 / P(c); kept, for it costs as much as a draw."""
        if device not in self._mean_waits:
            ids = torch.arange(self.num_words, device=device)
            self._mean_waits[device] = 1.0 / self.probability(ids)
        return self._mean_waits[device]
