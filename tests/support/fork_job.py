"""A program that forks again and again while a thread encodes; `python fork_job.py MODEL FORKS`.

Every child encodes, known words and new ones, and compares with what the parent computed. The
thread that forks has used OpenMP's threads, which a child does not have.
"""

import itertools
import os
import signal
import sys
import threading
import time

import numpy as np
import torch

from elmox import Elmo

LIMIT = 10.0  # seconds that a child may take; it needs milliseconds
SENTENCES = [["Live", "in", "the", "present"], ["I", "will"]]


def main(model: str, num_forks: int) -> int:
    """Return how many children failed or hung."""
    elmo = Elmo.from_pretrained(model, device="cpu")
    expected: list[np.ndarray] = []
    stop, started = threading.Event(), threading.Event()
    torch.set_num_threads(2)
    torch.ones(2**20).exp()

    def encode() -> None:
        expected.extend(elmo.encode_tokens(SENTENCES))
        started.set()
        for number in itertools.count():
            if stop.is_set():
                return
            elmo.encode_tokens([[f"new{number}-{i}" for i in range(100)], SENTENCES[number % 2]])

    thread = threading.Thread(target=encode)
    thread.start()
    started.wait()
    bad = 0
    for number in range(num_forks):
        time.sleep(0.003 * (number % 5))
        child = os.fork()
        if child == 0:
            vectors = elmo.encode_tokens(SENTENCES)
            pairs = zip(vectors, expected, strict=True)
            same = all(np.allclose(ours, theirs, rtol=0, atol=2e-6) for ours, theirs in pairs)
            elmo.encode_tokens([[f"child{number}"]])
            torch.ones(2**20).exp()
            os._exit(0 if same else 1)
        bad += _outcome(child) != 0
    stop.set()
    thread.join()
    return bad


def _outcome(child: int) -> int:
    """The status of a child, which is killed after its time."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    failed = main(sys.argv[1], int(sys.argv[2]))
    sys.stdout.write(f"{failed} of {sys.argv[2]} children failed\n")
