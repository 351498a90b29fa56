"""Training on a teacher's layers: the loss by hand, what it teaches, and exact continuation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpora import small_corpus
from training_runs import losses, metrics, tiny_recipe

from elmox.errors import ElmoxError
from elmox.model.bilm import BiLm
from elmox.model.checkpoint import build_bilm
from elmox.model.lstm import LstmLayer
from elmox.pretrained.load import load_checkpoint
from elmox.training.checkpoint import checkpoints
from elmox.training.corpus.corpus import Corpus
from elmox.training.distributed import Processes
from elmox.training.loop import train
from elmox.training.recipe import Recipe
from elmox.training.rows import Batch
from elmox.training.start import starting_point
from elmox.training.trainer import ROWS_MEASURED, Trainer

SMALL_CNN = {"filters": [[1, 8], [2, 8]], "num_highways": 1}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return small_corpus(tmp_path_factory.mktemp("distill"))


@pytest.fixture(scope="module")
def teacher(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a model that has learned a little."""
    out = tmp_path_factory.mktemp("teacher") / "run"
    train(tiny_recipe(corpus, report={"eval_every": 0}), out, device="cpu")
    return str(out / "last")


def student(corpus: Corpus, teacher: str, **parts: dict[str, Any]) -> Recipe:
    """A narrower model that learns from the teacher."""
    base: dict[str, Any] = {
        "preset": "small",
        "lstm": {"cell_dim": 12, "projection_dim": 6},
        "char_cnn": SMALL_CNN,
    }
    distill: dict[str, Any] = {"teacher": teacher, "weight": 2.0}
    return tiny_recipe(corpus, **{"model": base, "distill": distill, **parts})


def alone(recipe: Recipe, corpus: Corpus) -> Trainer:
    """A trainer in this process."""
    return Trainer(
        recipe, corpus, starting_point(recipe, corpus), Processes(0, 1, torch.device("cpu"))
    )


def reference_layers(bilm: BiLm, batch: Batch) -> torch.Tensor:
    """The layers (J, D, N, P) of one window from zero state, without dropout."""
    with torch.no_grad():
        x = bilm.token_encoder(batch.table)[torch.from_numpy(batch.inputs).long()]
        layers = [x]
        for number, layer in enumerate(bilm.lstm):
            assert isinstance(layer, LstmLayer)
            lstm = layer.config
            shape = (lstm.num_directions, x.shape[2])
            out, _, _ = layer.read_rows(
                x, torch.zeros(*shape, lstm.projection_dim), torch.zeros(*shape, lstm.cell_dim)
            )
            x = out + x if number > 0 else out
            layers.append(x)
    return torch.stack(layers).flatten(2, 3)


def test_the_loss_by_hand(corpus: Corpus, teacher: str) -> None:
    """The share of the teacher's variance that is not explained, mean over layers and positions."""
    recipe = student(corpus, teacher, train={"dropout": 0.0, "reset": 0.0})
    trainer = alone(recipe, corpus)
    assert trainer.distillation is not None
    batches = next(trainer.batches())
    (batch,) = batches
    ours = reference_layers(trainer.bilm, batch)
    bilm = build_bilm(load_checkpoint(teacher), "the teacher")
    theirs = reference_layers(bilm, batch)
    first = trainer.rows.read(0, np.arange(min(ROWS_MEASURED, recipe.train.rows)))
    variance = reference_layers(bilm, first).double().var(dim=2).mean(-1)
    maps = trainer.distillation.maps
    with torch.no_grad():
        mapped = torch.einsum("jdnp,jdpq->jdnq", ours, maps.weight) + maps.bias
    errors = (mapped - theirs).double().square().mean(-1).mean(-1)
    report = trainer.advance(batches).get()
    assert report.teacher_loss == pytest.approx(float((errors / variance).mean()), rel=1e-5)


def test_the_teacher_is_learned(corpus: Corpus, teacher: str, tmp_path: Path) -> None:
    """More of its variance is explained, and the words are learned as well."""
    train(student(corpus, teacher), tmp_path / "out", device="cpu")
    shares = [line["teacher_loss"] for line in metrics(tmp_path / "out") if "teacher_loss" in line]
    assert np.mean(shares[-3:]) < 0.7 * shares[0]
    words = losses(tmp_path / "out")
    assert np.mean(words[-3:]) < words[0] - 0.3
    tensors = load_checkpoint(tmp_path / "out" / "last").tensors
    assert not [name for name in tensors if "distill" in name or "teacher" in name]


def test_it_continues_bit_by_bit_and_in_pieces(
    corpus: Corpus, teacher: str, tmp_path: Path
) -> None:
    short = {"max_steps": 8, "reset": 0.2}
    report = {"eval_every": 0, "save_every": 5}
    recipe = student(corpus, teacher, train=short, report=report)
    train(recipe, tmp_path / "whole", device="cpu")
    train(
        student(corpus, teacher, train={**short, "max_steps": 5}, report=report),
        tmp_path / "out",
        device="cpu",
    )
    assert len(checkpoints(tmp_path / "out" / "checkpoints")) == 1
    train(recipe, tmp_path / "out", resume=True, device="cpu")
    for name in ("sampled_loss", "teacher_loss"):
        assert losses(tmp_path / "out", name) == losses(tmp_path / "whole", name)
    pieces = student(corpus, teacher, train={**short, "accumulate": 3}, report=report)
    train(pieces, tmp_path / "pieces", device="cpu")
    np.testing.assert_allclose(
        losses(tmp_path / "pieces", "teacher_loss"),
        losses(tmp_path / "whole", "teacher_loss"),
        rtol=1e-4,
    )


def test_another_teacher_is_another_recipe(corpus: Corpus, teacher: str, tmp_path: Path) -> None:
    short, report = {"max_steps": 2}, {"eval_every": 0}
    train(student(corpus, teacher, train=short, report=report), tmp_path / "out", device="cpu")
    plain = student(corpus, "", train=short, report=report)
    with pytest.raises(ElmoxError, match=r"distill\.teacher changed"):
        train(plain, tmp_path / "out", resume=True, device="cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lstm": {"cell_dim": 12, "projection_dim": 6, "num_layers": 3}}, r"lstm\.num_layers 2"),
        ({"lstm": {"bidirectional": False}}, r"lstm\.bidirectional True and the model False"),
        ({"char_cnn": {"max_characters": 20}}, r"char_cnn\.max_characters 50 and the model 20"),
        ({"input": "words"}, "must both read characters"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused(
    corpus: Corpus, teacher: str, changes: dict[str, Any], message: str
) -> None:
    base = {"preset": "small", "lstm": {"cell_dim": 12, "projection_dim": 6}, "char_cnn": SMALL_CNN}
    recipe = student(corpus, teacher, model={**base, **changes})
    with pytest.raises(ElmoxError, match=message):
        alone(recipe, corpus)


def test_a_frozen_body_cannot_learn_from_a_teacher(corpus: Corpus, teacher: str) -> None:
    with pytest.raises(ElmoxError, match=r"train\.freeze is body and distill\.teacher is set"):
        student(corpus, teacher, train={"freeze": "body"})
