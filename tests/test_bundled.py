"""The model that comes with elmox: loaded by name or without one, in a checkout and in a wheel.

Loading is tested with a tiny model in its place. The tests of the model itself skip in a
checkout that lacks it.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from language_models import tiny_lm
from safetensors.torch import load_file
from shell import assert_one_line, run_here

import elmox
from elmox import Elmo, ElmoEmbedding, ElmoxError
from elmox.config import BUNDLED
from elmox.pretrained.ai2 import write_ai2
from elmox.pretrained.load import load_checkpoint
from elmox.pretrained.packages import bundled_model
from elmox.recipes import find_recipe, recipe_names

ROOT = Path(__file__).resolve().parents[1]
MODEL = Path(elmox.__file__).parent / "models" / BUNDLED
MAX_MODEL_BYTES = 60_000_000  # compressed, as in the wheel
MAX_WHEEL_BYTES = 65_000_000  # with the explorer, whose browser runtime has 3 MB

SENTENCES = ["I will buy you a present.", "Live in the present, not the past.", "Naïve 😀 xyzzy-9"]
THREE_LINES = """
from elmox import Elmo
elmo = Elmo.from_pretrained()
vectors = elmo.encode_tokens(["I will buy you a present.", "Live in the present."])
"""
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
OFFLINE = """
import socket, sys

def refuse(*arguments, **named):
    raise OSError("there is no network here")

socket.getaddrinfo = socket.socket.connect = socket.socket.connect_ex = refuse
target, output, *sentences = sys.argv[1:]
sys.path.insert(0, target)
import numpy as np
import elmox

elmo = elmox.Elmo.from_pretrained(device="cpu")
np.savez(output, *elmo.encode_tokens(sentences, layers="all"))
print(elmox.__file__, *(word for word, _ in elmo.predict("I will buy you a ___ .")), sep="\\n")
"""

needs_model = pytest.mark.skipif(
    not (MODEL / "model.safetensors").is_file(), reason=f"no bundled model at {MODEL}"
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in place of the package's own."""
    monkeypatch.setattr("elmox.pretrained.packages.files", lambda package: tmp_path / package)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "elmox"


@pytest.fixture
def stand_in(package: Path, tmp_path: Path) -> Path:
    """A tiny model in the place of the bundled one."""
    lm = tiny_lm(tmp_path / "lm").elmo()
    lm.save_pretrained(package / "models" / BUNDLED, dtype="float16")
    return package / "models" / BUNDLED


def equal(ours: Any, theirs: Any) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_found_by_name_and_by_none(stand_in: Path) -> None:
    expected = Elmo.from_pretrained(stand_in).encode_tokens(SENTENCES, layers="all")
    assert bundled_model() == stand_in
    for elmo in (Elmo.from_pretrained(), Elmo.from_pretrained(BUNDLED)):
        assert elmo.description == f"elmox model directory {BUNDLED}"
        equal(elmo.encode_tokens(SENTENCES, layers="all"), expected)
    mixed = ElmoEmbedding.from_pretrained(num_mixes=2)(SENTENCES[:1])
    np.testing.assert_allclose(
        mixed.mixes[1, 0].detach().numpy(), expected[0].mean(0), rtol=0, atol=2e-6
    )


def test_a_local_directory_of_that_name_comes_first(stand_in: Path, tiny: Path) -> None:
    """As with hub ids: an existing directory has priority."""
    Elmo.from_pretrained(tiny).save_pretrained(BUNDLED)
    expected = Elmo.from_pretrained(tiny).encode(SENTENCES)
    equal(Elmo.from_pretrained(BUNDLED).encode(SENTENCES), expected)
    assert not np.array_equal(Elmo.from_pretrained().encode(SENTENCES), expected)


def test_every_verb_knows_the_name(
    stand_in: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat .\n", "utf-8")
    for arguments in (
        ["info"],
        ["info", BUNDLED],
        ["embed", BUNDLED, text, tmp_path / "vectors.hdf5"],
        ["eval", BUNDLED, text],
        ["score", BUNDLED, text],
        ["predict", BUNDLED, "the ___ ."],
        ["convert", BUNDLED, tmp_path / "copy"],
        ["convert", BUNDLED, tmp_path / "copy.hdf5"],
    ):
        code, _, err = run_here(list(arguments), capsys)
        assert code == 0, f"{arguments}: {err}"
    expected = Elmo.from_pretrained().encode(SENTENCES)
    for copy in ("copy", "copy.hdf5"):
        equal(Elmo.from_pretrained(tmp_path / copy).encode(SENTENCES), expected)


def test_a_checkout_without_it(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (None, BUNDLED):
        with pytest.raises(ElmoxError, match="english-small, the model that comes with elmox, is"):
            Elmo.from_pretrained(path)
    assert_one_line(*run_here(["info"], capsys), "is not in", "give the path of another model")
    with pytest.raises(ElmoxError, match=r"an installed model \(english-small\)"):
        Elmo.from_pretrained("english-tiny")
    with pytest.raises(ElmoxError, match="english-small does not exist"):
        Elmo.from_pretrained(Path(BUNDLED))  # a path is never a name


@needs_model
def test_the_directory_is_complete() -> None:
    names = {file.name for file in MODEL.iterdir()}
    assert names == {
        *("config.json", "model.safetensors", "softmax.safetensors", "vocab.txt"),
        *("README.md", "training.toml", "metrics.jsonl", "checksums.json"),
        *("pooling.safetensors", "pooling.json"),
    }
    for name in ("model", "softmax"):
        stored = load_file(MODEL / f"{name}.safetensors").values()
        assert {tensor.dtype for tensor in stored} == {torch.float16}
    assert "{facts}" not in (MODEL / "README.md").read_text("utf-8")
    with pytest.raises(ElmoxError, match="no warm state"):
        Elmo.from_pretrained(state="warm")


@needs_model
def test_its_weighted_pooling_is_small_and_close_to_the_meaning() -> None:
    size = sum((MODEL / f"pooling.{end}").stat().st_size for end in ("json", "safetensors"))
    assert size < 100_000
    elmo = Elmo.from_pretrained()
    sentences = ["A man plays the guitar.", "The man is playing a guitar.", "The court met today."]
    cosines = elmo.similarity(*[elmo.encode(sentences, pooling="weighted")] * 2)
    assert cosines[0, 1] > 0.5 > cosines[0, 2]


@needs_model
def test_three_lines() -> None:
    names: dict[str, Any] = {}
    exec(THREE_LINES, names)
    first, second = names["vectors"]
    elmo = names["elmo"]
    assert (first.shape, second.shape) == ((7, elmo.dim), (5, elmo.dim))
    gift, moment = first[5], second[3]  # "present", twice
    cosine = gift @ moment / (np.linalg.norm(gift) * np.linalg.norm(moment))
    assert 0 < cosine < 0.98  # random weights of that size give 0.999


@needs_model
def test_exported_to_ai2s_format_it_gives_the_same_vectors(tmp_path: Path) -> None:
    """Bit for bit: every float16 value is a float32 value, and the way there and back is exact."""
    write_ai2(load_checkpoint(), tmp_path / "english.hdf5")
    ours, legacy = Elmo.from_pretrained(), Elmo.from_pretrained(tmp_path / "english.hdf5")
    assert legacy.description.startswith("AI2 (bilm-tf) weights")
    equal(*(elmo.encode_tokens(SENTENCES, layers="all") for elmo in (ours, legacy)))
    for a, b in zip(ours.score(SENTENCES), legacy.score(SENTENCES), strict=True):
        np.testing.assert_allclose(a.log_prob, b.log_prob, rtol=1e-6)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that this checkout makes."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-c", BUILD, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


@needs_model
def test_the_wheel_holds_the_model_and_stays_small(wheel: Path) -> None:
    assert wheel.stat().st_size < MAX_WHEEL_BYTES
    with zipfile.ZipFile(wheel) as archive:
        model = [item for item in archive.infolist() if f"elmox/models/{BUNDLED}/" in item.filename]
        assert sum(item.compress_size for item in model) < MAX_MODEL_BYTES
        for file in MODEL.iterdir():
            assert archive.read(f"elmox/models/{BUNDLED}/{file.name}") == file.read_bytes()


def test_the_wheel_holds_the_recipes(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for task in (False, True):
            for path in (find_recipe(name, task=task) for name in recipe_names(task=task)):
                name = path.relative_to(ROOT / "src").as_posix()
                assert archive.read(name) == path.read_bytes()


@needs_model
def test_installed_without_network_it_gives_the_same_vectors(wheel: Path, tmp_path: Path) -> None:
    target, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    install += ["--no-compile", "--disable-pip-version-check", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True)
    done = subprocess.run(
        [sys.executable, "-I", "-c", OFFLINE, target, tmp_path / "vectors.npz", *SENTENCES],
        cwd=empty,
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    home, *words = done.stdout.splitlines()
    assert Path(home).is_relative_to(target)
    assert not list(empty.iterdir())
    here = Elmo.from_pretrained()
    with np.load(tmp_path / "vectors.npz") as vectors:  # the same batches, with no word cached
        equal(list(vectors.values()), here.encode_tokens(SENTENCES, layers="all"))
    assert words == [word for word, _ in here.predict("I will buy you a ___ .")]


@needs_model
def test_the_source_distribution_holds_it_too() -> None:
    from hatchling.builders.sdist import SdistBuilder

    files = {file.relative_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    assert {str(file.relative_to(ROOT)) for file in MODEL.iterdir()} <= files
    assert "src/elmox/recipes/english-small.toml" in files


def test_gaps_are_filled_with_words_that_make_sense() -> None:
    """Not with the most frequent ones: both sides count, and the frequency of a word does not."""
    elmo = Elmo.from_pretrained()
    answers = {
        "He opened the ___ and walked out.": "door",
        "The band released their first ___ in 1994.": "album",
    }
    for sentence, expected in answers.items():
        assert elmo.predict(sentence, k=1)[0].word == expected
    drinks = {word for word, _ in elmo.predict("She drank a cup of ___.", k=5)}
    assert drinks & {"wine", "tea", "beer", "water", "coffee"}
    assert '"' not in drinks
