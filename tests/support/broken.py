"""A row of the tables of broken checkpoints: how to build one, and the expected message."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LFS_POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 374434792\n"
)


@dataclass(frozen=True)
class Broken:
    """A checkpoint with one thing wrong.

    Attributes:
        name: what is wrong, for the test's name.
        build: makes it in an empty folder and returns the path to load.
        mentions: parts of the expected error.
    """

    name: str
    build: Callable[[Path], Path]
    mentions: tuple[str, ...]


def rng() -> np.random.Generator:
    """Always the same weights."""
    return np.random.default_rng(0)


def cut(path: Path, share: float) -> Path:
    """Cut a file to a share of its size."""
    content = path.read_bytes()
    path.write_bytes(content[: round(share * len(content))])
    return path
