"""Fine-tuning: vocabularies, results, reports, interruptions."""

import gc
import json
import os
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import random_options, write_many_langs, write_word_model
from corpora import small_corpus, write_documents
from shell import assert_one_line, run_here
from training_runs import tiny_recipe

from elmox import Elmo
from elmox.errors import ElmoxError
from elmox.model.checkpoint import Checkpoint, Softmax
from elmox.model.softmax import AdaptiveSoftmax
from elmox.pretrained.ai2 import write_ai2
from elmox.pretrained.load import load_checkpoint
from elmox.training.corpus.prepare import PrepareOptions
from elmox.training.finetune import FinetuneOptions, carry_over, finetune
from elmox.training.loop import train
from elmox.training.optim import Optimizer
from elmox.training.trainer import Trainer

OPTIONS = FinetuneOptions(epochs=1, softmax_epochs=1, lr=0.01, softmax_lr=0.02, rows=8, steps=10)
QUICK = replace(OPTIONS, epochs=0.05, softmax_epochs=0.05)  # ten steps
PREPARE = PrepareOptions(tokenized=True, hold_out=3, min_count=2)


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


def test_a_model_with_a_softmax_keeps_its_words(
    model: Path, domain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages: list[str] = []
    before = load_checkpoint(model)
    out = tmp_path / "out"
    report = finetune(
        before,
        [str(domain)],
        out,
        prepare=PREPARE,
        options=OPTIONS,
        device="cpu",
        log=messages.append,
    )
    assert report.before is not None
    assert report.after is not None
    assert report.after < 0.9 * report.before
    assert not report.new_softmax
    assert any("memorizes them" in message for message in messages)  # a few thousand words
    after = load_checkpoint(out / "model")
    assert after.softmax is not None
    assert before.softmax is not None
    assert after.softmax.vocab == before.softmax.vocab
    assert any((after.tensors[n] != before.tensors[n]).any() for n in before.tensors)
    assert json.loads((out / "report.json").read_text())["after"] == report.after
    code, _, err = run_here(
        ["eval", out / "model", domain, "--tokenized", "--json", "--device", "cpu"], capsys
    )
    assert code == 0, err


def test_the_result_is_never_worse_than_the_start(
    model: Path, domain: Path, tmp_path: Path
) -> None:
    """With a learning rate that destroys the model, the result is the model it started from."""
    before, out = load_checkpoint(model), tmp_path / "out"
    wild = replace(QUICK, lr=3.0)
    report = finetune(before, [str(domain)], out, prepare=PREPARE, options=wild, device="cpu")
    assert report.before is not None
    assert report.after is not None
    assert report.after > report.before
    assert not report.improved
    after = load_checkpoint(out / "model")
    assert all((after.tensors[n] == before.tensors[n]).all() for n in before.tensors)
    assert json.loads((out / "report.json").read_text())["improved"] is False


@pytest.mark.parametrize(("lr", "improves"), [(0.01, True), (3.0, False)])
def test_the_output_states_before_and_after(
    lr: float,
    improves: bool,
    model: Path,
    domain: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["finetune", model, domain, "--tokenized", "--out", tmp_path / "out", "--lr", lr]
    code, out, err = run_here(
        [*arguments, "--hold-out", 3, "--epochs", 0.5, "--device", "cpu"], capsys
    )
    assert code == 0, err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["improved"] is improves
    assert out == (
        f"perplexity before {report['before']:.2f}, after {report['after']:.2f}\n"
        f"{tmp_path / 'out' / 'model'}\n"
    )
    assert ("the result is the model it started from" in err) is not improves


def test_a_legacy_file_gets_a_softmax_first(
    model: Path, domain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ai2(replace(load_checkpoint(model), softmax=None), tmp_path / "weights.hdf5")
    out, hdf5 = tmp_path / "out", tmp_path / "tuned.hdf5"
    arguments: list[object] = [
        "finetune", tmp_path / "weights.hdf5", domain, "--tokenized", "--out", out, "--hold-out", 3,
        "--min-count", 2, "--softmax-epochs", 1, "--lr", 0.01, "--hdf5", hdf5, "--device", "cpu",
        "--json",
    ]  # fmt: skip
    code, out_text, err = run_here(arguments, capsys)
    assert code == 0, err
    report = json.loads(out_text)
    assert report["new_softmax"]
    assert report["num_carried"] == 0
    assert report["after"] < report["before"]
    # The body did not change while the softmax was trained.
    legacy, frozen = (
        load_checkpoint(tmp_path / "weights.hdf5"),
        load_checkpoint(out / "softmax/best"),
    )
    for name, tensor in legacy.tensors.items():
        assert torch.equal(tensor, frozen.tensors[name]), name
    tuned, back = load_checkpoint(out / "model"), load_checkpoint(hdf5)
    for name, tensor in tuned.tensors.items():
        assert torch.equal(tensor, back.tensors[name]), name
    again = run_here(
        ["finetune", model, domain, "--tokenized", "--out", out, "--device", "cpu"], capsys
    )
    message = f"{out} holds a run already: continue it with --resume, or choose another directory"
    assert_one_line(*again, message)


def test_a_new_vocabulary_carries_rows_over(model: Path, domain: Path, tmp_path: Path) -> None:
    before = load_checkpoint(model)
    assert before.softmax is not None
    options = replace(QUICK, new_vocab=True)
    report = finetune(
        before, [str(domain)], tmp_path / "out", prepare=PREPARE, options=options, device="cpu"
    )
    assert report.new_softmax
    start = load_checkpoint(tmp_path / "out" / "start")
    assert start.softmax is not None
    assert start.softmax.vocab != before.softmax.vocab
    common = set(start.softmax.vocab) & set(before.softmax.vocab)
    assert report.num_carried == len(common) > 50
    for word in sorted(common)[:20]:
        new_id, old_id = start.softmax.vocab.index(word), before.softmax.vocab.index(word)
        for name in ("weight", "bias"):
            assert torch.equal(
                start.softmax.tensors[name][new_id], before.softmax.tensors[name][old_id]
            )


@pytest.fixture(scope="module")
def adaptive(model: Path) -> Checkpoint:
    """The model with an adaptive softmax, not trained."""
    start = load_checkpoint(model)
    assert start.softmax is not None
    vocab = start.softmax.vocab
    layer = AdaptiveSoftmax(len(vocab), start.config.lstm.projection_dim, (50,))
    layer.init(torch.Generator().manual_seed(0))
    return replace(start, softmax=Softmax(layer.state_dict(), vocab))


def test_an_adaptive_softmax_is_kept(adaptive: Checkpoint, domain: Path, tmp_path: Path) -> None:
    out, hdf5 = tmp_path / "out", tmp_path / "tuned.hdf5"
    arguments: dict[str, Any] = {"prepare": PREPARE, "options": QUICK, "device": "cpu"}
    # It is refused before training, because AI2's format cannot hold it.
    with pytest.raises(ElmoxError, match=r"leave out hdf5, .*softmax is adaptive"):
        finetune(adaptive, [str(domain)], out, hdf5=hdf5, **arguments)
    assert not (out / "run").exists()
    assert not hdf5.exists()
    report = finetune(adaptive, [str(domain)], out, resume=True, **arguments)
    assert not report.new_softmax
    assert report.before is not None
    assert report.after is not None
    assert report.after < report.before
    tuned = load_checkpoint(out / "model").softmax
    assert tuned is not None
    assert "layer.head.weight" in tuned.tensors


def test_a_new_vocabulary_replaces_an_adaptive_softmax(
    adaptive: Checkpoint, domain: Path, tmp_path: Path
) -> None:
    options = replace(QUICK, new_vocab=True)
    out, hdf5 = tmp_path / "out", tmp_path / "tuned.hdf5"
    report = finetune(
        adaptive, [str(domain)], out, prepare=PREPARE, options=options, hdf5=hdf5, device="cpu"
    )
    assert (report.new_softmax, report.num_carried) == (True, 0)
    tuned, back = load_checkpoint(out / "model").softmax, load_checkpoint(hdf5).softmax
    assert tuned is not None
    assert back is not None
    assert torch.equal(tuned.tensors["weight"], back.tensors["weight"])


def test_training_refuses_a_model_that_ai2_files_cannot_store(domain: Path, tmp_path: Path) -> None:
    start = load_checkpoint(write_many_langs(tmp_path / "model", "char", np.random.default_rng(0)))
    arguments: dict[str, Any] = {"prepare": PREPARE, "options": QUICK, "device": "cpu"}
    hdf5 = tmp_path / "tuned.hdf5"
    with pytest.raises(ElmoxError, match=r"leave out hdf5, .*ELMoForManyLangs"):
        finetune(start, [str(domain)], tmp_path / "out", hdf5=hdf5, **arguments)
    assert not (tmp_path / "out" / "softmax").exists()
    (tmp_path / "tuned_vocab.txt").touch()
    with pytest.raises(ElmoxError, match=r"tuned_vocab\.txt exists already: .* for hdf5"):
        finetune(start, [str(domain)], tmp_path / "other", hdf5=hdf5, **arguments)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("kind", ["many_langs", "words"])
def test_models_with_other_inputs(kind: str, domain: Path, tmp_path: Path) -> None:
    """An inventory of code points, and an input vocabulary, with other names of boundaries."""
    rng = np.random.default_rng(0)
    if kind == "many_langs":
        path = write_many_langs(tmp_path / "model", "word_char", rng)
        start = load_checkpoint(path)
    else:
        weights = write_word_model(tmp_path / "model", random_options(), rng)
        start = load_checkpoint(weights, vocab=weights.parent / "vocab.txt")
    options = replace(OPTIONS, softmax_epochs=0.2)
    report = finetune(
        start, [str(domain)], tmp_path / "out", prepare=PREPARE, options=options, device="cpu"
    )
    assert report.before is not None
    assert report.after is not None
    assert report.after < report.before
    elmo = Elmo.from_pretrained(tmp_path / "out" / "model", device="cpu")
    assert elmo.config.text == start.config.text
    assert elmo.encode_tokens([["a", "b"]])[0].shape == (2, elmo.dim)


def test_carry_over_changes_no_other_rows() -> None:
    old = Softmax({"weight": torch.ones(2, 3), "bias": torch.ones(2)}, ("a", "b"))
    new = Softmax({"weight": torch.zeros(3, 3), "bias": torch.zeros(3)}, ("b", "c", "a"))
    carried, number = carry_over(old, new)
    assert number == 2
    assert carried.tensors["bias"].tolist() == [1.0, 0.0, 1.0]
    np.testing.assert_array_equal(carried.tensors["weight"].sum(1), [3.0, 0.0, 3.0])


def test_interrupted_fine_tuning_is_resumed(model: Path, domain: Path, tmp_path: Path) -> None:
    checkpoint, options = load_checkpoint(model), replace(OPTIONS, epochs=0.4)
    messages: list[str] = []

    def run(out: Path, resume: bool, stop_at: str | None) -> Checkpoint:
        def log(message: str) -> None:
            messages.append(message)
            if stop_at is not None and message.startswith(stop_at):
                raise KeyboardInterrupt

        finetune(
            checkpoint, [str(domain)], out, prepare=PREPARE, options=options, resume=resume,
            device="cpu", log=log,
        )  # fmt: skip
        return load_checkpoint(out / "model")

    whole = run(tmp_path / "whole", False, None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", False, "step 60/")  # after a checkpoint
    assert not (tmp_path / "cut" / "model").exists()
    resumed = run(tmp_path / "cut", True, None)
    assert any(message.startswith("resuming from") for message in messages)
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, resumed.tensors[name]), name


class Call:
    """A call of `finetune` that can be varied, and that stops when the text is prepared."""

    def __init__(self, model: Checkpoint, domain: Path, out: Path) -> None:
        self.out = out
        self._usual: dict[str, Any] = {
            "model": model,
            "texts": [str(domain)],
            "prepare": PREPARE,
            "options": QUICK,
        }

    def again(self, resume: bool = True, **changes: Any) -> None:
        def log(message: str) -> None:
            raise KeyboardInterrupt

        finetune(**{**self._usual, **changes}, out=self.out, resume=resume, device="cpu", log=log)


def test_resuming_with_other_arguments_is_refused(
    model: Path, domain: Path, tmp_path: Path
) -> None:
    start = load_checkpoint(model)
    call = Call(start, domain, tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        call.again(resume=False)
    with pytest.raises(KeyboardInterrupt):  # the same arguments
        call.again()
    name = min(start.tensors)
    other = {**start.tensors, name: start.tensors[name] + 1e-3}
    assert start.softmax is not None
    words = tuple(reversed(start.softmax.vocab))
    changes: dict[str, dict[str, Any]] = {
        "texts": {"texts": ["another.txt"]},
        "lr": {"options": replace(QUICK, lr=0.02)},
        "hold_out, min_count": {"prepare": PrepareOptions(tokenized=True, hold_out=4, min_count=1)},
        "model": {"model": replace(start, tensors=other)},
        "softmax_vocab": {"model": replace(start, softmax=Softmax(start.softmax.tensors, words))},
        "softmax, softmax_vocab": {"model": replace(start, softmax=None)},
    }
    for names, change in changes.items():
        with pytest.raises(ElmoxError, match=rf"out was started with other values of {names}: "):
            call.again(**change)


def test_resuming_with_another_text_of_the_same_name(
    model: Path, domain: Path, tmp_path: Path
) -> None:
    """Also if its size and its time are the same; without the text, the prepared one is used."""
    text = tmp_path / "text.txt"
    content, status = domain.read_bytes(), domain.stat()
    text.write_bytes(content)
    call = Call(load_checkpoint(model), text, tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        call.again(resume=False)
    for changed in (content[:-5] + b"else\n", b"X" + content[1:]):
        text.write_bytes(changed)
        os.utime(text, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(ElmoxError, match=r"text\.txt has changed since .*out was started"):
            call.again()
    text.unlink()
    with pytest.raises(KeyboardInterrupt):
        call.again()
    text.write_bytes(content)
    with pytest.raises(KeyboardInterrupt):
        call.again()


def test_a_directory_is_taken_when_the_text_is_prepared(
    model: Path, domain: Path, tmp_path: Path
) -> None:
    """A wrong file name does not use up the directory; other directories are not touched."""
    start = load_checkpoint(model)
    call = Call(start, domain, tmp_path / "out")
    with pytest.raises(ElmoxError, match=r"gone\.txt"):
        call.again(resume=False, texts=[str(tmp_path / "gone.txt")])
    with pytest.raises(KeyboardInterrupt):
        call.again(resume=False)
    with pytest.raises(ElmoxError, match="holds a run already: continue it with resume=True"):
        call.again(resume=False)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.txt").touch()
    for resume in (False, True):
        with pytest.raises(ElmoxError, match="thesis exists already: choose another directory"):
            Call(start, domain, tmp_path / "thesis").again(resume=resume)
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["thesis.txt"]


def test_text_of_one_document(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_documents(tmp_path / "one.txt", 20, 21)
    arguments = ["finetune", model, text, "--tokenized", "--out", tmp_path / "out", "--epochs", 0.1]
    code, out, err = run_here([*arguments, "--device", "cpu"], capsys)
    assert_one_line(code, out, err, "only 1 document", "--valid", "--hold-out 0")
    code, out, err = run_here([*arguments, "--device", "cpu", "--hold-out", 0], capsys)
    assert code == 0, err
    assert "no text is held out" in err
    assert out == f"perplexity before unknown, after unknown\n{tmp_path / 'out' / 'model'}\n"
    assert load_checkpoint(tmp_path / "out" / "model").softmax is not None


@pytest.mark.parametrize("name", ["lr", "softmax_lr", "epochs", "softmax_epochs", "rows", "steps"])
def test_bad_options(name: str) -> None:
    for value in (0, -1, float("inf"), float("nan")):
        values: dict[str, Any] = {name: value}
        with pytest.raises(ElmoxError, match=f"^{name} is {value}, expected more than 0$"):
            FinetuneOptions(**values)


def test_bad_options_are_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for option in ("--lr", "--epochs", "--softmax-epochs"):
        arguments = ["finetune", tmp_path / "no-model", "no-text", "--out", out, option, 0]
        assert_one_line(*run_here(arguments, capsys), f"{option} is 0.0")
    code, _, err = run_here(["finetune", "m", "t", "--out", out, "--hold-out", -1], capsys)
    assert code == 2
    assert "--hold-out" in err
    assert not out.exists()


@pytest.mark.parametrize("new_vocab", [False, True])
def test_weights_are_in_memory_once(
    new_vocab: bool, model: Path, domain: Path, tmp_path: Path
) -> None:
    """The model to start from is released while everything is in training."""
    gc.collect()  # reference cycles of earlier tests
    others = [type(item) for item in gc.get_objects()]
    held = [load_checkpoint(model)]
    start = weakref.ref(held[0])
    alive: list[list[type]] = []

    def log(message: str) -> None:
        if message.startswith("step "):
            alive.append([type(item) for item in gc.get_objects()])
            assert start() is None

    finetune(
        held.pop(),
        [str(domain)],
        tmp_path / "out",
        prepare=PREPARE,
        options=replace(QUICK, new_vocab=new_vocab),
        device="cpu",
        log=log,
    )
    assert alive
    for types in alive:
        assert types.count(Trainer) == others.count(Trainer) + 1
        assert types.count(Optimizer) == others.count(Optimizer) + 1


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
