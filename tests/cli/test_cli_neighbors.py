"""`elmox neighbors` prints the neighbors that the library finds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from shell import assert_one_line, environment, run_here

from elmox.elmo import Elmo
from elmox.probes.neighbors import Neighbors, find_neighbors

TEXT = "The actors left the play .\n\nRain stopped play [ again ] .\nShe wrote a Play\nThe ball\n"
SENTENCES = [line.split() for line in TEXT.splitlines()]
SENTENCE = "a play is a play"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    return tmp_path / "text.txt"


def shown(neighbors: Neighbors) -> tuple[list[str], list[str]]:
    """Return the lines of both lists as they should be printed."""
    contexts = []
    for near in neighbors.in_context:
        words = list(near.sentence)
        words[near.position] = f"[{near.word}]"
        contexts.append(f"{near.similarity:.4f}\t{near.word}\t{' '.join(words)}")
    return contexts, [f"{near.similarity:.4f}\t{near.word}" for near in neighbors.context_free]


def test_lists(tiny: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elmo = Elmo.from_pretrained(tiny)
    tokens = SENTENCE.split()
    plain = find_neighbors(elmo, tokens, 1, SENTENCES)
    chosen = find_neighbors(elmo, tokens, 4, SENTENCES, layers=1, k=2, same_word=True)
    options = ["--occurrence", "2", "--layers", "1", "-k", "2", "--same-word"]
    cases: list[tuple[list[str], str, Neighbors]] = [
        ([], "layers top: a [play] is a play", plain),
        (options, "layers 1: a play is a [play]", chosen),
    ]
    for more, query, neighbors in cases:
        code, out, err = run_here(
            ["neighbors", tiny, text, SENTENCE, "--tokenized", "--word", "play", *more], capsys
        )
        assert (code, err) == (0, "")
        contexts, words = shown(neighbors)
        assert out.splitlines() == [
            f"in context, {query}", *contexts, "", "without context: play", *words
        ]  # fmt: skip


def test_json_and_raw_text(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = tmp_path / "raw.txt"
    raw.write_text("The actors didn't like the play. Rain stopped play.\n")
    arguments = [tiny, raw, "A play isn't a game.", "--word", "play", "--json"]
    code, out, err = run_here(["neighbors", *arguments], capsys)
    assert (code, err) == (0, "")
    values = json.loads(out)
    assert " ".join(values["sentence"]) == "A play is n't a game ."
    assert (values["word"], values["position"], values["layers"]) == ("play", 1, "top")
    assert (values["num_sentences"], values["num_tokens"]) == (2, 12)
    split = [line.split() for line in ("The actors did n't like the play .", "Rain stopped play .")]
    neighbors = find_neighbors(Elmo.from_pretrained(tiny), values["sentence"], 1, split)
    assert len(values["in_context"]) == 2
    for near, neighbor in zip(values["in_context"], neighbors.in_context, strict=True):
        assert near["sentence"] == list(neighbor.sentence)
        assert near["word"] == neighbor.word == near["sentence"][near["position"]]
        assert near["similarity"] == pytest.approx(neighbor.similarity, abs=1e-6)
    assert [near["word"] for near in values["context_free"]] == [
        near.word for near in neighbors.context_free
    ]


def test_bad_input(
    tiny: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    cases: list[tuple[Path, list[str], list[str]]] = [
        (text, ["--word", "plays"], ["'plays' is not a token", "a play is a play"]),
        (text, ["--word", "play", "--occurrence", "3"], ["occurrence 3", "1 to 2"]),
        (text, ["--word", "play", "--layers", "all"], ["--layers all"]),
        (text, ["--word", "play", "--layers", "9"], ["layer 9 does not exist"]),
        (tmp_path / "gone.txt", ["--word", "play"], ["gone.txt does not exist"]),
        (tmp_path / "empty.txt", ["--word", "play"], ["no words"]),
    ]
    for where, more, messages in cases:
        assert_one_line(*run_here(["neighbors", tiny, where, SENTENCE, *more], capsys), *messages)
    code, out, err = run_here(["neighbors", tiny, text, SENTENCE], capsys)
    assert (code, out) == (2, "")
    assert "--word" in err


def test_help_needs_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "elmox", "neighbors", "--help"],
        capture_output=True,
        env=environment(),
        text=True,
        check=True,
    )
    assert "--same-word" in done.stdout
    names = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert not names & {"torch", "numpy", "h5py"}
