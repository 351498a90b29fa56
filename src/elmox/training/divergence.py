"""Noticing that training has lost what it had learned.

A learning rate that is a little too high does no harm for thousands of steps; then, within a few
dozen, the loss is back where it began, and never falls again. All numbers stay finite, so only the
course of the loss tells, and hours of work would go into a model of word frequencies.
"""

from dataclasses import dataclass

NUM_REPORTS = 5  # that count together: a report may be one small step of strange text
LEAST_GAIN = 1.0  # nats: before that much was learned, there is nothing to lose
ALL_BUT = 0.1  # of the gain: with no more than that left, all is lost


@dataclass(frozen=True)
class LossCourse:
    """What the reported losses have been like.

    Attributes:
        recent: the last few.
        first: the mean of the first few.
        lowest: the lowest mean of as many in a row.
    """

    recent: tuple[float, ...] = ()
    first: float | None = None
    lowest: float | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a protocol name, not a field)

    def after(self, loss: float) -> "LossCourse":
        """With one more report."""
        recent = (*self.recent, loss)[-NUM_REPORTS:]
        if len(recent) < NUM_REPORTS:
            return LossCourse(recent)
        mean = sum(recent) / NUM_REPORTS
        first = mean if self.first is None else self.first
        lowest = mean if self.lowest is None else min(self.lowest, mean)
        return LossCourse(recent, first, lowest)

    @property
    def has_diverged(self) -> bool:
        """Whether the last few losses are all back where it began."""
        if self.first is None or self.lowest is None:
            return False
        gained = self.first - self.lowest
        return gained > LEAST_GAIN and min(self.recent) > self.first - ALL_BUT * gained
