"""`elmox fit`, `elmox tag` and `elmox eval` on labeled files."""

import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fits import tag_objects
from shell import assert_one_line, kill_after_lines, run_elmox, run_here
from tagged_files import NAMES, write_columns

from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.registry import TASKS

SETTINGS = ["words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=[12,12]"]
BY_HEART = ["head.dropout=0", "words.dropout=0", "elmo.dropout=0", "fit.lr=0.03"]
BY_HEART += ["fit.least_updates=1"]


def arguments(folder: Path, model: object, *more: str) -> list[object]:
    """Fit ten sentences of names with a tiny model."""
    data = folder / "names.txt"
    if not data.exists():
        write_columns(data, NAMES)
    changes = [part for change in [*SETTINGS, *BY_HEART] for part in ("--set", change)]
    files = ["--train", data, "--dev", data, "--out", folder / "run"]
    return ["fit", "ner", *files, "--elmo", model, "--cache", folder / "cache", *changes, *more]


def test_fit_tag_and_eval(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model is used in a new process, which only gets its directory."""
    more = ["--set", "fit.epochs=30", "--set", "fit.patience=12", "--set", "fit.batch_size=4"]
    code, out, err = run_here(arguments(tmp_path, tiny, "--place", "both", *more), capsys)
    assert code == 0, err
    assert out.splitlines() == ["dev f1 100.00", f"model {tmp_path / 'run' / 'seed-0' / 'model'}"]
    assert "ELMo's layers of train: computed" in err
    model = tmp_path / "run" / "seed-0" / "model"
    text = "\n".join(" ".join(word for word, _ in sentence) for sentence in NAMES)
    done = run_elmox("tag", model, "-", "--tokenized", stdin=f"{text}\n\n".encode())
    assert done.returncode == 0, done.stderr
    expected = "".join("".join(f"{w}\t{t}\n" for w, t in s) + "\n" for s in NAMES)
    assert done.stdout == expected
    code, out, err = run_here(["eval", model, tmp_path / "names.txt", "--json"], capsys)
    assert (code, json.loads(out)) == (0, {"f1": 100.0, "precision": 100.0, "recall": 100.0}), err
    text = "Hi!\nAda lived in New York. Charles met Grace."
    (tmp_path / "raw.txt").write_text(text)
    code, out, err = run_here(["tag", model, tmp_path / "raw.txt", "--json"], capsys)
    assert code == 0, err
    sentences = [json.loads(line) for line in out.splitlines()]
    assert [(sentence["line"], sentence["tokens"][0]) for sentence in sentences] == [
        (1, "Hi"),
        (2, "Ada"),
        (2, "Charles"),
    ]
    for sentence in sentences:
        line = text.splitlines()[sentence["line"] - 1]
        assert [line[start:end] for start, end in sentence["offsets"]] == sentence["tokens"]
        assert len(sentence["tags"]) == len(sentence["tokens"])
        for span in sentence["spans"]:
            assert sentence["tags"][span["start"]] == f"B-{span['label']}"


def test_texts_of_every_kind(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON lines by any name and over stdin, compressed text, empty lines; all as in Python."""
    code, _, err = run_here(arguments(tmp_path, tiny, "--set", "fit.epochs=1"), capsys)
    assert code == 0, err
    model = tmp_path / "run" / "seed-0" / "model"
    values: list[dict[str, Any]] = [
        {"text": "Hi there. You too!", "id": 4},
        {"id": 5, "text": ""},
        {"tokens": ["Ada"]},
    ]
    lines = "".join(json.dumps(value) + "\n" for value in values).encode()
    expected = tag_objects(TaskPredictor.from_pretrained(model, device="cpu"), values)
    tokens = [["Hi", "there", "."], ["You", "too", "!"], [], ["Ada"]]
    assert [sentence["tokens"] for sentence in expected] == tokens
    assert expected[2] == {"id": 5, "tokens": [], "tags": [], "spans": [], "offsets": []}
    assert expected[1]["offsets"] == [[10, 13], [14, 17], [17, 18]]  # in the whole text
    (tmp_path / "a.JSONL").write_bytes(lines)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines))
    (tmp_path / "a.txt").write_bytes(lines)
    for name, option in (("a.JSONL", []), ("a.jsonl.gz", []), ("a.txt", ["--json-lines"])):
        code, out, err = run_here(["tag", model, tmp_path / name, *option], capsys)
        assert [json.loads(line) for line in out.splitlines()] == expected, err
    done = run_elmox("tag", model, "-", "--json-lines", stdin=lines)
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected, done.stderr
    both = run_here(["tag", model, tmp_path / "a.txt", "--tokenized", "--json-lines"], capsys)
    assert_one_line(*both, "leave out --tokenized")
    done = run_elmox("tag", model, "-", "--json-lines", stdin=b"{}\n")
    message = "elmox: -, line 1: the keys are missing, expected text or tokens\n"
    assert done.stderr == message
    (tmp_path / "text.xz").write_bytes(lzma.compress(b"Ada slept\n\nParis\n"))
    code, out, err = run_here(["tag", model, tmp_path / "text.xz", "--json"], capsys)
    assert [json.loads(line)["tokens"] for line in out.splitlines()] == [
        ["Ada", "slept"],
        [],
        ["Paris"],
    ], err
    (tmp_path / "cut.xz").write_bytes(lzma.compress(b"Ada slept\n")[:-9])
    code, out, err = run_here(["tag", model, tmp_path / "cut.xz"], capsys)
    assert_one_line(code, out, err, "cut.xz is damaged or not a .xz file")
    code, out, err = run_here(["eval", model, "-"], capsys)
    assert_one_line(code, out, err, "give a file of labeled data, not stdin")
    code, out, err = run_here(["eval", "--help"], capsys)
    assert "For a fitted task model: a file of labeled data" in " ".join(out.split())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--dev", "nowhere.txt"], "nowhere.txt does not exist"),
        (["--set", "fit.lr=fast"], "fit.lr"),
        (["--layers", "9"], "elmo.layers is 9, expected mix, top, or 0 to 2"),
    ],
)
def test_bad_arguments(
    more: list[str],
    message: str,
    tiny: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run_here(arguments(tmp_path, tiny, *more), capsys)
    assert (code, out) == (1, "")
    assert message in err.splitlines()[-1]


def test_folders_without_a_fitted_model(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("a b\n")
    code, _, err = run_here(["tag", tmp_path, tmp_path / "text.txt"], capsys)
    assert code == 1
    assert "is not a fitted model" in err


def test_kill_9_and_go_on(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kill at any moment loses at most an epoch, and the numbers are those of a quiet run."""
    more = ["--set", "fit.epochs=40", "--set", "fit.patience=40"]
    command = arguments(tmp_path, tiny, *more)
    kill_after_lines(command, tmp_path / "run" / "seed-0" / "metrics.jsonl", 3)
    code, resumed, err = run_here(command, capsys)
    assert code == 0, err
    assert "continuing after epoch" in err
    (tmp_path / "run").rename(tmp_path / "killed")
    code, quiet, err = run_here(command, capsys)
    assert (code, quiet) == (0, resumed), err
    columns = []
    for name in ("killed", "run"):
        lines = (tmp_path / name / "seed-0" / "metrics.jsonl").read_text().splitlines()
        columns.append([(row["loss"], row["dev_f1"]) for row in map(json.loads, lines)])
    assert len(columns[0]) == 40
    assert columns[0] == columns[1]


def test_every_task_is_offered(capsys: pytest.CaptureFixture[str]) -> None:
    """Names and summaries of the registry, without the code of any task."""
    code, out, err = run_here(["fit", "--help"], capsys)
    assert code == 0, err
    text = " ".join(out.split())
    for info in TASKS.values():
        assert f"{info.name} ({info.summary})" in text
    code, out, err = run_here(
        ["fit", "nothing", "--train", "a", "--dev", "b", "--out", "c"], capsys
    )
    assert (code, out) == (2, "")
    assert all(f"'{name}'" in err for name in TASKS)
    check = "import sys, elmox.cli.fit; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_errors_name_the_file_and_line(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in the way of --out, a bad line of JSON, a model whose name is a number."""
    (tmp_path / "run").write_text("in the way")
    code, out, err = run_here(arguments(tmp_path, tiny, "--set", "fit.epochs=1"), capsys)
    assert (code, out) == (1, "")
    assert f"{tmp_path / 'run'} is a file, expected a directory" in err
    assert "layers" not in err  # the error comes before anything is computed
    (tmp_path / "run").unlink()
    code, _, err = run_here(arguments(tmp_path, "3", "--set", "fit.epochs=1"), capsys)
    assert code == 1
    assert "3 does not exist: give a model directory" in err
    code, _, err = run_here(arguments(tmp_path, tiny, "--set", "fit.epochs=1"), capsys)
    assert code == 0, err
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"tokens": ["Ada"], "id": 1}\n{"tokens": [1]}\n')
    code, out, err = run_here(["tag", tmp_path / "run" / "seed-0" / "model", lines], capsys)
    assert code == 1
    assert f"{lines}, line 2: tokens is [1], expected a text or a list of tokens" in err
