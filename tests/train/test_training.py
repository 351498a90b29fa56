"""Whole runs in this process: every loss and kind of model learns, stops, resumes and is kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpora import documents, small_corpus
from training_runs import losses, metrics, tiny_recipe

from elmox import Elmo, ElmoxError
from elmox.legacy.ai2 import write_ai2
from elmox.train.checkpoint import checkpoints
from elmox.train.corpus import Corpus, open_corpus
from elmox.train.distributed import Processes
from elmox.train.loop import train
from elmox.train.prepare import PrepareOptions, prepare_corpus
from elmox.train.recipe import Recipe
from elmox.train.start import starting_point
from elmox.train.trainer import Trainer

ALONE = Processes(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return small_corpus(tmp_path_factory.mktemp("training"))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"softmax": {"loss": "full"}},
        {"softmax": {"loss": "adaptive", "cutoffs": [50]}},
        {"optim": {"name": "adagrad", "lr": 0.2, "clip_norm": 10.0, "sum_over_steps": True}},
        {"model": {"lstm": {"cell_dim": 24, "projection_dim": 12, "bidirectional": False}}},
        {"model": {"input": "words", "word_dim": 12}},
        {"model": {"input": "both", "word_dim": 5}},
        {"train": {"rows": 8, "steps": 10, "max_steps": 30, "precision": "bfloat16"}},
    ],
    ids=["sampled", "full", "adaptive", "adagrad", "forward", "words", "both", "bfloat16"],
)
def test_every_kind_learns_and_can_be_used(
    corpus: Corpus, tmp_path: Path, parts: dict[str, dict[str, Any]]
) -> None:
    if "model" in parts:
        base = {"preset": "small", "lstm": {"cell_dim": 24, "projection_dim": 12}}
        parts = {"model": {**base, **parts["model"]}}
    recipe = tiny_recipe(corpus, **parts)
    outcome = train(recipe, tmp_path / "out", device="cpu")
    assert outcome.step == outcome.num_steps == 30
    name = "sampled_loss" if recipe.softmax.loss == "sampled" else "loss"
    found = losses(tmp_path / "out", name)
    assert len(found) == 30
    assert np.mean(found[-5:]) < np.mean(found[:5]) - 0.5
    measured = [line["perplexity"] for line in metrics(tmp_path / "out") if "perplexity" in line]
    assert len(measured) == 2
    assert outcome.best_perplexity == min(measured)
    assert outcome.perplexity == measured[-1] < corpus.vocab_size
    elmo = Elmo.from_pretrained(tmp_path / "out" / "best", device="cpu")
    assert elmo.encode_tokens([["The", "statement"]])[0].shape == (2, elmo.dim)


def test_the_loss_of_one_step_is_the_mean_of_all_positions(corpus: Corpus) -> None:
    """Full softmax, before any update: against the reference pass over each row's text."""
    recipe = tiny_recipe(corpus, softmax={"loss": "full"}, train={"rows": 2, "dropout": 0.0})
    trainer = Trainer(recipe, corpus, starting_point(recipe, corpus), ALONE)
    batches = next(trainer.batches())
    expected = _reference_loss(trainer, corpus, batches[0])
    assert trainer.advance(batches).loss == pytest.approx(expected, rel=1e-5)


def _reference_loss(trainer: Trainer, corpus: Corpus, batch: Any) -> float:
    from elmox.model.state import zero_state
    from elmox.text.chars import spell_bytes
    from elmox.text.words import WordTable

    bilm, total, count = trainer.bilm, 0.0, 0
    config = bilm.config.lstm
    for direction in range(2):
        for row in range(batch.targets.shape[2]):
            words = corpus.lexicon.words(batch.words[batch.inputs[direction, :, row]])
            vectors = bilm.token_encoder(WordTable(spell_bytes(words), None))
            # The backward network reads from the right: hand it the text mirrored.
            tokens = vectors if direction == 0 else vectors.flip(0)
            state = zero_state(config, 1, torch.device("cpu"), torch.float32)
            layers, _ = bilm(tokens, np.array([len(words)]), state)
            half = layers[-1].view(len(words), 2, -1)[:, direction]
            hidden = half if direction == 0 else half.flip(0)
            targets = torch.from_numpy(batch.targets[direction, :, row])
            total -= float(trainer.softmax.target_log_probs(hidden, targets).sum())
            count += len(targets)
    return total / count


def test_pieces_change_nothing(corpus: Corpus, tmp_path: Path) -> None:
    whole = tiny_recipe(corpus, train={"max_steps": 12})
    pieces = tiny_recipe(corpus, train={"max_steps": 12, "accumulate": 3})
    train(whole, tmp_path / "whole", device="cpu")
    train(pieces, tmp_path / "pieces", device="cpu")
    np.testing.assert_allclose(losses(tmp_path / "pieces"), losses(tmp_path / "whole"), rtol=1e-4)


def test_resuming_gives_the_very_same_losses(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(corpus)
    train(recipe, tmp_path / "whole", device="cpu")
    interrupted = tmp_path / "interrupted"
    _crash_after(17, recipe, interrupted)
    assert [path.name for path in checkpoints(interrupted / "checkpoints")] == ["step-00000010"]
    train(recipe, interrupted, resume=True, device="cpu")
    assert losses(interrupted) == losses(tmp_path / "whole")
    assert [line["step"] for line in metrics(interrupted)] == [
        line["step"] for line in metrics(tmp_path / "whole")
    ]
    names = [path.name for path in checkpoints(interrupted / "checkpoints")]
    assert names == ["step-00000020", "step-00000030"]
    mine = Elmo.from_pretrained(interrupted / "last", device="cpu").checkpoint().tensors
    theirs = Elmo.from_pretrained(tmp_path / "whole" / "last", device="cpu").checkpoint().tensors
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


class _Crash(Exception):
    pass


def _crash_after(steps: int, recipe: Recipe, out: Path) -> None:
    def say(message: str) -> None:
        if message.startswith(f"step {steps}/"):
            raise _Crash

    with pytest.raises(_Crash):
        train(recipe, out, device="cpu", say=say)


def test_resuming_a_finished_run_changes_nothing(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(corpus, train={"max_steps": 4})
    train(recipe, tmp_path / "out", device="cpu")
    before = losses(tmp_path / "out")
    outcome = train(recipe, tmp_path / "out", resume=True, device="cpu")
    assert outcome.step == 4
    assert losses(tmp_path / "out") == before


def test_resuming_what_never_began_begins(corpus: Corpus, tmp_path: Path) -> None:
    said: list[str] = []
    recipe = tiny_recipe(corpus, train={"max_steps": 2})
    train(recipe, tmp_path / "out", resume=True, device="cpu", say=said.append)
    assert "starting from the beginning" in said[0]


def test_nothing_is_overwritten(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(corpus, train={"max_steps": 2})
    train(recipe, tmp_path / "out", device="cpu")
    with pytest.raises(ElmoxError, match="is not empty: go on with --resume"):
        train(recipe, tmp_path / "out", device="cpu")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("do not touch")
    with pytest.raises(ElmoxError, match="is not empty: choose another"):
        train(recipe, tmp_path / "other", device="cpu")


def test_another_recipe_or_corpus_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(corpus, train={"max_steps": 2})
    train(recipe, tmp_path / "out", device="cpu")
    changed = replace(recipe, optim=replace(recipe.optim, lr=0.5))
    with pytest.raises(ElmoxError, match=r"another recipe: optim\.lr changed"):
        train(changed, tmp_path / "out", resume=True, device="cpu")
    (tmp_path / "more").mkdir()
    other = small_corpus(tmp_path / "more", num_documents=13)
    moved = replace(recipe, data=replace(recipe.data, dir=str(other.path)))
    with pytest.raises(ElmoxError, match="another corpus"):
        train(moved, tmp_path / "out", resume=True, device="cpu")


def test_a_loss_that_is_not_a_number_ends_the_run(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(
        corpus, optim={"lr": 1e30, "clip_norm": 0.0}, report={"save_every": 1, "log_every": 1}
    )
    with pytest.raises(ElmoxError, match=r"step \d+: the loss is (nan|inf)"):
        train(recipe, tmp_path / "out", device="cpu")
    assert all(np.isfinite(losses(tmp_path / "out")))


def test_early_stopping(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(
        corpus,
        optim={"lr": 1e-9},  # nothing gets better
        report={"eval_every": 2, "patience": 2, "log_every": 1},
    )
    still = replace(recipe, optim=replace(recipe.optim, lr=1e-30))
    outcome = train(still, tmp_path / "out", device="cpu")
    assert outcome.stopped_early
    assert outcome.step == 6  # the first evaluation is the best, two more are not better
    again = train(still, tmp_path / "out", resume=True, device="cpu")
    assert again.stopped_early
    assert again.step == 6


def test_a_trained_model_survives_the_legacy_format(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(corpus, train={"max_steps": 5})
    train(recipe, tmp_path / "out", device="cpu")
    elmo = Elmo.from_pretrained(tmp_path / "out" / "last", device="cpu")
    write_ai2(elmo.checkpoint(), tmp_path / "weights.hdf5")
    legacy = Elmo.from_pretrained(tmp_path / "weights.hdf5", device="cpu")
    sentences = [["The", "statement", "returns"], ["naïve", "words", "too", "."]]
    for mine, theirs in zip(
        elmo.encode_tokens(sentences, layers="all"),
        legacy.encode_tokens(sentences, layers="all"),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_going_on_from_a_model(corpus: Corpus, tmp_path: Path) -> None:
    first = tiny_recipe(corpus)
    before = train(first, tmp_path / "first", device="cpu")
    start = {"start": str(tmp_path / "first" / "last")}
    second = tiny_recipe(corpus, model=start, train={"max_steps": 15, "seed": 1})
    after = train(second, tmp_path / "second", device="cpu")
    assert before.perplexity is not None
    assert after.perplexity is not None
    assert after.perplexity < before.perplexity
    (tmp_path / "other").mkdir()
    other = small_corpus(tmp_path / "other", num_documents=5)
    moved = replace(second, data=replace(second.data, dir=str(other.path)))
    with pytest.raises(ElmoxError, match="predicts other words"):
        train(moved, tmp_path / "third", device="cpu")


def test_frozen_body(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(corpus, train={"max_steps": 8, "freeze": "body"})
    before = starting_point(recipe, corpus).tensors
    train(recipe, tmp_path / "out", device="cpu")
    after = Elmo.from_pretrained(tmp_path / "out" / "last", device="cpu").checkpoint().tensors
    assert all(torch.equal(before[name], after[name]) for name in before)
    found = losses(tmp_path / "out")
    assert found[-1] < found[0]


NASTY = {
    "one word": b"word\n",
    "one sentence": b"This is all there is .\n",
    "one-word sentences": b"a\nb\n\nc\n" * 5,
    "CRLF": b"a b\r\nc d\r\n\r\ne\r\n",
    "NUL bytes": b"a\x00b c\x00\n\x00\n",
    "a megabyte in a line": b"ab cde f " * 120_000 + b"\n",
    "a word of a megabyte": b"x" * 1_000_000 + b" y\n",
    "empty lines": b"\n\n \n\nword after nothing\n\n\n",
    "literal boundaries": b"<S> a </S> b <UNK>\n<S>\n",
}


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY.keys())
def test_the_strangest_texts_train(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "text.txt").write_bytes(text)
    files = [str(tmp_path / "empty.txt"), str(tmp_path / "text.txt")]
    prepare_corpus(files, tmp_path / "corpus", PrepareOptions(min_count=1), num_workers=1)
    recipe = tiny_recipe(open_corpus(tmp_path / "corpus"), train={"max_steps": 2})
    outcome = train(recipe, tmp_path / "out", device="cpu")
    assert outcome.step == 2
    assert outcome.loss is not None
    assert np.isfinite(outcome.loss)
    assert outcome.best_perplexity is None  # nothing is held out
    assert not (tmp_path / "out" / "best").exists()


def test_held_out_perplexity_is_that_of_evaluate(corpus: Corpus, tmp_path: Path) -> None:
    """The trainer's number for the held-out documents is what the finished model says of them."""
    recipe = tiny_recipe(corpus, report={"eval_rows": 256})
    outcome = train(recipe, tmp_path / "out", device="cpu")
    elmo = Elmo.from_pretrained(tmp_path / "out" / "last", device="cpu")
    held_out = [sentence for document in documents()[3:12:4] for sentence in document]
    assert elmo.evaluate(held_out).perplexity == pytest.approx(outcome.perplexity, rel=1e-5)


def test_no_corpus(tmp_path: Path, corpus: Corpus) -> None:
    recipe = tiny_recipe(corpus, data={"dir": str(tmp_path / "nowhere")})
    with pytest.raises(ElmoxError, match="expected a corpus made by `elmox prepare`"):
        train(recipe, tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()
