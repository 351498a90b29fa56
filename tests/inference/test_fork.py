"""A process may fork while one of its threads encodes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import fork_job
import pytest

from elmox.kernels.fork_gate import ForkGate

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def test_children_can_encode(tiny: Path) -> None:
    command = [sys.executable, fork_job.__file__, str(tiny), "40"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "0 of 40 children failed\n", done.stderr


def test_a_fork_waits_for_other_threads_and_never_for_its_own() -> None:
    gate, order = ForkGate(), []
    inside, leave = threading.Event(), threading.Event()

    def compute() -> None:
        gate.enter()
        inside.set()
        leave.wait()
        order.append("computed")
        gate.leave()

    def fork() -> None:
        gate.enter()  # as if in a callback
        gate.close()
        order.append("forked")
        gate.open()
        gate.leave()

    threads = [threading.Thread(target=work) for work in (compute, fork)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    threads[1].join(timeout=0.1)
    assert order == []
    leave.set()
    for thread in threads:
        thread.join(timeout=10)
    assert order == ["computed", "forked"]
