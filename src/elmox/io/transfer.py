"""Copies of host arrays to the device that do not wait for it.

A copy from ordinary memory waits until the GPU has finished all queued work. A copy from pinned
memory is queued behind that work, and the host continues to prepare the next batch.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """Return the array as a tensor on the device; on a CPU it shares the array's memory."""
    tensor = torch.from_numpy(array).contiguous()
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
