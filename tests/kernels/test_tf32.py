"""TF32 is allowed only within the context that requests it."""

from collections.abc import Iterator

import pytest
import torch

from elmox.kernels.tf32 import tf32_products, triton_precision

GPU, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def test_on_a_gpu_and_no_longer() -> None:
    with tf32_products(GPU):
        assert torch.get_float32_matmul_precision() == "high"
        assert triton_precision() == "tf32"
    assert torch.get_float32_matmul_precision() == "highest"
    assert triton_precision() == "tf32x3"


def test_an_error_ends_it_too() -> None:
    with pytest.raises(KeyboardInterrupt), tf32_products(GPU):
        raise KeyboardInterrupt
    assert torch.get_float32_matmul_precision() == "highest"


def test_not_on_a_cpu() -> None:
    with tf32_products(CPU):
        assert torch.get_float32_matmul_precision() == "highest"


def test_the_users_choice_is_restored() -> None:
    torch.set_float32_matmul_precision("medium")
    with tf32_products(GPU):
        assert torch.get_float32_matmul_precision() == "medium"
        assert triton_precision() == "tf32"
    assert torch.get_float32_matmul_precision() == "medium"
