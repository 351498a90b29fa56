"""The ONNX export next to elmox on one thread: CPU time, memory, loading, install size.

Both read the same tokenized sentences in the same process, one after the other and in turns, so
that a slow minute hits both. "Cold" means an empty word cache. Loading is measured in processes of
their own.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/onnx_export.py
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from machine import RESULTS, cpu_name, running_english

from elmox import Elmo
from elmox.export import OnnxElmo, export_onnx
from elmox.model.init import random_checkpoint
from elmox.text.sentences import split_sentences

SENTENCE = [
    *("The", "old", "man", "bought", "his", "grandson"),
    *("a", "small", "present", "last", "week", "."),
]
LOADING = {
    "elmox": "from elmox import Elmo; Elmo.from_pretrained(device='cpu').encode(['A cat.'])",
    "OnnxElmo": "from elmox.export import OnnxElmo; "
    "OnnxElmo.from_pretrained({folder!r}).encode(['A cat.'])",
}
MEASURE = """
import sys, time
began = time.perf_counter()
{code}
seconds = time.perf_counter() - began
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds, int(peak.split()[1]) / 1024, "torch" in sys.modules)
"""


def cpu_seconds(run: Callable[[], Any], number: int) -> float:
    """CPU time of one run of `number`: other programs on the machine change it little."""
    began = time.process_time()
    for _ in range(number):
        run()
    return (time.process_time() - began) / number


def compare(elmo: Elmo, onnx: OnnxElmo, sentences: list[list[str]], repeats: int) -> dict[str, Any]:
    """Median CPU seconds of every kind of work, for both."""

    def cold_elmo() -> None:
        elmo.clear_cache()
        elmo.encode_tokens(sentences)

    def cold_onnx() -> None:
        onnx.clear_cache()
        onnx.encode_tokens(sentences)

    one = [SENTENCE]
    work: dict[str, tuple[Callable[[], Any], Callable[[], Any], int]] = {
        "batches, cold": (cold_elmo, cold_onnx, 1),
        "batches, warm": (
            lambda: elmo.encode_tokens(sentences),
            lambda: onnx.encode_tokens(sentences),
            1,
        ),
        "one sentence, warm": (
            lambda: elmo.encode_tokens(one),
            lambda: onnx.encode_tokens(one),
            50,
        ),
    }
    for runs in work.values():  # weights are packed and code is compiled at first use
        runs[0]()
        runs[1]()
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in work}
    for _ in range(repeats):
        for name, (ours, exported, number) in work.items():
            for run, seconds in zip((ours, exported), times[name], strict=True):
                seconds.append(cpu_seconds(run, number))
    return {
        name: {"elmox": statistics.median(ours), "onnx": statistics.median(exported)}
        for name, (ours, exported) in times.items()
    }


def loading(folder: Path, repeats: int) -> dict[str, dict[str, float]]:
    """Median seconds from start to first vectors and peak memory, in fresh processes."""
    measured = {}
    for name, code in LOADING.items():
        program = MEASURE.format(code=code.format(folder=str(folder)))
        rows = []
        for _ in range(repeats + 1):
            out = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=True
            ).stdout.split()
            assert out[2] == str(name == "elmox")
            rows.append((float(out[0]), float(out[1])))
        seconds, megabytes = (statistics.median(column) for column in zip(*rows[1:], strict=True))
        measured[name] = {"seconds": seconds, "megabytes": megabytes}
    return measured


def install_megabytes(*names: str) -> float:
    """Size of packages and all that they require, as installed here."""
    todo, seen, size = list(names), set[str](), 0
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for other systems
            continue
        size += sum(
            os.path.getsize(path)
            for file in package.files or ()
            if os.path.isfile(path := str(package.locate_file(file)))
        )
        todo += [
            match.group().lower().replace("_", "-")
            for requirement in package.requires or ()
            if "extra ==" not in requirement and (match := re.match(r"[\w.-]+", requirement))
        ]
    return size / 1e6


def difference(elmo: Elmo, onnx: OnnxElmo, sentences: list[list[str]]) -> tuple[float, float]:
    """Largest difference of two vectors of running text, and the smallest cosine, all layers."""
    ours = np.concatenate(elmo.encode_tokens(sentences, layers="all"), axis=1)
    exported = np.concatenate(onnx.encode_tokens(sentences, layers="all"), axis=1)
    norms = np.linalg.norm(ours, axis=-1) * np.linalg.norm(exported, axis=-1)
    return float(np.abs(ours - exported).max()), float(((ours * exported).sum(-1) / norms).min())


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = [
        "# The ONNX export next to elmox",
        "",
        f"{result['cpu']}, one thread, torch {result['torch']}, onnxruntime "
        f"{result['onnxruntime']}. {result['sentences']} consecutive sentences of running English "
        f"({result['tokens']:,} tokens, {result['words']:,} distinct); the one sentence has "
        f"{len(SENTENCE)} words. Medians of {result['repeats']} runs in turns. Made by "
        "`python benchmarks/onnx_export.py`.",
        "",
        "## CPU time",
        "",
        "| model | work | elmox | OnnxElmo | OnnxElmo / elmox |",
        "|---|---|---|---|---|",
    ]
    for model, runs in result["times"].items():
        for name, seconds in runs.items():
            unit, factor = ("ms", 1e3) if "one" in name else ("s", 1)
            ours, exported = seconds["elmox"], seconds["onnx"]
            lines.append(
                f"| {model} | {name} | {ours * factor:.2f} {unit} | {exported * factor:.2f} {unit} "
                f"| {exported / ours:.2f} |"
            )
    lines += [
        "",
        "## Agreement on this text, all layers",
        "",
        "| weights | graphs | largest difference | smallest cosine |",
        "|---|---|---|---|",
    ]
    for weights, row in result["agreement"].items():
        lines.append(
            f"| {weights} | {row['megabytes']:.1f} MB | {row['difference']:.1e} "
            f"| {row['cosine']:.6f} |"
        )
    lines += [
        "",
        "## Start and install",
        "",
        "From the start of Python's imports to the first vectors, english-small, files in the "
        "system's cache.",
        "",
        "| | installed packages | first vectors after | peak memory |",
        "|---|---|---|---|",
    ]
    for name, row in result["loading"].items():
        lines.append(
            f"| {name} | {result['installed'][name]:,.0f} MB | {row['seconds']:.2f} s "
            f"| {row['megabytes']:,.0f} MB |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--text", type=Path, help="running English (plain or .xz)")
    parser.add_argument("--original", type=int, default=600, help="sentences for the original size")
    parser.add_argument("--output", type=Path, default=RESULTS / "onnx.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    elmo = Elmo.from_pretrained(device="cpu")
    text = split_sentences(running_english(args.text))
    sentences = [tokens for s in text if (tokens := elmo.tokenize(s))][: args.sentences]
    agreement = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for weights in ("float16", "int8"):
            report = export_onnx(elmo, folder / weights, weights=weights)
            onnx = OnnxElmo.from_pretrained(folder / weights, num_threads=1)
            apart, cosine = difference(elmo, onnx, sentences)
            graphs = [size for file, size in report.files.items() if file.endswith(".onnx")]
            agreement[weights] = {
                "megabytes": sum(graphs) / 1e6, "difference": apart, "cosine": cosine
            }  # fmt: skip
        onnx = OnnxElmo.from_pretrained(folder / "float16", num_threads=1)
        times = {"english-small": compare(elmo, onnx, sentences, args.repeats)}
        started = loading(folder / "float16", args.repeats)
        if args.original:
            large = Elmo(random_checkpoint("original"))
            export_onnx(large, folder / "original")
            onnx = OnnxElmo.from_pretrained(folder / "original", num_threads=1)
            some = sentences[: args.original]
            times[f"original size, {len(some)} sentences"] = compare(large, onnx, some, 3)
    result = {
        "cpu": cpu_name(),
        "torch": torch.__version__,
        "onnxruntime": onnxruntime.__version__,
        "sentences": len(sentences),
        "tokens": sum(map(len, sentences)),
        "words": len({word for sentence in sentences for word in sentence}),
        "repeats": args.repeats,
        "times": times,
        "agreement": agreement,
        "loading": started,
        "installed": {
            "elmox": install_megabytes("elmox"),
            "OnnxElmo": install_megabytes("onnxruntime"),
        },
    }
    print(table(result))
    args.output.write_text(table(result), encoding="utf-8")
    args.output.with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
