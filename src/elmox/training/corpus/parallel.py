"""`map` on several processes, with the results in order.

The processes are spawned, which is safe whatever threads the caller runs. They end with the caller,
however it ends, and ignore Ctrl-C, which the caller handles.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from typing import TypeVar

from elmox.errors import Argument, ArgumentError

Item = TypeVar("Item")
Result = TypeVar("Result")

_ITEMS_PER_WORKER = 3  # in progress or queued


def num_cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], num_workers: int
) -> Generator[Result, None, None]:
    """Apply a function to items and yield the results in the order of the items.

    Only a few items are read ahead, so a stream of any length takes little memory. The first
    exception of the function is raised here and stops all workers.

    Args:
        function: a function that can be pickled.
        items: its arguments; iterated in this process.
        num_workers: number of processes. With 1, or for a single item, this process does the work.
    """
    items = iter(items)
    head = list(islice(items, 2))
    items = chain(head, items)
    if num_workers == 1 or len(head) < 2:
        yield from map(function, items)
        return
    executor = ProcessPoolExecutor(
        num_workers, multiprocessing.get_context("spawn"), initializer=_start_worker
    )
    try:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            with _no_interrupt():
                waiting.append(executor.submit(function, item))
            if len(waiting) >= _ITEMS_PER_WORKER * num_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise ArgumentError(
            "a worker process died (killed, or out of memory?): try a smaller {}",
            Argument("num_workers"),
        ) from error
    finally:
        executor.shutdown(cancel_futures=True)


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, and exit with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def exit_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Delay Ctrl-C, so that a process that is started meanwhile never receives it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
