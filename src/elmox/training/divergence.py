"""Detect a training run that has lost what it had learned.

A learning rate that is a little too high does no harm for thousands of steps. Then, within a few
dozen, the loss returns to its first values and never falls again. All numbers stay finite, so only
the course of the loss shows it; without a check, hours go into a model of word frequencies.
"""

from dataclasses import dataclass

from elmox.config import Strict

NUM_REPORTS = 5  # reports that are averaged: a single one may be a small step of unusual text
MIN_GAIN = 1.0  # nats: before the loss has fallen by that much, there is nothing to lose
KEPT_SHARE = 0.1  # of the gain: a run that keeps no more than this has diverged


@dataclass(frozen=True)
class LossCourse(Strict):
    """Summary of the losses that a run has reported.

    Attributes:
        recent: the last `NUM_REPORTS` losses.
        first: the mean of the first `NUM_REPORTS`.
        lowest: the lowest mean of that many in a row.
    """

    recent: tuple[float, ...] = ()
    first: float | None = None
    lowest: float | None = None

    def after(self, loss: float) -> "LossCourse":
        """Return the course with one more report."""
        recent = (*self.recent, loss)[-NUM_REPORTS:]
        if len(recent) < NUM_REPORTS:
            return LossCourse(recent)
        mean = sum(recent) / NUM_REPORTS
        first = mean if self.first is None else self.first
        lowest = mean if self.lowest is None else min(self.lowest, mean)
        return LossCourse(recent, first, lowest)

    @property
    def has_diverged(self) -> bool:
        """Whether all recent losses are back at the first ones."""
        if self.first is None or self.lowest is None:
            return False
        gained = self.first - self.lowest
        return gained > MIN_GAIN and min(self.recent) > self.first - KEPT_SHARE * gained
