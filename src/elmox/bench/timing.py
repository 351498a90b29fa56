"""How long work takes: medians, and a device that is waited for at both ends."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch

Work = Callable[[], object]


class Works(NamedTuple):
    """One piece of network to be timed: reading, and a whole training pass."""

    forward: Work
    training: Work


# Rounds that do not count. A GPU's kernels are compiled in the first, may be recorded in the
# second, and run from the record in the third.
WARM_UP = {"cuda": 3, "cpu": 1}


def median_seconds(work: Work, device: torch.device, repeats: int) -> float:
    """Median time of some work, after rounds that are not counted.

    On a GPU the time is between two events in its own queue; elsewhere it is the host's clock.

    Args:
        work: what to do, again and again.
        device: where it is done.
        repeats: rounds that count.
    """
    for _ in range(WARM_UP.get(device.type, 1)):
        work()
    clock = _device_seconds if device.type == "cuda" else _host_seconds
    return median(clock(work, device) for _ in range(repeats))


def wall_seconds(work: Work, device: torch.device) -> float:
    """Time of some work by the host's clock, until the device has done all of it."""
    wait_for(device)
    return _host_seconds(work, device)


def wait_for(device: torch.device) -> None:
    """Until all that was begun on a device is done."""
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
