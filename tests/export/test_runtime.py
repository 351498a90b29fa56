"""`OnnxElmo`: the methods of `Elmo`, over onnxruntime alone."""

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx_models import tiny_elmo
from shell import environment

from elmox import Elmo, ElmoxError
from elmox.export import OnnxElmo, export_onnx
from elmox.export.word_vectors import WordVectors

TEXTS = ["The cat's here.", "", "A naïve 天氣 😀 don't!", "word " * 40]
# What `pip install --no-deps elmox` and `pip install numpy onnxruntime` leave out.
BLOCKED = ("torch", "onnx", "h5py", "safetensors", "huggingface_hub", "pydantic", "typer", "tqdm")
WITHOUT_TORCH = """
import json, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[2:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from elmox.export import OnnxElmo

elmo = OnnxElmo.from_pretrained(sys.argv[1])
vectors = elmo.encode(["The cat's here.", ""], layers="all")
assert not {"torch", *sys.argv[2:]} & sys.modules.keys()
print(json.dumps(vectors.tolist()))
"""


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return tiny_elmo()


@pytest.fixture(scope="module")
def folder(elmo: Elmo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "onnx"
    export_onnx(elmo, path)
    return path


@pytest.fixture
def onnx_elmo(folder: Path) -> OnnxElmo:
    return OnnxElmo.from_pretrained(folder, num_threads=1)


@pytest.mark.parametrize("blocked", [(), BLOCKED], ids=["installed", "without dependencies"])
def test_torch_is_not_imported(folder: Path, elmo: Elmo, blocked: tuple[str, ...]) -> None:
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(folder), *blocked],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    expected = elmo.encode(["The cat's here.", ""], layers="all")
    np.testing.assert_allclose(json.loads(process.stdout), expected, atol=1e-5)


@pytest.mark.parametrize("layers", ["average", "top", "all", 0, -1, [2, 0]])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_methods_of_elmo(
    elmo: Elmo, onnx_elmo: OnnxElmo, layers: str | int | list[int], normalize: bool
) -> None:
    for pooling in ("mean", "max"):
        np.testing.assert_allclose(
            onnx_elmo.encode(TEXTS, layers=layers, pooling=pooling, normalize_embeddings=normalize),
            elmo.encode(TEXTS, layers=layers, pooling=pooling, normalize_embeddings=normalize),
            atol=1e-5,
        )
    pairs = zip(
        onnx_elmo.encode_tokens(TEXTS, layers=layers, normalize_embeddings=normalize),
        elmo.encode_tokens(TEXTS, layers=layers, normalize_embeddings=normalize),
        strict=True,
    )
    for vectors, expected in pairs:
        assert vectors.shape == expected.shape
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_shapes_of_little_input(elmo: Elmo, onnx_elmo: OnnxElmo) -> None:
    assert onnx_elmo.encode([]).shape == elmo.encode([]).shape == (0, 12)
    assert onnx_elmo.encode_tokens([]) == []
    assert onnx_elmo.encode("A cat.").shape == elmo.encode("A cat.").shape == (12,)
    assert onnx_elmo.encode_tokens("A cat.", layers="all").shape == (3, 3, 12)
    assert onnx_elmo.encode_tokens("").shape == (0, 12)
    assert (onnx_elmo.encode([[]]) == 0).all()


def test_batches_change_nothing(onnx_elmo: OnnxElmo) -> None:
    sentences = [["a", "cat"] * length for length in (3, 0, 9, 1, 3, 7, 20)]
    expected = [onnx_elmo.encode_tokens([sentence])[0] for sentence in sentences]
    for size, tokens in ((1, None), (3, None), (None, 10), (None, None)):
        vectors = onnx_elmo.encode_tokens(
            sentences, batch_size=size, batch_tokens=tokens, show_progress_bar=True
        )
        for a, b in zip(vectors, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


def test_vectors_are_not_views_of_a_batch(onnx_elmo: OnnxElmo) -> None:
    for vectors in onnx_elmo.encode_tokens([["a"], ["b", "c"]], layers="all"):
        assert vectors.base is None


def test_threads_share_a_model(onnx_elmo: OnnxElmo) -> None:
    texts = [f"Sentence {number} has {number % 7} words." for number in range(60)]
    expected = onnx_elmo.encode(texts)
    onnx_elmo.clear_cache()
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(onnx_elmo.encode, (texts[i::4] for i in range(4))))
    for i, vectors in enumerate(parts):
        np.testing.assert_allclose(vectors, expected[i::4], atol=1e-6)


def test_words_are_encoded_once_and_rare_ones_forgotten() -> None:
    encoded: list[str] = []

    def encode(words: Sequence[str]) -> NDArray[np.float32]:
        encoded.extend(words)
        return np.array([[float(word)] for word in words], np.float32)

    cache = WordVectors(encode, capacity=8)
    for number in range(40):
        words = ["0", "1", str(number + 2)]
        assert cache.vectors(words).tolist() == [[float(word)] for word in words]
        assert len(cache) <= 8
    assert encoded.count("0") == encoded.count("1") == 1
    many = [str(number) for number in range(100)]
    assert cache.vectors(many).tolist() == [[float(number)] for number in range(100)]
    assert len(cache) <= 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "middle"}, "layers='middle'"),
        ({"layers": 3}, "layer 3 does not exist"),
        ({"layers": "mix"}, "no mix is stored"),
        ({"pooling": "sum"}, "pooling='sum'"),
        ({"pooling": "weighted"}, "other poolings need elmox.Elmo"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_bad_arguments(onnx_elmo: OnnxElmo, options: dict[str, object], message: str) -> None:
    with pytest.raises(ElmoxError, match=message):
        onnx_elmo.encode(["A cat."], **options)  # type: ignore[arg-type]


def test_bad_folders(tmp_path: Path, folder: Path, onnx_elmo: OnnxElmo) -> None:
    with pytest.raises(ElmoxError, match="is no directory"):
        OnnxElmo.from_pretrained(tmp_path / "nothing")
    with pytest.raises(ElmoxError, match="warm"):
        OnnxElmo.from_pretrained(folder, state="warm")
    with pytest.raises(ElmoxError, match="num_threads"):
        OnnxElmo.from_pretrained(folder, num_threads=0)
    with pytest.raises(ElmoxError, match="state=True"):
        onnx_elmo.read([["a"]], onnx_elmo._zero_state(1))
    config = json.loads((folder / "config.json").read_text("utf-8"))
    for change, message in (
        ({"format": "elmo"}, "no ONNX export"),
        ({"version": 99}, "version 99"),
        ({"surprise": "red"}, "damaged"),
        ({}, "lacks context.onnx"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**config, **change}), "utf-8")
        with pytest.raises(ElmoxError, match=message):
            OnnxElmo.from_pretrained(tmp_path)
    (tmp_path / "context.onnx").write_bytes(b"not a graph")
    with pytest.raises(ElmoxError, match="cannot be loaded"):
        OnnxElmo.from_pretrained(tmp_path)


def test_repr(onnx_elmo: OnnxElmo) -> None:
    assert "3 layers of dim 12, weights='float32', state='zero'" in repr(onnx_elmo)


def test_the_bundled_model(tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained(device="cpu")
    report = export_onnx(elmo, tmp_path / "onnx")
    assert report.weights == "float16"  # as it is stored, so nothing is lost
    assert report.difference < 1e-5
    assert sum(report.files.values()) < 28_000_000
    texts = ["I will buy you a present.", "Live in the present!", "Ünïcödé 😀 " + "x" * 60]
    np.testing.assert_allclose(
        OnnxElmo.from_pretrained(tmp_path / "onnx").encode(texts), elmo.encode(texts), atol=1e-5
    )
    report = export_onnx(elmo, tmp_path / "int8", weights="int8")
    assert report.cosine > 0.9995
    assert sum(report.files.values()) < 16_000_000
