"""`elmox probe pos`: from CoNLL-U files to a table, JSON and a picture."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from shell import assert_one_line, environment, run_here, tree
from treebank_data import write_treebank

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory with a treebank; the model is elsewhere."""
    write_treebank(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arguments(model: Path, *more: object) -> list[object]:
    data = ["--train", "train.conllu", "--dev", "dev.conllu", "--test", "test.conllu"]
    return ["probe", "pos", model, *data, *more]


def test_help_needs_no_torch(capsys: Capture) -> None:
    code, out, err = run_here(["probe", "--help"], capsys)
    assert (code, err) == (0, "")
    assert "pos" in out
    assert "wsd" in out
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "elmox", "probe", "pos", "--help"],
        capture_output=True,
        env=environment(),
        text=True,
        check=True,
    )
    for option in ("--train", "--dev", "--test", "--tags", "--seeds", "--seed", "--out", "--json"):
        assert option in done.stdout
    names = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert not names & {"torch", "numpy", "matplotlib"}


def test_table_json_and_picture(here: Path, tiny: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    more = ("--seeds", 2, "--seed", 3, "--tags", "upos", "--json", "--out", "report")
    code, out, err = run_here(arguments(tiny, *more), capsys)
    assert (code, err) == (0, "")
    assert sorted(tree(here / "report")) == ["pos.json", "pos.md", "pos.png", "pos.svg"]
    report = json.loads((here / "report" / "pos.json").read_text("utf-8"))
    assert json.loads(out) == report
    assert report["command"].startswith(f"elmox probe pos {tiny} --train train.conllu")
    assert report["train"] == "train.conllu"
    assert (report["options"]["seed"], report["options"]["tags"]) == (3, "upos")
    assert report["parts"]["dev"]["num_sentences"] == 40
    layers = {layer["name"]: layer for layer in report["layers"]}
    assert layers["layer 0"]["test"] == [100.0, 100.0]
    assert layers["layer 0"]["test_mean"] == 100.0
    assert layers["layer 2"]["test_deviation"] >= 0
    table = (here / "report" / "pos.md").read_text("utf-8")
    assert "\n| layer 0 | 100.00 ± 0.00 | 100.00 ± 0.00 | 100.00 to 100.00 | " in table
    for text in ("- probe: seeds 3 to 4", "- dev: dev.conllu", "| layer 1 - layer 2 | "):
        assert text in table


def test_nothing_is_overwritten_and_nothing_computed_for_it(
    here: Path, tiny: Path, capsys: Capture
) -> None:
    (here / "report").mkdir()
    (here / "report" / "pos.svg").write_text("mine")
    assert_one_line(*run_here(arguments(tiny, "--out", "report"), capsys), "report/pos.svg exists")
    assert tree(here / "report").keys() == {"pos.svg"}


def test_bad_files_end_in_one_line(here: Path, tiny: Path, capsys: Capture) -> None:
    (here / "dev.conllu").write_text("1\tcat\n", "utf-8")
    assert_one_line(*run_here(arguments(tiny), capsys), "dev.conllu, line 1: 2 columns")
    (here / "dev.conllu").unlink()
    assert_one_line(*run_here(arguments(tiny), capsys), "dev.conllu does not exist")
    code, _, err = run_here(arguments(tiny, "--tags", "deprel"), capsys)
    assert code == 2
    assert "'deprel' is not one of" in err
