"""Fitting: data learned by heart, seeds, interruptions, models stored and loaded again."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fits import fit_task, predicted, tag_objects
from tagged_files import NAMES, Tagged, write_columns

from elmox import open_vectors
from elmox.errors import ElmoxError
from elmox.io.tensors import read_tensors, write_tensors
from elmox.tasks.fit.layers import layers_path
from elmox.tasks.fit.results import Results
from elmox.tasks.model import is_task_model, read_model
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import TaskRecipe, task_recipe

WORDS = [[word for word, _ in sentence] for sentence in NAMES]
SMALL = ["words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=[12, 12]"]
BY_HEART = ["head.dropout=0", "words.dropout=0", "elmo.dropout=0", "fit.lr=0.03"]
LONG = ["fit.batch_size=4", "fit.epochs=30", "fit.patience=12", "fit.least_updates=1"]


def recipe(*changes: str) -> TaskRecipe:
    return task_recipe(None, [*SMALL, *BY_HEART, *LONG, *changes])


def fit_names(folder: Path, chosen: TaskRecipe, name: str = "run", **options: Any) -> Results:
    """Fit ten sentences of names, which are also what the best epoch is chosen by."""
    data = write_columns(folder / "names.txt", NAMES)
    return fit_task(
        "ner", chosen, data, data, folder / name, device="cpu", cache=folder / "cache", **options
    )


@pytest.mark.parametrize("place", ["input", "middle", "both"])
def test_ten_sentences_by_heart(place: str, tiny: Path, tmp_path: Path) -> None:
    chosen = recipe(f"elmo.model={tiny}", f"elmo.place={place}")
    results = fit_names(tmp_path, chosen)
    assert results.mean == {"dev": 100.0}
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    predictions = [prediction["tags"] for prediction in predicted(fitted, WORDS)]
    assert predictions == [[tag for _, tag in sentence] for sentence in NAMES]
    assert fitted.score(tmp_path / "names.txt")["f1"] == 100.0


@pytest.mark.parametrize(
    "changes",
    [
        ["elmo.model=none", "words.dim=0"],
        ["elmo.layers=0", "words.filters=0"],
        ["elmo.layers=top", "words.filters=0"],
    ],
)
def test_other_inputs(changes: list[str], tiny: Path, tmp_path: Path) -> None:
    results = fit_names(tmp_path, recipe(f"elmo.model={tiny}", *changes))
    assert results.mean["dev"] > 90


def test_a_mix_that_learns_faster(tiny: Path, tmp_path: Path) -> None:
    """In a first update Adam moves a weight by its rate, whatever the gradient."""
    once = ["fit.epochs=1", "fit.batch_size=10", "fit.lr=0.001", "elmo.place=both"]
    for rate in (1, 30):
        chosen = recipe(f"elmo.model={tiny}", *once, f"elmo.mix_rate={rate}")
        model = read_model(Path(fit_names(tmp_path, chosen, f"rate-{rate}").best.model))
        mix = model.embedder.mix
        assert mix is not None
        assert mix.weights is not None
        for moved in (mix.weights, mix.gamma - 1):
            torch.testing.assert_close(moved.abs(), torch.full_like(moved, 0.001 * rate))
        scores = dict(model.head.named_parameters())["crf.start_scores"]  # zero before
        assert 0 < scores.abs().max() < 0.0011


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("head", "settings", "hidden"), [10**9]),
        (("head", "settings", "hidden"), [10**30]),
        (("head", "tags"), 3),
        (("recipe", "words", "dim"), 10**9),
        (("recipe", "words", "filters"), 10**9),
        (("static_dim",), 10**12),
    ],
)
def test_a_model_that_declares_any_size(
    where: tuple[str, ...], value: object, fitted_model: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(fitted_model, model)
    (model / "checksums.json").unlink()
    values = json.loads((model / "config.json").read_text())
    place = values
    for key in where[:-1]:
        place = place[key]
    assert where[-1] in place
    place[where[-1]] = value
    (model / "config.json").write_text(json.dumps(values))
    if where == ("static_dim",):
        words = json.loads((model / "words.json").read_text())
        (model / "words.json").write_text(json.dumps(words | {"static": ["a"]}))
    with pytest.raises(ElmoxError):
        read_model(model)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_model_that_is_not_finite(value: float, fitted_model: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(fitted_model, model)
    (model / "checksums.json").unlink()
    tensors = read_tensors(model / "model.safetensors")
    name, weight = next(iter(tensors.items()))
    weight.view(-1)[0] = value
    write_tensors(tensors, model / "model.safetensors")
    with pytest.raises(ElmoxError, match=f"{name} contains NaN or infinite values"):
        read_model(model)


@pytest.fixture(scope="module")
def fitted_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fitted")
    return Path(fit_names(folder, recipe("elmo.model=none", "fit.epochs=1")).best.model)


def rates(run: Path) -> list[float]:
    """Return the learning rates of the epochs of a fit."""
    lines = (run / "seed-0" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["lr"] for line in lines]


def test_rates_halve_or_fall(tmp_path: Path) -> None:
    one = ["elmo.model=none", "fit.lr=1e-8", "fit.patience=4"]  # too little to get any better
    fit_names(tmp_path, recipe(*one, "fit.epochs=9"), "halved")
    assert rates(tmp_path / "halved") == [1e-8, 1e-8, 1e-8, 0.5e-8, 0.5e-8]
    fit_names(tmp_path, recipe(*one, "fit.epochs=4", "fit.decay=true"), "falling")
    assert rates(tmp_path / "falling") == pytest.approx([1e-8, 0.75e-8, 0.5e-8, 0.25e-8])


def test_a_score_that_was_always_0_is_reported(tmp_path: Path) -> None:
    bare = write_columns(tmp_path / "bare.txt", [[(word, "O") for word, _ in NAMES[0]]])
    data = write_columns(tmp_path / "names.txt", NAMES)
    log_lines: list[str] = []
    chosen = recipe("elmo.model=none", "fit.epochs=1")
    options: dict[str, Any] = {"device": "cpu", "cache": tmp_path, "log": log_lines.append}
    fit_task("ner", chosen, data, bare, tmp_path / "run", **options)
    assert "f1 stayed at 0, so no best epoch was selected: check the dev labels" in log_lines[-1]
    log_lines.clear()
    fit_names(tmp_path, recipe("elmo.model=none"), "other", log=log_lines.append)
    assert "stayed at 0" not in "".join(log_lines)


def test_tags_of_words(tmp_path: Path) -> None:
    sentences: list[Tagged] = [
        [("the", "DET"), ("run", "NOUN")],
        [("they", "PRON"), ("run", "VERB"), ("the", "DET"), ("run", "NOUN")],
        [("they", "PRON"), ("sleep", "VERB")],
    ]
    data = write_columns(tmp_path / "tags.txt", sentences)
    chosen = recipe("elmo.model=none")
    results = fit_task("pos", chosen, data, data, tmp_path / "run", device="cpu", cache=tmp_path)
    assert (results.metric, results.mean) == ("accuracy", {"dev": 100.0})


def test_seeds_and_a_test_file(tmp_path: Path) -> None:
    chosen = recipe("elmo.model=none", "fit.epochs=2", "fit.seed=5")
    log_lines: list[str] = []
    test = write_columns(tmp_path / "test.txt", NAMES[:3])
    results = fit_names(tmp_path, chosen, test=test, seeds=3, log=log_lines.append)
    assert [run.seed for run in results.seeds] == [5, 6, 7]
    scores = [run.dev["f1"] for run in results.seeds]
    assert results.mean["dev"] == pytest.approx(np.mean(scores))
    assert results.deviation["dev"] == pytest.approx(np.std(scores, ddof=1))
    assert set(results.mean) == {"dev", "test"}
    stored = json.loads((tmp_path / "run" / "results.json").read_text())
    assert stored["mean"] == results.mean
    assert sum("no better" in line or "epoch" in line for line in log_lines) >= 6
    alone = fit_names(tmp_path, recipe("elmo.model=none", "fit.epochs=2", "fit.seed=6"), "alone")
    assert alone.seeds[0].dev == results.seeds[1].dev  # a seed's result is its own


def test_results_are_of_the_seeds_of_the_last_fit(tmp_path: Path) -> None:
    chosen = recipe("elmo.model=none", "fit.epochs=1")
    stored = tmp_path / "run" / "results.json"
    three = fit_names(tmp_path, chosen, seeds=3)
    before = stored.read_bytes()
    assert fit_names(tmp_path, chosen).seeds == three.seeds[:1]
    assert [run["seed"] for run in json.loads(stored.read_text())["seeds"]] == [0]
    assert fit_names(tmp_path, chosen, seeds=3) == three  # nothing is fitted again
    assert stored.read_bytes() == before


def test_seeds_that_there_are_not(tmp_path: Path) -> None:
    chosen = recipe("elmo.model=none", "fit.epochs=1", "fit.seed=4294967295")
    with pytest.raises(ElmoxError, match=r"2 seeds from fit\.seed 4294967295 on: expected all"):
        fit_names(tmp_path, chosen, seeds=2)
    assert not (tmp_path / "run").exists()  # before the first is fitted
    assert len(fit_names(tmp_path, chosen).seeds) == 1


def test_layers_are_computed_once(tiny: Path, tmp_path: Path) -> None:
    chosen = recipe(f"elmo.model={tiny}", "fit.epochs=1")
    log_lines: list[str] = []
    fit_names(tmp_path, chosen, "first", log=log_lines.append)
    fit_names(tmp_path, chosen, "second", log=log_lines.append)
    layers = [line for line in log_lines if line.startswith("ELMo's layers")]
    how = [line.split(": ")[1].split()[0].rstrip(",") for line in layers]
    assert how == ["computed", "reused", "reused", "reused"]  # dev is the same text
    assert all(" MB in " in line for line in layers)
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize("decay", ["false", "true"])
def test_an_interrupted_fit_goes_on(decay: str, tiny: Path, tmp_path: Path) -> None:
    changes = ["fit.epochs=4", "fit.patience=9", f"fit.decay={decay}"]
    chosen = task_recipe(None, [*SMALL, f"elmo.model={tiny}", *changes])
    whole = fit_names(tmp_path, chosen, "whole")

    def interrupt(message: str) -> None:
        if message.startswith("epoch 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_names(tmp_path, chosen, "halves", log=interrupt)
    log_lines: list[str] = []
    halves = fit_names(tmp_path, chosen, "halves", log=log_lines.append)
    assert "continuing after epoch 2" in log_lines
    assert halves.mean == whole.mean
    metrics = [
        [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]
        for lines in (
            (tmp_path / name / "seed-0" / "metrics.jsonl").read_text().splitlines()
            for name in ("whole", "halves")
        )
    ]
    assert len(metrics[0]) == 4
    assert metrics[0] == metrics[1]


@pytest.mark.parametrize("change", ["words.dim=99999999999", "head.hidden=[99999999999]"])
def test_sizes_beyond_memory(change: str, tmp_path: Path) -> None:
    with pytest.raises(
        ElmoxError, match=r"out of memory: lower the sizes in the recipe's \[head\]"
    ):
        fit_names(tmp_path, recipe("elmo.model=none", change))
    assert not (tmp_path / "run").exists()


def test_a_fit_is_extended(tmp_path: Path) -> None:
    """From 3 to 5 epochs, with the files of a fit of 5 epochs."""
    changes = ["elmo.model=none", "fit.patience=9"]
    whole = fit_names(tmp_path, recipe(*changes, "fit.epochs=5"), "whole")
    fit_names(tmp_path, recipe(*changes, "fit.epochs=3"), "extended")
    log_lines: list[str] = []
    chosen = recipe(*changes, "fit.epochs=5")
    extended = fit_names(tmp_path, chosen, "extended", log=log_lines.append)
    assert "continuing after epoch 3" in log_lines
    assert [run.dev for run in extended.seeds] == [run.dev for run in whole.seeds]
    files = [sorted((tmp_path / name / "seed-0/model").iterdir()) for name in ("whole", "extended")]
    for old, new in zip(*files, strict=True):
        assert old.read_bytes() == new.read_bytes(), new
    with pytest.raises(ElmoxError, match=r"has 5 finished epochs, more than fit\.epochs=4: choose"):
        fit_names(tmp_path, recipe(*changes, "fit.epochs=4"), "extended")


def test_an_extended_fit_that_gets_no_better(tmp_path: Path) -> None:
    """The description of its model is that of the longer fit."""
    one = ["elmo.model=none", "fit.lr=1e-8", "fit.patience=4"]
    fit_names(tmp_path, recipe(*one, "fit.epochs=1"))
    results = fit_names(tmp_path, recipe(*one, "fit.epochs=2"))
    assert results.seeds[0].epochs == 1
    assert read_model(Path(results.best.model)).description.recipe.fit.epochs == 2
    assert len(rates(tmp_path / "run")) == 2


def test_a_fit_whose_rates_depend_on_the_epochs_is_not_extended(tmp_path: Path) -> None:
    changes = ["elmo.model=none", "fit.decay=true"]
    fit_names(tmp_path, recipe(*changes, "fit.epochs=1"))
    message = r"fit\.epochs=1, is 2: with fit\.decay the learning rates .* choose another out"
    with pytest.raises(ElmoxError, match=message):
        fit_names(tmp_path, recipe(*changes, "fit.epochs=2"))


def test_a_fit_of_before_a_setting_was_known_goes_on(tmp_path: Path) -> None:
    chosen = recipe("elmo.model=none", "fit.epochs=1")
    fit_names(tmp_path, chosen)
    path = tmp_path / "run" / "seed-0" / "progress" / "job.json"
    job = json.loads(path.read_text())
    del job["model"]["recipe"]["fit"]["decay"], job["model"]["recipe"]["elmo"]["mix_rate"]
    path.write_text(json.dumps(job))
    log_lines: list[str] = []
    fit_names(tmp_path, chosen, log=log_lines.append)
    assert "continuing after epoch 1" in log_lines


def test_other_settings_are_not_continued(tmp_path: Path) -> None:
    fit_names(tmp_path, recipe("elmo.model=none", "fit.epochs=1", "fit.lr=0.25"))
    with pytest.raises(ElmoxError, match=r"other settings .* \(fit\.lr was 0\.25, is 0\.5\)"):
        fit_names(tmp_path, recipe("elmo.model=none", "fit.epochs=1", "fit.lr=0.5"))


def test_a_fit_whose_files_are_gone(tmp_path: Path) -> None:
    chosen = recipe("elmo.model=none", "fit.epochs=1")
    fit_names(tmp_path, chosen)
    seed = tmp_path / "run" / "seed-0"
    (seed / "model").rename(tmp_path / "model")
    with pytest.raises(ElmoxError, match=r"model is missing, the model of epoch 1: put it back"):
        fit_names(tmp_path, chosen)
    (tmp_path / "model").rename(seed / "model")
    shutil.rmtree(seed / "progress")
    with pytest.raises(ElmoxError, match=r"without the progress .*: choose another out"):
        fit_names(tmp_path, chosen)
    (seed / "model" / "words.json").unlink()
    with pytest.raises(ElmoxError, match=r"words\.json does not exist"):
        TaskPredictor.from_pretrained(seed / "model", device="cpu")
    (tmp_path / "file").write_text("")
    with pytest.raises(ElmoxError, match="file is a file, expected a directory"):
        fit_names(tmp_path, chosen, "file")


def test_the_folder_of_a_fit_is_not_its_model(tmp_path: Path) -> None:
    fit_names(tmp_path, recipe("elmo.model=none", "fit.epochs=1"))
    for folder in (tmp_path / "run", tmp_path / "run" / "seed-0"):
        assert is_task_model(folder)  # something meant to be one
        with pytest.raises(ElmoxError, match=r"not a fitted model: give .*run/seed-0/model$"):
            TaskPredictor.from_pretrained(folder, device="cpu")
    assert not is_task_model(tmp_path)
    (tmp_path / "run" / "config.json").write_text('{"model_type": "elmo"}')
    assert not is_task_model(tmp_path / "run")  # a biLM, with a fit below


def test_the_wrong_bilm_is_refused(tiny: Path, tmp_path: Path) -> None:
    from checkpoints import random_options, write_ai2

    results = fit_names(tmp_path, recipe(f"elmo.model={tiny}", "fit.epochs=1"))
    (tmp_path / "other").mkdir()
    other = write_ai2(tmp_path / "other", random_options(), np.random.default_rng(1))
    with pytest.raises(ElmoxError, match="fitted with another biLM"):
        TaskPredictor.from_pretrained(results.best.model, elmo=other, device="cpu")


def test_any_sentence_can_be_tagged(tiny: Path, tmp_path: Path) -> None:
    results = fit_names(tmp_path, recipe(f"elmo.model={tiny}", "fit.epochs=1"))
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    sentences = [["x"], [], ["日本", "😀"], ["word"] * 1000, [""]]
    predictions = predicted(fitted, sentences)
    assert [len(prediction["tags"]) for prediction in predictions] == [1, 0, 2, 1000, 1]
    assert predicted(fitted, []) == []
    assert tag_objects(fitted, [{"text": "x", "id": 7}, {"text": " ", "id": 8}]) == [
        {"id": 7, **predictions[0], "offsets": [[0, 1]]},
        {"id": 8, "tokens": [], "tags": [], "spans": [], "offsets": []},
    ]
    assert tag_objects(fitted, [{"tokens": []}]) == [predictions[1]]
    with pytest.raises(ElmoxError, match="the keys are sentence, expected text or tokens"):
        tag_objects(fitted, [{"sentence": "x"}])
    alone = [predicted(fitted, [sentence])[0] for sentence in sentences]
    assert alone == predictions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no sentences"),
        ("one\n", "line 1: 1 column, expected"),
        ("a\tO\nb\tO\tX\n", "line 2: 3 columns, expected 2"),
        ("run\tVERB\n", "VERB"),
    ],
)
def test_bad_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    good = write_columns(tmp_path / "good.txt", NAMES)
    chosen = recipe("elmo.model=none")
    for train, dev in ((path, good), (good, path)):
        with pytest.raises(ElmoxError, match=message) as caught:
            fit_task("ner", chosen, train, dev, tmp_path / "run", device="cpu", cache=tmp_path)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("elmo.layers=7", r"elmo\.layers is 7, expected mix, top, or 0 to 2"),
        ("elmo.place=sideways", "elmo.place"),
        ("head.cells=3", "head"),
        ("fit.lr=0", r"fit\.lr is 0"),
        ("fit.lr=1e38", r"fit\.lr is 1e\+38, expected more than 0 and at most 1e\+30"),
        ("elmo.mix_rate=1e38", r"fit\.lr times elmo\.mix_rate is "),
        ("elmo.mix_rate=0", r"elmo\.mix_rate is 0"),
        ("words.dropout=1", r"words\.dropout is 1"),
    ],
)
def test_bad_settings(change: str, message: str, tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match=message):
        fit_names(tmp_path, recipe(f"elmo.model={tiny}", change))


def test_the_name_of_layers_follows_model_and_text(tiny: Path, tmp_path: Path) -> None:
    from elmox.elmo import Elmo

    elmo = Elmo.from_pretrained(tiny, device="cpu")
    path = layers_path(elmo, WORDS, tmp_path)
    assert path == layers_path(elmo, [tuple(words) for words in WORDS], tmp_path)
    assert path != layers_path(elmo, WORDS[1:], tmp_path)
    assert path != layers_path(elmo, [["a b"], *WORDS[1:]], tmp_path)
    assert layers_path(elmo, [["a", "b"]], tmp_path) != layers_path(elmo, [["a b"]], tmp_path)


def test_equal_sentences_share_their_layers(tiny: Path, tmp_path: Path) -> None:
    data = write_columns(tmp_path / "names.txt", [NAMES[1], *NAMES, NAMES[0]])
    chosen = recipe(f"elmo.model={tiny}")
    cache = tmp_path / "cache"
    results = fit_task("ner", chosen, data, data, tmp_path / "run", device="cpu", cache=cache)
    (stored,) = cache.iterdir()
    with open_vectors(stored) as vectors:
        assert len(vectors) == len(NAMES)
    assert results.mean["dev"] == 100.0
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    first, second = predicted(fitted, [WORDS[0], WORDS[1], WORDS[0]])[::2]
    assert first == second
    assert first["tags"] == [tag for _, tag in NAMES[0]]


def test_static_vectors_cover_words_missing_in_training(tmp_path: Path) -> None:
    """Static vectors that mark names are the only input: new names are recognized too."""
    lines = [f"{word} {tag != 'O':d} {tag.endswith('LOC'):d}" for s in NAMES for word, tag in s]
    new = ["zoe 1 0", "Rome 1 1", "walks 0 0"]
    (tmp_path / "vectors.txt").write_text("\n".join([*lines, *new]) + "\n")
    chosen = recipe(
        "elmo.model=none", "words.dim=0", "words.filters=0", f"words.vectors={tmp_path}/vectors.txt"
    )
    results = fit_names(tmp_path, chosen)
    assert results.mean["dev"] > 80
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    (prediction,) = predicted(fitted, [["Zoe", "walks", "Rome"]])  # Zoe is zoe in small letters
    assert [tag != "O" for tag in prediction["tags"]] == [True, False, True]
    with pytest.raises(ElmoxError, match="does not exist"):
        fit_names(tmp_path, recipe("elmo.model=none", "words.vectors=nowhere.txt"), "other")


def test_other_vectors_are_not_continued(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("Ada 1 0\nLondon 0 1\n")
    chosen = recipe("elmo.model=none", f"words.vectors={vectors}", "fit.epochs=1")
    fit_names(tmp_path, chosen)
    moved = vectors.rename(tmp_path / "moved.txt")  # the same, elsewhere
    elsewhere = recipe("elmo.model=none", f"words.vectors={moved}", "fit.epochs=1")
    log_lines: list[str] = []
    fit_names(tmp_path, elsewhere, log=log_lines.append)
    assert "continuing after epoch 1" in log_lines
    moved.write_text("London 0 1\nAda 1 0\n")
    with pytest.raises(ElmoxError, match=r"other settings or other data \(.*other static\)"):
        fit_names(tmp_path, elsewhere)


def test_spans_without_a_label(tmp_path: Path) -> None:
    data = write_columns(tmp_path / "bare.txt", [[("a", "B"), ("b", "I"), ("c", "O")]] * 3)
    chosen = recipe("elmo.model=none")
    results = fit_task("chunk", chosen, data, data, tmp_path / "run", device="cpu", cache=tmp_path)
    assert results.mean["dev"] == 100.0


def test_small_data_is_read_several_times_an_epoch(tmp_path: Path) -> None:
    """One sentence is one update: patience alone would end it before anything was learned."""
    data = write_columns(tmp_path / "one.txt", NAMES[:1])
    settings = [*SMALL, *BY_HEART, "elmo.model=none", "fit.lr=0.01", "fit.epochs=3"]
    scores = []
    for updates in (1, 40):
        chosen = task_recipe(None, [*settings, f"fit.least_updates={updates}"])
        out = tmp_path / str(updates)
        results = fit_task("ner", chosen, data, data, out, device="cpu", cache=tmp_path)
        scores.append(results.mean["dev"])
    assert scores[0] < scores[1] == 100.0


def test_a_kill_between_two_names_loses_nothing(tmp_path: Path) -> None:
    """Progress was moved aside to make room for newer, which never came."""
    chosen = recipe("elmo.model=none", "fit.epochs=2")
    whole = fit_names(tmp_path, chosen)
    folder = tmp_path / "run" / "seed-0"
    (folder / "progress").rename(folder / ".progress.old-00aabbcc")
    log_lines: list[str] = []
    again = fit_names(tmp_path, chosen, log=log_lines.append)
    assert "continuing after epoch 2" in log_lines
    assert again.mean == whole.mean


def test_an_interruption_of_the_first_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When its model is written, but not yet how far it is."""
    from elmox.tasks.fit.loop import _Fit

    chosen = recipe("elmo.model=none", "fit.epochs=2")
    whole = fit_names(tmp_path, chosen, "whole")
    save = _Fit._save

    def interrupted(run: _Fit) -> None:
        if run.progress.epoch:
            raise KeyboardInterrupt
        save(run)

    monkeypatch.setattr(_Fit, "_save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit_names(tmp_path, chosen)
    monkeypatch.undo()
    assert (tmp_path / "run" / "seed-0" / "model").is_dir()
    assert fit_names(tmp_path, chosen).mean == whole.mean
    logs = [(tmp_path / run / "seed-0" / "metrics.jsonl").read_text() for run in ("whole", "run")]
    first, second = (
        [json.loads(line) | {"seconds": 0} for line in log.splitlines()] for log in logs
    )
    assert first == second
    assert len(first) == 2


def test_two_at_once_share_the_layers(tiny: Path, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from elmox.elmo import Elmo
    from elmox.tasks.fit.layers import stored_layers

    elmos = [Elmo.from_pretrained(tiny, device="cpu") for _ in range(3)]
    path = layers_path(elmos[0], WORDS, tmp_path / "cache")
    with ThreadPoolExecutor(3) as pool:
        stored = list(pool.map(lambda elmo: stored_layers(elmo, WORDS, path), elmos))
    assert [len(vectors) for vectors in stored] == [len(WORDS)] * 3
    assert [folder.name for folder in (tmp_path / "cache").iterdir()] == [path.name]
    with pytest.raises(ElmoxError, match="has 10 entries, expected 9: delete"):
        stored_layers(elmos[0], WORDS[1:], path)
    (path / "meta.json").unlink()
    with pytest.raises(ElmoxError, match=r"without meta.json: .*: delete .* is computed again"):
        stored_layers(elmos[0], WORDS, path)


def test_a_moved_model_finds_its_bilm(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny.parent)
    results = fit_names(tmp_path, recipe(f"elmo.model={tiny.name}", "fit.epochs=1"))
    monkeypatch.chdir(tmp_path)
    model = Path(results.best.model).rename(tmp_path / "moved")
    assert len(predicted(TaskPredictor.from_pretrained(model, device="cpu"), [["Ada"]])) == 1


@pytest.mark.parametrize("question", [{"tokens": [1]}, {"tokens": None}, {"text": 5}])
def test_questions_that_are_no_text(question: dict[str, Any], tmp_path: Path) -> None:
    results = fit_names(tmp_path, recipe("elmo.model=none", "fit.epochs=1"))
    with pytest.raises(ElmoxError, match=r"(tokens|text) is .*, expected a text or a list"):
        tag_objects(TaskPredictor.from_pretrained(results.best.model, device="cpu"), [question])


def test_unusable_arguments(tmp_path: Path) -> None:
    results = fit_names(tmp_path, recipe("elmo.model=none", "fit.epochs=1"))
    with pytest.raises(ElmoxError, match="fitted without ELMo"):
        TaskPredictor.from_pretrained(results.best.model, elmo="some-model", device="cpu")
    for device in ("nowhere", "meta"):
        with pytest.raises(ElmoxError, match=f"device='{device}'"):
            TaskPredictor.from_pretrained(results.best.model, device=device)


def test_files_of_others_stay(tmp_path: Path) -> None:
    model = tmp_path / "run" / "seed-0" / "model"
    model.mkdir(parents=True)
    (model / "mine.txt").write_text("precious")
    with pytest.raises(ElmoxError, match="exists already"):
        fit_names(tmp_path, recipe("elmo.model=none", "fit.epochs=1"))
    assert (model / "mine.txt").read_text() == "precious"


def test_one_fit_at_a_time_in_a_directory(tmp_path: Path) -> None:
    def begin_another(message: str) -> None:
        if message.startswith("epoch 1"):
            with pytest.raises(ElmoxError, match="another process is fitting in"):
                fit_names(tmp_path, chosen)
            seen.append(message)

    seen: list[str] = []
    chosen = recipe("elmo.model=none", "fit.epochs=2")
    fit_names(tmp_path, chosen, log=begin_another)
    assert len(seen) == 1
