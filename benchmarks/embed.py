"""Tokens per second of embedding running English on a CPU, side by side with AllenNLP's own Elmo.

Both read the same tokenised sentences from the same random checkpoint in the same process, with the
same torch and threads, in batches of the same number of sentences, from token lists to the average
of the layers in float32. elmox's word cache is empty at the start ("cold"); the figure with a
filled cache ("warm") is a column of its own. AllenNLP gets the sentences in the order of the text,
as its users gave them, and sorted by length, which it does not do itself.

    python benchmarks/embed.py --sizes small original

AllenNLP is optional: pip install --no-deps allennlp==2.10.1
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from allennlp_peer import load_allennlp
from machine import RESULTS, cpu_name, running_english

from elmox import Elmo
from elmox.legacy.ai2 import write_ai2
from elmox.model.init import random_checkpoint
from elmox.text.sentences import split_sentences

Sentences = list[list[str]]


def sentences_of(text: str, elmo: Elmo, number: int) -> Sentences:
    """The first sentences of a running text, tokenised."""
    return [tokens for s in split_sentences(text) if (tokens := elmo.tokenize(s))][:number]


def seconds(run: Callable[[], Any]) -> float:
    """Wall time of one run."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def in_batches(sentences: Sentences, size: int, by_length: bool) -> list[Sentences]:
    """Consecutive batches, in the order of the text or by length."""
    order: Sequence[list[str]] = sorted(sentences, key=len) if by_length else sentences
    return [list(order[i : i + size]) for i in range(0, len(order), size)]


class AllenNlp:
    """AllenNLP's module on the same weights."""

    def __init__(self, weights: Path, options: Path) -> None:
        elmo_class, self._to_ids = load_allennlp()
        self._elmo: Any = elmo_class(str(options), str(weights), 1, dropout=0.0).eval()

    def run(self, batches: list[Sentences]) -> None:
        """Embed all batches; its state runs on, as it did for its users."""
        with torch.no_grad():
            for batch in batches:
                self._elmo(self._to_ids(batch))

    def fresh(self, batch: Sentences) -> list[Any]:
        """The vectors of one batch from a fresh state, for comparison."""
        self._elmo._elmo_lstm._elmo_lstm.reset_states()
        with torch.no_grad():
            vectors = self._elmo(self._to_ids(batch))["elmo_representations"][0].numpy()
        return [own[: len(tokens)] for own, tokens in zip(vectors, batch, strict=True)]


def _peer(weights: Path, options: Path) -> AllenNlp | None:
    """AllenNLP where it is installed."""
    try:
        return AllenNlp(weights, options)
    except ModuleNotFoundError as error:
        print(f"Without AllenNLP: {error}")
        return None


def measure(size: str, text: str, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One row: elmox cold and warm, AllenNLP in text order and sorted, and their difference."""
    weights = folder / f"{size}.hdf5"
    options = write_ai2(random_checkpoint(size), weights)
    elmo = Elmo.from_pretrained(weights, device="cpu")
    sentences = sentences_of(text, elmo, args.sentences)
    num_tokens = sum(map(len, sentences))
    times: dict[str, list[float]] = {"cold": [], "warm": [], "text order": [], "sorted": []}
    peer = None if args.alone else _peer(weights, options)
    difference = None
    if peer is not None:
        first = sentences[: args.batch_size]
        pairs = zip(elmo.encode_tokens(first), peer.fresh(first), strict=True)
        difference = max(float(np.abs(a - b).max()) for a, b in pairs)
    for _ in range(args.repeats):
        elmo.reader.cache.clear()
        run = lambda: elmo.encode_tokens(sentences, batch_size=args.batch_size)  # noqa: E731
        times["cold"].append(seconds(run))
        times["warm"].append(seconds(run))
        if peer is not None:
            for name in ("text order", "sorted"):
                batches = in_batches(sentences, args.batch_size, by_length=name == "sorted")
                times[name].append(seconds(lambda b=batches: peer.run(b)))  # type: ignore[misc]
    rates = {n: num_tokens / statistics.median(t) for n, t in times.items() if t}
    return {
        "size": size,
        "sentences": len(sentences),
        "tokens": num_tokens,
        "distinct words": len({word for sentence in sentences for word in sentence}),
        "rates": rates,
        "difference": difference,
    }


def table(rows: list[dict[str, Any]], args: argparse.Namespace) -> str:
    """The result as Markdown."""
    lines = [
        "# Embedding on a CPU, side by side with AllenNLP",
        "",
        f"{cpu_name()}, {torch.get_num_threads()} threads, torch {torch.__version__}, float32. "
        f"{rows[0]['sentences']} consecutive sentences of running English "
        f"({rows[0]['tokens']} tokens without boundaries, {rows[0]['distinct words']} distinct), "
        f"batches of {args.batch_size} sentences, medians of {args.repeats} runs. Tokens per "
        "second; random weights. Made by `python benchmarks/embed.py`.",
        "",
        "| size | elmox, cold cache | elmox, warm cache | AllenNLP, text order | AllenNLP, sorted "
        "| cold / text order | cold / sorted | largest difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        rates = row["rates"]
        cells = [f"{rates[n]:,.0f}" if n in rates else "-" for n in
                 ("cold", "warm", "text order", "sorted")]  # fmt: skip
        ratios = [f"{rates['cold'] / rates[n]:.1f} x" if n in rates else "-" for n in
                  ("text order", "sorted")]  # fmt: skip
        difference = "-" if row["difference"] is None else f"{row['difference']:.1e}"
        lines.append(f"| {row['size']} | {' | '.join([*cells, *ratios, difference])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=["small", "original"])
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--text", type=Path, help="running English (plain or .xz)")
    parser.add_argument("--alone", action="store_true", help="without AllenNLP")
    parser.add_argument("--output", type=Path, default=RESULTS / "embed.md")
    args = parser.parse_args()
    text = running_english(args.text)
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(size, text, args, Path(folder)) for size in args.sizes]
    print(table(rows, args))
    args.output.parent.mkdir(exist_ok=True)
    args.output.write_text(table(rows, args), encoding="utf-8")
    args.output.with_suffix(".json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
