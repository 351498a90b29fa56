"""How far the host runs ahead of a GPU."""

from collections import deque

import torch

UPDATES_AHEAD = 2


class Pace:
    """Lets the host ask a GPU for a few updates in advance, and sleep until the first is done.

    So the GPU always has something to do. Without this the host would ask on and on, and where no
    more can be asked for, wait by trying again: at the cost of others on the same processor, such
    as fits beside this one. Elsewhere than on a GPU nothing is done in advance.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._asked: deque[torch.cuda.Event] = deque()

    def updated(self) -> None:
        """One more update has been asked for."""
        if self._device.type != "cuda":
            return
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        self._asked.append(event)
        if len(self._asked) > UPDATES_AHEAD:
            self._asked.popleft().synchronize()
