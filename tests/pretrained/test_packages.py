"""Models as packages: written, built, installed by pip and found by name, without a network."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from fits import fit_task
from language_models import TinyLm, tiny_lm
from shell import assert_one_line, environment, run_here
from tagged_files import NAMES, write_columns

from elmox import Elmo, ElmoxError, TaskPredictor
from elmox.pretrained.native import is_model_directory
from elmox.pretrained.packages import installed_model, installed_names
from elmox.tasks.recipe import task_recipe

SENTENCES = ["The cat sat .", "naïve 天"]
SMALL = ["words.dim=4", "words.filters=0", "head.hidden=[4]", "fit.epochs=1", "fit.least_updates=2"]
USE = """
import json, sys
import elmox
from elmox import Elmo, TaskPredictor

elmo = Elmo.from_pretrained("welsh-small", device="cpu")
tagger = TaskPredictor.from_pretrained("welsh-small/ner", device="cpu")
print(json.dumps({
    "vectors": elmo.encode(json.loads(sys.argv[1])).tolist(),
    "words": [word for word, _ in elmo.predict("the ___ .")],
    "tags": list(tagger.predict([["Ada", "lived"]])[0].tags),
    "description": elmo.description,
    "imported": [name for name in sys.modules if name.startswith("elmox_")],
    "mixes": list(elmo.mixes),
}))
"""


@dataclass(frozen=True)
class Made:
    """A model, its tagger, and what `elmox package --wheel` made of them."""

    lm: TinyLm
    model: Path
    fitted: Path
    packages: Path

    @property
    def wheels(self) -> list[Path]:
        return sorted(self.packages.glob("*/dist/*.whl"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("packages")
    lm = tiny_lm(folder / "lm")
    elmo = lm.elmo()
    elmo.set_mix([0.0, 1.0, 2.0], name="second")
    elmo.save_pretrained(folder / "cy", dtype="int8", card="---\nlicense: cc-by-4.0\n---\n# Mine\n")
    data = write_columns(folder / "names.txt", NAMES)
    recipe = task_recipe(None, [f"elmo.model={folder / 'cy'}", *SMALL])
    options = {"device": "cpu", "cache": folder / "cache"}
    results = fit_task("ner", recipe, data, data, folder / "fit", **options)
    command = [sys.executable, "-m", "elmox", "package", str(folder / "cy"), "--wheel"]
    command += ["--name", "welsh-small", "--tagger", f"ner={results.model}"]
    command += ["--out", str(folder / "packages")]
    subprocess.run(command, env=environment(), check=True, capture_output=True)
    return Made(lm, folder / "cy", Path(results.model), folder / "packages")


def pip_install(target: Path, *packages: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([*command, *map(str, packages)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def site(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both packages installed."""
    target = tmp_path_factory.mktemp("site")
    pip_install(target, *made.wheels)
    return target


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)
    return site


def test_installed_and_used_in_a_new_process(made: Made, site: Path, tmp_path: Path) -> None:
    paths = [environment()["PYTHONPATH"], str(site)]
    done = subprocess.run(
        [sys.executable, "-c", USE, json.dumps(SENTENCES)],
        env=environment(PYTHONPATH=":".join(paths)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    used = json.loads(done.stdout)
    model = Elmo.from_pretrained(made.model)
    np.testing.assert_array_equal(np.array(used["vectors"], np.float32), model.encode(SENTENCES))
    assert used["words"] == [word for word, _ in model.predict("the ___ .")]
    fitted = TaskPredictor.from_pretrained(made.fitted)
    assert used["tags"] == fitted.predict([["Ada", "lived"]])[0].to_dict()["tags"]
    assert used["description"] == "installed model welsh-small"
    assert used["mixes"] == ["second"]
    assert used["imported"] == []  # the packages' code is not run


def test_the_project_installs_from_a_folder(made: Made, tmp_path: Path) -> None:
    pip_install(tmp_path / "site", made.packages / "welsh-small")
    assert is_model_directory(tmp_path / "site" / "elmox_welsh_small" / "model")


def test_verbs_know_the_name(
    installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("Ada lived in London.\n", "utf-8")
    code, out, err = run_here(["info", "welsh-small"], capsys)
    assert code == 0, err
    assert "installed model welsh-small" in out
    assert "ner" in next(line for line in out.splitlines() if line.startswith("taggers"))
    for arguments in (
        ["embed", "welsh-small", "text.txt", "vectors.hdf5"],
        ["tag", "welsh-small/ner", "text.txt"],
        ["eval", "welsh-small", "text.txt"],
        ["serve", "welsh-small", "--tagger", "ner=welsh-small/ner", "--check"],
    ):
        code, _, err = run_here([*arguments], capsys)
        assert code == 0, err
    assert installed_names() == ["english-small", "welsh-small"]


def test_the_projects(made: Made) -> None:
    model, softmax = made.packages / "welsh-small", made.packages / "welsh-small-softmax"
    files = {path.name for path in (model / "src/elmox_welsh_small/model").iterdir()}
    assert files == {
        "config.json", "model.safetensors", "mixes.safetensors", "README.md", "taggers",
        "checksums.json",
    }  # fmt: skip
    files = {path.name for path in (softmax / "src/elmox_welsh_small_softmax/model").iterdir()}
    assert files == {"softmax.safetensors", "vocab.txt", "checksums.json"}
    assert 'license = "cc-by-4.0"' in (model / "pyproject.toml").read_text()
    assert "# Mine" in (model / "README.md").read_text()
    assert "elmox-welsh-small==1.0.0" in (softmax / "pyproject.toml").read_text()
    stored = model / "src/elmox_welsh_small/model/taggers/ner/config.json"
    assert json.loads(stored.read_text())["recipe"]["elmo"]["model"] == "welsh-small"


def test_without_the_softmax(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip_install(tmp_path, made.wheels[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    elmo = Elmo.from_pretrained("welsh-small")
    with pytest.raises(ElmoxError, match="install elmox-welsh-small-softmax in the same way"):
        elmo.predict("the ___ .")


def test_names_that_are_not_installed(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ElmoxError, match=r"english-small, welsh-small.*packages/welsh-large"):
        Elmo.from_pretrained("welsh-large")
    with pytest.raises(ElmoxError, match="load the tagger ner with TaskPredictor"):
        Elmo.from_pretrained("welsh-small/ner")
    with pytest.raises(ElmoxError, match="welsh-small has no ready tagger 'srl': it has ner"):
        TaskPredictor.from_pretrained("welsh-small/srl")
    with pytest.raises(ElmoxError, match="is not a fitted model"):
        TaskPredictor.from_pretrained("welsh-large/ner")
    with pytest.raises(ElmoxError, match="is not a hub id: leave out revision"):
        Elmo.from_pretrained("welsh-small", revision="v2")
    assert_one_line(*run_here(["embed", "welsh-large", "a", "b"], capsys), "pip install packages/")


def test_a_local_directory_of_that_name_comes_first(installed: Path, made: Made) -> None:
    expected = Elmo.from_pretrained("welsh-small").encode(SENTENCES)
    other = Elmo.from_pretrained(made.model)
    other.set_mix([5.0, 0.0, 0.0])
    other.save_pretrained("welsh-small")
    local = Elmo.from_pretrained("welsh-small")
    assert "installed" not in local.description
    np.testing.assert_array_equal(local.encode(SENTENCES), expected)


def test_names_of_models_are_stored_as_references(installed: Path) -> None:
    reference = Elmo.from_pretrained("welsh-small").reference
    assert reference is not None
    assert reference.path == "welsh-small"


def copied(site: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install what is installed again, in another directory that may be changed."""
    for path in site.rglob("*"):
        if path.is_file():
            (out / path.relative_to(site)).parent.mkdir(parents=True, exist_ok=True)
            (out / path.relative_to(site)).write_bytes(path.read_bytes())
    monkeypatch.syspath_prepend(str(out))
    return out


def facts_changed(**changes: object) -> Callable[[Path], None]:
    def change(site: Path) -> None:
        path = site / "elmox_welsh_small" / "package.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def entry_point_changed(value: str) -> Callable[[Path], None]:
    def change(site: Path) -> None:
        (path,) = site.glob("elmox_welsh_small-*/entry_points.txt")
        path.write_text(f"[elmox.models]\nwelsh-small = {value}\n")

    return change


BROKEN = {
    "a newer format": (facts_changed(format=2), "has format 2, this elmox .* reads 1: upgrade"),
    "no format": (facts_changed(format=True), "has format True"),
    "a newer elmox": (facts_changed(requires="99.1"), "needs elmox 99.1 or newer, this is"),
    "another name": (facts_changed(name="irish-small"), "holds the model 'irish-small'"),
    "another part": (facts_changed(part="softmax"), "is not a model's package"),
    "an unknown key": (facts_changed(more=1), r"package\.json: more"),
    "no JSON": (
        lambda site: (site / "elmox_welsh_small" / "package.json").write_text("{"), "is not JSON",
    ),
    "no facts": (
        lambda site: (site / "elmox_welsh_small" / "package.json").unlink(),
        r"elmox-welsh-small \(entry point 'welsh-small'\) lacks .*package\.json: install it again",
    ),
    "no weights": (
        lambda site: (site / "elmox_welsh_small" / "model" / "model.safetensors").unlink(),
        "is not a model's package: install it again",
    ),
    "a path for a module": (entry_point_changed("../../etc"), "expected the name of a module"),
    "an attribute": (entry_point_changed("os.path:join"), "expected the name of a module"),
    "a module without files": (entry_point_changed("json"), "lacks json/package.json"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_packages(
    name: str, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking, message = BROKEN[name]
    breaking(copied(site, tmp_path, monkeypatch))
    with pytest.raises(ElmoxError, match=message):
        Elmo.from_pretrained("welsh-small")


def test_two_packages_of_one_name(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copied(site, tmp_path, monkeypatch)
    other = copy / "someones_welsh-2.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: someones-welsh\nVersion: 2.0\n")
    (other / "entry_points.txt").write_text("[elmox.models]\nwelsh-small = someones_welsh\n")
    with pytest.raises(ElmoxError, match=r"\(elmox-welsh-small, someones-welsh\): uninstall all"):
        installed_model("welsh-small")


def test_the_softmax_of_another_version(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts_changed(digest="0" * 32)(copied(site, tmp_path, monkeypatch))
    with pytest.raises(ElmoxError, match="has the softmax of another welsh-small"):
        Elmo.from_pretrained("welsh-small")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "Welsh_small"], "--name Welsh_small: expected lowercase letters"),
        (["--name", "english-small"], "is the name of the model that comes with elmox"),
        (["--name", "cy-softmax"], "is the name of a part of another package"),
        (["--taggers-apart"], "has no taggers: leave out --taggers-apart"),
        (["--version", "one"], "--version one: expected numbers such as 1.0.0"),
        (["--license-file", "missing"], "--license-file missing: there is no such file"),
        (["--tagger", "ner=missing"], "missing is not a fitted model"),
    ],
)
def test_refused(
    arguments: list[str],
    message: str,
    made: Made,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    assert_one_line(*run_here(["package", made.model, "--out", out, *arguments], capsys), message)
    assert not out.exists()


def test_taggers_of_another_model(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made.lm.elmo().save_pretrained(tmp_path / "full")  # not rounded to 8 bits
    arguments = ["package", tmp_path / "full", "--out", tmp_path / "out"]
    arguments += ["--tagger", f"ner={made.fitted}"]
    assert_one_line(*run_here(arguments, capsys), "was fitted with another biLM than --model full")


def test_taggers_in_a_package_of_their_own(
    made: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["package", made.model, "--name", "welsh-small", "--out", tmp_path / "out"]
    arguments += ["--tagger", f"ner={made.fitted}", "--tagger-dtype", "int8", "--taggers-apart"]
    code, _, err = run_here(arguments, capsys)
    assert code == 0, err
    pip_install(tmp_path / "site", tmp_path / "out" / "welsh-small")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ElmoxError, match="welsh-small has no ready tagger 'ner': it has none"):
        TaskPredictor.from_pretrained("welsh-small/ner")
    pip_install(tmp_path / "second", tmp_path / "out" / "welsh-small-taggers")
    monkeypatch.syspath_prepend(str(tmp_path / "second"))
    monkeypatch.chdir(tmp_path)
    tagger = TaskPredictor.from_pretrained("welsh-small/ner")
    expected = TaskPredictor.from_pretrained(made.fitted)
    assert tagger.predict([["Ada", "lived"]]) == expected.predict([["Ada", "lived"]])
    path = tmp_path / "second" / "elmox_welsh_small_taggers" / "package.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"digest": "0" * 32}))
    with pytest.raises(ElmoxError, match="has the taggers of another welsh-small"):
        TaskPredictor.from_pretrained("welsh-small/ner")


def test_existing_projects_are_kept(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments: list[object] = ["package", made.model, "--out", tmp_path]
    assert run_here(arguments, capsys)[0] == 0
    assert_one_line(*run_here(arguments, capsys), "exists already", "--force")
    assert run_here([*arguments, "--force", "--version", "1.1"], capsys)[0] == 0
    assert 'version = "1.1"' in (tmp_path / "cy" / "pyproject.toml").read_text()
    (tmp_path / "cy" / "pyproject.toml").unlink()
    assert_one_line(*run_here([*arguments, "--force"], capsys), "holds other things than a package")
    (tmp_path / "empty").mkdir()
    arguments = ["package", tmp_path / "empty", "--out", tmp_path / "out"]
    assert_one_line(*run_here(arguments, capsys), "is not a model directory")
