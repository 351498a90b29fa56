"""The scores of a part-of-speech probe as a table, as JSON and as a figure."""

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
from elmox.probes.report import bootstrap_note, difference_rows, markdown_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PosReport:
    """Scores with their model, data and options.

    Attributes:
        facts: model, data, command; shown above the table.
        options: options of the probe.
        scores: scores of all layers.
    """

    facts: Mapping[str, str]
    options: PosOptions
    scores: PosScores

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {
            "probe": "pos",
            **self.facts,
            "options": asdict(self.options),
            "random_seed": RANDOM_SEED,
            "num_tags": self.scores.num_tags,
            "parts": {part: asdict(counts) for part, counts in self.scores.parts.items()},
            "layers": [_layer_dict(score) for score in self.scores.layers],
            "differences": [asdict(difference) for difference in self.scores.differences],
        }

    def to_markdown(self) -> str:
        """Return the report for people."""
        options, scores = self.options, self.scores
        bootstrap = bootstrap_note(options.samples, options.seed)
        return markdown_report(
            "Part-of-speech tags by a linear probe",
            self.facts,
            [
                *(f"{part} holds {_counted(counts)}" for part, counts in scores.parts.items()),
                f"tags: {options.tags}, {scores.num_tags} different ones in train",
                f"probe: seeds {options.seeds[0]} to {options.seeds[-1]}, L2 penalty chosen on dev",
                f"random: a biLM of the same shape with random weights, seed {RANDOM_SEED}",
                f"{bootstrap}; each word's correctness is averaged over the seeds of the probe",
            ],
            "Accuracy in percent, mean and standard deviation over seeds:",
            [_score_rows(scores.layers), difference_rows("on test", scores.differences)],
        )

    def picture(self) -> "Figure":
        """Draw the accuracy of each layer on test, trained next to random."""
        by_weights = {
            weights: [score for score in self.scores.layers if score.weights == weights]
            for weights in ("trained", "random")
        }
        series = [
            Series(
                name,
                [score.interval.estimate for score in by_weights[weights]],
                [(score.interval.low, score.interval.high) for score in by_weights[weights]],
            )
            for weights, name in (("trained", "the model"), ("random", "random weights"))
        ]
        labels = [score.name for score in by_weights["trained"]]
        title = f"Part-of-speech tags ({self.options.tags}) by a linear probe"
        return grouped_bars(title, "accuracy on test, %", labels, series)


def _layer_dict(score: LayerScore) -> dict[str, Any]:
    values: dict[str, Any] = {"name": score.name, **asdict(score)}
    for part in ("dev", "test"):
        mean, deviation = mean_and_deviation(getattr(score, part))
        values |= {f"{part}_mean": mean, f"{part}_deviation": deviation}
    return values


def _counted(part: PartCounts) -> str:
    """Describe the size of a part."""
    counted = f"{part.num_sentences:,} sentences, {part.num_words:,} words"
    if not part.unseen:
        return counted
    tags = ", ".join(f"{tag} {number}" for tag, number in part.unseen.items())
    return f"{counted}; {sum(part.unseen.values())} with tags not in train, all wrong ({tags})"


def _score_rows(layers: Sequence[LayerScore]) -> list[list[str]]:
    rows = [["", "dev", "test", "95% interval", "penalty"], ["---", *["---:"] * 4]]
    for score in layers:
        accuracies = [mean_and_deviation(values) for values in (score.dev, score.test)]
        rows.append(
            [
                score.name,
                *(f"{mean:.2f} ± {deviation:.2f}" for mean, deviation in accuracies),
                f"{score.interval.low:.2f} to {score.interval.high:.2f}",
                f"{score.penalty:g}",
            ]
        )
    return rows
