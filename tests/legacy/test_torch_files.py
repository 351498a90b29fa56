"""Torch files read as data: the same tensors as torch reads, and nothing else."""

from pathlib import Path

import pytest
import torch

from elmox.errors import ElmoxError
from elmox.legacy.torch_files import load_plain_tensors

TIED = torch.randn(3, 4)
STATE = {
    "plain": torch.randn(2, 3),
    "half": torch.randn(5).half(),
    "double": torch.randn(2, 1, 2).double(),
    "bfloat": torch.randn(3).bfloat16(),
    "whole": torch.arange(4),
    "yes": torch.tensor([True, False]),
    "transposed": torch.randn(3, 5).T,
    "part": torch.randn(6, 4)[2:5, 1:3],
    "scalar": torch.tensor(2.5),
    "empty": torch.zeros(0, 3),
    "tied": TIED,
    "tied.too": TIED,
    "learned": torch.nn.Parameter(torch.randn(2)),
}


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("protocol", [2, 4])
def test_the_same_as_torch(zipped: bool, protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "state.th"
    torch.save(STATE, path, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
    tensors = load_plain_tensors(path, "state.th")
    assert tensors.keys() == STATE.keys()
    for name, tensor in STATE.items():
        assert torch.equal(tensors[name], tensor.float()), name
        assert tensors[name].dtype == torch.float32


@pytest.mark.parametrize("zipped", [True, False])
def test_a_module(zipped: bool, tmp_path: Path) -> None:
    state = torch.nn.LSTM(3, 4, bidirectional=True).state_dict()  # with versions of modules in it
    torch.save(state, tmp_path / "a.th", _use_new_zipfile_serialization=zipped)
    tensors = load_plain_tensors(tmp_path / "a.th", "a.th")
    assert all(torch.equal(tensors[name], state[name]) for name in state)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("value", [torch.zeros(2), [torch.zeros(2)], {"a": 1}, {1: torch.ones(1)}])
def test_other_content(value: object, zipped: bool, tmp_path: Path) -> None:
    torch.save(value, tmp_path / "a.th", _use_new_zipfile_serialization=zipped)
    with pytest.raises(ElmoxError, match=r"a\.th is not a file of plain tensors"):
        load_plain_tensors(tmp_path / "a.th", "a.th")


@pytest.mark.parametrize("zipped", [True, False])
def test_an_expanded_number(zipped: bool, tmp_path: Path) -> None:
    torch.save(
        {"a": torch.ones(1).expand(10**11)}, tmp_path / "a.th",
        _use_new_zipfile_serialization=zipped,
    )  # fmt: skip
    with pytest.raises(ElmoxError, match="'a' declares more numbers than its storage has"):
        load_plain_tensors(tmp_path / "a.th", "a.th")
