"""Location of the outside data (golden fixtures, corpora, tasks), and the mark that skips without.

A user's machine has none of it: set ELMOX_SHARED to a directory that does, or the tests skip.
"""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("ELMOX_SHARED", Path(__file__).resolve().parents[3] / "shared"))
FIXTURES = SHARED / "fixtures"

needs_shared = pytest.mark.skipif(
    not FIXTURES.is_dir(), reason=f"no golden fixtures at {FIXTURES} (set ELMOX_SHARED)"
)
