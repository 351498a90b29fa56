"""One thread that works behind the caller's back, in order, and never more than one thing ahead."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self


class Background:
    """Runs one piece of work while the caller prepares the next.

    What goes wrong there is raised here, by the next call. Leaving the context waits for the work
    that is under way; after an exception of the caller's own, without looking at its outcome.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="elmox-writer")
        self._pending: Future[None] | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Wait for the piece before, then start this one."""
        self.wait()
        self._pending = self._pool.submit(work)

    def wait(self) -> None:
        """Until nothing is under way."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def stop(self) -> None:
        """Let what is under way come to its end, whatever that is, and end the thread."""
        self._pool.shutdown()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait, and end the thread."""
        try:
            if error is None:
                self.wait()
        finally:
            self.stop()
