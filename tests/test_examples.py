"""The examples, run on a tiny model and a short text."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from language_models import tiny_lm

from elmox import Elmo, open_vectors

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny_lm(tmp_path / "lm").elmo().save_pretrained(tmp_path / "model")
    output = tmp_path / "out"
    output.mkdir()
    (output / "vectors.hdf5").write_text("of an earlier run")
    demo = runpy.run_path(str(EXAMPLES / "demo.py"))
    demo["main"](tmp_path / "model", output)
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split() for line in lines if " / " in line}
    assert list(rows) == [homonym.word for homonym in demo["HOMONYMS"]]
    for row in rows.values():
        assert row[4:6] == ["1.00", "1.00"]  # layer 0 has one vector per word
        assert len(row) == 10
    shares = next(line.split()[4:] for line in lines if "same sense is closer" in line)
    assert len(shares) == 3
    assert shares[0] == "50%"
    names = {path.name for path in output.iterdir()}
    assert names == {"bank.png", "bank.svg", "sentences.txt", "vectors.hdf5"}
    with open_vectors(output / "vectors.hdf5") as stored:
        assert len(stored) == 36
        assert stored[0].shape == (3, 11, 12)


def test_share_closer() -> None:
    """A layer without differences, one that separates the senses, one that confuses them."""
    demo = runpy.run_path(str(EXAMPLES / "demo.py"))
    apart = np.kron(np.eye(2), np.ones((3, 3)))
    layers = np.stack([np.ones((6, 6)), apart, 1 - apart])
    for homonym in demo["HOMONYMS"]:
        assert [len(sentences) for sentences in homonym.sentences] == [3, 3]
        assert demo["share_closer"](homonym, layers).tolist() == [0.5, 1.0, 0.0]


def test_train_tiny(capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(EXAMPLES / "train_tiny.py"))
    text = "The function returns a list of strings. It raises an error if the file is missing."
    texts = [f"{text} {number}." for number in range(40)]
    settings = ["train.max_steps=2", "train.rows=2", "train.steps=5", "report.eval_rows=1"]
    example["main"](texts, settings)
    out = capsys.readouterr().out
    assert "Held-out perplexity" in out
    assert "vectors.hdf5: 2 entries" in out


def test_senses_differ_above_layer_0(tmp_path: Path) -> None:
    """The picture of README: the similarities are those that it claims."""
    senses = runpy.run_path(str(EXAMPLES / "senses.py"))
    sentences = [sentence for group in senses["SENSES"].values() for sentence in group]
    matrices = senses["similarities"](Elmo.from_pretrained(device="cpu"), sentences, senses["WORD"])
    assert matrices.shape == (3, 6, 6)
    np.testing.assert_allclose(matrices[0], 1, atol=1e-5)
    within, across = matrices[2, :3, :3], matrices[2, :3, 3:]
    assert within.min() > across.max()
    senses["draw"](matrices, tmp_path / "senses.png")
    assert (tmp_path / "senses.png").stat().st_size > 10_000
