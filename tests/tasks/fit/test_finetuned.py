"""A biLM learned with the task: what changes, what is stored, how a killed run continues."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fits import fit_task, predicted
from shell import kill_after_lines, run_elmox, run_here
from tagged_files import NAMES, write_columns

from elmox import Elmo
from elmox.errors import ElmoxError
from elmox.tasks.data.batches import TaskData
from elmox.tasks.data.texts import Texts, Words
from elmox.tasks.fit.ablation import ablate
from elmox.tasks.fit.finetuned import FinetunedElmo, trainable_copy
from elmox.tasks.fit.results import Results
from elmox.tasks.fit.session import TaskSession
from elmox.tasks.nn.embedder import Embedder
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import ElmoRecipe, TaskRecipe, WordsRecipe, task_recipe

SENTENCES = [[word for word, _ in sentence] for sentence in NAMES]
SMALL = ["words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=[12,12]"]
QUICK = ["fit.batch_size=4", "fit.least_updates=1", "fit.lr=0.02", "elmo.lr=0.01"]
NO_DROPOUT = ["head.dropout=0", "words.dropout=0", "elmo.dropout=0"]


def recipe(tiny: Path, *changes: str) -> TaskRecipe:
    settings = [*SMALL, *QUICK, *NO_DROPOUT, f"elmo.model={tiny}", "elmo.finetune=true", *changes]
    return task_recipe(None, settings)


def session(folder: Path) -> TaskSession:
    data = write_columns(folder / "names.txt", NAMES)
    return TaskSession("ner", data, data, data, device="cpu", cache=folder / "cache")


def fit_names(folder: Path, chosen: TaskRecipe, name: str = "run") -> Results:
    return session(folder).fit(chosen, folder / name)


def arguments(folder: Path, tiny: Path, *more: str) -> list[object]:
    """Return the arguments of `elmox fit ner --finetune`."""
    data = write_columns(folder / "names.txt", NAMES)
    changes = [part for change in [*SMALL, *QUICK] for part in ("--set", change)]
    files = ["--train", data, "--dev", data, "--out", folder / "run", "--cache", folder / "cache"]
    return ["fit", "ner", *files, "--elmo", tiny, *changes, *more]


def bilm_of(model: str | Path) -> dict[str, torch.Tensor]:
    return Elmo.from_pretrained(Path(model) / "elmo", device="cpu").reader.bilm.state_dict()


def test_the_bilm_is_learned_and_stored(tiny: Path, tmp_path: Path) -> None:
    """Without word and character vectors, everything is learned through the biLM."""
    original = Elmo.from_pretrained(tiny, device="cpu").reader.bilm.state_dict()
    alone = ["words.dim=0", "words.filters=0"]
    results = fit_names(tmp_path, recipe(tiny, "fit.epochs=20", "fit.patience=20", *alone))
    assert results.mean == {"dev": 100.0, "test": 100.0}  # the test file is the same
    assert not (tmp_path / "cache").exists()
    model = Path(results.best.model)
    learned = bilm_of(model)
    assert [name for name in original if torch.equal(original[name], learned[name])] == []
    assert not (model / "elmo" / "softmax.safetensors").exists()
    done = run_elmox("eval", model, tmp_path / "names.txt", "--json")
    assert json.loads(done.stdout) == results.best.test, done.stderr
    predictions = [
        prediction["tags"]
        for prediction in predicted(TaskPredictor.from_pretrained(model, device="cpu"), SENTENCES)
    ]
    assert predictions == [[tag for _, tag in sentence] for sentence in NAMES]


def test_the_original_is_not_needed(tiny: Path, tmp_path: Path) -> None:
    original = tmp_path / "original"
    Elmo.from_pretrained(tiny, device="cpu").save_pretrained(original)
    results = fit_names(tmp_path, recipe(original, "fit.epochs=1"))
    original.rename(tmp_path / "gone")
    model = Path(results.best.model).rename(tmp_path / "moved")
    fitted = TaskPredictor.from_pretrained(model, device="cpu")
    assert fitted.score(tmp_path / "names.txt") == results.best.test
    assert fitted.tokenize("don't") == ["do", "n't"]
    with pytest.raises(ElmoxError, match=r"biLM that is saved with it: leave out elmo=.*gone"):
        TaskPredictor.from_pretrained(model, elmo=tmp_path / "gone", device="cpu")
    (model / "elmo").rename(tmp_path / "elsewhere")
    with pytest.raises(ElmoxError, match="elmo is missing, the biLM of the model"):
        TaskPredictor.from_pretrained(model, device="cpu")


def test_the_best_epoch_is_the_bilm_of_that_epoch(tiny: Path, tmp_path: Path) -> None:
    """With rates that ruin it after a while, the stored epoch is not the last."""
    chosen = recipe(tiny, "fit.epochs=12", "fit.patience=3", "elmo.lr=0.3")
    results = fit_names(tmp_path, chosen)
    lines = (tmp_path / "run" / "seed-0" / "metrics.jsonl").read_text().splitlines()
    assert results.best.epochs < len(lines)
    assert results.best.test == results.best.dev  # the same file, read by the stored model
    short = recipe(tiny, f"fit.epochs={results.best.epochs}", "fit.patience=3", "elmo.lr=0.3")
    again = fit_names(tmp_path, short, "short")
    stored, repeated = bilm_of(results.best.model), bilm_of(again.best.model)
    assert all(torch.equal(stored[name], repeated[name]) for name in stored)


def test_gradients_reach_every_weight(tiny: Path, tmp_path: Path) -> None:
    task_session = session(tmp_path)
    train = task_session._examples["train"]
    model = task_session._maker(recipe(tiny), train)(0)
    loss = model.loss(*TaskData(model, train, None).batch(np.arange(4), model.device))
    loss.backward()  # type: ignore[no-untyped-call]
    reached = {n for n, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert model.bilm_weights().keys() <= reached
    assert "finetuned.bilm.token_encoder.char_cnn.embedding.weight" in reached
    kept = task_session._model(str(tiny)).reader.bilm  # of which every seed has its copy
    assert not any(p.requires_grad for p in kept.parameters())


def test_threads_add_up_gradients_in_one_order() -> None:
    """Otherwise no fit could be repeated or resumed bit for bit."""
    sentences = [[f"word{(7 * row + step) % 9}" for step in range(40)] for row in range(256)]
    words = Words(tuple(f"word{number}" for number in range(9)))
    batch = Texts(sentences, words, None).batch(range(256), torch.device("cpu"))
    embedder = Embedder(WordsRecipe(dropout=0.0), ElmoRecipe(model="none"), None, 9, None)
    assert embedder.words is not None
    weight = torch.randn(256, 40, embedder.widths.input)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        gradients = [
            torch.autograd.grad((embedder(batch).input * weight).sum(), embedder.words.weight)[0]
            for _ in range(20)
        ]
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(gradient, gradients[0]) for gradient in gradients)


def test_layers_are_those_of_the_model(tiny: Path) -> None:
    """With gradients and without; padded as the rest of a batch is."""
    elmo = Elmo.from_pretrained(tiny, device="cpu")
    finetuned = FinetunedElmo(trainable_copy(elmo))
    sentences = [["Live", "in", "the", "present"], [], ["天", "😀"]]
    expected = elmo.encode_tokens(sentences, layers="all")
    learning = finetuned(sentences)
    assert learning.requires_grad
    with torch.no_grad():
        reading = finetuned(sentences)
    for layers in (learning.detach(), reading):
        assert layers.shape == (3, 3, 4, elmo.dim)
        for row, vectors in enumerate(expected):
            length = vectors.shape[1]
            torch.testing.assert_close(layers[:, row, :length], torch.from_numpy(vectors))
            assert not layers[:, row, length:].any()
    assert finetuned([[]]).shape == (3, 1, 1, elmo.dim)


def test_seeds_begin_with_the_same_bilm(tiny: Path, tmp_path: Path) -> None:
    """Each model keeps its fine-tuned biLM; that of another model is refused."""
    task_session = session(tmp_path)
    chosen = recipe(tiny, "fit.epochs=1", "elmo.dropout=0.5")
    two = task_session.fit(chosen, tmp_path / "two", num_seeds=2)
    mixed = tmp_path / "mixed"
    shutil.copytree(two.seeds[0].model, mixed)
    shutil.rmtree(mixed / "elmo")
    shutil.copytree(Path(two.seeds[1].model) / "elmo", mixed / "elmo")
    with pytest.raises(ElmoxError, match="not the biLM that was fine-tuned with this model"):
        TaskPredictor.from_pretrained(mixed, device="cpu")
    alone = task_session.fit(chosen.with_seed(1), tmp_path / "alone")
    assert two.seeds[1].dev == alone.seeds[0].dev
    second, same = bilm_of(two.seeds[1].model), bilm_of(alone.seeds[0].model)
    assert all(torch.equal(second[name], same[name]) for name in second)


def test_kill_9_and_go_on(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights, moments and rates of the biLM are those of an undisturbed fit, to the last bit."""
    more = ["--finetune", "--set", "fit.epochs=12", "--set", "fit.patience=12"]
    command = arguments(tmp_path, tiny, *more)
    kill_after_lines(command, tmp_path / "run" / "seed-0" / "metrics.jsonl", 3)
    code, resumed, err = run_here(command, capsys)
    assert code == 0, err
    assert "continuing after epoch" in err
    (tmp_path / "run").rename(tmp_path / "killed")
    code, quiet, err = run_here(command, capsys)
    assert (code, quiet) == (0, resumed), err
    columns = []
    for name in ("killed", "run"):
        lines = (tmp_path / name / "seed-0" / "metrics.jsonl").read_text().splitlines()
        columns.append(
            [(values["loss"], values["lr"], values["dev_f1"]) for values in map(json.loads, lines)]
        )
    assert len(columns[0]) == 12
    assert columns[0] == columns[1]
    killed, undisturbed = (
        (tmp_path / name / "seed-0" / "progress" / "state.safetensors").read_bytes()
        for name in ("killed", "run")
    )
    assert killed == undisturbed


def test_the_bilm_has_a_separate_rate(tiny: Path, tmp_path: Path) -> None:
    """Next to no rate: next to nothing changes, while the task's own weights are learned."""
    original = Elmo.from_pretrained(tiny, device="cpu").reader.bilm.state_dict()
    changes = []
    for rate in ("1e-6", "1e-3"):
        chosen = recipe(tiny, "fit.epochs=2", f"elmo.lr={rate}")
        learned = bilm_of(fit_names(tmp_path, chosen, rate).best.model)
        changes.append(max(float((learned[n] - original[n]).abs().max()) for n in original))
    assert 0 < changes[0] < 2e-5 < 5e-4 < changes[1]


def test_a_study(tiny: Path, tmp_path: Path) -> None:
    """Without ELMo there is nothing to fine-tune; layer 0 needs no LSTM."""
    chosen = recipe(tiny, "fit.epochs=1")
    study = ablate(session(tmp_path), chosen, "layers", tmp_path / "out", about={})
    has_bilm = [(Path(row.results.best.model) / "elmo").exists() for row in study.rows]
    assert has_bilm == [False, True, True, True, True]
    assert list(study.rows[-1].mixes) == ["input"]


def test_impossible_settings(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run_here(arguments(tmp_path, tiny, "--finetune", "--elmo", "none"), capsys)
    assert (code, out) == (1, "")
    assert "elmo.finetune with elmo.model = none: there is no biLM to train" in err.splitlines()[-1]
    with pytest.raises(ElmoxError, match=r"elmo\.lr is 0"):
        recipe(tiny, "elmo.lr=0")
    with pytest.raises(ElmoxError, match=r"lower fit\.lr or elmo\.lr"):
        fit_names(tmp_path, recipe(tiny, "fit.epochs=3", "elmo.lr=1e30"), "diverged")


def test_a_frozen_run_is_not_continued(tiny: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"device": "cpu", "cache": tmp_path / "cache"}
    data = write_columns(tmp_path / "names.txt", NAMES)
    out = tmp_path / "run"
    frozen = recipe(tiny, "fit.epochs=1", "elmo.finetune=false")
    fit_task("ner", frozen, data, data, out, **options)
    with pytest.raises(ElmoxError, match="begun with other settings"):
        fit_task("ner", recipe(tiny, "fit.epochs=1"), data, data, out, **options)
