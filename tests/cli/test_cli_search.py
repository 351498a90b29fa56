"""`elmox index` and `elmox search` print what the library returns."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from shell import assert_one_line, environment, run_here

from elmox import OccurrenceIndex

TEXT = "The bank of the river.\nA bank lends money. My bank is closed.\n\nNo river here.\n"


@pytest.fixture
def index(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    path = tmp_path / "text.index"
    code, out, err = run_here(
        ["index", tiny, tmp_path / "text.txt", path, "--min-count", 1], capsys
    )
    assert (code, out) == (0, "")
    assert err.startswith(f"elmox: 8 uses of 5 words in {path}; 20 tokens in ")
    return path


def test_search(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "The **bank** of a lake"
    matches = OccurrenceIndex.open(index).search(query, top_k=2)
    code, out, err = run_here(["search", index, query, "--top", 2], capsys)
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"{m.similarity:.4f}\t{m.use.line}\t{m.use}" for m in matches]
    assert "[bank]" in out
    code, out, _ = run_here(
        ["search", index, "The bank of a lake", "--word", "bank", "-k", 2, "--json"], capsys
    )
    values = json.loads(out)["matches"]
    assert [value["sentence"] for value in values] == [match.use.sentence for match in matches]
    assert [value["line"] for value in values] == [match.use.line for match in matches]


def test_any_word_and_cluster(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_here(["search", index, "A **lake** here", "--any-word"], capsys)
    assert code == 0
    assert len(out.splitlines()) == 4  # each sentence once
    code, out, err = run_here(["search", index, "bank", "--cluster", "--senses", 2], capsys)
    assert (code, err) == (0, "")
    assert out.startswith("sense 1: 2 uses, 67%\n\t")
    assert "\nsense 2: 1 uses, 33%\n" in out
    _, out, _ = run_here(["search", index, "bank", "--cluster", "--json"], capsys)
    values = json.loads(out)
    assert values["word"] == "bank"
    assert sum(sense["num_uses"] for sense in values["senses"]) == 3


def test_options_of_index(
    index: Path, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stop.txt").write_text("river\nno\n")
    out_path = tmp_path / "few.index"
    command = ["index", tiny, tmp_path / "text.txt", out_path]
    code, out, _ = run_here([*command, "--words", "bank, River", "--json"], capsys)
    values = json.loads(out)
    assert (code, values["num_uses"], values["num_words"], values["num_lines"]) == (0, 5, 2, 4)
    _, _, err = run_here([*command, "--words", "bank, River"], capsys)
    assert "complete, no work left" in err
    stop = ["--stop-words", tmp_path / "stop.txt", "--min-count", 2, "--max-per-word", 1]
    assert run_here([*command, *stop, "--force"], capsys)[0] == 0
    few = OccurrenceIndex.open(out_path)
    assert few.words == ["bank", "the"]
    assert few.count("bank") == 1


def test_bad_input(
    index: Path, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    cases: list[tuple[list[object], list[str]]] = [
        (["search", index, "The **lake**"], ["no uses of 'lake'", "--any-word"]),
        (["search", index, "The bank"], ["no marked word", "--word"]),
        (["search", text, "The **bank**"], ["text.txt", "not an index"]),
        (["search", tmp_path / "gone", "The **bank**"], ["gone does not exist"]),
        (["search", index, "The **bank**", "--senses", 2], ["--senses needs --cluster"]),
        (["search", index, "The **bank**", "--elmo", "english-small"], ["another model"]),
        (["index", tiny, text, index], ["exists already", "--force"]),
        (["index", tiny, "-", tmp_path / "x"], ["stdin"]),
        (["index", tiny, text, tmp_path / "x", "--layers", "all"], ["--layers all"]),
        (["index", tiny, text, tmp_path / "x"], ["no content word", "5 times"]),
    ]
    for arguments, messages in cases:
        assert_one_line(*run_here(arguments, capsys), *messages)
    assert not (tmp_path / "x.partial").exists()


@pytest.mark.parametrize("verb", ["index", "search"])
def test_help_needs_no_torch(verb: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "elmox", verb, "--help"],
        capture_output=True,
        env=environment(),
        text=True,
        check=True,
    )
    names = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert not names & {"torch", "numpy", "faiss"}
