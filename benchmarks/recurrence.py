"""The tasks' LSTMs on a GPU: one launch for all steps, compared with torch.

An update is forward and backward, in TF32 as in fits. A bidirectional layer is a tagger's (200
cells) or a parser's (400), compared with cuDNN's on packed rows. A stack of eight layers with
highways is that of semantic roles, compared with a loop over steps in torch. Both in turns; the
median of the host's time until the GPU has finished.

    python benchmarks/recurrence.py
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from machine import RESULTS
from torch import nn

from elmox.bench.machine import machine_facts, machine_line
from elmox.bench.peers import plain_kernels
from elmox.bench.timing import wall_seconds
from elmox.kernels.availability import why_not_triton
from elmox.kernels.recurrence.dispatch import read_rows
from elmox.kernels.recurrence.packing import PackedRows, Packing
from elmox.kernels.tf32 import tf32_products
from elmox.tasks.nn.highway_lstm import HighwayLstm

SIZES = [("bidirectional", 200, 32), ("bidirectional", 400, 32), ("eight with highways", 300, 77)]
LONGEST = 40  # words of a row; they have 5 at least
INPUT = 1124  # numbers of a word

Kernels: TypeAlias = Callable[[], AbstractContextManager[None]]


def update_of(kind: str, cells: int, rows: int, device: torch.device) -> Callable[[], object]:
    """Something that reads some rows, and finds all gradients."""
    torch.manual_seed(0)
    lengths = np.sort(np.random.default_rng(0).integers(5, LONGEST + 1, rows))[::-1].copy()
    packed = Packing.of(lengths).on(device)
    words = torch.randn(int(lengths.sum()), INPUT, device=device, requires_grad=True)
    weights, read = _layers(kind, cells, packed, device)
    return lambda: torch.autograd.grad(read(words).sum(), [words, *weights])


def _layers(
    kind: str, cells: int, rows: PackedRows, device: torch.device
) -> tuple[list[nn.Parameter], Callable[[torch.Tensor], torch.Tensor]]:
    if kind == "bidirectional":
        lstm = nn.LSTM(INPUT, cells, bidirectional=True).to(device)
        return [*lstm.parameters()], lambda words: read_rows(lstm, words, rows)
    stack = nn.ModuleList(
        HighwayLstm(cells if n else INPUT, cells, 0.1, backward=n % 2 == 1) for n in range(8)
    ).to(device)

    def read(words: torch.Tensor) -> torch.Tensor:
        for layer in stack:
            words = layer(words, rows)
        return words

    return [*stack.parameters()], read


def row_of(kind: str, cells: int, rows: int, device: torch.device, repeats: int) -> str:
    """A row of the table."""
    update = update_of(kind, cells, rows, device)
    kernels: tuple[Kernels, Kernels] = (nullcontext, plain_kernels)  # ours, torch's
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(repeats + 2):
        for chosen, taken in zip(kernels, times, strict=True):
            with chosen(), tf32_products(device):
                elapsed = wall_seconds(update, device)
            if number >= 2:  # before that kernels are compiled and memory is found
                taken.append(elapsed)
    ours, theirs = (1000 * statistics.median(durations) for durations in times)
    return f"| {kind} | {cells} | {rows} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.1f} |"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--out", type=Path, default=RESULTS / "recurrence.md")
    args = parser.parse_args()
    device = torch.device("cuda")
    reason = "no GPU" if not torch.cuda.is_available() else why_not_triton(torch.ones(1).to(device))
    if reason is not None:
        sys.exit(f"recurrence.py: our kernels cannot be used here: {reason}")
    lines = [
        "# The tasks' LSTMs on a GPU",
        "",
        f"`python benchmarks/recurrence.py --repeats {args.repeats}`: milliseconds of an update,",
        f"the way there and all gradients, of rows of 5 to {LONGEST} words. Torch's is cuDNN's,",
        f"with highways a loop. {machine_line(machine_facts(device))}.",
        "",
        "| layer | cells | rows | ours | torch's | times as fast |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for size in SIZES:
        lines.append(row_of(*size, device, args.repeats))
        print(lines[-1], flush=True)
    args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
