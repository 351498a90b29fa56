"""Measure what it costs to compare the weights with what was computed from them.

    python benchmarks/weights_check.py [--device cuda]

Prints a Markdown table and writes it to benchmarks/results/weights_check.md. The bundled English
model encodes tokenized sentences whose words it knows. Calls do not compare the weights here; after
each of them the comparisons that it would have made (`elmox/kernels/derived.py`) are timed by
themselves: those of the token encoder and of the LSTMs.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from machine import RESULTS, cpu_name, running_english

from elmox import Elmo
from elmox.kernels.derived import WeightsWatch, weights_fixed

REPEATS = {1: 200, 32: 40, 256: 7}  # calls per number of sentences
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
    """Median seconds of a call, and of the comparisons."""
    text, bilm = sentences(number), elmo.reader.bilm
    calls, comparisons = [], []
    watches = [(WeightsWatch(), module) for module in (bilm.token_encoder, bilm.lstm)]

    def compare() -> None:
        for watch, module in watches:
            watch.version([*module.parameters(), *module.buffers()])

    for _ in range(REPEATS[number] + 1):
        with weights_fixed():
            elmo.encode_tokens([["the"]])  # compares; the next call does not
            calls.append(seconds(lambda: elmo.encode_tokens(text), elmo.device))
        comparisons.append(seconds(compare, elmo.device))
    return median(calls[1:]), median(comparisons[1:])  # the first ones fill the caches


def rows(device: str) -> list[str]:
    """The lines of the table."""
    lines = []
    elmo = Elmo.from_pretrained(device=device)
    for learned in (False, True):
        elmo.reader.bilm.requires_grad_(learned)
        for number in REPEATS:
            call, comparison = measured(elmo, number)
            lines.append(
                f"| {'learned' if learned else 'frozen'} | {number} | {call * 1e3:.2f} | "
                f"{comparison * 1e3:.2f} | {comparison / call:.1%} |"
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
        "| weights | sentences | a call | the comparison | share |",
        "|---|---|---|---|---|",
        *rows(device),
        "",
    ])  # fmt: skip
    print(table)
    name = "weights_check.md" if device == "cpu" else f"weights_check_{device}.md"
    (RESULTS / name).write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
