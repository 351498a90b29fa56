"""Timing: medians, with a wait for the device at both ends."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch

Work = Callable[[], object]


class Works(NamedTuple):
    """The work of one part of a network: a forward pass, and a whole training pass."""

    forward: Work
    training: Work


# Rounds that do not count. A GPU's kernels are compiled in the first, may be recorded in the
# second, and replayed in the third.
WARM_UP = {"cuda": 3, "cpu": 1}


def median_seconds(work: Work, device: torch.device, repeats: int) -> float:
    """Return the median time of some work, after warm-up rounds.

    On a GPU the time is between two events of its stream; elsewhere it is the host's clock.

    Args:
        work: the work to repeat.
        device: the device it runs on.
        repeats: number of rounds that count.
    """
    for _ in range(WARM_UP.get(device.type, 1)):
        work()
    clock = _device_seconds if device.type == "cuda" else _host_seconds
    return median(clock(work, device) for _ in range(repeats))


def wall_seconds(work: Work, device: torch.device) -> float:
    """Return the host's time of some work, until the device has finished."""
    wait_for(device)
    return _host_seconds(work, device)


def wait_for(device: torch.device) -> None:
    """Wait until a device has finished all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _host_seconds(work: Work, device: torch.device) -> float:
    began = time.perf_counter()
    work()
    wait_for(device)
    return time.perf_counter() - began


def _device_seconds(work: Work, device: torch.device) -> float:
    wait_for(device)
    event: Any = torch.cuda.Event
    start, stop = (event(enable_timing=True) for _ in range(2))
    with torch.cuda.device(device):
        start.record()
        work()
        stop.record()
    wait_for(device)
    milliseconds: float = start.elapsed_time(stop)
    return milliseconds / 1000
