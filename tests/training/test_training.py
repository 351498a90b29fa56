"""Whole runs in this process: every loss and kind of model learns, stops, resumes, is saved."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpora import documents, small_corpus
from training_runs import losses, metrics, tiny_recipe

from elmox import Elmo, ElmoxError
from elmox.io.tensors import read_tensors, write_tensors
from elmox.model.state import LstmState
from elmox.pretrained.ai2 import write_ai2
from elmox.pretrained.load import load_checkpoint
from elmox.training.checkpoint import checkpoints
from elmox.training.corpus.corpus import Corpus, open_corpus
from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus
from elmox.training.distributed import Processes
from elmox.training.loop import train
from elmox.training.plan import plan
from elmox.training.recipe import Recipe
from elmox.training.start import starting_point
from elmox.training.trainer import Trainer

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
    reported = losses(tmp_path / "out", name)
    assert len(reported) == 30
    assert np.mean(reported[-5:]) < np.mean(reported[:5]) - 0.5
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
    assert trainer.advance(batches).get().loss == pytest.approx(expected, rel=1e-5)


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


def test_resuming_gives_bit_identical_losses(corpus: Corpus, tmp_path: Path) -> None:
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
    actual = Elmo.from_pretrained(interrupted / "last", device="cpu").checkpoint().tensors
    expected_values = (
        Elmo.from_pretrained(tmp_path / "whole" / "last", device="cpu").checkpoint().tensors
    )
    assert all(torch.equal(actual[name], expected_values[name]) for name in expected_values)


class _Crash(Exception):
    pass


def _crash_after(steps: int, recipe: Recipe, out: Path) -> None:
    def log(message: str) -> None:
        if message.startswith(f"step {steps}/"):
            raise _Crash

    with pytest.raises(_Crash):
        train(recipe, out, device="cpu", log=log)


def _stop_at(steps: int, recipe: Recipe, out: Path) -> None:
    """Send a signal while step number `steps` is computed."""

    def log(message: str) -> None:
        if message.startswith(f"step {steps - 1}/"):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)  # its launcher passed it on: still one signal

    outcome = train(recipe, out, device="cpu", log=log)
    assert outcome.signal == signal.SIGTERM
    assert outcome.step == steps


@pytest.mark.parametrize("steps", [14, 15, 30], ids=["any step", "evaluation", "last step"])
def test_a_run_stopped_at_any_step_gives_the_same_reports(
    corpus: Corpus, tmp_path: Path, steps: int
) -> None:
    """Evaluations included: the same reports in the same order, the same best model."""
    recipe = tiny_recipe(corpus)
    expected = train(recipe, tmp_path / "whole", device="cpu")
    _stop_at(steps, recipe, tmp_path / "stopped")
    outcome = train(recipe, tmp_path / "stopped", resume=True, device="cpu")
    assert outcome.best_perplexity == expected.best_perplexity
    assert outcome.perplexity == expected.perplexity
    names = ("step", "sampled_loss", "perplexity", "lr")
    actual, expected_values = (
        [[line.get(name) for name in names] for line in metrics(tmp_path / folder)]
        for folder in ("stopped", "whole")
    )
    assert actual == expected_values
    best = [load_checkpoint(tmp_path / name / "best").tensors for name in ("stopped", "whole")]
    assert all(torch.equal(best[0][name], best[1][name]) for name in best[1])


def test_reports_over_several_steps_survive_a_crash(corpus: Corpus, tmp_path: Path) -> None:
    """The mean since the last report, also with a checkpoint in between."""
    recipe = tiny_recipe(corpus, report={"log_every": 4, "save_every": 5})
    train(recipe, tmp_path / "whole", device="cpu")
    _crash_after(16, recipe, tmp_path / "crashed")
    train(recipe, tmp_path / "crashed", resume=True, device="cpu")
    assert losses(tmp_path / "crashed") == losses(tmp_path / "whole")


def test_settings_that_may_change_during_a_run(corpus: Corpus, tmp_path: Path) -> None:
    """The number of pieces, and with a constant rate the length."""
    recipe = tiny_recipe(corpus)
    train(recipe, tmp_path / "whole", device="cpu")
    short = tiny_recipe(corpus, train={"max_steps": 12})
    train(short, tmp_path / "out", device="cpu")
    longer = tiny_recipe(corpus, train={"accumulate": 2})
    outcome = train(longer, tmp_path / "out", resume=True, device="cpu")
    assert outcome.step == 30
    actual = {
        line["step"]: line["sampled_loss"] for line in metrics(tmp_path / "out") if "lr" in line
    }
    expected_values = losses(tmp_path / "whole")
    np.testing.assert_allclose([actual[step + 1] for step in range(30)], expected_values, rtol=1e-4)
    cosine = {"schedule": "cosine"}
    train(tiny_recipe(corpus, optim=cosine, train={"max_steps": 4}), tmp_path / "c", device="cpu")
    with pytest.raises(ElmoxError, match=r"train\.max_steps changed"):
        train(tiny_recipe(corpus, optim=cosine), tmp_path / "c", resume=True, device="cpu")


def test_a_run_may_change_its_length_before_the_decay(corpus: Corpus, tmp_path: Path) -> None:
    """The losses are those of a run of this length; in the decay it is refused."""
    wsd = {"schedule": "wsd", "decay_steps": 6}
    train(tiny_recipe(corpus, optim=wsd), tmp_path / "whole", device="cpu")
    stable = {"schedule": "wsd", "decay_steps": 0}
    train(
        tiny_recipe(corpus, optim=stable, train={"max_steps": 12}), tmp_path / "out", device="cpu"
    )
    assert train(tiny_recipe(corpus, optim=wsd), tmp_path / "out", resume=True, device="cpu").step
    assert losses(tmp_path / "out") == losses(tmp_path / "whole")
    longer = tiny_recipe(corpus, optim=wsd, train={"max_steps": 40})
    with pytest.raises(ElmoxError, match="a run in its decay cannot become longer"):
        train(longer, tmp_path / "out", resume=True, device="cpu")


def test_a_run_limited_in_time_ends_with_its_decay(corpus: Corpus, tmp_path: Path) -> None:
    """Over an interruption too; the end, once set, is part of the checkpoints."""
    settings: dict[str, dict[str, Any]] = {
        "optim": {"schedule": "wsd", "decay_steps": 20},
        "train": {"max_steps": 10**6, "max_hours": 3 / 3600},
        "report": {"log_every": 5, "eval_every": 0, "save_every": 7},
    }
    recipe, out = tiny_recipe(corpus, **settings), tmp_path / "out"
    outcome = train(recipe, out, device="cpu")
    assert outcome.step == outcome.num_steps < 10**6
    reports = [line for line in metrics(out) if "lr" in line]
    stable = [line for line in reports if line["lr"] == recipe.optim.lr]
    decay = outcome.step - stable[-1]["step"]
    assert 19 <= decay < 19 + recipe.report.log_every
    assert reports[-1]["lr"] == pytest.approx(recipe.optim.lr / 20)
    assert 0.5 < reports[-1]["seconds"] < 6
    shutil.rmtree(checkpoints(out / "checkpoints")[-1])  # as if killed in the decay
    again = train(recipe, out, resume=True, device="cpu")
    assert again.step == again.num_steps == outcome.step
    assert [line for line in metrics(out) if "lr" in line][-1]["lr"] == reports[-1]["lr"]


def test_a_time_limit_needs_a_schedule_that_can_end(corpus: Corpus) -> None:
    settings: dict[str, dict[str, Any]] = {
        "optim": {"schedule": "cosine"},
        "train": {"max_hours": 1.0},
    }
    with pytest.raises(ElmoxError, match=r"optim\.schedule cosine.* choose wsd or constant"):
        tiny_recipe(corpus, **settings)


def test_resuming_never_starts_over_if_there_was_a_run(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(corpus, train={"max_steps": 2})
    train(recipe, tmp_path / "out", device="cpu")
    shutil.rmtree(tmp_path / "out" / "checkpoints")
    with pytest.raises(ElmoxError, match="checkpoints are gone"):
        train(recipe, tmp_path / "out", resume=True, device="cpu")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("do not touch")
    with pytest.raises(ElmoxError, match="is not the directory of a run"):
        train(recipe, tmp_path / "other", resume=True, device="cpu")


def test_a_restart_continues_only_its_own_run(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe(corpus, train={"max_steps": 2})
    train(recipe, tmp_path / "out", device="cpu")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    train(recipe, tmp_path / "out", device="cpu")  # started by the same parent
    (tmp_path / "out" / ".launch").write_text("another torchrun")
    with pytest.raises(ElmoxError, match="holds a run already: continue it with resume=True"):
        train(recipe, tmp_path / "out", device="cpu")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("do not touch")
    for attempt in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
        with pytest.raises(ElmoxError, match="is not empty: choose another directory"):
            train(recipe, tmp_path / "other", device="cpu")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["train-00000.npy", "counts.npy"])
def test_a_changed_corpus_is_refused(name: str, tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)
    recipe = tiny_recipe(corpus, train={"max_steps": 2})
    train(recipe, tmp_path / "out", device="cpu")
    content = bytearray((corpus.path / name).read_bytes())
    content[-8] ^= 1
    (corpus.path / name).write_bytes(content)
    with pytest.raises(ElmoxError, match=f"{name} has another checksum than when it was made"):
        train(recipe, tmp_path / "out", resume=True, device="cpu")
    with pytest.raises(ElmoxError, match=f"{name} has another checksum than when it was made"):
        train(recipe, tmp_path / "new", device="cpu")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ElmoxError, match=f"{name} has another checksum than when it was made"):
        plan(recipe, device="cpu")
    train(recipe, tmp_path / "new", device="cpu", verify=False)


@pytest.mark.parametrize("resume", [False, True])
def test_a_kill_while_the_first_file_is_written(
    resume: bool, corpus: Corpus, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in (".launch", ".recipe.toml.tmp-0123abcd.toml"):
        (out / name).write_text("half")
    recipe = tiny_recipe(corpus, train={"max_steps": 2})
    assert train(recipe, out, resume=resume, device="cpu").step == 2
    assert not list(out.glob("*.tmp-*"))
    with pytest.raises(ElmoxError, match="holds a run already: continue it with resume=True"):
        train(recipe, out, device="cpu")


def test_a_checkpoint_too_many_is_removed(corpus: Corpus, tmp_path: Path) -> None:
    """Killed between writing the newest and removing the oldest."""
    recipe, out = tiny_recipe(corpus), tmp_path / "out"
    train(recipe, out, device="cpu")
    kept = [path.name for path in checkpoints(out / "checkpoints")]
    shutil.copytree(out / "checkpoints" / kept[0], out / "checkpoints" / "step-00000001")
    train(recipe, out, resume=True, device="cpu")
    assert sorted(os.listdir(out / "checkpoints")) == kept


def test_leftovers_of_a_kill_are_removed(corpus: Corpus, tmp_path: Path) -> None:
    recipe, out = tiny_recipe(corpus), tmp_path / "out"
    _crash_after(17, recipe, out)
    half = out / "checkpoints" / ".step-00000020.tmp-00aabbcc"
    half.mkdir()
    (half / "trainer.safetensors").write_bytes(b"half")
    # Killed between the two renames of a replacement: the old model is in the hidden directory.
    (out / "best").rename(out / ".best.old-00aabbcc")
    _crash_after_resuming(recipe, out)
    assert not list(out.glob(".best*"))
    assert not list((out / "checkpoints").glob(".*"))
    assert Elmo.from_pretrained(out / "best", device="cpu").dim == 24


def _crash_after_resuming(recipe: Recipe, out: Path) -> None:
    def log(message: str) -> None:
        if message.startswith("step "):
            raise _Crash

    with pytest.raises(_Crash):
        train(recipe, out, device="cpu", log=log, resume=True)


def test_a_damaged_checkpoint_names_the_one_before(corpus: Corpus, tmp_path: Path) -> None:
    recipe, out = tiny_recipe(corpus), tmp_path / "out"
    train(recipe, out, device="cpu")
    newest = checkpoints(out / "checkpoints")[-1]
    content = (newest / "trainer.safetensors").read_bytes()
    (newest / "trainer.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(ElmoxError, match="remove it to continue from step-00000020"):
        train(recipe, out, resume=True, device="cpu")
    shutil.rmtree(newest)
    assert train(recipe, out, resume=True, device="cpu").step == 30


def test_a_checkpoint_without_an_array_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    recipe, out = tiny_recipe(corpus, train={"max_steps": 2}), tmp_path / "out"
    train(recipe, out, device="cpu")
    path = checkpoints(out / "checkpoints")[-1] / "trainer.safetensors"
    tensors = read_tensors(path)
    del tensors["optim.softmax.bias.mean"]
    write_tensors(tensors, path)
    with pytest.raises(ElmoxError, match="another checksum"):
        train(recipe, out, resume=True, device="cpu")
    (path.parent / "checksums.json").unlink()
    with pytest.raises(ElmoxError, match=r"lacks optim\.softmax\.bias\.mean"):
        train(recipe, out, resume=True, device="cpu")


def test_metrics_damaged_by_a_crash(corpus: Corpus, tmp_path: Path) -> None:
    recipe, out = tiny_recipe(corpus), tmp_path / "out"
    train(recipe, tmp_path / "whole", device="cpu")
    _crash_after(17, recipe, out)
    with (out / "metrics.jsonl").open("ab") as file:
        file.write(b"\x00\x00\xff\n{}\n7\n" + b'{"step": 18, "sampled')
    train(recipe, out, resume=True, device="cpu")
    assert losses(out) == losses(tmp_path / "whole")


def test_a_text_shorter_than_a_step_gives_a_warning(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a b c\n", encoding="utf-8")
    options = PrepareOptions(tokenized=True, min_count=1)
    prepare_corpus([str(tmp_path / "t.txt")], tmp_path / "c", options, num_workers=1)
    messages: list[str] = []
    recipe = tiny_recipe(open_corpus(tmp_path / "c"), train={"max_steps": 1})
    train(recipe, tmp_path / "out", device="cpu", log=messages.append)
    assert "reads the text 20.0 times" in messages[0]
    assert metrics(tmp_path / "out")[0]["epoch"] == 20.0


def test_out_of_memory_has_advice(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(corpus, train={"rows": 10**6, "steps": 10**5, "max_steps": 1})
    with pytest.raises(ElmoxError, match=r"out of memory: raise train\.accumulate"):
        train(recipe, tmp_path / "out", device="cpu")


def test_resuming_a_finished_run_changes_nothing(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(corpus, train={"max_steps": 4})
    train(recipe, tmp_path / "out", device="cpu")
    before = losses(tmp_path / "out")
    outcome = train(recipe, tmp_path / "out", resume=True, device="cpu")
    assert outcome.step == 4
    assert losses(tmp_path / "out") == before


def test_resuming_without_a_run_starts_one(corpus: Corpus, tmp_path: Path) -> None:
    messages: list[str] = []
    recipe = tiny_recipe(corpus, train={"max_steps": 2})
    train(recipe, tmp_path / "out", resume=True, device="cpu", log=messages.append)
    assert "starting from the beginning" in messages[0]


def test_nothing_is_overwritten(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(corpus, train={"max_steps": 2})
    train(recipe, tmp_path / "out", device="cpu")
    with pytest.raises(ElmoxError, match="holds a run already: continue it with resume=True"):
        train(recipe, tmp_path / "out", device="cpu")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("do not touch")
    with pytest.raises(ElmoxError, match="is not empty: choose another"):
        train(recipe, tmp_path / "other", device="cpu")


def test_another_recipe_or_corpus_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(corpus, train={"max_steps": 2})
    train(recipe, tmp_path / "out", device="cpu")
    changed = replace(recipe, optim=replace(recipe.optim, lr=0.5))
    with pytest.raises(ElmoxError, match=r"another recipe \(optim\.lr changed\)"):
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
    for path in (tmp_path / "out").rglob("*.safetensors"):
        assert all(tensor.isfinite().all() for tensor in read_tensors(path).values())


def test_after_a_step_that_is_not_finite_nothing_is_updated(corpus: Corpus) -> None:
    """Not even by steps that were queued before the result was read."""
    recipe = tiny_recipe(corpus)
    trainer = Trainer(recipe, corpus, starting_point(recipe, corpus), ALONE)
    batches = trainer.batches()
    first = trainer.advance(next(batches))
    good = {name: tensor.clone() for name, tensor in trainer.tensors().items()}
    state = trainer.state
    trainer.state = LstmState(state.hidden * torch.nan, state.cell)
    second = trainer.advance(next(batches))
    trainer.state = state
    third = trainer.advance(next(batches))
    assert first.get().step == 1
    with pytest.raises(ElmoxError, match="step 2: the loss is nan"):
        second.get()
    assert third.get().step == 3  # finite, but too late
    for name, tensor in trainer.tensors().items():
        if not name.startswith("state."):
            assert torch.equal(tensor, good[name])


def test_the_time_of_reading_reports_changes_nothing(corpus: Corpus, tmp_path: Path) -> None:
    """At every step, or one step late if nothing needs it."""
    often = {"log_every": 1, "save_every": 15, "eval_every": 0}
    seldom = {**often, "log_every": 15}
    for name, report in (("often", often), ("seldom", seldom)):
        recipe = tiny_recipe(corpus, report=report, train={"reset": 0.2})
        train(recipe, tmp_path / name, device="cpu")
    by_step = losses(tmp_path / "often")
    means = [np.mean(by_step[:15]), np.mean(by_step[15:])]
    np.testing.assert_allclose(losses(tmp_path / "seldom"), means, rtol=1e-12)
    actual, expected_values = (
        read_tensors(checkpoints(tmp_path / name / "checkpoints")[0] / "trainer.safetensors")
        for name in ("often", "seldom")
    )
    assert all(torch.equal(actual[name], expected_values[name]) for name in actual)


def test_a_signal_between_reports_ends_the_run_at_the_next_step(
    corpus: Corpus, tmp_path: Path
) -> None:
    """It takes effect one step late; the resumed run equals an undisturbed one."""
    report = {"log_every": 10, "save_every": 30, "eval_every": 0}
    recipe = tiny_recipe(corpus, report=report)
    train(recipe, tmp_path / "whole", device="cpu")

    def log(message: str) -> None:
        if message.startswith("step 10/"):
            os.kill(os.getpid(), signal.SIGTERM)

    outcome = train(recipe, tmp_path / "stopped", device="cpu", log=log)
    assert outcome.signal == signal.SIGTERM
    assert outcome.step == 12
    assert checkpoints(tmp_path / "stopped" / "checkpoints")[-1].name == "step-00000012"
    train(recipe, tmp_path / "stopped", resume=True, device="cpu")
    assert losses(tmp_path / "stopped") == losses(tmp_path / "whole")


def test_weights_that_are_not_finite_are_not_saved(corpus: Corpus) -> None:
    recipe = tiny_recipe(corpus)
    trainer = Trainer(recipe, corpus, starting_point(recipe, corpus), ALONE)
    trainer.check_finite()
    with torch.no_grad():
        next(trainer.softmax.parameters())[-1] = torch.inf
    with pytest.raises(ElmoxError, match=r"softmax\.weight is no longer finite"):
        trainer.check_finite()


def test_early_stopping(corpus: Corpus, tmp_path: Path) -> None:
    recipe = tiny_recipe(
        corpus,
        optim={"lr": 1e-9},  # nothing improves
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
    for actual, expected_values in zip(
        elmo.encode_tokens(sentences, layers="all"),
        legacy.encode_tokens(sentences, layers="all"),
        strict=True,
    ):
        np.testing.assert_array_equal(actual, expected_values)


def test_starting_from_a_model(corpus: Corpus, tmp_path: Path) -> None:
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
    reported = losses(tmp_path / "out")
    assert reported[-1] < reported[0]


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
def test_unusual_texts_train(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "text.txt").write_bytes(text)
    files = [str(tmp_path / "empty.txt"), str(tmp_path / "text.txt")]
    prepare_corpus(
        files, tmp_path / "corpus", PrepareOptions(tokenized=True, min_count=1), num_workers=1
    )
    recipe = tiny_recipe(open_corpus(tmp_path / "corpus"), train={"max_steps": 2})
    outcome = train(recipe, tmp_path / "out", device="cpu")
    assert outcome.step == 2
    assert outcome.loss is not None
    assert np.isfinite(outcome.loss)
    assert outcome.best_perplexity is None  # nothing is held out
    assert not (tmp_path / "out" / "best").exists()


def test_held_out_perplexity_is_that_of_evaluate(corpus: Corpus, tmp_path: Path) -> None:
    """The trainer and the finished model give the held-out documents the same perplexity."""
    recipe = tiny_recipe(corpus, report={"eval_rows": 256})
    outcome = train(recipe, tmp_path / "out", device="cpu")
    elmo = Elmo.from_pretrained(tmp_path / "out" / "last", device="cpu")
    held_out = [sentence for document in documents()[3:12:4] for sentence in document]
    assert elmo.evaluate(held_out).perplexity == pytest.approx(outcome.perplexity, rel=1e-5)


def test_no_corpus(tmp_path: Path, corpus: Corpus) -> None:
    recipe = tiny_recipe(corpus, data={"dir": str(tmp_path / "nowhere")})
    expected = (
        "nowhere does not exist, expected a corpus made by `elmox prepare`: .* data.dir='DIR'"
    )
    with pytest.raises(ElmoxError, match=expected):
        train(recipe, tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()
