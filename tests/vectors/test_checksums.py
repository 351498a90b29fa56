"""Damaged vectors are never read as other numbers."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet
import pytest
from mutations import mutate
from vector_job import make_entry, write_job

from elmox.errors import ElmoxError
from elmox.vectors import parquet
from elmox.vectors.files import open_vectors
from elmox.vectors.layout import Layout
from elmox.vectors.parts import Parts

OUTPUTS = ("out.hdf5", "out.parquet", "out")
LAYOUT = Layout(3, 16, "float32")
NUM_ENTRIES = 12


def numbers(path: Path, verify: bool = True) -> list[tuple[tuple[int, ...], bytes]]:
    with open_vectors(path, verify=verify) as vectors:
        return [(entry.shape, entry.tobytes()) for entry in vectors]


@pytest.mark.parametrize("output", OUTPUTS)
def test_mutated_vectors_are_refused_or_the_same(output: str, tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    write_job(tmp_path / "sound" / output, NUM_ENTRIES, LAYOUT)
    sound = numbers(tmp_path / "sound" / output)
    refused = changed = 0
    for seed in range(40):
        folder = tmp_path / "mutated"
        shutil.copytree(tmp_path / "sound", folder)
        what = mutate(folder, f"vectors {seed}")
        try:
            assert numbers(folder / output) == sound, what
        except ElmoxError as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017
            refused += 1
        with suppress(ElmoxError):
            changed += numbers(folder / output, verify=False) != sound
        shutil.rmtree(folder)
    assert refused > 25
    assert changed > 3  # without checksums


@pytest.mark.parametrize("output", OUTPUTS)
def test_one_bit(output: str, tmp_path: Path) -> None:
    """The damaged entry is refused, the others are read."""
    path = tmp_path / output
    write_job(path, NUM_ENTRIES, LAYOUT, part_bytes=1 << 20)
    file = path / "shard-00000.npy" if path.is_dir() else path
    content = bytearray(file.read_bytes())
    content[content.index(make_entry(4, LAYOUT)[0, 1].tobytes())] ^= 1
    file.write_bytes(content)
    with open_vectors(path) as vectors:
        np.testing.assert_array_equal(vectors[5], make_entry(5, LAYOUT))
        with pytest.raises(ElmoxError, match=r"out.*: entry 4 has another checksum"):
            vectors[4]
    with open_vectors(path, verify=False) as vectors:
        assert not np.array_equal(vectors[4], make_entry(4, LAYOUT))


def test_entries_in_the_place_of_others(tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    write_job(path, 4, LAYOUT, num_tokens=3)
    with h5py.File(path, "a") as file:
        file.move("1", "old")
        file.move("2", "1")
        file.move("old", "2")
    with open_vectors(path) as vectors:
        np.testing.assert_array_equal(vectors[3], make_entry(3, LAYOUT, 3))
        with pytest.raises(ElmoxError, match="entry 1 has another checksum"):
            vectors[1]


def test_an_entry_of_several_parquet_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MAX_ROW_VALUES", 3 * 16 * 2)  # two tokens
    path = tmp_path / "out.parquet"
    write_job(path, 3, LAYOUT, num_tokens=5)
    table = pyarrow.parquet.read_table(path)
    assert table.column("id").to_pylist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    with open_vectors(path) as vectors:
        np.testing.assert_array_equal(vectors[1], make_entry(1, LAYOUT, 5))
    without = table.take([0, 1, 2, 3, 4, 6, 7, 8])  # the last tokens of entry 1
    pyarrow.parquet.write_table(without, path)
    with open_vectors(path) as vectors, pytest.raises(ElmoxError, match="entry 1 has another"):
        vectors[1]
    with pytest.raises(ElmoxError, match="entry 1 has another"):  # of a part that is merged
        [*parquet.read_rows(path, LAYOUT)]


def test_vectors_without_checksums(tmp_path: Path) -> None:
    """Those of version 0.2.0."""
    folder = tmp_path / "out"
    write_job(folder, 3, LAYOUT)
    meta = json.loads((folder / "meta.json").read_bytes())
    del meta["crc32"]
    (folder / "checksums.npy").unlink()
    with pytest.raises(ElmoxError, match=r"checksums\.npy"):
        open_vectors(folder)
    (folder / "meta.json").write_text(json.dumps(meta))
    with open_vectors(folder) as vectors:
        np.testing.assert_array_equal(vectors[2], make_entry(2, LAYOUT))


def test_unfinished_outputs_of_another_version(tmp_path: Path) -> None:
    parts = Parts(tmp_path, LAYOUT)
    parts.append_rows(np.zeros((2, 3, 16), np.float32), np.array([2]))
    parts.seal()
    (path,) = (tmp_path / "index").iterdir()
    np.save(path, np.load(path)[:, :3])
    with pytest.raises(ElmoxError, match="another version of elmox"):
        Parts(tmp_path, LAYOUT)
