"""Models to the hub and back, by the hub's own client and a server that speaks its protocol."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_client import load
from hub_server import Hub, serve_hub
from shell import environment

from elmox import Elmo, ElmoxError
from elmox.pretrained.hub import upload

PUSH = """
import sys
from elmox import Elmo, ElmoxError
path, hub_id, revision, token = sys.argv[1:]
try:
    elmo = Elmo.from_pretrained(path, device="cpu")
    print(elmo.push_to_hub(hub_id, dtype="int8", revision=revision or None, token=token))
except ElmoxError as error:
    print("ElmoxError:", error)
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with serve_hub(Hub({}, token="hf_secret", uploads=tmp_path / "served")) as hub:
        yield hub


def push(
    model: Path, hub_id: str, hub: Hub, home: Path, revision: str = "", token: str = "hf_secret"
) -> str:
    """Upload in a process of its own: the hub's client reads its settings once."""
    settings = {"HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_ENDPOINT": hub.url}
    done = subprocess.run(
        [sys.executable, "-c", PUSH, str(model), hub_id, revision, token],
        env=environment() | settings | {"HF_HUB_OFFLINE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pushed_and_pulled(tiny: Path, hub: Hub, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shown = push(tiny, "someone/mine", hub, home)
    assert shown.startswith(f"{hub.url}/someone/mine/commit/")
    assert {path.name for path in (tmp_path / "served/someone/mine/main").iterdir()} == {
        "README.md", "checksums.json", "config.json", "model.safetensors",
    }  # fmt: skip
    assert len(hub.objects) == 1  # the weights, by git-lfs
    assert load("someone/mine", tmp_path / "cache", hub).startswith("elmox model directory")
    Elmo.from_pretrained(tiny).save_pretrained(tmp_path / "local", dtype="int8")
    pulled = next((tmp_path / "cache").rglob("snapshots/*"))
    for name in ("config.json", "model.safetensors"):
        assert (pulled / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_to_a_branch(tiny: Path, hub: Hub, tmp_path: Path) -> None:
    push(tiny, "someone/mine", hub, tmp_path / "home", revision="v2")
    assert (tmp_path / "served/someone/mine/v2/config.json").is_file()
    assert not list((tmp_path / "served/someone/mine/main").iterdir())
    assert load("someone/mine", tmp_path / "cache", hub, "v2").startswith("elmox model directory")


def test_a_wrong_token_is_one_line(tiny: Path, hub: Hub, tmp_path: Path) -> None:
    shown = push(tiny, "someone/mine", hub, tmp_path / "home", token="hf_wrong")
    assert shown.startswith("ElmoxError: the upload to someone/mine failed: ")
    assert shown.count("\n") == 1
    assert "hf_wrong" not in shown
    assert hub.repositories == {}


@pytest.mark.parametrize("name", ["mine", "a/b/c", "", "../mine"])
def test_names_that_are_no_hub_ids(name: str, tmp_path: Path) -> None:
    assert not os.environ.get("HF_ENDPOINT")
    with pytest.raises(ElmoxError, match="is not a hub id: expected owner/name"):
        upload(tmp_path, name)
