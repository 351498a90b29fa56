"""The command line: help, `info`, `convert`, and interruptions."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from broken import rng
from checkpoints import (
    random_options,
    write_ai2,
    write_allennlp_archive,
    write_many_langs,
    write_nlpl_zip,
    write_word_model,
)
from safetensors.torch import load_file
from shell import (
    assert_one_line,
    command,
    environment,
    kill_at_rename,
    run_elmox,
    run_here,
    run_in_new_python,
    tree,
)

from elmox import __version__
from elmox.cli.version import version_text
from elmox.elmo import Elmo
from elmox.errors import ElmoxError

TOKENS = [["The", "cat", "sat", "."], [], ["naïve", "天"], ["a"]]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_ai2(tmp_path / "model", random_options(), rng())


def imported(*arguments: str) -> set[str]:
    """Return the modules that a Python process imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        env=environment(),
        text=True,
        check=True,
    )
    return {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if "|" in line}


@pytest.mark.parametrize(
    "arguments",
    [
        ("-c", "import elmox"),
        ("-c", "from elmox import ElmoConfig, ElmoxError"),
        ("-m", "elmox", "--help"),
        ("-m", "elmox", "--version"),
        ("-m", "elmox", "embed", "--help"),
        ("-m", "elmox", "bench", "embed", "--help"),
        ("-m", "elmox", "bench", "train", "--help"),
    ],
)
def test_light_commands_do_not_import_torch(arguments: tuple[str, ...]) -> None:
    modules = imported(*arguments)
    assert "elmox" in modules
    assert not modules & {"torch", "numpy", "h5py", "huggingface_hub", "pyarrow"}


def test_help() -> None:
    done = run_in_new_python("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for verb in ("embed", "info", "convert", "bench"):
        assert f"\n  {verb} " in done.stdout


@pytest.mark.parametrize(
    ("verb", "mentions"),
    [
        (
            ["embed"],
            ["INPUT", "--layers", "--dtype", "--tokenized", "--force", "--json", "--state"],
        ),
        (["info"], ["--options", "--vocab", "--token-embeddings", "--json"]),
        (["convert"], ["--options", "--force"]),
        (["bench"], ["lstm", "cnn", "train", "embed"]),
    ],
)
def test_help_of_verbs(
    verb: list[object], mentions: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run_here([*verb, "--help"], capsys)
    assert (code, err) == (0, "")
    assert all(mention in out for mention in mentions)


def test_version() -> None:
    """Print a checkout's revision too, unless git is missing or does not trust the directory."""
    done = run_in_new_python("--version")
    assert (done.returncode, done.stderr) == (0, "")
    revision = r"( \(git [0-9a-f]{7,}(, modified)?\))?"
    assert re.fullmatch(rf"elmox {re.escape(__version__)}{revision}\n", done.stdout)


def test_version_of_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "tag.gpgsign=false")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    package = tmp_path / "src" / "elmox"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr("elmox.__file__", str(package / "__init__.py"))
    assert version_text() == f"elmox {__version__}"
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first", "--no-gpg-sign")
    git("tag", "v9.9.9")
    assert version_text() == f"elmox {__version__} (git {git('rev-parse', '--short', 'HEAD')})"
    (package / "__init__.py").write_text("changed = True")
    assert version_text().endswith(", modified)")
    monkeypatch.setenv("PATH", "")
    assert version_text() == f"elmox {__version__}"
    installed = tmp_path / "lib" / "site-packages" / "elmox" / "__init__.py"
    monkeypatch.setattr("elmox.__file__", str(installed))
    assert version_text() == f"elmox {__version__}"


def test_options_that_lie_elsewhere(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = (weights.parent / "options.json").rename(tmp_path / "other.json")
    assert run_here(["info", weights], capsys)[0] == 1
    assert run_here(["info", weights, "--options", moved], capsys)[0] == 0


def build(kind: str, folder: Path) -> Path:
    """Write a checkpoint of a format that can be read."""
    options = random_options()
    if kind in ("char", "word_char", "word"):
        return write_many_langs(folder, kind, rng())  # type: ignore[arg-type]
    if kind == "native":
        elmo = Elmo.from_pretrained(write_ai2(folder / "source", options, rng()))
        elmo.set_mix([1.0, 0.0, -1.0], gamma=0.5, name="ner")
        elmo.warm_up([["a", "b"]])
        elmo.save_pretrained(folder / "native")
        return folder / "native"
    writers: dict[str, Callable[..., Path]] = {
        "ai2": write_ai2,
        "ai2 words": write_word_model,
        "nlpl": write_nlpl_zip,
        "allennlp": write_allennlp_archive,
    }
    return writers[kind](folder, options, rng())


FORMATS = {
    "ai2": "AI2 (bilm-tf) weights",
    "ai2 words": "words by id",
    "nlpl": "zip 225.zip",
    "allennlp": "tarball model.tar.gz with AllenNLP model",
    "char": "ELMoForManyLangs folder that reads characters",
    "word_char": "ELMoForManyLangs folder that reads words and characters",
    "word": "ELMoForManyLangs folder that reads words",
    "native": "elmox model directory native",
}


@pytest.mark.parametrize("kind", FORMATS)
def test_info(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = build(kind, tmp_path)
    code, out, err = run_here(["info", path, "--json"], capsys)
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert FORMATS[kind] in facts["description"]
    elmo = Elmo.from_pretrained(path)
    assert (facts["layers"], facts["dim"]) == (elmo.num_layers, elmo.dim) == (3, 12)
    assert facts["parameters"] == sum(p.numel() for p in elmo.reader.bilm.parameters())
    assert facts["config"] == json.loads(json.dumps(elmo.config.to_dict()))
    assert list(facts["mixes"]) == list(elmo.mixes)
    assert facts["warm_state"] == (kind == "native")
    assert facts["inference_path"].startswith("float32: ")
    assert "training_path" in facts
    code, out, err = run_here(["info", path], capsys)
    assert (code, err) == (0, "")
    rows = dict(line.split("  ", 1) for line in out.splitlines())
    assert FORMATS[kind] in rows["description"]
    assert rows["dim"].strip() == "12"
    assert "{" not in out


def test_info_in_a_process(weights: Path) -> None:
    done = run_in_new_python("info", weights)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("description ")


@pytest.mark.parametrize("kind", FORMATS)
def test_convert_to_native(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = build(kind, tmp_path / "source")
    code, out, err = run_here(["convert", path, tmp_path / "out"], capsys)
    assert (code, out) == (0, "")
    assert FORMATS[kind] in err
    assert str(tmp_path / "out") in err
    before, after = Elmo.from_pretrained(path), Elmo.from_pretrained(tmp_path / "out")
    assert after.config == before.config
    assert after.mixes == before.mixes
    tensors = before.checkpoint().tensors
    for name, tensor in after.checkpoint().tensors.items():
        assert tensor.equal(tensors[name]), name
    pairs = zip(after.encode_tokens(TOKENS), before.encode_tokens(TOKENS), strict=True)
    for vectors, expected in pairs:  # up to rounding: memory is aligned differently
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-6)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "noqa" not in card
    assert {path.name for path in tmp_path.iterdir()} == {"source", "out"}


def arrays(path: Path) -> dict[str, Any]:
    """Return all arrays of an HDF5 file by name."""
    values: dict[str, Any] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                values.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return values


@pytest.mark.parametrize(
    "options",
    [
        random_options(),
        random_options(n_layers=1, n_highway=0, skip=False, cell_clip=None, activation="tanh"),
        random_options(projection_dim=15, dim=15, max_characters=30),
    ],
    ids=["usual", "bare", "no projections"],
)
def test_hdf5_to_native_and_back(
    options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = write_ai2(tmp_path / "model", options, rng())
    assert run_here(["convert", weights, tmp_path / "native"], capsys)[0] == 0
    assert run_here(["convert", tmp_path / "native", tmp_path / "back.hdf5"], capsys)[0] == 0
    before, after = arrays(weights), arrays(tmp_path / "back.hdf5")
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, strict=True)
    written = json.loads((tmp_path / "back_options.json").read_text())
    assert written["lstm"] == options["lstm"]
    assert written["char_cnn"] == options["char_cnn"]


def test_native_to_hdf5_and_back(tmp_path: Path) -> None:
    native = build("native", tmp_path)
    for source, target in ((native, "out.hdf5"), (tmp_path / "out.hdf5", "back")):
        done = run_elmox("convert", source, tmp_path / target)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert len(done.stderr.splitlines()) == 1
    before = load_file(native / "model.safetensors")
    after = load_file(tmp_path / "back" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(after[name].equal(tensor) for name, tensor in before.items())
    config = "config.json"
    assert (native / config).read_bytes() == (tmp_path / "back" / config).read_bytes()


def test_word_model_to_hdf5_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = write_word_model(tmp_path / "model", random_options(), rng())
    assert run_here(["convert", weights, tmp_path / "native"], capsys)[0] == 0
    assert run_here(["convert", tmp_path / "native", tmp_path / "back.hdf5"], capsys)[0] == 0
    vocabulary = (tmp_path / "model" / "vocab.txt").read_bytes()
    assert (tmp_path / "back_vocab.txt").read_bytes() == vocabulary
    before, after = arrays(weights), arrays(tmp_path / "back.hdf5")
    assert before.keys() == after.keys()
    assert all(np.array_equal(after[name], array) for name, array in before.items())
    code, _, err = run_here(["info", tmp_path / "back.hdf5"], capsys)
    assert code == 0, err


def test_convert_force(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for output in ("native", "out.hdf5"):
        assert run_here(["convert", weights, tmp_path / output], capsys)[0] == 0
        before = tree(tmp_path)
        assert run_here(["convert", weights, tmp_path / output, "--force"], capsys)[0] == 0
        assert tree(tmp_path).keys() == before.keys()


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_convert_killed_between_two_names(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """New weights never load with the options of the old ones."""
    large = write_ai2(tmp_path / "large", random_options(n_layers=1), rng())
    out = tmp_path / "out"
    out.mkdir()
    arguments = ["convert", weights, out / "new.hdf5", "--force"]
    assert run_here(arguments, capsys)[0] == 0
    expected = tree(out)
    assert run_here(["convert", large, out / "new.hdf5", "--force"], capsys)[0] == 0
    old = tree(out)
    kill_at_rename(1, *arguments)
    assert {name: tree(out)[name] for name in old} == old
    kill_at_rename(2, *arguments)
    assert {name: tree(out)[name] for name in old} not in (old, expected)
    assert_one_line(*run_here(["info", out / "new.hdf5"], capsys), "is unfinished")
    with pytest.raises(ElmoxError, match="is unfinished"):
        Elmo.from_pretrained(out)
    assert run_here(arguments[:-1], capsys)[0] == 0  # nothing is lost: the same without --force
    assert tree(out) == expected


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
@pytest.mark.parametrize("force", [False, True])
def test_killed_converts_leave_nothing(
    force: bool, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["convert", weights, out / "model"]
    if force:
        assert run_here(arguments, capsys)[0] == 0
        arguments.append("--force")
    for _ in range(3):
        kill_at_rename(1, *arguments)
        assert (out / "model").exists() == force
        assert len(os.listdir(out)) == 1 + force  # not one more each time
    assert run_here(arguments, capsys)[0] == 0
    assert os.listdir(out) == ["model"]


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_interrupted(weights: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("embed", weights, "-", tmp_path / "out.hdf5"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        # Tests that run in the background may ignore it, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "out.hdf5.partial" / "shards").exists():
        assert process.poll() is None, process.stderr
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.2)  # it waits for a line now
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    # stdin cannot be read twice, so the run cannot continue.
    assert (out, err) == (b"", b"elmox: interrupted\n")
    assert not (tmp_path / "out.hdf5").exists()
