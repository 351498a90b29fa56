"""Scripts of `benchmarks/` can be imported, and there is something small to fit."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from task_runs import BENCHMARKS, small_setup

if TYPE_CHECKING:
    from tasks.records import Setup


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def setup(tiny: Path, memory_folder: Path) -> "Setup":
    """Names for training, choosing and testing, and a tiny biLM."""
    return small_setup(tiny, memory_folder)
