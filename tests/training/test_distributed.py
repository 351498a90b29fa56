"""Processes that train together."""

from pathlib import Path

import pytest
import rank_jobs
from forked import run_ranks

from elmox.errors import ElmoxError
from elmox.training.distributed import processes


def test_an_error_of_the_first_process_reaches_all_with_its_type(tmp_path: Path) -> None:
    run_ranks(2, rank_jobs.agree_on_an_error, tmp_path)
    first, second = ((tmp_path / str(rank)).read_text() for rank in range(2))
    assert first == second
    assert first.startswith(f"{tmp_path} 2 {tmp_path} holds a run already: continue it with resume")


@pytest.mark.parametrize("device", ["nonsense", "meta", "cpu:x"])
def test_a_device_that_cannot_be_used_is_refused(device: str) -> None:
    with pytest.raises(ElmoxError, match=f"device='{device}'"), processes(device):
        pass
