"""Products of float32 on a GPU in TF32: ten bits of each factor, by tensor cores.

Torch leaves it to its users, but for cuDNN's kernels, which do it anyway. Ours follow torch's
setting.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def tf32_products(device: torch.device) -> Iterator[None]:
    """Allow it while this lasts, if it is a GPU on which products are to be made."""
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda" and before == "highest":
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def triton_precision() -> str:
    """What Triton calls torch's setting: TF32, or the sum of three such products, as float32."""
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"
