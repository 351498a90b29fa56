"""TensorFlow checkpoints: those of bilm-tf's own code, and any others.

What must come out was computed by bilm-tf's graphs (tests/support/make_tf1.py).
"""

import json
import random
import re
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from broken import cut, rng
from checkpoint_parts import ai2_arrays, write_hdf5
from checkpoints import random_options, write_token_file
from checkpoints_tf1 import (
    SENTENCES,
    TF1,
    block,
    copy_tf1,
    entry,
    field,
    header,
    masked,
    table,
    varint,
    write_bundle,
    write_tf1,
)
from oracle import layers, read_ai2
from shell import assert_one_line, run_here

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.pretrained.tf1_bundle import Bundle
from elmox.pretrained.tf1_table import DamagedTable, read_table

TOLERANCE = 2e-6


def encoded(elmo: Elmo, sentence: tuple[str, ...]) -> np.ndarray:
    return elmo.encode_tokens([list(sentence)], layers="all")[0]


@pytest.mark.parametrize("name", ["characters", "words", "forward"])
def test_vectors_and_losses_of_the_graph_that_was_trained(name: str) -> None:
    elmo = Elmo.from_pretrained(TF1 / name)
    expected = np.load(TF1 / name / "expected.npz")
    width = elmo.config.lstm.projection_dim
    for number, sentence in enumerate(SENTENCES):
        vectors = encoded(elmo, sentence)
        tokens = expected[f"tokens_{number}"]
        np.testing.assert_allclose(vectors[0][:, :width], tokens, atol=TOLERANCE)
        np.testing.assert_allclose(vectors[-1], expected[f"top_{number}"], atol=TOLERANCE)
        (score,) = elmo.score([list(sentence)])
        losses = [-np.mean(score.forward)]
        assert (score.backward is not None) == elmo.config.lstm.bidirectional
        if score.backward is not None:
            losses.append(-np.mean(score.backward))
        np.testing.assert_allclose(losses, expected[f"losses_{number}"], atol=TOLERANCE)


@pytest.mark.parametrize("name", ["module", "shards", "characters"])
def test_all_layers_of_the_graph_that_embeds(name: str, tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained(copy_tf1(tmp_path, name))
    expected = np.load(TF1 / "module" / "expected.npz")
    for number, sentence in enumerate(SENTENCES):
        layers_ = expected[f"layers_{number}"]
        np.testing.assert_allclose(encoded(elmo, sentence), layers_, atol=TOLERANCE)


@pytest.mark.parametrize(
    "end", ["", ".index", ".data-00000-of-00001", ".meta"], ids=lambda end: end or "no end"
)
def test_any_name_of_a_checkpoint(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative, too: `run/model.ckpt-50` could be the name of a model on the Hub."""
    folder = copy_tf1(tmp_path / "run", "characters")
    (folder / "model.ckpt-50.meta").write_bytes(b"a graph, which is never read")
    monkeypatch.chdir(tmp_path)
    elmo = Elmo.from_pretrained(f"run/model.ckpt-50{end}")
    assert elmo.description == "TensorFlow checkpoint model.ckpt-50"
    assert elmo.reference is not None
    monkeypatch.chdir("/")
    assert Path(elmo.reference.path).is_absolute()
    Elmo.from_pretrained(elmo.reference.path)


def test_the_latest_checkpoint(tmp_path: Path) -> None:
    """The file `checkpoint` decides, wherever it pattern that the model was trained."""
    folder = copy_tf1(tmp_path, "characters")
    older = folder / "model.ckpt-49"
    for end in (".index", ".data-00000-of-00001"):
        (folder / f"model.ckpt-50{end}").rename(folder / f"{older.name}{end}")
    write_bundle(folder / "model.ckpt-50", {"lm/char_embed": np.zeros((261, 2), np.float32)})
    with pytest.raises(ElmoxError, match=r"model\.ckpt-50\.index lacks the array CNN/W_cnn_0"):
        Elmo.from_pretrained(folder)
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-49"\n')
    assert Elmo.from_pretrained(folder).description == "TensorFlow checkpoint model.ckpt-49"
    (folder / "checkpoint").unlink()
    with pytest.raises(ElmoxError, match=r"model.ckpt-49.index, model.ckpt-50.index"):
        Elmo.from_pretrained(folder)
    (folder / "model.ckpt-50.index").unlink()
    assert Elmo.from_pretrained(folder).description == "TensorFlow checkpoint model.ckpt-49"


def test_a_module_of_tf_hub(tmp_path: Path) -> None:
    """As a directory and as TF-Hub's tarball; its options may be given, or are the usual ones."""
    folder = copy_tf1(tmp_path / "module", "module")
    usual = Elmo.from_pretrained(folder)
    assert "clips of 3, residual connections and 50 characters are assumed" in usual.description
    with tarfile.open(tmp_path / "2.tar.gz", "w:gz") as archive:
        archive.add(folder, ".")
    packed = Elmo.from_pretrained(tmp_path / "2.tar.gz")
    assert packed.description.startswith("tarball 2.tar.gz with TensorFlow checkpoint variables")
    given = Elmo.from_pretrained(folder, options=TF1 / "characters" / "options.json")
    assert "assumed" not in given.description
    assert given.config.char_cnn is not None
    assert given.config.char_cnn.max_characters == 10
    (folder / "options.json").write_bytes((TF1 / "characters" / "options.json").read_bytes())
    assert Elmo.from_pretrained(folder).config == given.config
    for elmo in (packed, given):
        np.testing.assert_array_equal(encoded(elmo, SENTENCES[0]), encoded(usual, SENTENCES[0]))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_precisions(dtype: type, tmp_path: Path) -> None:
    """Any model, against the oracle, which reads the same arrays from HDF5."""
    options = random_options(activation="tanh", n_layers=3)
    arrays: dict[str, np.ndarray] = {
        name: a.astype(dtype) for name, a in ai2_arrays(options, rng()).items()
    }
    path = write_tf1(tmp_path, options, arrays)
    hdf5 = write_hdf5(tmp_path / "w.hdf5", {n: a.astype(np.float32) for n, a in arrays.items()})
    expected, _ = layers(read_ai2(hdf5, tmp_path / "options.json"), SENTENCES)
    elmo = Elmo.from_pretrained(path)
    for sentence, wanted in zip(SENTENCES, expected, strict=True):
        np.testing.assert_allclose(encoded(elmo, sentence), wanted, atol=1e-5)


def test_the_softmax_needs_a_vocabulary(tmp_path: Path) -> None:
    folder = copy_tf1(tmp_path / "run", "characters")
    vocab = (folder / "vocab.txt").rename(tmp_path / "words.txt")
    bare = Elmo.from_pretrained(folder)
    with pytest.raises(ElmoxError, match="without its softmax, because no vocabulary is next to"):
        bare.score(["the cat"])
    elmo = Elmo.from_pretrained(folder, vocab=vocab)
    assert len(elmo.predict("the ___ .", k=3)) == 3
    vocab.write_text("<S>\n</S>\n<UNK>\nthe\n")
    other = Elmo.from_pretrained(folder, vocab=vocab)
    with pytest.raises(ElmoxError, match=r"softmax/W has shape \(13, 4\).*requires \(4, 4\)"):
        other.score(["the cat"])


def test_cached_token_vectors(tmp_path: Path) -> None:
    folder = copy_tf1(tmp_path / "run", "characters")
    vectors = write_token_file(tmp_path / "cached", 4, rng())
    elmo = Elmo.from_pretrained(
        folder, token_embeddings=vectors, vocab=tmp_path / "cached" / "vocab.txt"
    )
    assert elmo.description.endswith("words by id from token_embeddings.hdf5 (11 words)")


def test_info_and_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copy_tf1(tmp_path / "run", "characters")
    code, out, _ = run_here(["info", folder / "model.ckpt-50", "--json"], capsys)
    assert code == 0
    facts = json.loads(out)
    assert facts["description"] == "TensorFlow checkpoint model.ckpt-50"
    assert facts["softmax"] is True
    for output in ("elmox", "ai2.hdf5"):
        assert run_here(["convert", folder, tmp_path / output], capsys)[0] == 0
        again, before = Elmo.from_pretrained(tmp_path / output), Elmo.from_pretrained(folder)
        np.testing.assert_array_equal(encoded(again, SENTENCES[1]), encoded(before, SENTENCES[1]))
        score, expected = (elmo.score(["the cat"])[0].forward for elmo in (again, before))
        np.testing.assert_array_equal(score, expected)


def without(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def edited(name: str, edit: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_bytes(edit(path.read_bytes()))

    return change


def flipped(content: bytes) -> bytes:
    return content[:10] + bytes([content[10] ^ 1]) + content[11:]


DATA, INDEX = "model.ckpt-50.data-00000-of-00001", "model.ckpt-50.index"
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no data": (without(DATA), rf"{DATA} does not exist: {INDEX} requires it"),
    "data cut": (lambda folder: cut(folder / DATA, 0.5), rf"{DATA} has [\d,]+ bytes, but .* cut"),
    "data empty": (lambda folder: cut(folder / DATA, 0), rf"{DATA} has 0 bytes"),
    "data damaged": (edited(DATA, flipped), rf"{DATA}: the checksum of lm/\S+ does not match"),
    "no options": (without("options.json"), "has no options file next to it"),
    "index cut": (lambda folder: cut(folder / INDEX, 0.9), "cannot be read as the index of a Tens"),
    "index empty": (lambda folder: cut(folder / INDEX, 0), "cannot be read as the index of a Tens"),
    "index damaged": (edited(INDEX, flipped), "index of a TensorFlow .* checksum does not match"),
    "other options": (
        edited("options.json", lambda text: text.replace(b'"dim": 6', b'"dim": 7')),
        r"W_0 has shape \(8, 24\), but .*options.json requires \(8, 28\)",
    ),
    "fewer layers": (
        edited("options.json", lambda text: text.replace(b'"n_layers": 2', b'"n_layers": 1')),
        r"Cell1/LSTMCell, but in .* lstm\.n_layers = 1",
    ),
}


@pytest.mark.parametrize(("change", "pattern"), BROKEN.values(), ids=BROKEN.keys())
def test_broken(
    change: Callable[[Path], object],
    pattern: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = copy_tf1(tmp_path, "characters")
    change(folder)
    with pytest.raises(ElmoxError) as caught:
        Elmo.from_pretrained(folder)
    assert re.search(pattern, str(caught.value)), caught.value
    assert_one_line(*run_here(["info", folder], capsys), str(caught.value)[:40])


def test_a_shard_is_missing(tmp_path: Path) -> None:
    folder = copy_tf1(tmp_path, "shards")
    (folder / "model.ckpt.data-00001-of-00002").unlink()
    with pytest.raises(ElmoxError, match="data-00001-of-00002 does not exist"):
        Elmo.from_pretrained(folder)


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Damage without another length, mostly: bits, bytes, numbers, rarely a cut."""
    result = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 8])):
        at = chance.randrange(len(result))
        result[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, result[at] ^ 1 << chance.randrange(8)])
    return bytes(result[: chance.randrange(len(result))] if chance.random() < 0.1 else result)


def test_damage_behind_sound_checksums(tmp_path: Path) -> None:
    """Any messages and blocks: an error in one line, or variables within the data."""
    folder = copy_tf1(tmp_path, "words")
    index = folder / "model.ckpt-50.index"
    items = list(read_table(index.read_bytes()))
    sound = block(items)
    messages = []
    for seed in range(400):
        chance = random.Random(seed)
        if seed % 2:
            at = chance.randrange(len(items))
            damaged = [*items]
            damaged[at] = (items[at][0], mutated(items[at][1] or b"\0", chance))
            content = table([block(damaged)])
        else:
            content = table([mutated(sound, chance)])
        index.write_bytes(content)
        try:
            bundle = Bundle(index)
            for name in bundle.names():
                assert bundle.read(name).shape == bundle.shape(name)
        except ElmoxError as error:
            messages.append(str(error))
    assert len(messages) > 200
    assert all(len(message.splitlines()) == 1 for message in messages)


def test_blocks_and_shared_names() -> None:
    """Names share any part with the one before; a table may have many blocks."""
    names = sorted(f"a/{'b' * (i % 7)}/{i}".encode() for i in range(50))
    items = [(name, varint(i) * 3) for i, name in enumerate(names)]
    tables = table([block(items[:20]), block(items[20:21]), block(items[21:])])
    assert list(read_table(tables)) == items
    with pytest.raises(DamagedTable, match="not in order"):
        list(read_table(table([block(items[1:]), block(items[:1])])))


def test_unknown_fields_are_skipped(tmp_path: Path) -> None:
    """Other versions of TensorFlow may add some."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    index = write_bundle(tmp_path / "model", {"a": array})
    more = field(900, 5) + field(901, b"abc") + varint(902 << 3 | 1) + struct.pack("<d", 1.5)
    content = entry((2, 3), 24, checksum=masked(array.tobytes())) + more
    index.write_bytes(table([block([(b"", header() + more), (b"a", content)])]))
    np.testing.assert_array_equal(Bundle(index).read("a"), array)
