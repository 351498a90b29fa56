"""examples/onnx_node under a real node, with onnxruntime from npm."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx_models import MODELS

from elmox import Elmo
from elmox.export import export_onnx

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "onnx_node"
SENTENCES = [
    ["The", "cat", "sat", "."],
    [],
    ["naïve", "天", "😀", "é" * 40, "x" * 70, "<S>", "", "\ud800"],
    ["the"],
]

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None, reason="no node or no npm"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its packages, installed where no other test looks."""
    root = tmp_path_factory.mktemp("node")
    (root / "src").symlink_to(ROOT / "src")  # the example imports a module of the package
    folder = root / "examples" / "onnx_node"
    folder.mkdir(parents=True)
    for path in EXAMPLE.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    if process.returncode != 0:
        pytest.skip(f"npm cannot install onnxruntime-web: {process.stderr.splitlines()[-1:]}")
    return folder / "encode.mjs"


def run_node(program: Path, *arguments: object) -> str:
    process = subprocess.run(
        ["node", str(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize("name", ["bytes", "words", "code points and words", "forward only"])
def test_the_same_vectors(program: Path, name: str, tmp_path: Path) -> None:
    elmo = MODELS[name](tmp_path / "model")
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"sentences": SENTENCES}), "ascii")
    expected = elmo.encode_tokens(SENTENCES, layers="all")
    for options in ({}, {"single": True, "state": True}):
        export_onnx(elmo, tmp_path / "onnx", force=True, **options)  # type: ignore[arg-type]
        vectors = json.loads(run_node(program, tmp_path / "onnx", "--tokens", tokens))
        for a, b in zip(vectors, expected, strict=True):
            np.testing.assert_allclose(np.reshape(a, b.shape), b, atol=1e-5)


def test_the_bundled_model(program: Path, tmp_path: Path) -> None:
    export_onnx(Elmo.from_pretrained(device="cpu"), tmp_path / "onnx", softmax=True)
    out = run_node(program, tmp_path / "onnx").splitlines()
    assert "22 tokens" in out[0]
    assert out[1] == '"present" in layer 0: cosine 1.000'
    assert len(out) == 4
