"""`elmox bench cnn`: distinct words through character CNN, highways and projection.

Trimmed, a word costs only the slots that can change its vector; with all slots every word costs as
much as the longest. Training in bfloat16 keeps its weights in float32, as the trainer does;
inference has them in its own precision.
"""

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from elmox.bench.floor import ProductRate, product_rate, word_work
from elmox.bench.peers import Notes, gradients_of, plain_kernels
from elmox.bench.table import Column, Report, milliseconds, speed, speed_columns
from elmox.bench.timing import Works, median_seconds
from elmox.config import PRESETS, ElmoConfig
from elmox.errors import Argument
from elmox.io.memory import memory_explained
from elmox.kernels.paths import like, uses_table, word_inference_path, word_training_path
from elmox.model.init import random_bilm
from elmox.model.token_encoder import TokenEncoder
from elmox.text.words import WordIndexer, WordTable


@dataclass(frozen=True)
class CnnCases:
    """The cases to measure.

    Attributes:
        size: small, medium or original.
        words: the words to encode.
        num_distinct: number of distinct words among them.
        repeats: number of runs; the median counts.
    """

    size: str
    words: Sequence[str]
    num_distinct: int
    repeats: int


def default_num_words(device: torch.device) -> int:
    """Return the words of a large training step on a GPU; on a CPU, what takes seconds."""
    return 16_384 if device.type == "cuda" else 256


def bench_cnn(
    cases: CnnCases, device: torch.device, dtype: torch.dtype, show_progress_bar: bool = False
) -> Report:
    """Measure inference and training, trimmed and with all slots."""
    config = PRESETS[cases.size]
    assert config.char_cnn is not None
    rate, notes = product_rate(device, dtype), Notes()
    trimmed = WordIndexer(config.char_cnn.max_characters)(cases.words)
    assert trimmed.spelling is not None
    tables = {"trimmed": trimmed, "all": _all_slots(trimmed)}
    encoders = _Encoders(config, device, dtype)
    shapes = [(slots, work) for slots in tables for work in ("forward", "training")]
    rows: list[dict[str, Any]] = []
    num_words = len(cases.words)
    for slots, work in tqdm(shapes, unit="shape", disable=not show_progress_bar):
        with memory_explained("{} words are too many: lower {}", num_words, Argument("words")):
            measured = _measure(encoders, tables[slots], work, rate, cases.repeats, notes)
        rows.append({"slots": slots, "work": work, **measured})
    tensor = like(device, dtype)
    facts = {
        "network": f"{cases.size}: {config.char_cnn.num_filters} filters, "
        f"{config.char_cnn.num_highways} highways, projection {config.lstm.projection_dim}",
        "words": f"{len(cases.words):,} ({cases.num_distinct:,} distinct), "
        f"{trimmed.spelling.lengths.mean():.1f} slots used of {config.char_cnn.max_characters}",
        "path_of_forward": word_inference_path(tensor),
        "path_of_training": word_training_path(tensor),
        "median_of": cases.repeats,
    }
    if uses_table(tensor):
        notes.add("the floor of forward counts a window as a sum of table rows.")
    title = "Words through character CNN, highways and projection"
    return Report("cnn", title, device, rate, facts, _COLUMNS, rows, notes)


_COLUMNS = [
    Column("slots", "slots"),
    Column("work", "work"),
    *speed_columns("words"),
    milliseconds("plain_seconds", "plain torch"),
    Column("plain_ratio", "plain torch / elmox", ".2f"),
]


def _measure(
    encoders: "_Encoders",
    table: WordTable,
    work: str,
    rate: ProductRate,
    repeats: int,
    notes: Notes,
) -> dict[str, Any]:
    assert table.spelling is not None
    lengths, is_training = table.spelling.lengths, work == "training"
    counted = word_work(encoders.config, lengths)
    by_table = uses_table(like(encoders.device, encoders.dtype))
    floor = rate.seconds(counted.training if is_training else counted.inference(by_table))

    def seconds(works: Works) -> float:
        chosen = works.training if is_training else works.forward
        return median_seconds(chosen, encoders.device, repeats)

    elmox = seconds(encoders.chosen(table))
    plain = notes.attempt("plain torch", lambda: seconds(encoders.plain(table)))
    return {
        **speed("words", len(lengths), elmox, floor),
        "plain_seconds": plain,
        "plain_ratio": None if plain is None else plain / elmox,
    }


def _all_slots(table: WordTable) -> WordTable:
    """Return the same words as if each used all slots."""
    assert table.spelling is not None
    ids, lengths = table.spelling
    spelling = table.spelling._replace(lengths=np.full_like(lengths, ids.shape[1]))
    return replace(table, spelling=spelling)


class _Encoders:
    """A token encoder with random weights, for inference and for training."""

    def __init__(self, config: ElmoConfig, device: torch.device, dtype: torch.dtype) -> None:
        self.config, self.device, self.dtype = config, device, dtype
        small = replace(config, lstm=replace(config.lstm, cell_dim=8, num_layers=1))
        self._trained = random_bilm(small).token_encoder.to(device)
        self._frozen = copy.deepcopy(self._trained).to(dtype)
        self._upstream: Tensor | None = None

    def chosen(self, table: WordTable) -> Works:
        """Return the work by the path that elmox chooses."""
        return self._works(lambda encoder: cast(Tensor, encoder(table)), nullcontext)

    def plain(self, table: WordTable) -> Works:
        """Return the work by torch's operations: convolutions (cuDNN on a GPU), max, highways."""
        return self._works(lambda encoder: _encode_plainly(encoder, table), plain_kernels)

    def _works(
        self,
        encode: Callable[[TokenEncoder], Tensor],
        kernels: Callable[[], AbstractContextManager[None]],
    ) -> Works:
        def forward() -> None:
            with kernels(), torch.no_grad():
                encode(self._frozen)

        def training() -> None:
            low = self.dtype is torch.bfloat16
            with kernels():
                with torch.autocast(self.device.type, self.dtype) if low else nullcontext():
                    encoded = encode(self._trained)
                if self._upstream is None:
                    self._upstream = torch.randn_like(encoded)
                gradients_of([encoded], list(self._trained.parameters()), [self._upstream])

        return Works(forward, training)


def _encode_plainly(encoder: TokenEncoder, table: WordTable) -> Tensor:
    """Run the encoder without its fast paths."""
    assert table.spelling is not None
    assert encoder.char_cnn is not None
    assert encoder.projection is not None
    device = encoder.projection.weight.device
    characters = torch.from_numpy(table.spelling.ids.astype(np.int64)).to(device)
    encoded = encoder.char_cnn(characters, torch.from_numpy(table.spelling.lengths))
    for highway in encoder.highways:
        encoded = highway(encoded)
    return cast(Tensor, encoder.projection(encoded))
