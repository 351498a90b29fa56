"""Work on all cores with the results in order: `map`, on several processes.

The processes are started afresh (spawned), which is safe whatever the caller has running. They
leave with the caller, however that ends, and never answer Ctrl-C themselves: the caller does.
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

_ITEMS_PER_WORKER = 3  # being worked on or waiting


def num_cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], num_workers: int
) -> Generator[Result, None, None]:
    """Apply a function to items; its results come in the items' order.

    Items are drawn a few ahead of the results, so a stream of any length takes little memory. The
    first exception of the function is raised here, and ends everything.

    Args:
        function: a function that can be pickled.
        items: what to apply it to; drawn in this process.
        num_workers: processes. With 1, or with a single item, it is done in this one.
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
    """Leave Ctrl-C to the parent, and leave with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def leave_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back for a moment: a process that is started now never sees it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
