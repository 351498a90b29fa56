"""Noticing that training has lost what it had learned.

A learning rate that is a little too high does no harm for thousands of steps; then, within a few
dozen, the loss is back where it began, and never falls again. All numbers stay finite, so only the
course of the loss tells, and hours of work would go into a model of word frequencies.
"""

from dataclasses import dataclass, replace

LEAST_GAIN = 0.5  # nats: before that much was learned, there is nothing to lose
NUM_REPORTS = 3  # in a row: one alone may be strange text


@dataclass(frozen=True)
class LossCourse:
    """What the reported losses have been like.

    Attributes:
        first: the first one.
        lowest: the lowest.
        num_lost: how many of the last ones, in a row, gave back more than half of what had been
            gained between the two.
    """

    first: float | None = None
    lowest: float | None = None
    num_lost: int = 0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    def after(self, loss: float) -> "LossCourse":
        """With one more report."""
        if self.first is None or self.lowest is None:
            return LossCourse(loss, loss)
        gained = self.first - self.lowest
        lost = gained > LEAST_GAIN and loss > self.lowest + gained / 2
        lowest = min(self.lowest, loss)
        return replace(self, lowest=lowest, num_lost=self.num_lost + 1 if lost else 0)

    @property
    def has_diverged(self) -> bool:
        """Whether it is time to give up."""
        return self.num_lost >= NUM_REPORTS
