"""`elmox probe wsd`: from files to a table, JSON and a picture."""

import json
import sys
from pathlib import Path

import pytest
from sense_data import ANIMAL, write_sense_data
from shell import assert_one_line, run_here, tree

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory with the data; the model is elsewhere."""
    write_sense_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arguments(model: Path, *more: object, train: str = "semcor.jsonl") -> list[object]:
    data = ["--train", train, "--test", "Evaluation_Datasets", "--senses", "index.sense"]
    return ["probe", "wsd", model, *data, *more]


def without_command(text: str) -> str:
    return "\n".join(
        line for line in text.splitlines() if not line.startswith(("- command", "- tr"))
    )


def test_table_json_and_picture(here: Path, tiny: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    code, out, err = run_here(arguments(tiny, "--out", "report"), capsys)
    assert (code, err) == (0, "")
    assert sorted(tree(here / "report")) == ["wsd.json", "wsd.md", "wsd.png", "wsd.svg"]
    assert (here / "report" / "wsd.md").read_text("utf-8") == out
    report = json.loads((here / "report" / "wsd.json").read_text("utf-8"))
    assert report["num_instances"] == {"senseval2": 2, "semeval2015": 4, "ALL": 6}
    assert report["num_unseen"]["ALL"] == 1
    assert report["f1"]["first sense"]["ALL"] == pytest.approx(500 / 6)  # all but the shore
    assert report["f1"]["layer 1"]["ALL"] == pytest.approx(100)
    assert report["command"].startswith(f"elmox probe wsd {tiny} --train semcor.jsonl")
    assert report["training"]["num_unknown_tags"] == 1
    assert "| first sense | 100.0 | 75.0 | 83.3 |" in out.splitlines()
    assert "| layer 1 | 100.0 | 100.0 | 100.0 |" in out.splitlines()
    assert "layer 1 - first sense" in out


def test_the_xml_of_the_same_text_gives_the_same_table(
    here: Path, tiny: Path, capsys: Capture
) -> None:
    _, lines, _ = run_here(arguments(tiny), capsys)
    code, xml, err = run_here(arguments(tiny, train="semcor.data.xml"), capsys)
    assert (code, err) == (0, "")
    assert without_command(xml) == without_command(lines)
    assert "| layer 2 |" in xml


def test_json_on_stdout(here: Path, tiny: Path, capsys: Capture) -> None:
    before = tree(here)
    code, out, err = run_here(arguments(tiny, "--json"), capsys)
    assert (code, err) == (0, "")
    assert json.loads(out)["differences"][0]["system"] == "layer 0"
    assert tree(here) == before


def test_without_matplotlib_there_is_no_picture_but_all_the_rest(
    here: Path, tiny: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = run_here(arguments(tiny, "--out", "report"), capsys)
    assert code == 0
    assert "| layer 2 |" in out
    assert err.count("\n") == 1
    assert "elmox[plots]" in err
    assert sorted(tree(here / "report")) == ["wsd.json", "wsd.md"]


def test_nothing_is_overwritten(here: Path, tiny: Path, capsys: Capture) -> None:
    (here / "report").mkdir()
    (here / "report" / "wsd.svg").write_text("mine")
    assert_one_line(*run_here(arguments(tiny, "--out", "report"), capsys), "report/wsd.svg exists")
    assert (here / "report" / "wsd.svg").read_text() == "mine"
    assert run_here(arguments(tiny, "--out", "report", "--force"), capsys)[0] == 0
    assert "wsd.json" in tree(here / "report")


def test_bad_files_end_in_one_line(here: Path, tiny: Path, capsys: Capture) -> None:
    wrong: list[tuple[str, str]] = [
        ("nowhere.jsonl", "--train nowhere.jsonl is not a file"),
        ("index.sense", "--train index.sense: expected NAME.data.xml"),
    ]
    for train, message in wrong:
        assert_one_line(*run_here(arguments(tiny, train=train), capsys), message)
    (here / "semcor.gold.key.txt").unlink()
    outcome = run_here(arguments(tiny, train="semcor.data.xml"), capsys)
    assert_one_line(*outcome, "semcor.gold.key.txt does not exist")
    lines = (here / "index.sense").read_text().splitlines(keepends=True)
    (here / "index.sense").write_text("".join(line for line in lines if "zebra" not in line))
    outcome = run_here(arguments(tiny), capsys)
    assert_one_line(*outcome, "senseval2, d000.s001.t001: zebra (n) is not in the index")
    assert ANIMAL not in outcome[2]
