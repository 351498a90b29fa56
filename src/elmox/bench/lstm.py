"""`elmox bench lstm`: one layer, both directions, clipped and projected, next to torch's own.

"Inference" is the path of embedding text, whose rows end at any step (`kernels/lstm/plain.py` and
its faster versions). "Forward" and "training" run full rows (`kernels/lstm/plain_rows.py`). All
contestants compute in the same precision, weights included.

Shapes: D directions, T steps, B rows, P projection, C cells.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from elmox.bench.floor import ProductRate, lstm_work, product_rate
from elmox.bench.peers import Notes, compiled_lstm, gradients_of, plain_kernels, torch_lstm
from elmox.bench.table import Column, Report, milliseconds, speed, speed_columns
from elmox.bench.timing import Work, Works, median_seconds
from elmox.config import PRESETS, LstmConfig
from elmox.errors import Argument
from elmox.io.memory import memory_explained
from elmox.kernels.lstm.dispatch import lstm_kernel, lstm_rows
from elmox.kernels.lstm.plain import BatchedLstm, LstmKernel, LstmWeights
from elmox.kernels.paths import inference_path, training_path

# A training pass has two more products, in the backward pass.
PRODUCTS = {"inference": 1, "forward": 1, "training": 3}

_TOO_MANY = "{} rows of {} steps are too many: lower {} or {}"


@dataclass(frozen=True)
class LstmCases:
    """The cases to measure.

    Attributes:
        size: small, medium or original.
        rows: numbers of rows.
        steps: numbers of steps, each with each number of rows.
        repeats: number of runs; the median counts.
        compile: also measure torch.compile, which takes minutes.
        peers: also measure torch's own LSTM.
    """

    size: str
    rows: Sequence[int]
    steps: Sequence[int]
    repeats: int
    compile: bool = False
    peers: bool = True


def default_cases(device: torch.device) -> LstmCases:
    """Return the original size in training shapes on a GPU; on a CPU, what takes seconds."""
    if device.type == "cuda":
        return LstmCases("original", (128, 512, 1024, 2048), (20, 64), repeats=9)
    return LstmCases("small", (32, 128), (20,), repeats=3)


def bench_lstm(
    cases: LstmCases, device: torch.device, dtype: torch.dtype, show_progress_bar: bool = False
) -> Report:
    """Measure all cases."""
    config = PRESETS[cases.size].lstm
    rate, notes = product_rate(device, dtype), Notes()
    table: list[dict[str, Any]] = []
    shapes = [(rows, steps) for steps in cases.steps for rows in cases.rows]
    for rows, steps in tqdm(shapes, unit="shape", disable=not show_progress_bar):
        with memory_explained(_TOO_MANY, rows, steps, Argument("rows"), Argument("steps")):
            table += _measure(_Layer(config, rows, steps, device, dtype), rate, cases, notes)
    layer = _Layer(config, 1, 1, device, dtype)
    facts = {
        "layer": f"{cases.size}: {config.cell_dim} cells, projection {config.projection_dim}, "
        f"{config.num_directions} directions, clipped at {config.cell_clip:g}",
        "path_of_inference": inference_path(layer.inputs, layer.weights),
        "path_of_forward_and_training": training_path(layer.inputs, layer.weights),
        "median_of": cases.repeats,
    }
    peer = "cuDNN" if device.type == "cuda" else "nn.LSTM"
    notes.add("plain torch: batched products in inference, otherwise ELMOX_KERNELS=torch.")
    if cases.peers:
        notes.add(f"{peer}: torch.nn.LSTM(proj_size), one per direction, without clipping.")
    title = "One LSTM layer, both directions"
    return Report("lstm", title, device, rate, facts, _columns(peer, cases), table, notes)


def _columns(peer: str, cases: LstmCases) -> list[Column]:
    peers = [milliseconds("peer_seconds", peer), Column("peer_ratio", f"{peer} / elmox", ".2f")]
    compiled = [milliseconds("compiled_seconds", "torch.compile")]
    return [
        Column("rows", "rows"),
        Column("steps", "steps"),
        Column("work", "work"),
        *speed_columns("tokens"),
        milliseconds("plain_seconds", "plain torch"),
        *(compiled if cases.compile else []),
        *(peers if cases.peers else []),
    ]


def _measure(
    layer: "_Layer", rate: ProductRate, cases: LstmCases, notes: Notes
) -> list[dict[str, Any]]:
    """Return the rows of the table for one shape."""
    peer_of = (layer.config, layer.inputs, layer.upstream)
    others: dict[str, tuple[str, Callable[[], dict[str, Work]]]] = {
        "plain_seconds": ("plain torch", layer.plain)
    }
    if cases.compile:
        make = partial(_by_name, partial(compiled_lstm, *peer_of))
        others["compiled_seconds"] = ("torch.compile", make)
    if cases.peers:
        others["peer_seconds"] = ("nn.LSTM", partial(_by_name, partial(torch_lstm, *peer_of)))
    made = {key: (name, notes.attempt(name, make)) for key, (name, make) in others.items()}
    chosen, num_tokens = layer.chosen(), layer.num_rows * layer.num_steps
    rows = []
    for work, products in PRODUCTS.items():
        seconds = _seconds(chosen[work], layer, cases)
        floor = rate.seconds(products * num_tokens * lstm_work(layer.config))
        row: dict[str, Any] = {
            "rows": layer.num_rows,
            "steps": layer.num_steps,
            "work": work,
            **speed("tokens", num_tokens, seconds, floor),
        }
        for key, (name, works) in made.items():
            measure = None if works is None else partial(_seconds, works[work], layer, cases)
            row[key] = None if measure is None else notes.attempt(name, measure)
        peer = row.get("peer_seconds")
        rows.append({**row, "peer_ratio": None if peer is None else peer / seconds})
    return rows


def _by_name(make: Callable[[], Works]) -> dict[str, Work]:
    """Return the work by the table's names; a peer has one forward pass for two of them."""
    works = make()
    return {"inference": works.forward, "forward": works.forward, "training": works.training}


def _seconds(work: Work, layer: "_Layer", cases: LstmCases) -> float:
    return median_seconds(work, layer.inputs.device, cases.repeats)


class _Layer:
    """A layer with random weights, and inputs for it."""

    def __init__(
        self, config: LstmConfig, rows: int, steps: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        num, dim, cells = config.num_directions, config.projection_dim, config.cell_dim

        def draw(*shape: int) -> Tensor:
            values = torch.randn(*shape, generator=generator) * 0.02
            return values.to(device, dtype).requires_grad_()

        self.config, self.num_rows, self.num_steps = config, rows, steps
        self.inputs = torch.randn(num, steps, rows, dim, device=device).to(dtype).requires_grad_()
        self.upstream = torch.randn_like(self.inputs)
        self.weights = LstmWeights(
            draw(num, 4 * cells, dim),
            draw(num, 4 * cells, dim),
            draw(num, 4 * cells),
            draw(num, dim, cells),
            config.cell_clip,
            config.proj_clip,
        )
        self._hidden = torch.zeros(num, rows, dim, device=device, dtype=dtype)
        self._cell = torch.zeros(num, rows, cells, device=device)

    def chosen(self) -> dict[str, Work]:
        """Return the work by the paths that elmox chooses here."""
        inference = self._inference(lstm_kernel)
        return {"inference": inference, "forward": self._forward, "training": self._train}

    def plain(self) -> dict[str, Work]:
        """Return the work by the paths that run everywhere."""

        def plainly(work: Callable[[], object]) -> None:
            with plain_kernels():
                work()

        return {
            "inference": self._inference(BatchedLstm),
            "forward": partial(plainly, self._forward),
            "training": partial(plainly, self._train),
        }

    def _inference(self, kernel_of: Callable[[LstmWeights], LstmKernel]) -> Callable[[], Tensor]:
        with torch.no_grad():
            kernel = kernel_of(self.weights)
        inputs = self.inputs.detach().flatten(1, 2)
        hidden, cell = self._hidden.clone(), self._cell.to(inputs.dtype, copy=True)
        sizes = [self.num_rows] * self.num_steps

        def infer() -> Tensor:
            with torch.no_grad():
                return kernel(inputs, sizes, hidden, cell)

        return infer

    @torch.no_grad()
    def _forward(self) -> None:
        self._run()

    def _train(self) -> None:
        w = self.weights
        assert w.projection is not None
        tensors = (w.input_weight, w.recurrent_weight, w.bias, w.projection)
        gradients_of([self._run()], [self.inputs, *tensors], [self.upstream])

    def _run(self) -> Tensor:
        """Run full rows, all steps."""
        w = self.weights
        tensors = (w.input_weight, w.recurrent_weight, w.bias, w.projection)
        clips = (w.cell_clip, w.proj_clip)
        out, _, _ = lstm_rows(self.inputs, self._hidden, self._cell, *tensors, *clips)
        return out
