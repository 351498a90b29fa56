"""Pairs of sentences, of which the first entails or contradicts the second, or neither."""

from dataclasses import dataclass

LABELS = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True)
class Pair:
    """Two sentences as they were written, not tokenized, and one of `LABELS`."""

    id: str
    premise: str
    hypothesis: str
    label: str


@dataclass(frozen=True)
class Pairs:
    """The pairs of a file, and how many more it had on which annotators did not agree."""

    pairs: tuple[Pair, ...]
    num_dropped: int = 0
