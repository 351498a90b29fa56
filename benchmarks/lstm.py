"""A training LSTM layer with projection and clipping against cuDNN's without clipping, on a GPU.

Both directions, bfloat16, all in one run, medians. cuDNN's is `torch.nn.LSTM(proj_size=...)`, one
for each direction: torch offers it no clipping.

    python benchmarks/lstm.py
"""

import os
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from machine import RESULTS
from torch import Tensor, nn

from elmox.ops.lstm_rows import lstm_rows
from elmox.ops.select import FORCE

CASES = [  # projection, cells, rows, steps
    (512, 4096, 2048, 20),
    (512, 4096, 2048, 64),
    (512, 4096, 512, 64),
    (512, 4096, 128, 64),
    (128, 1024, 2048, 32),
    (128, 1024, 1024, 32),
]
REPEATS = 9


def milliseconds(work: Callable[[], object]) -> float:
    """Median time of some work on the GPU, after two rounds of warming up."""
    times: list[float] = []
    for number in range(REPEATS + 2):
        start, stop = (_event() for _ in range(2))
        start.record()
        work()
        stop.record()
        torch.cuda.synchronize()
        if number >= 2:
            times.append(start.elapsed_time(stop))
    return median(times)


def ours(dim: int, cells: int, rows: int, steps: int) -> tuple[float, float]:
    """Forward, and forward with backward."""
    generator = torch.Generator("cuda").manual_seed(0)

    def draw(*shape: int) -> Tensor:
        values = torch.randn(*shape, generator=generator, device="cuda") * 0.02
        return values.bfloat16().requires_grad_()

    inputs, hidden = draw(2, steps, rows, dim), draw(2, rows, dim).detach()
    cell = torch.zeros(2, rows, cells, device="cuda")
    weights = (draw(2, 4 * cells, dim), draw(2, 4 * cells, dim), draw(2, 4 * cells))
    projection = draw(2, dim, cells)
    upstream = torch.randn_like(inputs)

    def forward() -> Tensor:
        return lstm_rows(inputs, hidden, cell, *weights, projection, 3.0, 3.0)[0]

    def both() -> None:
        torch.autograd.backward(forward(), upstream)

    with torch.no_grad():
        alone = milliseconds(forward)
    return alone, milliseconds(both)


def cudnn(dim: int, cells: int, rows: int, steps: int) -> tuple[float, float]:
    """The same work without clipping: two cuDNN LSTMs."""
    layers = [nn.LSTM(dim, cells, proj_size=dim).cuda().bfloat16() for _ in range(2)]
    for layer in layers:
        layer.flatten_parameters()
    inputs = [
        torch.randn(steps, rows, dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for _ in layers
    ]
    upstream = torch.randn_like(inputs[0])

    def forward() -> list[Tensor]:
        return [layer(x)[0] for layer, x in zip(layers, inputs, strict=True)]

    def both() -> None:
        for output in forward():
            torch.autograd.backward(output, upstream)

    with torch.no_grad():
        alone = milliseconds(forward)
    return alone, milliseconds(both)


def main() -> None:
    """Measure and write the table."""
    lines = [
        "# A training LSTM layer against cuDNN's",
        "",
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, bfloat16, both directions of",
        f"one layer, median of {REPEATS}. Ours clips cells and projection, cuDNN's does not.",
        "Made by `python benchmarks/lstm.py`.",
        "",
        "| projection / cells | rows x steps | cuDNN forward, training | plain torch | Triton | "
        "Triton against cuDNN |",
        "|---|---|---|---|---|---|",
    ]
    for case in CASES:
        dim, cells, rows, steps = case
        theirs = cudnn(*case)
        os.environ[FORCE] = "torch"
        plain = ours(*case)
        del os.environ[FORCE]
        fast = ours(*case)
        ratios = " / ".join(f"{a / b:.2f} x" for a, b in zip(theirs, fast, strict=True))
        times = " | ".join(f"{a:.1f}, {b:.1f} ms" for a, b in (theirs, plain, fast))
        lines.append(f"| {dim} / {cells} | {rows} x {steps} | {times} | {ratios} |")
        print(lines[-1], flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "lstm.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _event() -> Any:
    event: Any = torch.cuda.Event
    return event(enable_timing=True)


if __name__ == "__main__":
    main()
