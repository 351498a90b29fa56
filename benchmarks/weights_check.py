"""Measure what it costs to compare the weights with what was computed from them.

    python benchmarks/weights_check.py [--device cuda]

Prints a Markdown table and writes it to benchmarks/results/weights_check.md. The bundled English
model encodes tokenized sentences whose words it knows. Every call compares the weights
(`elmox/ops/derived.py`); inside `weights_fixed()` only the first does. Both are timed in turns, so
that a busy machine slows both.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from statistics import median

import torch
from machine import RESULTS, cpu_name, running_english

from elmox import Elmo
from elmox.ops.derived import weights_fixed

REPEATS = {1: 300, 32: 40, 256: 9}  # calls per number of sentences
WORDS = 20  # of a sentence


def sentences(number: int) -> list[list[str]]:
    """Cut running text into sentences of one length."""
    words = running_english().split()[: number * WORDS]
    return [words[i : i + WORDS] for i in range(0, len(words), WORDS)]


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Time of one call, until its result is there."""
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measured(elmo: Elmo, number: int) -> tuple[float, float]:
    """Median seconds of a call with and without the comparison."""
    text = sentences(number)
    times: dict[bool, list[float]] = {True: [], False: []}

    def encode() -> None:
        elmo.encode_tokens(text)

    encode()
    for _ in range(REPEATS[number]):
        for compares in (True, False):
            with nullcontext() if compares else weights_fixed():
                elmo.encode_tokens([["the"]])  # inside the scope this call compares, and no other
                times[compares].append(seconds(encode, elmo.device))
    return median(times[True]), median(times[False])


def rows(device: str) -> list[str]:
    """The lines of the table."""
    lines = []
    elmo = Elmo.from_pretrained(device=device)
    for learned in (False, True):
        elmo.reader.bilm.requires_grad_(learned)
        for number in REPEATS:
            with_check, without = measured(elmo, number)
            extra = with_check - without
            lines.append(
                f"| {'learned' if learned else 'frozen'} | {number} | {without * 1e3:.2f} | "
                f"{with_check * 1e3:.2f} | {extra * 1e3:.2f} | {extra / without:.1%} |"
            )
    return lines


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    machine = torch.cuda.get_device_name() if device == "cuda" else cpu_name()
    table = "\n".join([
        "# Comparing the weights with what is kept of them",
        "",
        f"By `benchmarks/weights_check.py --device {device}` on {machine}, torch "
        f"{torch.__version__}, {torch.get_num_threads()} threads. Milliseconds per call of the "
        f"bundled English model (13.6 million weights), sentences of {WORDS} known words; medians.",
        "",
        "Frozen weights are sampled, learned ones (`requires_grad`) compared whole.",
        "",
        "| weights | sentences | not compared | compared | difference | share |",
        "|---|---|---|---|---|---|",
        *rows(device),
        "",
    ])  # fmt: skip
    print(table)
    name = "weights_check.md" if device == "cpu" else f"weights_check_{device}.md"
    (RESULTS / name).write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
