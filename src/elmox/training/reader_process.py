"""Read the text of the next steps in a separate process while a GPU trains.

Reading takes a few milliseconds of Python per step. A thread would compete for the interpreter with
the thread that launches kernels, and both would become slower.
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
from elmox.training.stop import SAME_SIGNAL_SECONDS

STEPS_AHEAD = 2


def can_fork() -> bool:
    """Return whether a new process can inherit the opened corpus, as on Linux."""
    return "fork" in multiprocessing.get_all_start_methods()


def batches_from_process(
    rows: Rows, start: int, stop: int, pieces: Sequence[NDArray[np.int64]]
) -> Iterator[list[Batch]]:
    """Yield the batches of `Rows.batches`, in page-locked memory."""
    steps = DataLoader(
        _Steps(rows, pieces),
        batch_size=None,
        sampler=range(start, stop),
        num_workers=1,
        prefetch_factor=STEPS_AHEAD,
        collate_fn=_unchanged,
        pin_memory=torch.cuda.is_available(),  # by `Batch.pin_memory`
        multiprocessing_context="fork",
        worker_init_fn=_leave_signals_to_the_parent,
    )
    for batches in steps:
        if isinstance(batches, ElmoxError):
            raise batches
        yield batches


class _Steps(Dataset[list[Batch] | ElmoxError]):
    """The text of a step by its number, or the error in the corpus.

    An error is returned, not raised, because the loader would add a traceback to its message.
    """

    def __init__(self, rows: Rows, pieces: Sequence[NDArray[np.int64]]) -> None:
        self._rows, self._pieces = rows, pieces

    def __getitem__(self, step: int) -> list[Batch] | ElmoxError:
        try:
            return [self._rows.read(step, piece) for piece in self._pieces]
        except ElmoxError as error:
            return error


def _unchanged(batches: list[Batch] | ElmoxError) -> list[Batch] | ElmoxError:
    return batches


def _leave_signals_to_the_parent(worker: int) -> None:
    """Ignore the first signals, so that the parent can finish its step and then stop this process.

    A terminal interrupts both processes, and schedulers end both, some of them twice. A signal that
    comes later ends this process.
    """
    first: float | None = None

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal first
        first = first or time.monotonic()
        if time.monotonic() - first > SAME_SIGNAL_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, handle)
