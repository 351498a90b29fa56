"""`elmox eval`, `score` and `predict` print the values of the library."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from language_models import TinyLm, forward_only, tiny_lm
from shell import assert_one_line, environment, run_elmox, run_here

from elmox.config import BUNDLED
from elmox.elmo import Elmo

TEXT = "The cat sat .\n\nThe dog sat unbelievably naïve\n天\n"
SENTENCES = [["The", "cat", "sat", "."], ["The", "dog", "sat", "unbelievably", "naïve"], ["天"]]


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> TinyLm:
    return tiny_lm(tmp_path_factory.mktemp("lm"))


@pytest.fixture(scope="module")
def model(lm: TinyLm) -> Path:
    """Write a model directory with a softmax."""
    lm.elmo().save_pretrained(lm.weights.parent / "native")
    return lm.weights.parent / "native"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    return tmp_path / "text.txt"


@pytest.mark.parametrize("verb", ["eval", "score", "predict"])
def test_help_needs_no_torch(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_here([verb, "--help"], capsys)
    assert (code, err) == (0, "")
    for option in ("--softmax", "--softmax-vocab", "--device", "--json", "--tokenized"):
        assert option in out
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "elmox", verb, "--help"],
        capture_output=True,
        env=environment(),
        text=True,
        check=True,
    )
    names = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert not names & {"torch", "numpy", "h5py"}


def test_eval(model: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = Elmo.from_pretrained(model).evaluate(SENTENCES).to_dict()
    code, out, err = run_here(["eval", model, text, "--tokenized", "--json"], capsys)
    assert (code, err) == (0, "")
    assert json.loads(out) == pytest.approx(expected, rel=1e-6)
    code, out, err = run_here(["eval", model, text, "--tokenized"], capsys)
    assert (code, err) == (0, "")
    rows = dict(line.split("  ", 1) for line in out.splitlines())
    assert rows["sentences"].strip() == "3"
    assert rows["tokens"].strip() == "13"
    assert rows["unknown share"].strip() == "20.00%"
    assert rows["perplexity"].strip() == f"{expected['perplexity']:,.3f}"
    assert float(rows["bits per character"]) == pytest.approx(
        expected["bits_per_character"], abs=1e-3
    )


def test_eval_of_ai2_files_and_stdin(lm: TinyLm, model: Path) -> None:
    done = run_elmox(
        "eval", lm.weights, "-", "--tokenized", "--json",
        "--softmax", lm.softmax, "--softmax-vocab", lm.vocab, stdin=TEXT.encode(),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    expected = Elmo.from_pretrained(model).evaluate(SENTENCES).to_dict()
    assert json.loads(done.stdout) == pytest.approx(expected, rel=1e-6)


def test_eval_of_raw_text(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "raw.txt").write_text("The cat sat. The cat didn't sit.")
    code, out, err = run_here(["eval", model, tmp_path / "raw.txt", "--json"], capsys)
    assert (code, err) == (0, "")
    values = json.loads(out)
    assert (values["num_sentences"], values["num_words"]) == (2, 10)


def test_eval_of_a_forward_model(
    model: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forward_only(Elmo.from_pretrained(model)).save_pretrained(tmp_path / "forward")
    code, out, _ = run_here(["eval", tmp_path / "forward", text, "--tokenized"], capsys)
    assert code == 0
    assert "backward perplexity          none: the model only reads forward\n" in out


def test_score(model: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_here(["score", model, text, "--tokenized"], capsys)
    assert (code, err) == (0, "")
    scores = iter(Elmo.from_pretrained(model).score(SENTENCES))
    lines = out.splitlines()
    assert len(lines) == len(TEXT.splitlines())
    for line, shown in zip(TEXT.splitlines(), lines, strict=True):
        if not line:
            assert shown == ""
            continue
        log_prob, perplexity, sentence = shown.split("\t")
        score = next(scores)
        assert sentence == line
        assert float(log_prob) == pytest.approx(score.log_prob, abs=1e-3)
        assert float(perplexity) == pytest.approx(score.perplexity, abs=1e-2)


def test_score_of_tokens(model: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_here(["score", model, text, "--tokenized", "--tokens"], capsys)
    assert (code, err) == (0, "")
    scores = Elmo.from_pretrained(model).score(SENTENCES)
    blocks = out.strip("\n").split("\n\n")
    assert len(blocks) == len(scores)
    for block, score in zip(blocks, scores, strict=True):
        assert score.backward is not None
        rows = [line.split("\t") for line in block.split("\n")]
        assert [row[0] for row in rows] == ["<S>", *score.tokens, "</S>"]
        left = [float(row[1]) for row in rows[1:]]
        right = [float(row[2]) for row in rows[:-1]]
        assert left == pytest.approx(score.forward.tolist(), abs=1e-3)
        assert [*right[1:], right[0]] == pytest.approx(score.backward.tolist(), abs=1e-3)
        assert [row[3] == "unknown" for row in rows[1:-1]] == score.unknown.tolist()
        assert rows[0][1] == rows[-1][2] == ""


def test_score_as_json(model: Path, capsys: pytest.CaptureFixture[str], text: Path) -> None:
    code, out, err = run_here(["score", model, text, "--tokenized", "--json"], capsys)
    assert (code, err) == (0, "")
    entries = [json.loads(line) for line in out.splitlines()]
    assert [entry["line"] for entry in entries] == [1, 3, 4]
    for entry, score in zip(entries, Elmo.from_pretrained(model).score(SENTENCES), strict=True):
        assert tuple(entry["tokens"]) == score.tokens
        assert entry["forward"] == pytest.approx(score.forward.tolist(), abs=1e-5)
        assert entry["log_prob"] == pytest.approx(score.log_prob, abs=1e-5)
        assert entry["unknown"] == score.unknown.tolist()


def test_predict_uses_the_bundled_model_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, alone, _ = run_here(["predict", "I buy a ___.", "-k", "3"], capsys)
    assert code == 0
    _, named, _ = run_here(["predict", BUNDLED, "I buy a ___.", "-k", "3"], capsys)
    assert alone == named
    assert len(alone.splitlines()) == 3


def test_predict(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elmo = Elmo.from_pretrained(model)
    cases = [
        (["The ___ sat .", "--tokenized"], elmo.predict(["The", "___", "sat", "."])),
        (
            ["The ___ sat .", "--tokenized", "-k", "3"],
            elmo.predict(["The", "___", "sat", "."], k=3),
        ),
        (["The ___ sat."], elmo.predict(["The", "___", "sat", "."])),
        (["The cat (___)."], elmo.predict(["The", "cat", "(", "___", ")", "."])),
        (
            ["The cat sat.", "--position", "1", "--direction", "left"],
            elmo.predict(["The", "cat", "sat", "."], 1, direction="left"),
        ),
    ]
    for arguments, expected in cases:
        code, out, err = run_here(["predict", model, *arguments, "--json"], capsys)
        assert (code, err) == (0, "")
        predictions = [(entry["word"], entry["probability"]) for entry in json.loads(out)]
        assert [word for word, _ in predictions] == [prediction.word for prediction in expected]
        _, out, _ = run_here(["predict", model, *arguments], capsys)
        lines = [line.split("\t") for line in out.splitlines()]
        assert [word for _, word in lines] == [word for word, _ in predictions]
        for (shown, _), (_, probability) in zip(lines, predictions, strict=True):
            assert float(shown) == pytest.approx(probability, abs=1e-6)


def test_predictions_are_words(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_here(["predict", model, "The ___ sat .", "-k", 99], capsys)
    probabilities = {line.split("\t")[1]: float(line.split("\t")[0]) for line in out.splitlines()}
    assert not probabilities.keys() & {"<S>", "</S>", "<UNK>"}
    assert sum(probabilities.values()) == pytest.approx(1.0, abs=1e-4)
    _, out, _ = run_here(["predict", "--help"], capsys)
    assert "<S>, </S> and <UNK> are left out" in " ".join(out.split())


def test_convert_carries_the_softmax(
    lm: TinyLm, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    softmax = ["--softmax", lm.softmax, "--softmax-vocab", lm.vocab]
    assert run_here(["convert", lm.weights, tmp_path / "native", *softmax], capsys)[0] == 0
    assert run_here(["convert", tmp_path / "native", tmp_path / "out.hdf5"], capsys)[0] == 0
    assert (tmp_path / "out_softmax.hdf5").is_file()
    assert (tmp_path / "out_vocab.txt").is_file()
    figures = []
    for arguments in ([lm.weights, text, *softmax], [tmp_path / "native", text],
                      [tmp_path / "out.hdf5", text]):  # fmt: skip
        code, out, _ = run_here(["eval", *arguments, "--tokenized", "--json"], capsys)
        assert code == 0
        figures.append(json.loads(out))
    assert figures[1] == pytest.approx(figures[0], rel=1e-6)
    assert figures[2] == pytest.approx(figures[0], rel=1e-6)
    arguments = ["convert", tmp_path / "native", tmp_path / "bare", "--no-softmax"]
    assert run_here(arguments, capsys)[0] == 0
    assert not (tmp_path / "bare" / "softmax.safetensors").exists()
    for path, expected in ((tmp_path / "native", True), (tmp_path / "bare", False)):
        assert json.loads(run_here(["info", path, "--json"], capsys)[1])["softmax"] is expected


def test_a_damaged_softmax_is_not_converted(
    lm: TinyLm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lm.elmo().save_pretrained(tmp_path / "model")
    with (tmp_path / "model" / "vocab.txt").open("a") as file:
        file.write("more\n")
    for message in ("another checksum", "12 words"):
        for output in ("out", "out.hdf5"):
            code, out, err = run_here(["convert", tmp_path / "model", tmp_path / output], capsys)
            assert_one_line(code, out, err, message)
        (tmp_path / "model" / "checksums.json").unlink(missing_ok=True)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    "arguments", [["eval", "text.txt"], ["score", "text.txt"], ["predict", "a ___ ."]]
)
def test_a_model_without_a_softmax(
    arguments: list[str], lm: TinyLm, text: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(text.parent)
    verb, what = arguments
    code, out, err = run_here([verb, lm.weights, what], capsys)
    assert_one_line(code, out, err, "has no softmax", "--softmax and --softmax-vocab")


def test_bad_input(
    lm: TinyLm, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "latin-1.txt").write_bytes(b"a\nna\xefve\n")
    (tmp_path / "empty.txt").write_text("\n\n")
    cases = [
        (["eval", model, tmp_path / "latin-1.txt"], ["latin-1.txt, line 2", "UTF-8"]),
        (["score", model, tmp_path / "latin-1.txt"], ["latin-1.txt, line 2", "UTF-8"]),
        (["eval", model, tmp_path / "empty.txt"], ["no words"]),
        (["eval", model, tmp_path / "gone.txt"], ["gone.txt does not exist"]),
        (["score", model, tmp_path], ["is a directory"]),
        (["predict", model, "no blank here"], ["has no gap ___"]),
        (["predict", model, "a b", "--position", "3"], ["position 3", "0 to 2"]),
        (["predict", lm.weights, "a ___", "--softmax", lm.softmax], ["together"]),
        (["predict", model, "a ___", "--device", "abacus"], ["--device abacus"]),
    ]
    for arguments, messages in cases:
        assert_one_line(*run_here(arguments, capsys), *messages)


def test_bad_usage(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["-k", "0"], ["--direction", "up"], ["--position", "-1"]):
        code, out, err = run_here(["predict", model, "a ___", *arguments], capsys)
        assert (code, out) == (2, "")
        assert arguments[0] in err.splitlines()[-1]


def test_score_of_nothing(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.txt").write_text("")
    assert run_here(["score", model, tmp_path / "empty.txt"], capsys) == (0, "", "")


def test_perplexity_is_that_of_the_log_probability(
    model: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run_here(["score", model, text, "--tokenized"], capsys)
    for line in out.splitlines():
        if line:
            log_prob, perplexity, sentence = line.split("\t")
            expected = math.exp(-float(log_prob) / (len(sentence.split()) + 1))
            assert float(perplexity) == pytest.approx(expected, rel=1e-3)
