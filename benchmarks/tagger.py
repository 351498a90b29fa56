"""How long a tagger takes to fit, and how fast it tags raw text.

RUN is what `elmox fit` made: of its log this takes how far the dev score was after how much time,
of its model how many words of running text it tags in a second. Loading is left out; splitting the
text into sentences and words is not.

    elmox fit pos --train en_ewt-ud-train.conllu.xz --dev en_ewt-ud-dev.conllu.xz --out runs/pos
    python benchmarks/tagger.py runs/pos/seed-0
"""

import argparse
import json
import shlex
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from machine import RESULTS, running_english

from elmox.bench.machine import machine_facts, machine_line
from elmox.tasks.predictor import TaskPredictor
from elmox.text.sentences import split_sentences

MINUTES = 10  # in which a fit should be as good as done
NEAR = 0.2  # points below the best


def fitting(run: Path, metric: str) -> dict[str, Any]:
    """The best dev score of a run, and the best within the minutes."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    scores = [(line["seconds"], line[f"dev_{metric}"]) for line in lines]
    early = [score for seconds, score in scores if seconds <= 60 * MINUTES]
    return {
        "epochs": len(scores),
        "epochs_early": len(early),
        "seconds": scores[-1][0],
        "best": max(score for _, score in scores),
        "best_early": max(early, default=None),
    }


def tagging(fitted: TaskPredictor, text: str, repeats: int) -> dict[str, Any]:
    """Words a second: the median, the slowest and the fastest of the repeats."""

    def run() -> int:
        lines = (split_sentences(line) for line in text.splitlines())
        outputs = fitted.predict(sentence for line in lines for sentence in line)
        return sum(len(output.to_dict()["tokens"]) for output in outputs)

    rates = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        words = run()
        rates.append(words / (time.perf_counter() - began))
    rates = sorted(rates[1:])  # the first one warms up
    return {"words": words, "rate": statistics.median(rates), "range": (rates[0], rates[-1])}


def to_markdown(results: dict[str, Any]) -> str:
    """For people."""
    fit, tag = results["fitting"], results["tagging"]
    slowest, fastest = tag["range"]
    early = "none" if fit["best_early"] is None else f"{fit['best_early']:.2f}"
    lines = [
        "# A tagger: time to fit, words a second",
        "",
        f"{machine_line(results['machine'])}. Made by `{results['command']}`.",
        "",
        "| | measured | should be |",
        "| --- | --- | --- |",
        f"| dev {results['metric']} when done ({fit['epochs']} epochs, {fit['seconds']:.0f} s) "
        f"| {fit['best']:.2f} | |",
        f"| the best within {MINUTES} minutes ({fit['epochs_early']} epochs) "
        f"| {early} | {fit['best'] - NEAR:.2f} |",
        f"| words of raw text tagged in a second, {tag['words']:,} words "
        f"| {tag['rate']:,.0f} ({slowest:,.0f} to {fastest:,.0f}) | 4,000 |",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="the directory of a seed")
    parser.add_argument("--text", type=Path, help="running text; held-out Wikipedia by default")
    parser.add_argument("--words", type=int, default=50_000, help="of the text, about")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the results")
    arguments = parser.parse_args()
    fitted = TaskPredictor.from_pretrained(arguments.run / "model", device="cpu")
    text = " ".join(running_english(arguments.text).split(" ")[: arguments.words])
    results = {
        "machine": machine_facts(fitted.model.device),
        "command": shlex.join(["python", "benchmarks/tagger.py", *sys.argv[1:]]),
        "metric": fitted.task.metric,
        "fitting": fitting(arguments.run, fitted.task.metric),
        "tagging": tagging(fitted, text, arguments.repeats),
    }
    markdown = to_markdown(results)
    print(markdown)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "tagger.md").write_text(markdown, encoding="utf-8")
    (arguments.out / "tagger.json").write_text(
        json.dumps(results, indent=2) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
