"""Perplexity of language models on several held-out texts, and what they expect in a few gaps.

Running text is read as in the paper, with the state carried from sentence to sentence; isolated
sentences, the first of each text, start from zero state, as they do when they are embedded. Both
are the full softmax's, the mean of both directions.

    python benchmarks/held_out.py MODEL... --texts 'english-wide/*.valid.*' --out wide.json
"""

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from glob import glob
from itertools import islice
from pathlib import Path
from typing import Any

from elmox import Elmo
from elmox.io.text_files import open_text

GAPS = (
    "I will buy you a ___ .",
    "She drank a cup of ___ .",
    "He opened the ___ and walked out .",
    "The film was ___ .",
    "They live in ___ .",
)


def sentences(elmo: Elmo, path: Path) -> list[list[str]]:
    """Return the tokens of each sentence of a text."""
    with open_text(path) as lines:
        return [list(one.tokens) for line in lines for one in elmo.split(line) if one.tokens]


def isolated_perplexity(elmo: Elmo, texts: Sequence[list[str]]) -> float:
    """Return the perplexity of sentences that are scored one by one."""
    scores = elmo.score(texts)
    positions = sum(len(score.tokens) + 1 for score in scores)
    return math.exp(-sum(score.log_prob for score in scores) / positions)


def measure(model: str, texts: Sequence[Path], num_isolated: int, device: str | None) -> Any:
    """Return the perplexities of a model by text, and its words for the gaps."""
    elmo = Elmo.from_pretrained(model, device=device)
    perplexities = {}
    for path in texts:
        tokens = sentences(elmo, path)
        running = elmo.evaluate(tokens)
        perplexities[path.name.split(".")[0]] = {
            "running": running.perplexity,
            "isolated": isolated_perplexity(elmo, list(islice(tokens, num_isolated))),
            "unknown_share": running.unknown_share,
        }
    gaps = {
        gap: [[word.word, word.probability] for word in elmo.predict(gap.split(), k=5)]
        for gap in GAPS
    }
    return {"model": model, "perplexities": perplexities, "gaps": gaps}


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def table(results: Sequence[Any]) -> str:
    """Return the results as Markdown."""
    names = list(results[0]["perplexities"])
    lines = [
        f"| | {' | '.join(names)} | geometric mean |",
        f"|---|{'---|' * (len(names) + 1)}",
    ]
    for result in results:
        for kind in ("running", "isolated"):
            values = [result["perplexities"][name][kind] for name in names]
            cells = " | ".join(f"{value:.1f}" for value in [*values, geometric_mean(values)])
            lines.append(f"| {result['model']}, {kind} | {cells} |")
    lines += ["", f"| | {' | '.join(GAPS)} |", f"|---|{'---|' * len(GAPS)}"]
    for result in results:
        cells = " | ".join(
            ", ".join(f"{word} {100 * share:.0f}%" for word, share in result["gaps"][gap][:3])
            for gap in GAPS
        )
        lines.append(f"| {result['model']} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print the tables, and write all numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="anything that Elmo.from_pretrained loads")
    parser.add_argument("--texts", nargs="+", required=True, help="files or patterns")
    parser.add_argument("--isolated", type=int, default=3000, help="sentences of each text")
    parser.add_argument("--device", help="a GPU by default, if there is one")
    parser.add_argument("--out", type=Path, required=True, help="file of all numbers (JSON)")
    args = parser.parse_args()
    texts = [Path(path) for pattern in args.texts for path in sorted(glob(pattern))]
    results = [measure(model, texts, args.isolated, args.device) for model in args.models]
    args.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
