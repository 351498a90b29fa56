"""Tokens per second of embedding running English on a CPU, side by side with AllenNLP's own Elmo.

Both read the same tokenized sentences from the same random checkpoint in the same process, with the
same torch and threads, from token lists to the average of the layers: in batches of the same number
of sentences, and one sentence at a time. elmox's word cache is empty at the start ("cold"); the
figure with a filled cache ("warm") is a separate column. AllenNLP gets the batches in the order
of the text, as its users gave them, and sorted by length, which it does not do itself. elmox runs
in float32 and with 8-bit products, whose vectors are compared with those of float32.

    python benchmarks/embed.py --sizes small original

AllenNLP is optional: pip install --no-deps allennlp==2.10.1
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import RESULTS, cpu_name, running_english

from elmox import Elmo
from elmox.bench.allennlp import AllenNlp
from elmox.model.init import random_checkpoint
from elmox.pretrained.ai2 import write_ai2
from elmox.text.sentences import split_sentences

Sentences = list[list[str]]
DTYPES = ("float32", "int8")


def sentences_of(text: str, elmo: Elmo, number: int) -> Sentences:
    """The first sentences of a running text, tokenized."""
    return [tokens for s in split_sentences(text) if (tokens := elmo.tokenize(s))][:number]


def num_tokens(sentences: Sentences) -> int:
    """Their tokens, without boundaries."""
    return sum(map(len, sentences))


def seconds(run: Callable[[], Any]) -> float:
    """Wall time of one run."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def in_batches(sentences: Sentences, size: int, by_length: bool) -> list[Sentences]:
    """Consecutive batches, in the order of the text or by length."""
    order: Sequence[list[str]] = sorted(sentences, key=len) if by_length else sentences
    return [list(order[i : i + size]) for i in range(0, len(order), size)]


def cosine(ours: list[Any], others: list[Any]) -> float:
    """Mean over tokens of the cosine of two sets of vectors."""
    a, b = np.concatenate(ours), np.concatenate(others)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(1) / norms).mean())


def _peer(weights: Path, options: Path) -> AllenNlp | None:
    """AllenNLP where it is installed; its state runs on, as it did for its users."""
    try:
        return AllenNlp(weights, options, torch.device("cpu"))
    except ModuleNotFoundError as error:
        print(f"Without AllenNLP: {error}")
        return None


def _runs(
    elmos: dict[str, Elmo],
    peer: AllenNlp | None,
    sentences: Sentences,
    singles: Sentences,
    size: int,
) -> dict[str, Callable[[], None]]:
    """Timed runs by name; the names of elmox's begin with the dtype."""
    runs: dict[str, Callable[[], Any]] = {}

    def together(elmo: Elmo) -> None:
        elmo.encode_tokens(sentences, batch_size=size)

    def alone(elmo: Elmo) -> None:
        for sentence in singles:
            elmo.encode_tokens([sentence])

    def cold(run: Callable[[Elmo], None], elmo: Elmo) -> None:
        elmo.reader.cache.clear()
        run(elmo)

    for dtype, elmo in elmos.items():
        for mode, run in (("batches", together), ("alone", alone)):
            runs[f"{dtype}, {mode}, cold"] = partial(cold, run, elmo)
            runs[f"{dtype}, {mode}, warm"] = partial(run, elmo)
    if peer is not None:
        for name, by_length in (("text order", False), ("sorted", True)):
            batches = in_batches(sentences, size, by_length)
            runs[f"AllenNLP, {name}"] = partial(peer.run, batches)
        runs["AllenNLP, alone"] = partial(peer.run, [[s] for s in singles])
    return runs


def measure(size: str, text: str, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All rates of one size, the difference to AllenNLP, and the cosine of int8 with float32."""
    weights = folder / f"{size}.hdf5"
    options = write_ai2(random_checkpoint(size), weights)
    elmos = {d: Elmo.from_pretrained(weights, device="cpu", dtype=d) for d in DTYPES}
    sentences = sentences_of(text, elmos["float32"], args.sentences)
    singles = sentences[: args.singles]
    peer = None if args.alone else _peer(weights, options)
    first = sentences[: args.batch_size]
    exact, rounded = (elmos[d].encode_tokens(first) for d in DTYPES)
    difference = None
    if peer is not None:
        pairs = zip(exact, peer.fresh(first), strict=True)
        difference = max(float(np.abs(a - b).max()) for a, b in pairs)
    runs = _runs(elmos, peer, sentences, singles, args.batch_size)
    for elmo in elmos.values():  # weights are packed and code is compiled when first used
        elmo.encode_tokens(sentences[: 4 * args.batch_size], batch_size=args.batch_size)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(args.repeats):  # one after the other, so that a slow minute hits all alike
        for name, run in runs.items():
            times[name].append(seconds(run))
    read = {n: num_tokens(singles if "alone" in n else sentences) for n in runs}
    return {
        "size": size,
        "sentences": len(sentences),
        "tokens": num_tokens(sentences),
        "distinct words": len({word for sentence in sentences for word in sentence}),
        "singles": len(singles),
        "rates": {n: read[n] / statistics.median(t) for n, t in times.items()},
        "seconds": times,
        "difference": difference,
        "cosine": cosine(exact, rounded),
        "cosine of the top": cosine(*(elmos[d].encode_tokens(first, layers="top") for d in DTYPES)),
    }


def _cell(rates: dict[str, float], name: str, other: str | None = None) -> str:
    """A rate, or how many times another it is."""
    if name not in rates or (other is not None and other not in rates):
        return "-"
    return f"{rates[name]:,.0f}" if other is None else f"{rates[name] / rates[other]:.1f} x"


def _batches_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| size | elmox | cold cache | warm cache | AllenNLP, text order | AllenNLP, sorted "
        "| cold / text order | cold / sorted |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        for dtype in DTYPES:
            rates, cold = row["rates"], f"{dtype}, batches, cold"
            names = cold, f"{dtype}, batches, warm", "AllenNLP, text order", "AllenNLP, sorted"
            cells = [_cell(rates, name) for name in names]
            ratios = [_cell(rates, cold, f"AllenNLP, {n}") for n in ("text order", "sorted")]
            lines.append(f"| {row['size']} | {dtype} | {' | '.join([*cells, *ratios])} |")
    return lines


def _alone_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| size | elmox | cold cache | warm cache | AllenNLP | cold / AllenNLP |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        for dtype in DTYPES:
            rates, cold = row["rates"], f"{dtype}, alone, cold"
            cells = [_cell(rates, name) for name in (cold, f"{dtype}, alone, warm")]
            cells += [_cell(rates, "AllenNLP, alone"), _cell(rates, cold, "AllenNLP, alone")]
            lines.append(f"| {row['size']} | {dtype} | {' | '.join(cells)} |")
    return lines


def _agreement_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| size | float32, largest difference to AllenNLP | int8, mean cosine with float32 "
        "| the same, top layer |",
        "|---|---|---|---|",
    ]
    for row in rows:
        difference = "-" if row["difference"] is None else f"{row['difference']:.1e}"
        cosines = f"{row['cosine']:.5f} | {row['cosine of the top']:.5f}"
        lines.append(f"| {row['size']} | {difference} | {cosines} |")
    return lines


def table(rows: list[dict[str, Any]], args: argparse.Namespace) -> str:
    """The result as Markdown."""
    first = rows[0]
    lines = [
        "# Embedding on a CPU, side by side with AllenNLP",
        "",
        f"{cpu_name()}, {torch.get_num_threads()} threads, torch {torch.__version__}. "
        f"{first['sentences']} consecutive sentences of running English ({first['tokens']} tokens "
        f"without boundaries, {first['distinct words']} distinct), medians of {args.repeats} runs. "
        "Tokens per second; random weights. Made by `python benchmarks/embed.py`.",
        "",
        f"## Batches of {args.batch_size} sentences",
        "",
        *_batches_table(rows),
        "",
        f"## One sentence at a time, the first {first['singles']}",
        "",
        *_alone_table(rows),
        "",
        "## Agreement",
        "",
        *_agreement_table(rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=["small", "original"])
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--singles", type=int, default=100, help="sentences one at a time")
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
