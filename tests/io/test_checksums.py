"""Checksums of folders: damage is found, changes on purpose and older folders are possible."""

import json
import shutil
import zlib
from pathlib import Path

import pytest
import torch
from language_models import tiny_lm
from mutations import FORMATS, mutate

from elmox import Elmo, ElmoEmbedding, ElmoxError
from elmox.io.checksums import CHECKSUMS_FILE, file_checksum, verifying, write_checksums
from elmox.model.checkpoint import Checkpoint, build_bilm, checkpoint_digest
from elmox.pretrained.native import PARTS, read_directory, write_directory
from elmox.pretrained.packages import bundled_model


def digest_of(checkpoint: Checkpoint) -> str:
    """Everything in a model directory that changes a number."""
    build_bilm(checkpoint, "the model")
    return repr((checkpoint_digest(checkpoint, with_state=True), checkpoint.mixes))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A directory with a mix and a warm state."""
    (tmp_path / "new").mkdir()
    return FORMATS["elmox"](tmp_path / "new")


def test_a_checksum_is_that_of_zlib(tmp_path: Path) -> None:
    for length in (0, 1, 3_000_000):
        content = bytes(range(251)) * (length // 251 + 1)
        (tmp_path / "file").write_bytes(content[:length])
        assert file_checksum(tmp_path / "file") == f"{zlib.crc32(content[:length]):08x}"


def test_mutated_models_are_refused_or_the_same(model: Path, tmp_path: Path) -> None:
    assert (model / CHECKSUMS_FILE).is_file()
    sound = digest_of(read_directory(model))
    refused = 0
    for seed in range(120):
        folder = tmp_path / "mutated"
        shutil.copytree(model, folder)
        what = mutate(folder, f"checksums {seed}")
        try:
            assert digest_of(read_directory(folder)) == sound, what
        except ElmoxError:  # one line, as its class makes sure
            refused += 1
        shutil.rmtree(folder)
    assert refused > 100


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors", "mixes.safetensors"])
def test_one_bit(name: str, model: Path) -> None:
    content = bytearray((model / name).read_bytes())
    content[-3] ^= 1
    (model / name).write_bytes(content)
    with pytest.raises(ElmoxError, match=rf"{name} has another checksum .* copy the folder again"):
        Elmo.from_pretrained(model)
    Elmo.from_pretrained(model, verify=False)
    (model / CHECKSUMS_FILE).unlink()  # a folder of an older version
    Elmo.from_pretrained(model)


def test_a_softmax_is_compared_when_it_is_read(tmp_path: Path) -> None:
    model = tmp_path / "model"
    tiny_lm(tmp_path).elmo().save_pretrained(model)
    content = bytearray((model / "softmax.safetensors").read_bytes())
    content[-3] ^= 1
    (model / "softmax.safetensors").write_bytes(content)
    softmax = read_directory(model).softmax
    assert softmax is not None
    with pytest.raises(ElmoxError, match=r"softmax\.safetensors has another checksum"):
        _ = softmax.tensors
    unchecked = read_directory(model, verify=False).softmax
    assert unchecked is not None
    assert unchecked.tensors


@pytest.mark.parametrize("text", ["[]", "{}", '{"crc32": []}', '{"crc32": {}}', '{"md5": {}}'])
def test_damaged_checksums(text: str, model: Path) -> None:
    (model / CHECKSUMS_FILE).write_text(text)
    with pytest.raises(ElmoxError, match="checksum"):
        Elmo.from_pretrained(model)


def test_eight_bits(model: Path, tmp_path: Path) -> None:
    write_directory(read_directory(model), tmp_path / "int8", eight_bit=PARTS)
    path = tmp_path / "int8/model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ElmoxError, match="another checksum"):
        read_directory(tmp_path / "int8")


def test_a_saved_embedding(model: Path, tmp_path: Path) -> None:
    embedding = ElmoEmbedding.from_pretrained(model, num_mixes=2)
    embedding.save_pretrained(tmp_path / "saved")
    path = next((tmp_path / "saved").glob("*.safetensors"))
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ElmoxError, match="another checksum"):
        ElmoEmbedding.from_pretrained(tmp_path / "saved")


def test_the_bundled_model_has_checksums() -> None:
    folder = bundled_model()
    sums = json.loads((folder / CHECKSUMS_FILE).read_bytes())["crc32"]
    assert {"config.json", "model.safetensors", "softmax.safetensors", "vocab.txt"} <= sums.keys()
    assert sums == {name: file_checksum(folder / name) for name in sums}


def test_the_reader_is_not_hidden(tmp_path: Path) -> None:
    """An error of the caller is raised as it is, and other files are not compared."""
    torch.save([1], tmp_path / "weights")
    write_checksums(tmp_path)
    (tmp_path / "weights").write_bytes(b"other")
    with verifying(tmp_path, ("absent",)):
        pass
    with pytest.raises(KeyError), verifying(tmp_path, ("weights",)):
        raise KeyError
