"""Log-uniform candidates: the negative samples of a sampled softmax.

A vocabulary sorted by falling count is roughly Zipfian, so word c is drawn with
P(c) = (log(c + 2) - log(c + 1)) / log(V + 1), again and again until S distinct words were drawn.

Drawing one word after the other is slow, and the number of draws is not known beforehand. A Poisson
process gives the same distribution: let draws arrive at random times, one per unit of time on
average. Then each word arrives independently, first after an exponential time of mean 1 / P(c). The
first S distinct words are the S earliest first arrivals. T is the time of the last of them, and by
then the number of repeated arrivals of these words is Poisson with mean sum_c P(c) (T - t_c). All
shapes are fixed, so a GPU never waits for the host.

`inference.language_model.zipf_log_probs` is another model of the same frequencies. It estimates
p(w) for ranking predictions; P(c) here must be the proposal of the published loss. Their constants
differ, so neither can replace the other.

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
    """One draw, or a stack of draws."""

    ids: Tensor  # (S,) int64, distinct, rising
    tries: Tensor  # () float64, number of draws up to and including the last new word


class _Table(NamedTuple):
    """Constants of every word; cached, because computing them costs as much as a draw."""

    mean_waits: Tensor  # (V,) float64 1 / P(c)
    log_misses: Tensor  # (V,) float64 log(1 - P(c))


class LogUniformSampler:
    """Draws S distinct words out of V; if S is V, returns all of them without drawing."""

    def __init__(self, num_words: int, num_samples: int) -> None:
        if not 1 <= num_samples <= num_words:
            raise ElmoxError(
                f"{num_samples} samples: expected from 1 to the vocabulary's {num_words} words; "
                "for a small vocabulary use the full softmax"
            )
        self.num_words = num_words
        self.num_samples = num_samples
        self._tables: dict[torch.device, _Table] = {}

    def probability(self, ids: Tensor) -> Tensor:
        """Return P(c), float64, of word ids of any shape."""
        return (1.0 / (ids.double() + 1.0)).log1p() / math.log(self.num_words + 1)

    def draw(self, seed: int, step: int, direction: int, device: torch.device | str) -> Candidates:
        """Draw the candidates of one step and direction.

        The arguments determine the result on every machine with the same type of device. CPU and
        GPU draw different numbers.
        """
        ids, tries = self.draw_all(seed, [step], [direction], device)
        return Candidates(ids[0, 0], tries[0, 0])

    def draw_all(
        self, seed: int, steps: Sequence[int], directions: Sequence[int], device: torch.device | str
    ) -> Candidates:
        """Draw for T steps and D directions at once: ids (T, D, S), tries (T, D)."""
        device, shape = torch.device(device), (len(steps), len(directions))
        if self.num_samples == self.num_words:
            # With infinitely many tries, every word is drawn and every expected count is 1.
            all_words = torch.arange(self.num_words, device=device).expand(*shape, -1)
            return Candidates(
                all_words, torch.full(shape, math.inf, dtype=torch.float64, device=device)
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
        """Return the log of the expected count of words among the candidates.

        Args:
            ids: word ids of any shape, candidates or not.
            tries: () as drawn, or a shape that broadcasts with that of `ids`.

        Returns:
            float32, of the shape of `ids`; at most 0, because candidates are distinct.
        """
        never_drawn = self._table(ids.device).log_misses[ids].mul_(tries)  # log probability
        return never_drawn.expm1_().neg_().log_().float()

    def _table(self, device: torch.device) -> _Table:
        if device not in self._tables:
            chances = self.probability(torch.arange(self.num_words, device=device))
            self._tables[device] = _Table(1.0 / chances, (-chances).log1p())
        return self._tables[device]
