"""The text of the next steps, read by a process of its own while a GPU is trained.

Reading takes a few milliseconds of Python a step. In a thread, it and the launching of kernels get
into each other's way, since only one of them has the interpreter at a time: the small size's step
took an H200's host 17 ms instead of 12.
"""

import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from types import FrameType

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from elmox.errors import ElmoxError
from elmox.training.rows import Batch, Rows
from elmox.training.stop import SAME_WISH

STEPS_AHEAD = 2


def can_fork() -> bool:
    """Whether the process can inherit the opened corpus, as on Linux."""
    return "fork" in multiprocessing.get_all_start_methods()


def batches_from_process(
    rows: Rows, start: int, stop: int, pieces: Sequence[NDArray[np.int64]]
) -> Iterator[list[Batch]]:
    """What `Rows.batches` gives, in page-locked memory."""
    steps = DataLoader(
        _Steps(rows, pieces),
        batch_size=None,
        sampler=range(start, stop),
        num_workers=1,
        prefetch_factor=STEPS_AHEAD,
        collate_fn=_as_it_is,
        pin_memory=torch.cuda.is_available(),  # by `Batch.pin_memory`
        multiprocessing_context="fork",
        worker_init_fn=_leave_signals_to_the_parent,
    )
    for found in steps:
        if isinstance(found, str):
            raise ElmoxError(found)
        yield found


class _Steps(Dataset[list[Batch] | str]):
    """The text of a step by its number; or what is wrong with the corpus, in one line, to which
    the loader would add a traceback."""

    def __init__(self, rows: Rows, pieces: Sequence[NDArray[np.int64]]) -> None:
        self._rows, self._pieces = rows, pieces

    def __getitem__(self, step: int) -> list[Batch] | str:
        try:
            return [self._rows.read(step, piece) for piece in self._pieces]
        except ElmoxError as error:
            return str(error)


def _as_it_is(found: list[Batch] | str) -> list[Batch] | str:
    return found


def _leave_signals_to_the_parent(worker: int) -> None:
    """A terminal interrupts both processes, and schedulers end both, some of them twice: the parent
    still finishes its step, and then stops this one. Whoever insists is obeyed."""
    first: float | None = None

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal first
        first = first or time.monotonic()
        if time.monotonic() - first > SAME_WISH:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, handle)
