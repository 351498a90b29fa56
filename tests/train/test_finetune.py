"""Fine-tuning: what is kept, what is new, what is reported."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import random_options, write_many_langs, write_word_model
from corpora import small_corpus, write_documents
from shell import run_elmox
from training_runs import tiny_recipe

from elmox import Elmo
from elmox.errors import ElmoxError
from elmox.hub import load_checkpoint
from elmox.legacy.ai2 import write_ai2
from elmox.model.checkpoint import Checkpoint, Softmax
from elmox.train.finetune import FinetuneOptions, carry_over, finetune
from elmox.train.loop import train
from elmox.train.prepare import PrepareOptions

OPTIONS = FinetuneOptions(epochs=1, softmax_epochs=1, lr=0.01, softmax_lr=0.02, rows=8, steps=10)
PREPARE = PrepareOptions(hold_out=3, min_count=2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained a little on some documents."""
    folder = tmp_path_factory.mktemp("model")
    recipe = tiny_recipe(small_corpus(folder))
    train(recipe, folder / "run", device="cpu")
    return folder / "run" / "last"


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other documents."""
    return write_documents(tmp_path_factory.mktemp("domain") / "domain.txt", 20, 26)


def test_a_model_with_a_softmax_keeps_its_words(model: Path, domain: Path, tmp_path: Path) -> None:
    said: list[str] = []
    before = load_checkpoint(model)
    out = tmp_path / "out"
    found = finetune(
        before, [str(domain)], out, prepare=PREPARE, options=OPTIONS, device="cpu", say=said.append
    )
    assert found.before is not None
    assert found.after is not None
    assert found.after < 0.9 * found.before
    assert not found.new_softmax
    assert any("by heart" in message for message in said)  # a few thousand words
    after = load_checkpoint(out / "model")
    assert after.softmax is not None
    assert before.softmax is not None
    assert after.softmax.vocab == before.softmax.vocab
    assert any((after.tensors[n] != before.tensors[n]).any() for n in before.tensors)
    assert json.loads((out / "report.json").read_text())["after"] == found.after
    evaluated = run_elmox("eval", out / "model", domain, "--json", "--device", "cpu")
    assert evaluated.returncode == 0, evaluated.stderr


def test_a_legacy_file_gets_a_softmax_first(model: Path, domain: Path, tmp_path: Path) -> None:
    write_ai2(replace(load_checkpoint(model), softmax=None), tmp_path / "weights.hdf5")
    out, hdf5 = tmp_path / "out", tmp_path / "tuned.hdf5"
    done = run_elmox(
        "finetune", tmp_path / "weights.hdf5", domain, "--out", out, "--hold-out", 3,
        "--min-count", 2, "--softmax-epochs", 1, "--lr", 0.01, "--hdf5", hdf5, "--device", "cpu",
        "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["new_softmax"]
    assert found["num_carried"] == 0
    assert found["after"] < found["before"]
    # The body stood still while the softmax was trained.
    legacy, frozen = (
        load_checkpoint(tmp_path / "weights.hdf5"),
        load_checkpoint(out / "softmax/best"),
    )
    for name, tensor in legacy.tensors.items():
        assert torch.equal(tensor, frozen.tensors[name]), name
    tuned, back = load_checkpoint(out / "model"), load_checkpoint(hdf5)
    for name, tensor in tuned.tensors.items():
        assert torch.equal(tensor, back.tensors[name]), name
    again = run_elmox("finetune", model, domain, "--out", out, "--device", "cpu")
    assert again.returncode == 1
    assert "exists already" in again.stderr


def test_a_new_vocabulary_carries_rows_over(model: Path, domain: Path, tmp_path: Path) -> None:
    before = load_checkpoint(model)
    assert before.softmax is not None
    options = replace(OPTIONS, new_vocab=True)
    found = finetune(
        before, [str(domain)], tmp_path / "out", prepare=PREPARE, options=options, device="cpu"
    )
    assert found.new_softmax
    start = load_checkpoint(tmp_path / "out" / "start")
    assert start.softmax is not None
    assert start.softmax.vocab != before.softmax.vocab
    common = set(start.softmax.vocab) & set(before.softmax.vocab)
    assert found.num_carried == len(common) > 50
    for word in sorted(common)[:20]:
        mine, theirs = start.softmax.vocab.index(word), before.softmax.vocab.index(word)
        for name in ("weight", "bias"):
            assert torch.equal(
                start.softmax.tensors[name][mine], before.softmax.tensors[name][theirs]
            )


@pytest.mark.parametrize("kind", ["many_langs", "words"])
def test_models_that_read_otherwise(kind: str, domain: Path, tmp_path: Path) -> None:
    """An inventory of code points, and an input vocabulary: with boundaries of their own names."""
    rng = np.random.default_rng(0)
    if kind == "many_langs":
        path = write_many_langs(tmp_path / "model", "word_char", rng)
        start = load_checkpoint(path)
    else:
        weights = write_word_model(tmp_path / "model", random_options(), rng)
        start = load_checkpoint(weights, vocab=weights.parent / "vocab.txt")
    found = finetune(
        start, [str(domain)], tmp_path / "out", prepare=PREPARE, options=OPTIONS, device="cpu"
    )
    assert found.before is not None
    assert found.after is not None
    assert found.after < found.before
    elmo = Elmo.from_pretrained(tmp_path / "out" / "model", device="cpu")
    assert elmo.config.text == start.config.text
    assert elmo.encode_tokens([["a", "b"]])[0].shape == (2, elmo.dim)


def test_carry_over_leaves_the_rest_alone() -> None:
    old = Softmax({"weight": torch.ones(2, 3), "bias": torch.ones(2)}, ("a", "b"))
    new = Softmax({"weight": torch.zeros(3, 3), "bias": torch.zeros(3)}, ("b", "c", "a"))
    carried, number = carry_over(old, new)
    assert number == 2
    assert carried.tensors["bias"].tolist() == [1.0, 0.0, 1.0]
    np.testing.assert_array_equal(carried.tensors["weight"].sum(1), [3.0, 0.0, 3.0])


def test_interrupted_fine_tuning_goes_on(model: Path, domain: Path, tmp_path: Path) -> None:
    checkpoint = load_checkpoint(model)

    def run(out: Path, resume: bool, stop_at: str | None) -> Checkpoint:
        def say(message: str) -> None:
            if stop_at is not None and message.startswith(stop_at):
                raise KeyboardInterrupt

        finetune(
            checkpoint, [str(domain)], out, prepare=PREPARE, options=OPTIONS, resume=resume,
            device="cpu", say=say,
        )  # fmt: skip
        return load_checkpoint(out / "model")

    whole = run(tmp_path / "whole", False, None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", False, "held-out perplexity ")
    assert not (tmp_path / "cut" / "model").exists()
    resumed = run(tmp_path / "cut", True, None)
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, resumed.tensors[name]), name


def test_several_processes_are_refused(
    model: Path, domain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ElmoxError, match="runs in one process"):
        finetune(
            load_checkpoint(model),
            [str(domain)],
            tmp_path / "out",
            prepare=PREPARE,
            options=OPTIONS,
        )
