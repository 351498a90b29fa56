"""Recipes: reading, changing, refusing."""

from dataclasses import replace
from pathlib import Path

import pytest

from elmox.errors import ElmoxError
from elmox.recipes import find_recipe, recipe_names
from elmox.training.recipe import Recipe, read_recipe, recipe_from_dict

RECIPES = [find_recipe(name) for name in recipe_names()]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_shipped_recipes_are_valid_and_survive_a_round_trip(path: Path, tmp_path: Path) -> None:
    recipe = read_recipe(path)
    config = recipe.model.config(1000, "treebank")
    assert config.text.tokenizer == "treebank"
    copy = tmp_path / "copy.toml"
    copy.write_text(recipe.to_toml(), encoding="utf-8")
    assert read_recipe(copy) == recipe


def test_there_are_the_recipes_that_the_readme_names() -> None:
    names = {path.stem for path in RECIPES}
    assert names == {"tiny", "1b-original", "english-small", "english-original"}


def test_defaults_are_the_published_recipe() -> None:
    published = next(path for path in RECIPES if path.stem == "1b-original")
    assert not read_recipe(published).differences(Recipe())


def test_settings_override(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('[model]\npreset = "small"\n[optim]\nlr = 0.5\n', encoding="utf-8")
    settings = ["optim.lr=0.1", "model.lstm.cell_clip=0", "softmax.loss=full", 'data.dir="a b"']
    recipe = read_recipe(path, settings)
    assert recipe.optim.lr == 0.1
    assert recipe.softmax.loss == "full"
    assert recipe.data.dir == "a b"
    assert recipe.model.config(10, "treebank").lstm.cell_clip is None
    assert recipe.model.config(10, "treebank").lstm.cell_dim == 1024


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["optim.lr=0"], "optim.lr is 0"),
        (["optim.lr=1e38"], "expected more than 0 and at most 1e"),
        (["optim.learning_rate=1"], "optim.learning_rate"),
        (["lr=1"], "expected section.key=value"),
        (["train.rows=0"], "train.rows is 0"),
        (["train.dropout=1"], "train.dropout is 1"),
        (["softmax.loss=exact"], "softmax.loss"),
        (["model.lstm.cells=7"], "lstm.cells"),
        (["train.rows=many"], "train.rows"),
        (["train.epochs=inf"], "train.epochs is inf"),
        (["train.seed=-1"], "train.seed is -1"),
        (["optim.betas=[0.9, 1.0]"], "optim.betas is"),
        (["optim.initial_accumulator=0"], "optim.initial_accumulator is 0"),
        (["model.char_cnn.inventory=unicode"], "model.char_cnn.inventory is 'unicode'"),
        (["model.char_cnn.num_characters=100"], "model.char_cnn.num_characters is 100"),
        (["optim.lr.x=1"], "expected a section"),
    ],
)
def test_bad_settings_are_named(settings: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("[optim]\nlr = 0.5\n", encoding="utf-8")
    with pytest.raises(ElmoxError, match=message.replace(".", r"\.")):
        read_recipe(path, settings).model.config(10, "treebank")


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match="does not exist"):
        read_recipe(tmp_path / "none.toml")
    path = tmp_path / "r.toml"
    path.write_text("[optim\n", encoding="utf-8")
    with pytest.raises(ElmoxError, match="is not TOML"):
        read_recipe(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ElmoxError, match="is not TOML"):
        read_recipe(path)


def test_differences_name_only_settings_that_matter() -> None:
    recipe = recipe_from_dict({"data": {"dir": "x"}}, "test")
    assert recipe.differences(recipe) == []
    report = replace(recipe.report, log_every=1, save_every=7)
    assert recipe.differences(replace(recipe, report=report)) == []
    other = replace(recipe, train=replace(recipe.train, seed=1, steps=5, accumulate=4))
    assert recipe.differences(other) == ["train.steps", "train.seed"]
    longer = replace(recipe, train=replace(recipe.train, epochs=99, max_steps=7))
    assert recipe.differences(longer) == []  # the published rate is constant
    cosine = replace(recipe, optim=replace(recipe.optim, schedule="cosine"))
    longer = replace(longer, optim=cosine.optim)
    assert cosine.differences(longer) == ["train.epochs", "train.max_steps"]
    # A tuple equals the list that TOML makes of it.
    filters = replace(recipe.model, char_cnn={"filters": ((1, 2), (3, 4))})
    lists = replace(recipe.model, char_cnn={"filters": [[1, 2], [3, 4]]})
    assert replace(recipe, model=filters).differences(replace(recipe, model=lists)) == []


def test_word_input() -> None:
    recipe = recipe_from_dict({"model": {"input": "words", "word_dim": 512}}, "test")
    config = recipe.model.config(100, "whitespace")
    assert config.char_cnn is None
    assert config.words is not None
    assert (config.words.num_words, config.words.dim, config.token_projection) == (100, 512, False)
