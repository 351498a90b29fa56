"""One thread that works behind the caller's back, in order, and never more than one task ahead."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def background_thread() -> Iterator["Background"]:
    """Run tasks on a thread of its own for the time of a `with`, which waits for the last one.

    After an exception in the body the task under way is finished, and its outcome is ignored.
    """
    thread = Background()
    try:
        yield thread
        thread.wait()
    finally:
        thread.stop()


class Background:
    """Runs one task while the caller prepares the next.

    The exception of a task is raised by the next call.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="elmox-writer")
        self._pending: Future[None] | None = None

    def submit(self, task: Callable[[], None]) -> None:
        """Wait for the task before, then start this one."""
        self.wait()
        self._pending = self._pool.submit(task)

    def wait(self) -> None:
        """Wait until no task is under way."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def stop(self) -> None:
        """Wait for the task under way, ignore its outcome, and end the thread."""
        self._pool.shutdown()
