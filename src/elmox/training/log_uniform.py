"""The wrong answers that a sampled softmax tells the right one from: log-uniform candidates.

A vocabulary sorted by falling count is roughly Zipfian, so word c is drawn with
P(c) = (log(c + 2) - log(c + 1)) / log(V + 1), again and again until S distinct words have come up.

Drawing one after the other is slow, and how many draws it takes is not known beforehand. The same
distribution comes from clocks: let draws arrive at random times, one per unit of time on average (a
Poisson process). Then each word arrives on its own, first after an exponential time of mean
1 / P(c). The first S distinct words are the S earliest first arrivals; T is the time of the last of
them; and those words have by then come up again as often as a Poisson number of mean
sum_c P(c) (T - t_c) says. All of it has a fixed shape, so a GPU never waits for the host.

Shapes: V words, S samples, T steps, D directions.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.training.keys import mixed_seed


class Candidates(NamedTuple):
    """One draw; or a stack of draws."""

    ids: Tensor  # (S,) int64, distinct, rising
    tries: Tensor  # () float64: draws it took, the last new word's included


class _Table(NamedTuple):
    """What is known of every word beforehand; kept, for it costs as much as a draw."""

    mean_waits: Tensor  # (V,) float64 1 / P(c)
    log_misses: Tensor  # (V,) float64 log(1 - P(c))


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
        self._tables: dict[torch.device, _Table] = {}

    def probability(self, ids: Tensor) -> Tensor:
        """P(c), float64, of word ids of any shape."""
        return (1.0 / (ids.double() + 1.0)).log1p() / math.log(self.num_words + 1)

    def draw(self, seed: int, step: int, direction: int, device: torch.device | str) -> Candidates:
        """Draw the candidates of one step and direction, which its key fully determines.

        The numbers are the same on every machine with this kind of device, not across kinds.
        """
        ids, tries = self.draw_all(seed, [step], [direction], device)
        return Candidates(ids[0, 0], tries[0, 0])

    def draw_all(
        self, seed: int, steps: Sequence[int], directions: Sequence[int], device: torch.device | str
    ) -> Candidates:
        """The draws of some steps, T, and directions, D, at once: ids (T, D, S), tries (T, D)."""
        device, shape = torch.device(device), (len(steps), len(directions))
        if self.num_samples == self.num_words:
            # After endless tries every word has come up: every expected count is 1.
            every = torch.arange(self.num_words, device=device).expand(*shape, -1)
            return Candidates(
                every, torch.full(shape, math.inf, dtype=torch.float64, device=device)
            )
        keys = [(step, direction) for step in steps for direction in directions]
        generators = [torch.Generator(device) for _ in keys]
        waits = torch.empty(len(keys), self.num_words, dtype=torch.float64, device=device)
        for row, key, generator in zip(waits, keys, generators, strict=True):
            generator.manual_seed(mixed_seed("candidates", seed, *key))
            row.uniform_(generator=generator)
        mean_waits = self._table(device).mean_waits
        # log1p(-u), as u may be 0 but never 1.
        waits.neg_().log1p_().neg_().mul_(mean_waits)
        earliest = waits.topk(self.num_samples, sorted=False, largest=False)
        ids = earliest.indices.sort().values
        since = earliest.values.amax(1, keepdim=True) - waits.gather(1, ids)
        means = (since / mean_waits[ids]).sum(1)
        repeats = [torch.poisson(m, g) for m, g in zip(means, generators, strict=True)]
        tries = torch.stack(repeats) + self.num_samples
        return Candidates(ids.view(*shape, -1), tries.view(shape))

    def log_expected(self, ids: Tensor, tries: Tensor) -> Tensor:
        """Log of how often a word is expected among the candidates of so many tries.

        Args:
            ids: word ids of any shape, candidates or not.
            tries: () as drawn, or what goes with the shape of `ids`.

        Returns:
            float32, the shape of `ids`; at most 0, since candidates are distinct.
        """
        never_drawn = self._table(ids.device).log_misses[ids].mul_(tries)  # log of the chance
        return never_drawn.expm1_().neg_().log_().float()

    def _table(self, device: torch.device) -> _Table:
        if device not in self._tables:
            chances = self.probability(torch.arange(self.num_words, device=device))
            self._tables[device] = _Table(1.0 / chances, (-chances).log1p())
        return self._tables[device]
