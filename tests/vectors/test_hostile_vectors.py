"""Files of vectors and weights in unusual storage layouts, and files that must be refused."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from broken import rng
from checkpoints import random_options, write_ai2
from hostile import lay_bait
from hostile_hdf5 import DECLARED, REFERENCES, TYPES, typed

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.vectors.files import open_vectors

STORAGES: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunks": {"chunks": True},
    "gzip": {"compression": "gzip"},
    "gzip and more": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf", "shuffle": True},
    "odd chunks": {"chunks": (2, 3, 5), "compression": "gzip"},
    "growing": {"chunks": (1, 4, 4), "maxshape": (None, None, None)},
}
ENTRY = np.random.default_rng(0).standard_normal((3, 7, 16)).astype(np.float32)


@pytest.mark.parametrize("kind", STORAGES)
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2", "<f8"])
def test_stored_in_any_way(kind: str, dtype: str, tmp_path: Path) -> None:
    entry = ENTRY.astype(dtype)
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for i in range(2):
            file.create_dataset(str(i), data=entry, **STORAGES[kind])
        file.create_dataset("sentence_to_index", data=["a", "b"], dtype=h5py.string_dtype())
    with open_vectors(tmp_path / "a.hdf5") as vectors:
        for _ in range(3):  # repeatedly
            assert vectors[1].dtype == np.dtype(dtype)
            np.testing.assert_array_equal(vectors[1], entry)


def test_zeros_compress_well(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("0", data=np.zeros((3, 40, 64), np.float32), compression="gzip")
        file.create_dataset("1", data=ENTRY)
    with open_vectors(tmp_path / "a.hdf5") as vectors:
        assert not vectors[0].any()


@pytest.mark.parametrize("how", [{"compression": "gzip"}, {"compression": "lzf"}, {"chunks": True}])
def test_weights_in_chunks(how: dict[str, Any], tmp_path: Path) -> None:
    path = write_ai2(tmp_path, random_options(), rng())
    expected = Elmo.from_pretrained(path).encode_tokens([["the", "cat"]])[0]
    with h5py.File(path, "r") as old, h5py.File(tmp_path / "new.hdf5", "w") as new:

        def copy(name: str, value: object) -> None:
            if isinstance(value, h5py.Dataset):
                new.create_dataset(name, data=value[()], **how)

        old.visititems(copy)
    (tmp_path / "new.hdf5").replace(path)
    vectors = Elmo.from_pretrained(path).encode_tokens([["the", "cat"]])[0]
    np.testing.assert_array_equal(vectors, expected)


@pytest.mark.parametrize("kind", [*REFERENCES, *DECLARED, *TYPES])
def test_refused(kind: str, tmp_path: Path) -> None:
    bait = lay_bait(tmp_path / "bait")
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for i in range(2):
            file.create_dataset(str(i), data=ENTRY)
        edit = (REFERENCES | DECLARED).get(kind)
        if edit is None:
            typed(file, "1", bait, TYPES[kind])
        else:
            edit(file, "1", bait)
    with open_vectors(tmp_path / "a.hdf5") as vectors:
        np.testing.assert_array_equal(vectors[0], ENTRY)
        with pytest.raises(ElmoxError, match=r"a\.hdf5"):
            vectors[1]


def test_wrong_metadata(tmp_path: Path) -> None:
    meta = {"elmox_vectors": 1, "num_layers": 3, "dim": 16, "dtype": "float32", "num_entries": 2}
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.attrs["elmox"] = json.dumps(meta)
        file["0"], file["other"] = ENTRY, ENTRY
    with (
        open_vectors(tmp_path / "a.hdf5") as vectors,
        pytest.raises(ElmoxError, match="lacks the array 1"),
    ):
        vectors[1]


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("index.npy", np.zeros((2, 2), np.int64)),
        ("index.npy", np.zeros((2, 3), np.float32)),
        ("index.npy", np.array([[0, 0, 99], [0, -5, 3]], np.int64)),
        ("index.npy", np.array([[{}]], object)),
        ("shard-00000.npy", np.zeros((2, 5), np.float32)),
        ("shard-00000.npy", np.zeros((2, 4), "S4")),
    ],
)
def test_npy_files_that_do_not_fit_their_metadata(name: str, array: Any, tmp_path: Path) -> None:
    meta = {"elmox_vectors": 1, "num_layers": None, "dim": 4, "dtype": "float32"}
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    np.save(tmp_path / "index.npy", np.array([[0, 0, 2], [0, 0, 1]]))
    np.save(tmp_path / "shard-00000.npy", np.zeros((2, 4), np.float32))
    np.save(tmp_path / name, array, allow_pickle=True)
    with pytest.raises(ElmoxError) as caught:
        [*open_vectors(tmp_path)]
    assert "allow_pickle" not in str(caught.value)
