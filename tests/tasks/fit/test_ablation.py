"""The studies: their variants, what they report, shares of the data, learned mixes."""

import json
from pathlib import Path
from typing import Any

import pytest
from shell import run_here
from tagged_files import NAMES, write_columns
from task_runs import write_layers_study

from elmox.config import validated
from elmox.errors import ElmoxError, NothingToLearn
from elmox.tasks.fit.ablation import STUDIES, Ablation, ablate
from elmox.tasks.fit.session import TaskSession
from elmox.tasks.recipe import changed, task_recipe

WORDS = ["words.dim=4", "words.filters=4", "words.min_count=1"]
SMALL = [*WORDS, "head.hidden=[6,6]", "fit.lr=0.02", "fit.least_updates=1"]


def session(folder: Path, log_lines: list[str]) -> TaskSession:
    data = write_columns(folder / "names.txt", NAMES)
    return TaskSession(
        "ner", data, data, device="cpu", cache=folder / "cache", log=log_lines.append
    )


def test_layers(tiny: Path, tmp_path: Path) -> None:
    log_lines: list[str] = []
    recipe = task_recipe(None, [*SMALL, f"elmo.model={tiny}", "fit.epochs=2"])
    study = ablate(
        session(tmp_path, log_lines), recipe, "layers", tmp_path / "out", num_seeds=2, about={}
    )
    names = ["no ELMo", "layer 0", "top layer", "mix, lambda 1", "mix, lambda 0.001"]
    assert [row.variant.name for row in study.rows] == names
    assert [list(row.mixes) for row in study.rows] == [[], [], [], ["input"], ["input"]]
    for row in study.rows[3:]:
        mix = row.mixes["input"]
        assert sum(mix.weights) == pytest.approx(1)
        assert len(mix.weights) == 3
    strong, weak = (max(row.mixes["input"].weights) for row in study.rows[3:])
    assert strong < weak  # drawn to the plain average
    table = study.to_markdown()
    assert all(f"| {name} |" in table for name in names)
    assert "| mix, lambda 1, input |" in table
    assert sum("computed" in line for line in log_lines) == 1  # five variants, one pass of the biLM


def test_samples_are_nested_and_curves_are_drawn(tiny: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    recipe = task_recipe(None, [*SMALL, f"elmo.model={tiny}", "elmo.layers=top", "fit.epochs=1"])
    task_session, log_lines = session(tmp_path, []), list[str]()
    study = ablate(
        task_session, recipe, "samples", tmp_path / "out", about={}, log=log_lines.append
    )
    # Of ten sentences, 1% and 10% are the one that 0.1% is: they would be the same fits again.
    assert [row.variant.share for row in study.rows] == [s for s in (0.001, 1) for _ in "ab"]
    assert [row.examples for row in study.rows] == [1, 1, 10, 10]
    left_out = "is left out: 1 of 10 training examples, the same as for a share of 0.001"
    shares = ("0.01, without", "0.01, with", "0.1, without", "0.1, with")
    assert log_lines[:4] == [f"{share} ELMo {left_out}" for share in shares]
    table = study.to_markdown()
    assert "| | examples | dev | minutes a fit |\n|---|---|---|---|\n" in table
    assert "| 1, with ELMo | 10 | " in table
    small, large = (set(task_session._chosen(share).tolist()) for share in (0.2, 0.6))
    assert (len(small), len(large)) == (2, 6)
    assert small < large
    (axes,) = study.picture().axes
    assert axes.get_xscale() == "log"
    assert len(axes.get_lines()) >= 2
    assert study.picture_of_mixes() is None
    with pytest.raises(ElmoxError, match="a share of 0"):
        task_session.fit(recipe, tmp_path / "none", share=0)
    with pytest.raises(ElmoxError, match="give a model, not none"):
        ablate(
            task_session, changed(recipe, ["elmo.model=none"]), "place", tmp_path / "none", about={}
        )


def test_one_example_is_all_of_the_data(tiny: Path, tmp_path: Path) -> None:
    data = write_columns(tmp_path / "one.txt", NAMES[:1])
    task_session = TaskSession("ner", data, data, device="cpu", cache=tmp_path / "cache")
    recipe = task_recipe(None, [*SMALL, f"elmo.model={tiny}", "fit.epochs=1"])
    study = ablate(task_session, recipe, "samples", tmp_path / "out", about={})
    assert [(row.variant.share, row.examples) for row in study.rows] == [(1.0, 1)] * 2


def test_tables_of_before_examples_were_counted(tmp_path: Path) -> None:
    write_layers_study(tmp_path)
    stored = json.loads((tmp_path / "ablations" / "pos" / "layers.json").read_text("utf-8"))
    for row in stored["rows"]:
        del row["examples"]
    study = validated(Ablation, stored, "the table")
    assert study.rows[0].examples is None
    assert "| | dev | minutes a fit |\n|---|---|---|\n| mix | 90.00 | 1.0 |" in study.to_markdown()


def test_a_share_of_which_nothing_is_learned_is_left_out(tiny: Path, tmp_path: Path) -> None:
    """The one sentence that is drawn is neutral, and two degrees have no such."""
    data = tmp_path / "trees.txt"
    data.write_text("(3 good)\n" * 10)
    options: dict[str, Any] = {"device": "cpu", "cache": tmp_path / "cache"}
    (drawn,) = TaskSession("sst", data, data, **options)._chosen(0.1).tolist()
    train = tmp_path / "train.txt"
    trees = ["(2 so)" if index == drawn else "(3 good)" for index in range(10)]
    train.write_text("\n".join(trees))
    changes = ["head.binary=true", "head.hidden=4", "head.maxout=[4]", f"elmo.model={tiny}"]
    recipe = task_recipe(None, [*WORDS, *changes, "fit.epochs=1", "fit.least_updates=1"])
    task_session, log_lines = TaskSession("sst", train, data, **options), list[str]()
    study = ablate(
        task_session, recipe, "samples", tmp_path / "out", about={}, log=log_lines.append
    )
    assert [(row.variant.share, row.examples) for row in study.rows] == [(1.0, 10)] * 2
    message = "nothing to learn from: head.binary leaves out neutral examples"
    assert f"0.001, with ELMo is left out: {message}" in log_lines
    train.write_text("(2 so)\n" * 10)
    with pytest.raises(NothingToLearn, match=message):
        ablate(
            TaskSession("sst", train, data, **options), recipe, "samples", tmp_path / "no", about={}
        )


def test_place_in_the_shell(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    data = write_columns(tmp_path / "names.txt", NAMES)
    changes = [part for change in [*SMALL, "fit.epochs=1"] for part in ("--set", change)]
    files = ["--train", data, "--dev", data, "--test", data, "--out", tmp_path / "out"]
    arguments = ["ablate", "ner", "place", *files, "--elmo", tiny, "--cache", tmp_path / "cache"]
    code, out, err = run_here([*arguments, *changes], capsys)
    assert code == 0, err
    assert out == (tmp_path / "out" / "place.md").read_text("utf-8")
    assert [f"| {v.name} |" in out for v in STUDIES["place"]] == [True] * 3
    stored = json.loads((tmp_path / "out" / "place.json").read_text("utf-8"))
    assert [list(row["mixes"]) for row in stored["rows"]] == [
        ["input"],
        ["output"],
        ["input", "output"],
    ]
    assert set(stored["rows"][0]["results"]["mean"]) == {"dev", "test"}
    pictures = {path.name for path in (tmp_path / "out").glob("*.png")}
    assert pictures == {"place.png", "place-mixes.png"}
    code, again, err = run_here([*arguments, *changes, "--json"], capsys)
    assert code == 0, err
    assert json.loads(again)["rows"] == stored["rows"]  # nothing was fitted again
    assert "epoch 1, loss" not in err
    arguments[2] = "layers"
    code, out, err = run_here([*arguments, *changes, "--json"], capsys)
    assert code == 0, err
    *_, mix = json.loads(out)["rows"]
    assert mix["variant"]["name"] == "mix, lambda 0.001"
    assert mix["results"] == stored["rows"][0]["results"]  # ELMo at the input: it was there
    assert err.count("epoch 1, loss") == 4
    names = {path.name for path in (tmp_path / "out" / "fits").iterdir()}
    ours = {"elmo.model=none", "elmo.layers=0", "elmo.layers=top", "elmo.penalty=1.0"}
    assert names == {"recipe", "elmo.place=output", "elmo.place=both", *ours}
