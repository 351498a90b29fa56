"""What the set of hostile checkpoints is made of."""

import os
import socket
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from broken import rng
from checkpoint_parts import write_json
from checkpoints import random_options, write_ai2
from hostile_run import SECRET


@dataclass(frozen=True)
class Hostile:
    """A checkpoint that should be refused, or be harmless.

    Attributes:
        name: what is wrong with it.
        build: makes it in an empty folder, given the folder of the bait, and returns the path.
        options: other arguments of the loading functions, relative to the folder of the bait.
    """

    name: str
    build: Callable[[Path, Path], Path]
    options: Mapping[str, str] = field(default_factory=dict)


def lay_bait(folder: Path) -> Path:
    """Files that no checkpoint may read: a text, a pipe that blocks, a sound model, options."""
    folder.mkdir()
    (folder / "text").write_bytes(SECRET * 10_000)
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as other:
        here = Path.cwd()
        os.chdir(folder)  # the names of sockets must be short
        other.bind("socket")
        os.chdir(here)
    write_ai2(folder, random_options(), rng()).rename(folder / "model.hdf5")
    write_json(folder / "options.json", random_options(cell_clip=1.5))
    (folder / "secrets.json").write_bytes(b'{"' + SECRET + b'": 1}')
    np.save(folder / "array.npy", np.frombuffer(SECRET * 100, np.uint8))
    return folder


def pack_zip(folder: Path, path: Path) -> Path:
    """Put all files of a folder into a zip."""
    files = sorted(folder.iterdir())
    with zipfile.ZipFile(path, "w") as archive:
        for file in files:
            archive.write(file, file.name)
            file.unlink()
    return path
