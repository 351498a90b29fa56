"""Models of the hub: found in the local cache without a network, or one clear line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmox import Elmo

SCRIPT = """
import sys
from elmox import Elmo, ElmoxError
try:
    elmo = Elmo.from_pretrained(sys.argv[1], device="cpu")
    print(elmo.description, elmo.encode("a word or two").shape)
    assert "torch._dynamo" not in sys.modules, "torch's compiler takes seconds to import"
except ElmoxError as error:
    print("ElmoxError:", error)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """A hub cache as the hub's own client lays it out."""
    root = tmp_path_factory.mktemp("hub")
    model = root / "models--someone--tiny-elmo"
    Elmo.from_pretrained(tiny).save_pretrained(model / "snapshots" / "0123abc")
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0123abc")
    return root


def load(name: str, cache: Path) -> str:
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", SCRIPT, name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_model_in_the_cache_needs_no_network(cache: Path) -> None:
    assert "elmox model directory" in load("someone/tiny-elmo", cache)


def test_a_model_nowhere_is_one_line(cache: Path) -> None:
    shown = load("someone/other-elmo", cache)
    assert shown.startswith("ElmoxError: someone/other-elmo is neither a local path nor a model")
    assert shown.count("\n") == 1
