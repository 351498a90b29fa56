"""Recipes that come with elmox, found by name, and recipes of the user, found by path."""

from pathlib import Path

import pytest
from shell import assert_one_line, run_here

from elmox.errors import ElmoxError
from elmox.recipes import find_recipe, recipe_names
from elmox.tasks.recipe import task_recipe
from elmox.tasks.registry import TASKS
from elmox.training.recipe import read_recipe


def test_names() -> None:
    assert recipe_names() == ["1b-original", "english-original", "english-small", "tiny"]
    assert set(recipe_names(task=True)) <= set(TASKS)


@pytest.mark.parametrize("task", [False, True])
def test_every_name_is_found_and_can_be_read(
    task: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in recipe_names(task=task):
        (tmp_path / name).mkdir()  # the directory of a run, say
        path = find_recipe(name, task=task)
        assert (path.name, path.is_file()) == (f"{name}.toml", True)
        assert (task_recipe if task else read_recipe)(name)


def test_a_file_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("tiny", "mine.toml"):
        (tmp_path / name).write_text("[optim]\nlr = 0.5\n")
        assert read_recipe(name).optim.lr == read_recipe(tmp_path / name).optim.lr == 0.5


@pytest.mark.parametrize("name", ["tinny", "tiny.toml", "recipes/tiny.toml", "pos", ""])
def test_a_wrong_name_lists_what_exists(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ElmoxError, match=r"\(1b-original, english-original, english-small, tiny\)"):
        find_recipe(name)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["plan"], ["train", "--out", tmp_path / "run"], ["bench", "train"]):
        assert_one_line(*run_here([*verb, "tinny"], capsys), "tinny does not exist", "tiny)")
    (tmp_path / "names.txt").write_text("Ada B-PER\n")
    arguments = ["fit", "ner", "--out", tmp_path / "run", "--recipe", "nerr"]
    arguments += ["--train", tmp_path / "names.txt", "--dev", tmp_path / "names.txt"]
    assert_one_line(*run_here(arguments, capsys), "nerr does not exist", " ner,")
