"""The number of CPU threads, and how they wait."""

import os
import sys
from collections.abc import Iterator

import pytest
import torch

import elmox


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_WAIT_POLICY", "")  # so that it is restored
    monkeypatch.delenv("OMP_WAIT_POLICY")
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("restored")
def test_the_number_of_threads() -> None:
    for number in (1, 2):
        elmox.set_threads(number)
        assert torch.get_num_threads() == number
    assert "OMP_WAIT_POLICY" not in os.environ  # torch has been imported: too late


@pytest.mark.usefixtures("restored")
def test_waiting_is_passive_if_torch_is_not_imported_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {name: module for name, module in sys.modules.items() if name != "torch"}
    with monkeypatch.context() as patch:
        patch.setattr("elmox.threads.sys.modules", modules)
        elmox.set_threads(1)
    assert os.environ["OMP_WAIT_POLICY"] == "passive"


def test_no_threads() -> None:
    with pytest.raises(elmox.ArgumentError, match="number is 0, expected at least 1"):
        elmox.set_threads(0)
