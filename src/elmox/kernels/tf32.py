"""Products of float32 on a GPU in TF32: ten bits of each factor, by tensor cores.

torch leaves the choice to its users, except for cuDNN's kernels, which always use TF32. elmox's
kernels follow torch's setting.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def tf32_products(device: torch.device) -> Iterator[None]:
    """Allow TF32 inside, if the device is a GPU."""
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda" and before == "highest":
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def triton_precision() -> str:
    """Return Triton's name of torch's setting: TF32, or three such products for float32."""
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"
