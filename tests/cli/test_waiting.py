"""Threads of commands do not spin while they wait, unless the environment decides otherwise."""

import re
import subprocess
from pathlib import Path

import pytest
from shell import command, environment


def shown(tiny: Path, **variables: str) -> list[str]:
    """Run a command that imports torch; return the policies that OpenMP itself reports."""
    env = {**environment(), "OMP_DISPLAY_ENV": "true"}
    if not variables:
        env.pop("OMP_WAIT_POLICY", None)
    done = subprocess.run(
        command("info", tiny), env=env | variables, capture_output=True, text=True, check=True
    )
    return re.findall(r"OMP_WAIT_POLICY ?= ?'(\w+)'", done.stderr)


def test_waiting_is_passive(tiny: Path) -> None:
    policies = shown(tiny)
    if not policies:
        pytest.skip("this OpenMP shows no settings")
    assert set(policies) == {"PASSIVE"}
    assert set(shown(tiny, OMP_WAIT_POLICY="active")) == {"ACTIVE"}
