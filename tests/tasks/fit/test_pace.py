"""The host's pace: some updates ahead of the GPU, not more."""

from typing import Any

import pytest
import torch

from elmox.tasks.fit.loop import UPDATES_AHEAD, Pace


def test_nothing_to_wait_for_without_a_gpu() -> None:
    Pace(torch.device("cpu")).updated()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_host_is_a_few_updates_ahead() -> None:
    cuda: Any = torch.cuda
    pace, done = Pace(torch.device("cuda")), []
    for _ in range(6):
        cuda._sleep(300_000_000)  # cycles: longer than a busy machine takes to wake us
        done.append(cuda.Event())
        done[-1].record()
        pace.updated()
        assert all(event.query() for event in done[:-UPDATES_AHEAD])
        assert not done[-1].query()
    torch.cuda.synchronize()
