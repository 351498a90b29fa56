"""Errors of exhausted memory: from torch, CUDA, Triton and Python."""

import pytest
import torch

from elmox.cli.flags import error_message
from elmox.errors import Argument, ArgumentError, ElmoxError
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
def test_all_give_the_advice(error: Exception) -> None:
    with pytest.raises(ElmoxError) as caught, memory_explained("eat less"):
        raise error
    assert str(caught.value) == "out of memory: eat less"


def test_advice_may_name_arguments() -> None:
    advice = ("{} rows are too many: lower {}", 7, Argument("rows"))
    with pytest.raises(ArgumentError) as caught, memory_explained(*advice):
        raise MemoryError
    assert str(caught.value) == "out of memory: 7 rows are too many: lower rows"
    assert error_message(caught.value) == "out of memory: 7 rows are too many: lower --rows"


def test_other_errors_stay() -> None:
    with pytest.raises(RuntimeError, match="shapes differ"), memory_explained():
        raise RuntimeError("shapes differ")
