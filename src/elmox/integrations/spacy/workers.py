"""One thread per worker process of `nlp.pipe(n_process=...)`."""

import multiprocessing
import os


class ThreadLimit:
    """Limits torch to one thread in processes other than the one that made it.

    The threads of GNU OpenMP do not survive a fork: a forked worker that wants several waits for
    them forever, and a spawned one shares its cores with the other workers.
    """

    def __init__(self) -> None:
        self._process = os.getpid()

    def apply(self) -> None:
        """Set the number of threads if this process is a worker; call it before computing."""
        import torch

        is_worker = os.getpid() != self._process or multiprocessing.parent_process() is not None
        if is_worker and torch.get_num_threads() > 1:
            torch.set_num_threads(1)
