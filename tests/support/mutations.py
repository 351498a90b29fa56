"""Sound checkpoints of every format with random damage: bits, cuts, splices, other sizes."""

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from broken import rng
from broken_folders import native
from checkpoints import (
    random_options,
    write_ai2,
    write_allennlp_archive,
    write_many_langs,
    write_nlpl_zip,
    write_word_model,
)
from checkpoints_tf1 import copy_tf1

SIZES = (0, 1, 2**7, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)


def _archive(folder: Path) -> Path:
    path = write_allennlp_archive(folder, random_options(), rng(), options_at="archive")
    (folder / "best.th").unlink()
    return path


def _serialization(folder: Path) -> Path:
    write_allennlp_archive(folder, random_options(), rng()).unlink()
    return folder


def _native(folder: Path) -> Path:
    model = native(folder, "unicode", extras=True, checksums=True)
    shutil.rmtree(folder / "source")
    (model / "README.md").unlink()
    return model


FORMATS: dict[str, Callable[[Path], Path]] = {
    "AI2": lambda folder: write_ai2(folder, random_options(), rng()),
    "AI2 word model": lambda folder: write_word_model(folder, random_options(), rng()),
    "NLPL zip": lambda folder: write_nlpl_zip(folder, random_options(), rng()),
    "AllenNLP archive": _archive,
    "AllenNLP folder": _serialization,
    "ELMoForManyLangs": lambda folder: write_many_langs(folder, "word_char", rng()),
    "TensorFlow": lambda folder: copy_tf1(folder, "characters"),
    "TensorFlow word model": lambda folder: copy_tf1(folder, "words"),
    "TF-Hub module": lambda folder: copy_tf1(folder, "module"),
    "elmox": _native,
}


def mutate(folder: Path, seed: str) -> str:
    """Damage one file of a checkpoint; return what was done."""
    chance = random.Random(seed)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    weights = [max(path.stat().st_size, 200) ** 0.5 for path in files]
    (file,) = chance.choices(files, weights)
    kind = chance.choice(list(KINDS))
    file.write_bytes(KINDS[kind](file.read_bytes(), chance))
    return f"{kind} in {file.name}"


def _position(content: bytes, chance: random.Random) -> int:
    """Anywhere; near the beginning or the end, where headers are, more often."""
    reach = min(len(content), chance.choice([100, 2000, len(content)]))
    position = chance.randrange(reach or 1)
    return position if chance.random() < 0.8 else max(0, len(content) - 1 - position)


def _bits(content: bytes, chance: random.Random) -> bytes:
    result = bytearray(content)
    for _ in range(chance.choice([1, 1, 8, 100])):
        if result:
            result[_position(content, chance)] ^= 1 << chance.randrange(8)
    return bytes(result)


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: _position(content, chance)]


def _splice(content: bytes, chance: random.Random) -> bytes:
    start, target = _position(content, chance), _position(content, chance)
    block = content[start : start + chance.choice([1, 8, 100, 1000])]
    if chance.random() < 0.5:  # instead of what is there
        return content[:target] + block + content[target + len(block) :]
    return content[:target] + block + content[target:]


def _size(content: bytes, chance: random.Random) -> bytes:
    result = bytearray(content)
    for _ in range(chance.choice([1, 3])):
        width = chance.choice([2, 4, 8])
        at = _position(content, chance) // 4 * 4
        old = int.from_bytes(content[at : at + width], "little")
        value = chance.choice([*SIZES, old + 1, old - 1, old * 2]) % 2 ** (8 * width)
        result[at : at + width] = struct.pack("<Q", value)[:width]
    return bytes(result)


KINDS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flipped bits": _bits,
    "a cut": _cut,
    "a splice": _splice,
    "another size": _size,
}
