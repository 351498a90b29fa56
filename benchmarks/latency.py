"""Milliseconds of one sentence and of a few, on one CPU thread, with the bundled model.

float32 with weights in 16 bits, as the bundled model is stored; float32 with weights that 16 bits
would change (the same ones, moved by a millionth), which are read in 32; int8; and onnxruntime. The
ways take turns.

    OMP_WAIT_POLICY=passive python benchmarks/latency.py
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from machine import RESULTS, cpu_name, running_english

from elmox import Elmo
from elmox.export import OnnxElmo, export_onnx
from elmox.text.sentences import split_sentences

WORDS = 12
BATCHES = (2, 4, 8, 16, 64)
WAYS = ("float32", "float32, other weights", "int8", "onnxruntime")


def models(folder: Path) -> dict[str, Elmo | OnnxElmo]:
    """Return the bundled model, ready to run in each way."""
    exact, other = Elmo.from_pretrained(device="cpu"), Elmo.from_pretrained(device="cpu")
    for parameter in other.reader.bilm.parameters():
        parameter.data.mul_(1 + 1e-6)
    export_onnx(exact, folder / "onnx")
    return dict(
        zip(
            WAYS,
            (
                exact,
                other,
                Elmo.from_pretrained(device="cpu", dtype="int8"),
                OnnxElmo.from_pretrained(folder / "onnx", num_threads=1),
            ),
            strict=True,
        )
    )


def runs_of(model: Elmo | OnnxElmo, sentences: list[list[str]]) -> dict[str, Callable[[], Any]]:
    """Return the works of one model by name."""
    one = [next(tokens for tokens in sentences if len(tokens) == WORDS)]
    encode = model.encode_tokens

    def cold() -> None:
        if isinstance(model, Elmo):
            model.reader.cache.clear()  # keeps what was computed from the weights
        else:
            model.clear_cache()
        encode(one)

    runs: dict[str, Callable[[], Any]] = {
        f"one sentence of {WORDS} words": partial(encode, one),
        "the same, no word cached": cold,
    }
    for number in BATCHES:
        runs[f"{number} sentences"] = partial(encode, sentences[:number])
    return runs


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = [
        "# Latency of a call",
        "",
        f"{result['cpu']}, one thread, torch {result['torch']}, onnxruntime "
        f"{result['onnxruntime']}. Milliseconds per call of `encode_tokens`, english-small, "
        "consecutive sentences of running English; words cached unless it says otherwise. Medians "
        f"of {result['repeats']} calls in turns. Made by `python benchmarks/latency.py`.",
        "",
        "| call | tokens | " + " | ".join(WAYS) + " | other weights / float32 |",
        "|---|" + "---|" * (len(WAYS) + 2),
    ]
    for name, row in result["milliseconds"].items():
        cells = " | ".join(f"{row[way]:.1f}" for way in WAYS)
        ratio = row[WAYS[1]] / row[WAYS[0]]
        lines.append(f"| {name} | {result['tokens'][name]} | {cells} | {ratio:.1f} x |")
    lines += [
        "",
        "float32: the weights are numbers of float16, and few rows read them in 16 bits. Other "
        "weights: the same model with weights that float16 cannot hold.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--text", type=Path, help="running English (plain or .xz)")
    parser.add_argument("--output", type=Path, default=RESULTS / "latency.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        ways = models(Path(folder))
        tokenize = ways[WAYS[0]].tokenize
        split = [tokenize(s) for s in split_sentences(running_english(args.text))]
        sentences = [tokens for tokens in split if 6 <= len(tokens) <= 40][:1000]
        runs = {way: runs_of(model, sentences) for way, model in ways.items()}
        times: dict[str, dict[str, list[float]]] = {}
        for repeat in range(args.repeats + 1):
            for way, works in runs.items():
                for name, run in works.items():
                    began = time.perf_counter()
                    run()
                    if repeat:  # the first time packs weights
                        row = times.setdefault(name, {})
                        row.setdefault(way, []).append(time.perf_counter() - began)
    result = {
        "cpu": cpu_name(),
        "torch": torch.__version__,
        "onnxruntime": onnxruntime.__version__,
        "repeats": args.repeats,
        "tokens": {
            name: sum(map(len, sentences[: int(name.split()[0])])) if name[0].isdigit() else WORDS
            for name in times
        },
        "milliseconds": {
            name: {way: 1000 * statistics.median(seconds) for way, seconds in row.items()}
            for name, row in times.items()
        },
    }
    print(table(result))
    args.output.write_text(table(result), encoding="utf-8")
    args.output.with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
