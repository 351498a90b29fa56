"""The version that `elmox --version` prints, with the git revision in a checkout."""

import subprocess
from pathlib import Path

import elmox


def version_text() -> str:
    """Return "elmox 1.2.3", in a checkout with its revision and whether files were changed."""
    package = Path(elmox.__file__).resolve().parent
    root = package.parents[1]
    revision = ""
    # An installed package may be inside another project's repository.
    if package == root / "src" / "elmox" and (root / ".git").exists():
        revision = _git(root, "describe", "--always", "--dirty=, modified", "--exclude=*")
    return f"elmox {elmox.__version__}{revision and f' (git {revision})'}"


def _git(root: Path, *arguments: str) -> str:
    """Return what git prints, nothing if it is missing or refuses."""
    try:
        command = ["git", "-C", str(root), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
