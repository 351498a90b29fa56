"""The scores of a part-of-speech probe as a table, as JSON and as a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from elmox.plots import Series, grouped_bars
from elmox.probes.pos.probe import (
    RANDOM_SEED,
    LayerScore,
    PartCounts,
    PosOptions,
    PosScores,
    mean_and_deviation,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PosReport:
    """Scores, and what they are of.

    Attributes:
        facts: model, data, command; shown above the table.
        options: how the probe was made.
        scores: what was found.
    """

    facts: Mapping[str, str]
    options: PosOptions
    scores: PosScores

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "probe": "pos",
            **self.facts,
            "options": asdict(self.options),
            "random_seed": RANDOM_SEED,
            "num_tags": self.scores.num_tags,
            "parts": {part: asdict(own) for part, own in self.scores.parts.items()},
            "layers": [_layer_dict(own) for own in self.scores.layers],
            "differences": [asdict(own) for own in self.scores.differences],
        }

    def to_markdown(self) -> str:
        """For people."""
        options, scores = self.options, self.scores
        lines = [
            "# Part-of-speech tags by a linear probe",
            "",
            *(f"- {name}: {value}" for name, value in self.facts.items()),
            *(f"- {part} holds {_counted(own)}" for part, own in scores.parts.items()),
            f"- tags: {options.tags}, {scores.num_tags} different ones in train",
            f"- probe: seeds {options.seeds[0]} to {options.seeds[-1]}, L2 penalty chosen on dev",
            f"- random: a biLM of the same shape with random weights, seed {RANDOM_SEED}",
            f"- intervals: 95%, paired bootstrap over sentences, {options.samples:,} samples, seed "
            f"{options.seed}; each word's correctness is averaged over the seeds of the probe",
            "",
            "Accuracy in percent, mean and standard deviation over seeds:",
            "",
            *_score_table(scores.layers),
            "",
            *_difference_table(scores),
        ]
        return "\n".join(lines) + "\n"

    def picture(self) -> "Figure":
        """Accuracy on test, layer by layer, trained beside random."""
        layers = self.scores.layers
        series = [
            Series(
                name,
                [own.interval.estimate for own in layers if own.weights == weights],
                [(own.interval.low, own.interval.high) for own in layers if own.weights == weights],
            )
            for weights, name in (("trained", "the model"), ("random", "random weights"))
        ]
        labels = [own.name for own in layers if own.weights == "trained"]
        title = f"Part-of-speech tags ({self.options.tags}) by a linear probe"
        return grouped_bars(title, "accuracy on test, %", labels, series)


def _layer_dict(score: LayerScore) -> dict[str, Any]:
    found = {f"{part}_{what}": value for part in ("dev", "test") for what, value in zip(
        ("mean", "deviation"), mean_and_deviation(getattr(score, part)), strict=True
    )}  # fmt: skip
    return {"name": score.name, **asdict(score), **found}


def _counted(part: PartCounts) -> str:
    """What a part holds, in words."""
    counted = f"{part.num_sentences:,} sentences, {part.num_words:,} words"
    if not part.unseen:
        return counted
    tags = ", ".join(f"{tag} {number}" for tag, number in part.unseen.items())
    return f"{counted}; {sum(part.unseen.values())} with tags not in train, all wrong ({tags})"


def _score_table(layers: Sequence[LayerScore]) -> list[str]:
    rows = [["", "dev", "test", "95% interval", "penalty"], ["---", *["---:"] * 4]]
    for own in layers:
        found = [mean_and_deviation(values) for values in (own.dev, own.test)]
        rows.append(
            [
                own.name,
                *(f"{mean:.2f} ± {deviation:.2f}" for mean, deviation in found),
                f"{own.interval.low:.2f} to {own.interval.high:.2f}",
                f"{own.penalty:g}",
            ]
        )
    return [_line(row) for row in rows]


def _difference_table(scores: PosScores) -> list[str]:
    rows = [["on test", "points", "95% interval"], ["---", "---:", "---:"]]
    for found in scores.differences:
        points = found.points
        interval = f"{points.low:+.2f} to {points.high:+.2f}"
        rows.append([f"{found.layer} - {found.other}", f"{points.estimate:+.2f}", interval])
    return [_line(row) for row in rows]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
