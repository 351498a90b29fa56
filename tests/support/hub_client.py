"""The hub's own client, in processes of its own: it reads its settings once."""

import os
import subprocess
import sys
from pathlib import Path

from hub_server import Hub

SCRIPT = """
import sys
from elmox import Elmo, ElmoxError
name, revision, token = (argument or None for argument in sys.argv[1:])
try:
    elmo = Elmo.from_pretrained(name, revision=revision, token=token, device="cpu")
    print(elmo.description, elmo.mixes, elmo.encode("a word or two").shape)
    assert "torch._dynamo" not in sys.modules, "torch's compiler takes seconds to import"
except ElmoxError as error:
    print("ElmoxError:", error)
"""


def load(
    name: str, cache: Path, hub: Hub | None, revision: str = "", token: str = "hf_secret"
) -> str:
    """Load a model in a process of its own: the hub's client reads its settings once."""
    settings = {"HF_HUB_CACHE": str(cache), "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1"}
    settings |= {"HF_HUB_OFFLINE": "1"} if hub is None else {"HF_ENDPOINT": hub.url}
    command = [sys.executable, "-c", SCRIPT, name, revision, token]
    environment = os.environ | settings
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
