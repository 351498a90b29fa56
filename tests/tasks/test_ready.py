"""Ready taggers of the model that comes with elmox, and what cannot become one."""

import json
from pathlib import Path

import pytest
from fits import fit_task
from shell import assert_one_line, run_here
from tagged_files import NAMES, write_columns

from elmox import Elmo, ElmoxError, TaskPredictor
from elmox.pretrained.native import TAGGERS_FOLDER
from elmox.tasks.model import WeightType, read_model
from elmox.tasks.ready import SCORES_FILE, find_tagger, ready_taggers, store_tagger
from elmox.tasks.recipe import task_recipe

SMALL = ["words.dim=80", "words.filters=0", "words.min_count=1", "head.hidden=[32]"]
SENTENCES = [[word for word, _ in sentence] for sentence in NAMES]


def fit(elmo: str | Path, folder: Path, *settings: str) -> Path:
    """Fit a tagger of names and return its directory."""
    data = write_columns(folder / "names.txt", NAMES)
    recipe = task_recipe(None, [f"elmo.model={elmo}", *SMALL, "fit.epochs=2", *settings])
    options = {"device": "cpu", "cache": folder / "cache"}
    return Path(fit_task("ner", recipe, data, data, folder / "fit", **options).model)


@pytest.fixture
def bundled(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model in the place of the one that comes with elmox."""
    monkeypatch.setattr("elmox.pretrained.packages.files", lambda package: tmp_path / package)
    folder = tmp_path / "elmox" / "models" / "english-small"
    Elmo.from_pretrained(tiny).save_pretrained(folder)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder


def test_the_name_of_a_task_alone(
    bundled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("text.txt").write_text("Ada lived in London .\n", "utf-8")
    arguments = ["tag", "ner", "text.txt"]
    assert_one_line(*run_here([*arguments], capsys), "has no ready tagger 'ner': it has none")
    fitted = fit(bundled, tmp_path)
    (fitted / SCORES_FILE).write_text(json.dumps({"metric": "f1"}))
    store_tagger(fitted, bundled / TAGGERS_FOLDER / "ner")
    assert list(ready_taggers(bundled)) == ["ner"]
    assert json.loads((find_tagger("ner") / SCORES_FILE).read_text()) == {"metric": "f1"}
    expected = TaskPredictor.from_pretrained(fitted).predict(SENTENCES)
    for name in ("ner", "english-small/ner", bundled / TAGGERS_FOLDER / "ner"):
        assert TaskPredictor.from_pretrained(name).predict(SENTENCES) == expected
    code, out, err = run_here([*arguments], capsys)
    assert code == 0, err
    assert [line.split("\t")[0] for line in out.split("\n")[:2]] == ["Ada", "lived"]
    code, out, err = run_here(["eval", "english-small/ner", tmp_path / "names.txt"], capsys)
    assert code == 0, err
    assert "f1" in out
    Path("ner").mkdir()  # what is here comes first
    assert_one_line(*run_here([*arguments], capsys), "ner is not a fitted model")


@pytest.mark.parametrize(
    ("dtype", "largest"), [("float32", 1e-9), ("float16", 1e-3), ("int8", 2e-2)]
)
def test_number_formats(dtype: WeightType, largest: float, tiny: Path, tmp_path: Path) -> None:
    fitted = fit(tiny, tmp_path)
    store_tagger(fitted, tmp_path / "stored", dtype=dtype)
    before, after = read_model(fitted).state_dict(), read_model(tmp_path / "stored").state_dict()
    assert before.keys() == after.keys()
    for name, weight in before.items():
        assert after[name].dtype == weight.dtype
        assert (after[name] - weight).abs().max() <= largest * weight.abs().max().clamp(max=1e4)
    sizes = [
        (folder / "model.safetensors").stat().st_size for folder in (fitted, tmp_path / "stored")
    ]
    assert sizes[1] <= sizes[0] * {"float32": 1.0, "float16": 0.55, "int8": 0.4}[dtype]
    config = json.loads((tmp_path / "stored" / "config.json").read_text())
    assert config["format"] == (2 if dtype == "int8" else 1)
    assert config["recipe"]["elmo"]["model"] == "english-small"


def test_formats_of_other_versions(tiny: Path, tmp_path: Path) -> None:
    store_tagger(fit(tiny, tmp_path), tmp_path / "stored", dtype="int8")
    path = tmp_path / "stored" / "config.json"
    (tmp_path / "stored" / "checksums.json").unlink()
    settings = json.loads(path.read_text())
    for number, message in ((1, "expected floating point"), (3, "has format 3"), (True, "format")):
        path.write_text(json.dumps(settings | {"format": number}))
        with pytest.raises(ElmoxError, match=message):
            read_model(tmp_path / "stored")


def test_models_that_share_no_bilm(tiny: Path, tmp_path: Path) -> None:
    fitted = fit("none", tmp_path)
    with pytest.raises(ElmoxError, match="does not read a frozen biLM"):
        store_tagger(fitted, tmp_path / "stored")
    assert not (tmp_path / "stored").exists()
