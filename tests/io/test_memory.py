"""Errors of exhausted memory, whoever reports them."""

import pytest
import torch

from elmox.errors import ElmoxError
from elmox.io.memory import memory_explained


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
    ],
)
def test_all_say_what_to_do(error: Exception) -> None:
    with pytest.raises(ElmoxError) as caught, memory_explained("eat less"):
        raise error
    assert str(caught.value) == "out of memory: eat less"


def test_other_errors_stay() -> None:
    with pytest.raises(RuntimeError, match="shapes differ"), memory_explained():
        raise RuntimeError("shapes differ")
