"""A start state for isolated sentences: make it from running text, and measure what it is worth.

    python benchmarks/start_state.py MODEL --train TEXT... --valid TEXT... [--out DIR]

The state is the mean over sentences taken evenly from the training texts (`Elmo.warm_up`). Each
sentence of a held-out text is then scored alone, from zero state and from this one. `--out` writes
the model with the state.
"""

import argparse
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from elmox import Elmo
from elmox.io.text_files import open_text


def sentences(elmo: Elmo, path: Path) -> Iterator[list[str]]:
    """Yield the tokens of each sentence of a text."""
    with open_text(path) as lines:
        for line in lines:
            for sentence in elmo.split(line):
                yield list(sentence.tokens)


def perplexity(elmo: Elmo, texts: Sequence[list[str]]) -> float:
    """Return the perplexity of sentences that are scored one by one."""
    scores = elmo.score(texts)
    positions = sum(len(score.tokens) + 1 for score in scores)
    return math.exp(-sum(score.log_prob for score in scores) / positions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--train", type=Path, nargs="+", required=True)
    parser.add_argument("--valid", type=Path, nargs="+", required=True)
    parser.add_argument("--train-sentences", type=int, default=1500, help="per text")
    parser.add_argument("--valid-sentences", type=int, default=500, help="per text")
    parser.add_argument("--out", type=Path, help="write the model with the state")
    parser.add_argument("--device")
    args = parser.parse_args()
    elmo = Elmo.from_pretrained(args.model, device=args.device)
    text: list[list[str]] = []
    for path in args.train:
        text += itertools.islice(sentences(elmo, path), args.train_sentences)
    elmo.warm_up(text)
    if args.out:
        elmo.save_pretrained(args.out, dtype="float16")
    print(f"{args.model}: perplexity of isolated sentences, {args.valid_sentences} per text\n")
    print("| text | zero state | mean state |")
    print("| --- | --- | --- |")
    logs = {"zero": 0.0, "warm": 0.0}
    for path in args.valid:
        texts = list(itertools.islice(sentences(elmo, path), args.valid_sentences))
        row = [path.name.split(".")[0]]
        for mode in ("zero", "warm"):
            elmo.state = mode
            value = perplexity(elmo, texts)
            logs[mode] += math.log(value) / len(args.valid)
            row.append(f"{value:.1f}")
        print(f"| {' | '.join(row)} |", flush=True)
    mean = " | ".join(f"{math.exp(value):.1f}" for value in logs.values())
    print(f"| geometric mean | {mean} |")


if __name__ == "__main__":
    main()
