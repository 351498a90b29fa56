"""Encoding by several processes, each on one thread: for machines with many cores.

Products of a small model are too small for many threads, but sentences are independent. Workers are
forked, so they share the weights with this process and start in milliseconds. They run the batches
that this process would run.
"""

import os
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.inference.encode import BatchEncoder, Rows
from elmox.kernels.fork_gate import computing
from elmox.text.batches import plan_batches

T = TypeVar("T")

_jobs: list[Callable[[Rows], bytes]] = []  # in a worker: what it does


def encode_in_workers(
    encoder: BatchEncoder,
    sentences: Sequence[Sequence[str]],
    finish: Callable[[Tensor, Rows], list[T]],
) -> list[T]:
    """Run `BatchEncoder.encode`, which carries no state, by `options.num_workers` processes."""
    options, device = encoder.options, encoder.reader.bilm.device
    workers = Argument("num_workers", options.num_workers)
    if device.type != "cpu":
        raise ArgumentError("{} on device='{}': workers are for the CPU", workers, device)
    if not hasattr(os, "fork"):
        raise ArgumentError("{}: this system cannot fork processes; expected 0", workers)
    with computing():
        pass  # from here on, forked processes know that they are
    alone = replace(encoder, options=replace(options, num_workers=0, show_progress_bar=False))

    def work(rows: Rows) -> bytes:
        batch = [sentences[row] for row in rows.tolist()]
        results = alone.encode(batch, lambda values, local: finish(values, rows[local]))
        # Pickled here: multiprocessing would keep a file open per tensor.
        return pickle.dumps([one.clone() if isinstance(one, Tensor) else one for one in results])

    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences)) + 2
    budget = min(options.token_budget(device), -(-int(lengths.sum()) // options.num_workers))
    batches = plan_batches(lengths, budget, options.batch_size)
    results: dict[int, T] = {}
    if not batches:
        return []
    with ProcessPoolExecutor(
        min(options.num_workers, len(batches)), get_context("fork"), _start, (work,)
    ) as pool:
        try:
            for rows, pickled in zip(batches, pool.map(_run, batches), strict=True):
                results.update(zip(rows.tolist(), pickle.loads(pickled), strict=True))
        except BrokenProcessPool as error:
            raise ElmoxError(
                "a worker process was killed, probably for lack of memory: use fewer workers"
            ) from error
    return [results[row] for row in range(len(sentences))]


def _start(work: Callable[[Rows], bytes]) -> None:
    torch.set_num_threads(1)
    _jobs.append(work)


def _run(rows: Rows) -> bytes:
    return _jobs[0](rows)
