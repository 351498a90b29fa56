"""Any file of any format, damaged anywhere: it still loads, or fails with one line."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from broken import rng
from broken_folders import native
from checkpoints import (
    random_options,
    write_ai2,
    write_allennlp_archive,
    write_many_langs,
    write_nlpl_zip,
)
from checkpoints_tf1 import copy_tf1

from elmox.elmo import Elmo
from elmox.errors import ElmoxError

NUM_DAMAGES = 12


def ai2(folder: Path) -> Path:
    return write_ai2(folder, random_options(), rng())


def nlpl(folder: Path) -> Path:
    return write_nlpl_zip(folder, random_options(), rng())


def allennlp(folder: Path) -> Path:
    archive = write_allennlp_archive(folder, random_options(), rng(), options_at="archive")
    (folder / "best.th").unlink()
    return archive


def allennlp_folder(folder: Path) -> Path:
    write_allennlp_archive(folder, random_options(), rng()).unlink()
    return folder


def many_langs(folder: Path) -> Path:
    return write_many_langs(folder, "word_char", rng())


def tensorflow(folder: Path) -> Path:
    return copy_tf1(folder, "characters")


def ours(folder: Path) -> Path:
    model = native(folder, "unicode", extras=True)
    shutil.rmtree(folder / "source")
    (model / "README.md").unlink()
    return model


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, cut off, taken out or put in; near the beginning more often."""
    result = bytearray(content)
    at = chance.randrange(min(len(result), chance.choice([500, len(result)])))
    length = chance.choice([1, 1, 8, 100])
    kind = chance.randrange(4)
    if kind == 0:
        result[at : at + length] = chance.randbytes(min(length, len(result) - at))
    elif kind == 1:
        del result[at:]
    elif kind == 2:
        del result[at : at + length]
    else:
        result[at:at] = chance.randbytes(length)
    return bytes(result)


@pytest.mark.filterwarnings("ignore")  # of numbers that float32 cannot hold, and the like
@pytest.mark.parametrize(
    "build", [ai2, nlpl, allennlp, allennlp_folder, many_langs, tensorflow, ours]
)
def test_any_damage(build: Callable[[Path], Path], tmp_path: Path) -> None:
    path = build(tmp_path)
    Elmo.from_pretrained(path, device="cpu")
    messages = []
    for file in sorted(file for file in tmp_path.rglob("*") if file.is_file()):
        content = file.read_bytes()
        for seed in range(NUM_DAMAGES):
            file.write_bytes(damaged(content, random.Random(f"{file.name} {seed}")))
            try:
                elmo = Elmo.from_pretrained(path, device="cpu")
                elmo.encode_tokens([["the", "cat"]])
            except ElmoxError as error:
                messages.append(str(error))
        file.write_bytes(content)
    assert len(messages) >= NUM_DAMAGES // 2
    assert all(len(message.splitlines()) == 1 for message in messages)
