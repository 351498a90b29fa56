"""The script that fits the ready taggers, on a few sentences, and its corpus of entities."""

import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest
from shell import environment
from task_runs import BENCHMARKS

from elmox import Elmo, TaskPredictor
from elmox.pretrained.native import TAGGERS_FOLDER

TWEETS = "Ada\tB-PER\nof\tO\nParis\tB-LOC\nsang\tO\n\nno\tO\n\n"
NEWS = "IBM\tB-ORG\nmet\tO\nAda\tB-PER\nLovelace\tI-PER\nthere\tO\n\n"
EMERGING = "The\tB-creative-work\nHobbit\tI-creative-work\nby\tO\nAcme\tB-corporation\n\n"


def write_corpora(folder: Path) -> Path:
    """The published files of the entities, as the script expects them."""
    for name in ("ner_btc", "ner_gmb", "ner_wnut17"):
        (folder / name).mkdir(parents=True)
    for part in ("train", "dev", "test"):
        (folder / "ner_btc" / f"{part}.conll").write_text(TWEETS)
        (folder / "ner_gmb" / f"{part}.conll.xz").write_bytes(lzma.compress(NEWS.encode()))
    for name in ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"):
        (folder / "ner_wnut17" / name).write_text(EMERGING)
    return folder


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


def test_entities_of_one_inventory(tmp_path: Path) -> None:
    data = write_corpora(tmp_path / "data")
    train = [data / "ner_btc/train.conll", data / "ner_wnut17/wnut17train.conll"]
    test = data / "ner_gmb/test.conll.xz"
    arguments = [tmp_path / "out", "--train", *train, "--dev", train[0], "--test", test]
    done = run("entities.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert "wnut17train.conll: 1 sentences, 4 words; dropped 0 sentences" in done.stdout
    assert "1 creative-work" in done.stdout
    # What dev has is not in train, except sentences of up to three words.
    assert "train: train.conll: 1 sentences, 1 words; dropped 1 sentences" in done.stdout
    text = (tmp_path / "out" / "train.txt").read_text()
    assert text == "no\tO\n\nThe\tO\nHobbit\tO\nby\tO\nAcme\tB-ORG\n\n"
    assert run("entities.py", *arguments).stderr.count("exists already") == 1


@pytest.fixture
def model(tiny: Path, tmp_path: Path) -> Path:
    Elmo.from_pretrained(tiny).save_pretrained(tmp_path / "tiny-english", dtype="int8")
    return tmp_path / "tiny-english"


def test_fitted_stored_and_scored(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "taggers"
    arguments: list[object] = [out, "--elmo", model, "--data", write_corpora(tmp_path / "data")]
    arguments += ["--tasks", "ner", "--device", "cpu", "--minutes", "2"]
    arguments += ["--set", "fit.epochs=1", "--set", "fit.least_updates=2", "--set", "words.dim=4"]
    arguments += ["--set", "head.hidden=[8]"]
    done = run("ready_taggers.py", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((out / "ready_taggers.json").read_text())
    assert summary["model"] == "tiny-english"
    ner = summary["taggers"]["ner"]
    assert (ner["metric"], ner["seeds"]) == ("f1", 1)
    assert ner["dev"].keys() == ner["test"].keys() == {"f1", "precision", "recall"}
    assert ner["dtype"] in ("int8", "float16")
    assert ner["bytes"] < 1_000_000
    ready = out / "ready" / "ner"
    assert str(tmp_path) not in (ready / "config.json").read_text()  # the biLM is named alone
    (model / TAGGERS_FOLDER).mkdir()
    ready.rename(model / TAGGERS_FOLDER / "ner")
    tagger = TaskPredictor.from_pretrained(model / TAGGERS_FOLDER / "ner")
    scores = tagger.score(out / "corpora" / "entities" / "dev.txt")
    assert scores == pytest.approx(ner["dev"])


def test_a_fit_that_fails_is_reported(model: Path, tmp_path: Path) -> None:
    data = write_corpora(tmp_path / "data")
    arguments = [tmp_path / "out", "--elmo", model, "--data", data, "--tasks", "ner"]
    done = run("ready_taggers.py", *arguments, "--set", "fit.epochs=0")
    assert done.returncode == 1
    assert "failed: ready_taggers.py: " in done.stdout
    assert "fit.epochs" in done.stdout
