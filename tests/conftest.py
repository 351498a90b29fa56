"""One thread per process: tests run side by side, and tiny models gain nothing from more."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, here and in subprocesses
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait leave the core to others


def pytest_configure() -> None:
    """Import Triton so that its kernels can run in the interpreter, where there is no GPU.

    It reads the variable once: an import by torch's compiler in some test would come too early.
    """
    import torch

    if not torch.cuda.is_available():
        with pytest.MonkeyPatch.context() as patch, suppress(ImportError):
            patch.setenv("TRITON_INTERPRET", "1")
            import triton  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def _cpu_by_default() -> Iterator[None]:
    """Only test_cuda.py uses a GPU: the tolerances here are those of a CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmox.inference.device.default_device", lambda: "cpu")
        yield


@pytest.fixture(scope="session")
def memory_folder() -> Iterator[Path]:
    """A folder in memory where the system has one, for thousands of tiny files: each of them is
    synced, for which a disk takes its time."""
    memory = Path("/dev/shm")
    has_one = memory.is_dir() and os.access(memory, os.W_OK)
    with TemporaryDirectory(prefix="elmox-", dir=memory if has_one else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint in AI2's format: the path of its weights."""
    import numpy as np
    from checkpoints import random_options, write_ai2

    return write_ai2(tmp_path_factory.mktemp("tiny"), random_options(), np.random.default_rng(0))
