"""Every legacy container gives the same model, and every model survives every round trip."""

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from checkpoints import (
    Options,
    random_options,
    write_ai2,
    write_allennlp_archive,
    write_many_langs,
    write_nlpl_zip,
    write_word_model,
)
from shared_data import FIXTURES, needs_shared

from elmox import Elmo, ElmoxError
from elmox.pretrained.ai2 import write_ai2 as export_ai2
from elmox.pretrained.load import load_checkpoint
from elmox.pretrained.native import write_directory
from elmox.pretrained.options import config_from_options, options_from_config

SENTENCES = [["the", "cat", "sat", "."], ["天", "naïve"], ["<S>", ""]]


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def vectors(path: Path, **arguments: Any) -> list[Any]:
    vectors: list[Any] = Elmo.from_pretrained(path, **arguments).encode_tokens(
        SENTENCES, layers="all"
    )
    return vectors


def same(ours: list[Any], expected: list[Any], tolerance: float = 1e-6) -> None:
    """Equal weights may still lie otherwise in memory, which rounds products otherwise."""
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def arrays(path: Path) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: arrays.update({name: item[()]} if hasattr(item, "shape") else {})
        )
    return arrays


VARIANTS: dict[str, Options] = {
    "usual": random_options(),
    "no skip, no clips": random_options(skip=False, cell_clip=None, proj_clip="absent"),
    "no highway": random_options(n_highway=0),
    "no token projection": random_options(filters=((1, 2), (2, 4)), projection_dim=6),
    "no LSTM projection": random_options(dim=6, projection_dim=6),
    "one layer, tanh": random_options(n_layers=1, activation="tanh"),
    "seven characters": random_options(max_characters=7, n_characters=261),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_ai2_to_native_to_ai2_is_exact(name: str, tmp_path: Path) -> None:
    weights = write_ai2(tmp_path / "old", VARIANTS[name], rng())
    expected = vectors(weights)
    Elmo.from_pretrained(weights).save_pretrained(tmp_path / "native")
    same(vectors(tmp_path / "native"), expected)
    options = export_ai2(load_checkpoint(tmp_path / "native"), tmp_path / "again.hdf5")
    before, after = arrays(weights), arrays(tmp_path / "again.hdf5")
    assert before.keys() == after.keys()
    for array in before:
        np.testing.assert_array_equal(before[array], after[array])
    same(vectors(tmp_path / "again.hdf5"), expected)
    if VARIANTS[name]["char_cnn"]["n_characters"] == 262:
        written = json.loads(options.read_text())
        assert written.pop("bidirectional") is True
        for clip in ("cell_clip", "proj_clip"):
            VARIANTS[name]["lstm"].setdefault(clip, None)
        assert written == VARIANTS[name]


def test_one_model_in_four_containers(tmp_path: Path) -> None:
    options = random_options()
    weights = write_ai2(tmp_path / "ai2", options, rng())
    expected = vectors(weights)
    same(vectors(tmp_path / "ai2"), expected)
    archive = write_nlpl_zip(tmp_path / "nlpl", options, rng())
    same(vectors(archive), expected)
    assert "zip" in Elmo.from_pretrained(archive).description
    tarball = write_allennlp_archive(tmp_path / "allennlp", options, rng())
    same(vectors(tarball), expected)
    same(vectors(tmp_path / "allennlp"), expected)  # the serialization directory


@pytest.mark.parametrize("options_at", ["path", "archive", "missing"])
def test_allennlp_archives_and_their_options(tmp_path: Path, options_at: Any) -> None:
    clipped = random_options(cell_clip=0.2, proj_clip=0.1, activation="tanh")
    expected = vectors(write_ai2(tmp_path / "ai2", clipped, rng()))
    archive = write_allennlp_archive(
        tmp_path / "a", clipped, rng(), num_mixes=2, options_at=options_at
    )
    elmo = Elmo.from_pretrained(archive)
    assert list(elmo.mixes) == ["scalar_mix_0", "scalar_mix_1"]
    # Options elsewhere on this machine are not read, though the archive names them.
    assert ("assumed" in elmo.description) == (options_at != "archive")
    if options_at != "archive":  # shapes do not tell clips and activation
        given = tmp_path / "ai2" / "options.json"
        same(vectors(archive, options=given), expected)
    else:
        same(vectors(archive), expected)
    first = elmo.encode_tokens(SENTENCES, layers="mix:scalar_mix_1")[0]
    everything = elmo.encode_tokens(SENTENCES, layers="all")[0]
    coefficients = elmo.mixes["scalar_mix_1"].coefficients().numpy()
    np.testing.assert_allclose(first, np.einsum("j,jtd->td", coefficients, everything), atol=1e-6)


def test_allennlp_to_ai2(tmp_path: Path) -> None:
    archive = write_allennlp_archive(tmp_path / "a", random_options(), rng())
    export_ai2(load_checkpoint(archive), tmp_path / "weights.hdf5")
    same(vectors(tmp_path / "weights.hdf5"), vectors(archive))


@pytest.mark.parametrize("kind", ["char", "word_char", "word"])
def test_many_langs_to_native(tmp_path: Path, kind: Any) -> None:
    folder = write_many_langs(tmp_path / "old", kind, rng())
    checkpoint = load_checkpoint(folder)
    assert "ELMoForManyLangs" in checkpoint.description
    write_directory(checkpoint, tmp_path / "native")
    same(vectors(tmp_path / "native"), vectors(folder))
    with pytest.raises(ElmoxError, match="native directory instead"):
        export_ai2(checkpoint, tmp_path / "out.hdf5")
    assert not (tmp_path / "out.hdf5").exists()


def test_word_models_to_native_and_back(tmp_path: Path) -> None:
    weights = write_word_model(tmp_path / "old", random_options(), rng())
    Elmo.from_pretrained(weights).save_pretrained(tmp_path / "native")
    same(vectors(tmp_path / "native"), vectors(weights))
    export_ai2(load_checkpoint(tmp_path / "native"), tmp_path / "again.hdf5")
    same(vectors(tmp_path / "again.hdf5"), vectors(weights))


def test_a_lost_configuration_means_the_published_one(tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path, "char", rng())
    (folder / "cnn_tiny.json").unlink()
    # Published models have words and characters.
    with pytest.raises(ElmoxError, match=r"word\.dic does not exist"):
        load_checkpoint(folder)


def test_options_next_to_the_weights(tmp_path: Path) -> None:
    weights = write_ai2(tmp_path, random_options(), rng())
    expected = vectors(weights)
    (tmp_path / "options.json").rename(tmp_path / "elmo_tiny_options.json")
    weights = weights.rename(tmp_path / "elmo_tiny_weights.hdf5")
    same(vectors(weights), expected)
    elsewhere = shutil.move(tmp_path / "elmo_tiny_options.json", tmp_path / "x.json")
    with pytest.raises(ElmoxError, match="options="):
        vectors(weights)
    same(vectors(weights, options=elsewhere), expected)


def test_the_options_that_bear_the_weights_name_come_first(tmp_path: Path) -> None:
    weights = write_ai2(tmp_path, random_options(), rng())
    other = write_ai2(tmp_path / "other", random_options(cell_clip=0.1, proj_clip=0.1), rng())
    export_ai2(load_checkpoint(other), tmp_path / "b.hdf5")
    same(vectors(tmp_path / "b.hdf5"), vectors(other))
    assert np.abs(vectors(weights)[0] - vectors(other)[0]).max() > 1e-2


def test_a_model_directory_takes_no_legacy_files(tmp_path: Path) -> None:
    weights = write_ai2(tmp_path, random_options(), rng())
    Elmo.from_pretrained(weights).save_pretrained(tmp_path / "native")
    with pytest.raises(ElmoxError, match="leave out options"):
        Elmo.from_pretrained(tmp_path / "native", options=tmp_path / "options.json")


def test_state_dicts_are_the_same_on_every_road(tmp_path: Path) -> None:
    weights = write_ai2(tmp_path / "old", random_options(), rng())
    checkpoint = load_checkpoint(weights)
    write_directory(checkpoint, tmp_path / "native")
    again = load_checkpoint(tmp_path / "native")
    assert again.config == checkpoint.config
    assert again.tensors.keys() == checkpoint.tensors.keys()
    for name, tensor in checkpoint.tensors.items():
        assert torch.equal(tensor, again.tensors[name])


@needs_shared
@pytest.mark.parametrize(
    "path", sorted((FIXTURES / "options_variants").glob("*.options.json")), ids=lambda p: p.name
)
def test_real_options_files(path: Path) -> None:
    config = config_from_options(json.loads(path.read_text()), path.name)
    assert config_from_options(options_from_config(config), "again") == config
