"""Absurd numbers in arguments, files and the environment: one line each, and no traceback."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmox import Elmo, ElmoxError
from elmox.config import LstmConfig
from elmox.tasks.fit.layers import cache_directory
from elmox.threads import set_threads
from elmox.training.distributed import num_processes, processes


@pytest.mark.parametrize("layers", [None, float("nan"), [], [None], 10**30, {}])
def test_layers(layers: Any, tiny: Path) -> None:
    with pytest.raises(ElmoxError, match="layer"):
        Elmo.from_pretrained(tiny).encode_tokens(["a word"], layers=layers)


def test_batches_of_any_size(tiny: Path) -> None:
    elmo = Elmo.from_pretrained(tiny)
    expected = elmo.encode_tokens(["a word", "Now"])
    for most in (10**20, 2**63 - 1):
        for a, b in zip(
            elmo.encode_tokens(["a word", "Now"], batch_tokens=most, batch_size=most),
            expected,
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("clip", [1e39, 1e300, 10**400])
@pytest.mark.parametrize("name", ["cell_clip", "proj_clip"])
def test_clips_beyond_float32(name: str, clip: float, tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match=f"lstm.{name}"):
        LstmConfig(**{name: clip})  # type: ignore[arg-type]
    options = json.loads((tiny.parent / "options.json").read_text())
    options["lstm"][name] = clip
    (tmp_path / "options.json").write_text(json.dumps(options))
    with pytest.raises(ElmoxError, match=name):
        Elmo.from_pretrained(tiny, options=tmp_path / "options.json")


@pytest.mark.parametrize("value", ["abc", "", "-1", "0", "1.5", "٣x"])
def test_the_number_of_processes(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", value)
    for attempt in (num_processes, lambda: processes("cpu").__enter__()):
        with pytest.raises(ElmoxError, match=f"WORLD_SIZE={re.escape(value)}, expected a number"):
            attempt()
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert num_processes() == 3


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, r"WORLD_SIZE=2, but not the rest .*RANK"),
        ({"RANK": "abc"}, r"RANK=abc, expected a number"),
        ({"RANK": "5"}, r"RANK=5 and WORLD_SIZE=2, expected a smaller rank"),
        ({"RANK": "0"}, r"not the rest .*MASTER_ADDR"),
        ({"RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "abc"}, r"not the rest .*abc"),
    ],
)
def test_the_environment_of_torchrun(
    environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"WORLD_SIZE": "2", **environment}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ElmoxError, match=message), processes("cpu"):
        pass


def test_more_threads_than_any_machine_has() -> None:
    with pytest.raises(ElmoxError, match="number is 100000000000, expected at most 1024"):
        set_threads(10**11)


def test_no_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No HOME, and no entry of the user in passwd, as in containers."""

    def no_entry(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", "XDG_CACHE_HOME", "ELMOX_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", no_entry)
    with pytest.raises(ElmoxError, match="no home directory for the cache: set ELMOX_CACHE"):
        cache_directory()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", "~/hub")  # as it is at import
    with pytest.raises(ElmoxError, match=r"not a local path, .*: set HF_HOME"):
        Elmo.from_pretrained("owner/name")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "elmox"
    assert Elmo.from_pretrained().dim > 0  # needs no cache
