"""HDF5 weights that reach for other files, or declare what they do not hold."""

import json
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from broken import rng
from checkpoints import random_options, write_ai2
from h5py import h5d, h5p, h5s, h5t
from hostile import Hostile, pack_zip

Edit = Callable[[h5py.File, str, Path], None]

CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
NAMES = ("char_embed", "CNN/b_cnn_0", f"{CELL}/W_0")


def weights(folder: Path, bait: Path, name: str, edit: Edit, packed: bool = False) -> Path:
    """Weights in which one array is replaced."""
    path = write_ai2(folder, random_options(), rng())
    with h5py.File(path, "r+") as file:
        edit(file, name, bait)
    return pack_zip(folder, folder / "225.zip") if packed else path


def taken(file: h5py.File, name: str) -> Any:
    """Take an array out of the file; return its values."""
    array = file[name][()]
    del file[name]
    return array


def link(file: h5py.File, name: str, bait: Path, target: str) -> None:
    """An external link."""
    del file[name]
    file[name] = h5py.ExternalLink(str(bait / target), f"/{name}")


def group_link(file: h5py.File, name: str, bait: Path) -> None:
    """An external link in place of the group that the array is in."""
    group = name.split("/")[0]
    del file[group]
    file[group] = h5py.ExternalLink(str(bait / "model.hdf5"), f"/{group}")


def storage(file: h5py.File, name: str, bait: Path, target: str) -> None:
    """Data that is the content of another file."""
    array = taken(file, name)
    external = [(str(bait / target), 0, array.nbytes)]
    file.create_dataset(name, shape=array.shape, dtype="f4", external=external)


def virtual(file: h5py.File, name: str, bait: Path, target: str, unlimited: bool = False) -> None:
    """A dataset that is a view of one in another file."""
    array = taken(file, name)
    most = (None, *array.shape[1:]) if unlimited else array.shape
    layout = h5py.VirtualLayout(shape=array.shape, dtype="f4", maxshape=most)
    source = h5py.VirtualSource(str(bait / target), name, shape=array.shape, maxshape=most)
    where = slice(0, h5s.UNLIMITED if unlimited else None)
    layout[where] = source[where]
    file.create_virtual_dataset(name, layout)


def soft(file: h5py.File, name: str, bait: Path, target: str) -> None:
    """A soft link: to itself, to nothing, or on to another file."""
    del file[name]
    if target == "/away":
        file["away"] = h5py.ExternalLink(str(bait / "model.hdf5"), f"/{name}")
    file[name] = h5py.SoftLink(target or f"/{name}")


def absent(file: h5py.File, name: str, bait: Path, **how: Any) -> None:
    """A dataset of the right shape that was never written."""
    array = taken(file, name)
    file.create_dataset(name, shape=array.shape, dtype="f4", **how)


def typed(file: h5py.File, name: str, bait: Path, dtype: Any) -> None:
    """A dataset of the right shape, of another type."""
    shape = taken(file, name).shape
    file.create_dataset(name, shape=shape, dtype=dtype)


@cache
def _zeros() -> bytes:
    """Half a gigabyte of zeros, packed."""
    packer = zlib.compressobj(1)
    return b"".join(packer.compress(bytes(2**20)) for _ in range(512)) + packer.flush()


def inflating(file: h5py.File, name: str, bait: Path) -> None:
    """A chunk that unpacks to half a gigabyte."""
    array = taken(file, name)
    dataset = file.create_dataset(
        name, shape=array.shape, chunks=array.shape, dtype="f4", compression="gzip"
    )
    dataset.id.write_direct_chunk((0,) * array.ndim, _zeros())


def filtered(file: h5py.File, name: str, bait: Path, code: int) -> None:
    """A dataset with a filter for which HDF5 would look for plugins."""
    array = taken(file, name)
    plan = h5p.create(h5p.DATASET_CREATE)
    plan.set_chunk(array.shape)
    plan.set_filter(code, h5py.h5z.FLAG_OPTIONAL, (1, 2))
    parts = name.rsplit("/", 1)
    group = file if len(parts) == 1 else file[parts[0]]
    space = h5s.create_simple(array.shape)
    dataset = h5d.create(group.id, parts[-1].encode(), h5t.IEEE_F32LE, space, plan)
    dataset.write_direct_chunk((0,) * array.ndim, array.tobytes(), 1)


def twice_compressed(file: h5py.File, name: str, bait: Path) -> None:
    """A dataset with two compressions in a row."""
    array = taken(file, name)
    plan = h5p.create(h5p.DATASET_CREATE)
    plan.set_chunk(array.shape)
    plan.set_deflate(9)
    plan.set_filter(32000, h5py.h5z.FLAG_OPTIONAL, ())
    file.create_dataset(name, data=array, dcpl=plan)


REFERENCES: dict[str, Edit] = {
    **{f"external link to {t}": partial(link, target=t) for t in ("model.hdf5", "text", "pipe")},
    **{f"external storage in {t}": partial(storage, target=t) for t in ("text", "pipe")},
    **{f"virtual view of {t}": partial(virtual, target=t) for t in ("model.hdf5", "text", "pipe")},
    "unlimited virtual view": partial(virtual, target="model.hdf5", unlimited=True),
    "unlimited virtual view of a pipe": partial(virtual, target="pipe", unlimited=True),
    "link to itself": partial(soft, target=""),
    "link to nothing": partial(soft, target="/nothing"),
    "link to a link to another file": partial(soft, target="/away"),
}
DECLARED: dict[str, Edit] = {
    "never written": absent,
    "chunks never written": partial(absent, chunks=True),
    "gzip never written": partial(absent, compression="gzip"),
    "lzf never written": partial(absent, compression="lzf"),
    "a chunk of half a gigabyte": inflating,
    "a plugin's filter": partial(filtered, code=32015),
    "an unknown filter": partial(filtered, code=511),
    "two compressions": twice_compressed,
}
TYPES: dict[str, Any] = {
    "variable length": h5py.vlen_dtype(np.float32),
    "references": h5py.ref_dtype,
    "region references": h5py.regionref_dtype,
    "compound": np.dtype([("a", "f4"), ("b", "f4")]),
    "text": h5py.string_dtype(),
    "fixed text": "S4",
    "opaque": np.dtype("V4"),
    "arrays": np.dtype(("f4", (1000,))),
    "complex": np.complex64,
    "enum": h5py.enum_dtype({"a": 1, "b": 2}),
}


def large(folder: Path, bait: Path, dim: int, **how: Any) -> Path:
    """Weights of a few kilobytes that declare LSTMs of any size, as their options do."""
    options = random_options(n_highway=0)
    path = write_ai2(folder, options, rng())
    options["lstm"]["dim"] = dim
    (folder / "options.json").write_text(json.dumps(options))
    p = options["lstm"]["projection_dim"]
    with h5py.File(path, "r+") as file:
        for layer in range(2):
            for direction in range(2):
                cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
                for name, shape in (("W_0", (2 * p, 4 * dim)), ("B", (4 * dim,)),
                                    ("W_P_0", (dim, p))):  # fmt: skip
                    del file[f"{cell}/{name}"]
                    file.create_dataset(f"{cell}/{name}", shape=shape, dtype="f4", **how)
    return path


def shared(folder: Path, bait: Path, num_layers: int) -> Path:
    """One cell under the names of many."""
    options = random_options()
    path = write_ai2(folder, options, rng())
    options["lstm"]["n_layers"] = num_layers
    (folder / "options.json").write_text(json.dumps(options))
    with h5py.File(path, "r+") as file:
        for direction in range(2):
            stack = file[f"RNN_{direction}/RNN/MultiRNNCell"]
            for layer in range(2, num_layers):
                stack[f"Cell{layer}"] = stack["Cell0"]
    return path


def vector_link(folder: Path, bait: Path) -> Path:
    """A word model whose vectors are elsewhere."""
    from checkpoints import write_word_model

    path = write_word_model(folder, random_options(), rng())
    with h5py.File(path, "r+") as file:
        storage(file, "embedding", bait, "text")
    return path


HDF5 = [
    *(
        Hostile(f"hdf5: {kind} as {name}{' in a zip' if packed else ''}",
                partial(weights, name=name, edit=edit, packed=packed))
        for kind, edit in REFERENCES.items()
        for name in NAMES
        for packed in (False, True)
    ),
    *(
        Hostile(f"hdf5: {kind} as {name}", partial(weights, name=name, edit=edit))
        for kind, edit in DECLARED.items()
        for name in NAMES
    ),
    *(
        Hostile(f"hdf5: {kind} as {name}",
                partial(weights, name=name, edit=partial(typed, dtype=t)))
        for kind, t in TYPES.items()
        for name in NAMES[:2]
    ),
    Hostile("hdf5: external link as a group",
            partial(weights, name="CNN/b_cnn_0", edit=group_link)),
    *(
        Hostile(f"hdf5: {dim} cells, {kind}", partial(large, dim=dim, **how))
        for dim in (10**5, 10**7)
        for kind, how in (
            ("never written", {}),
            ("in chunks", {"chunks": True}),
            ("gzip", {"compression": "gzip"}),
        )
    ),
    *(Hostile(f"hdf5: {n} layers share one cell", partial(shared, num_layers=n))
      for n in (90, 900)),
    Hostile("hdf5: a word model's vectors elsewhere", vector_link),
]  # fmt: skip
