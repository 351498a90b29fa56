"""`elmox export` as a user meets it."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checkpoints import random_options, write_word_model
from onnx_models import tiny_elmo, with_softmax
from shell import environment, run_elmox

from elmox import Elmo
from elmox.cli.export import command
from elmox.export import OnnxElmo

WITHOUT_ONNX = """
import sys
sys.modules["onnx"] = None
from elmox.cli.main import run
sys.argv = ["elmox", "export", *sys.argv[1:]]
run()
"""


def test_the_examples_of_the_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(command.examples) == 2
    for example in command.examples:
        elmox, *arguments = shlex.split(example)
        assert elmox == "elmox"
        process = run_elmox(*arguments)
        assert process.returncode == 0, process.stderr
        assert OnnxElmo.from_pretrained(arguments[2]).encode(["A cat."]).shape == (1, 256)
    report = json.loads(process.stdout)
    assert report["weights"] == "int8"
    assert report["cosine"] > 0.999
    assert report["files"] == {
        name: os.path.getsize(f"{report['path']}/{name}") for name in report["files"]
    }
    assert {"words.onnx", "context.onnx", "softmax.onnx", "vocab.txt"} < report["files"].keys()


def test_options_reach_the_export(tmp_path: Path) -> None:
    elmo = with_softmax(tiny_elmo())
    elmo.warm_up([["a", "cat"]])
    elmo.save_pretrained(tmp_path / "model")
    process = run_elmox(
        *("export", tmp_path / "model", tmp_path / "onnx"),
        *("--single", "--state", "--softmax", "--weights", "float32"),
    )
    assert process.returncode == 0, process.stderr
    assert "elmo.onnx" in process.stdout
    assert "with float32 weights; largest difference" in process.stderr
    exported = OnnxElmo.from_pretrained(tmp_path / "onnx", state="warm")
    config = exported.config
    assert (config.single, config.state, config.warm_state, config.softmax) == (True,) * 4
    np.testing.assert_allclose(exported.encode(["A cat."]), elmo.encode(["A cat."]), atol=1e-5)


def test_legacy_files(tmp_path: Path) -> None:
    weights = write_word_model(tmp_path / "old", random_options(), np.random.default_rng(0))
    vocab = (tmp_path / "old" / "vocab.txt").rename(tmp_path / "words.txt")
    process = run_elmox("export", weights, tmp_path / "onnx", "--vocab", vocab, "--quiet")
    assert (process.returncode, process.stderr) == (0, "")
    sentences = [["the", "cat"], ["unheard", "of"]]
    expected = Elmo.from_pretrained(weights, vocab=vocab).encode(sentences)
    vectors = OnnxElmo.from_pretrained(tmp_path / "onnx").encode(sentences)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_errors_are_one_line_with_flags(tmp_path: Path) -> None:
    tiny_elmo().save_pretrained(tmp_path / "model")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    for arguments, message in (
        ([tmp_path / "model", tmp_path / "out"], "--force"),
        ([tmp_path / "model", tmp_path / "new", "--softmax"], "--softmax"),
        ([tmp_path / "nothing", tmp_path / "new"], "nothing"),
    ):
        process = run_elmox("export", *arguments)
        assert process.returncode == 1
        assert message in process.stderr
        assert process.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]


def test_without_the_package_onnx(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_ONNX, "english-small", str(tmp_path / "onnx")],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert process.returncode == 1
    assert "pip install 'elmox[onnx]'" in process.stderr
    assert process.stderr.count("\n") == 1
