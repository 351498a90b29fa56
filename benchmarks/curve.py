"""How runs of `elmox train` went: perplexity over the tokens read, as a picture.

The loss of training is that of the sampled softmax, whose exponential is no perplexity; it is drawn
to show that a run went evenly. Dots are held-out perplexities by the full softmax.

    python benchmarks/curve.py src/elmox/models/english-small/metrics.jsonl \\
        docs/models/english-original/metrics.jsonl docs/models/english

The legend calls a run by its directory.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmox.plots import save_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#E69F00", "#009E73")


def read_run(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def draw(runs: dict[str, list[dict[str, Any]]]) -> "Figure":
    """Held-out perplexity above, the loss of training below; a color a run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 6.0), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for (name, lines), color in zip(runs.items(), COLORS, strict=False):
        held_out = [line for line in lines if "perplexity" in line]
        training = [line for line in lines if "sampled_loss" in line]
        epochs = {line["step"]: line["epoch"] for line in training}
        above.plot(
            [epochs[line["step"]] for line in held_out], [line["perplexity"] for line in held_out],
            marker="o", color=color, label=name,
        )  # fmt: skip
        below.plot(
            [line["epoch"] for line in training], [line["sampled_loss"] for line in training],
            color=color, linewidth=1,
        )  # fmt: skip
        last = held_out[-1]
        above.annotate(
            f"{last['perplexity']:.1f}", (epochs[last["step"]], last["perplexity"]),
            textcoords="offset points", xytext=(4, 6),
        )  # fmt: skip
    above.set_ylabel("held-out perplexity")
    above.margins(x=0.08, y=0.15)
    below.set_ylabel("sampled loss in training")
    below.set_xlabel("epochs")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def main() -> None:
    """Read the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("metrics", type=Path, nargs="+", help="metrics.jsonl of runs")
    parser.add_argument("out", type=Path, help="the picture, without .png and .svg")
    arguments = parser.parse_args()
    runs = {path.parent.name: read_run(path) for path in arguments.metrics}
    for path in save_picture(draw(runs), arguments.out):
        print(path)


if __name__ == "__main__":
    main()
