"""Arrays of the host on their way to the device, without waiting for it.

A copy from ordinary memory waits until the GPU has done everything asked of it so far. From pinned
memory it takes its place behind that work, and the host goes on to prepare what comes next.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array as a tensor there; on a CPU it shares the array's memory."""
    tensor = torch.from_numpy(array).contiguous()
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
