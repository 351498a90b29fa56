"""`elmox bench`: every verb measures, and prints the same values as a table and as JSON.

No figure is compared with another: a machine that is busy is not wrong.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import random_options, write_ai2, write_many_langs
from corpora import small_corpus
from numpy.random import default_rng
from shell import assert_one_line, run_elmox, run_here

from elmox.bench import floor
from elmox.kernels.linear.cpu_int8 import why_not_int8

RECIPE = """
[model]
preset = "small"
[model.lstm]
cell_dim = 16
projection_dim = 16
[model.char_cnn]
filters = [[1, 8], [2, 8]]
num_highways = 1
[softmax]
samples = 16
[train]
rows = 4
steps = 3
max_steps = 2
[optim]
name = "adamw"
lr = 0.01
"""

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(floor.SIDE, "cpu", 64)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_ai2(tmp_path / "model", random_options(), default_rng(0))


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a recipe without a corpus, and a corpus."""
    folder = tmp_path_factory.mktemp("bench")
    small_corpus(folder)
    path = folder / "recipe.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def bench(arguments: list[object], capsys: Capture) -> dict[str, Any]:
    """Run a verb with --json and return its report."""
    code, out, err = run_here(["bench", *arguments, "--json"], capsys)
    assert (code, err) == (0, "")
    report: dict[str, Any] = json.loads(out)
    assert report["bench"] == arguments[0]
    assert report["machine"]["torch"]
    assert report["product_rate"]["flops"] > 0
    for row in report["rows"]:
        if row.get("floor_seconds") is not None:
            assert row["share"] == pytest.approx(row["floor_seconds"] / row["seconds"])
    return report


def cells(table: str) -> list[list[str]]:
    """The cells of a Markdown table's rows."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [line.strip("| ").split(" | ") for line in lines]


LSTM: list[object] = ["lstm", "--size", "small", "--rows", 2, "--rows", 3, "--steps", 2,
                      "--repeats", 1]  # fmt: skip


def test_lstm(capsys: Capture) -> None:
    report = bench(LSTM, capsys)
    shapes = [(row["rows"], row["steps"], row["work"]) for row in report["rows"]]
    assert shapes == [(n, 2, work) for n in (2, 3) for work in ("inference", "forward", "training")]
    for row in report["rows"]:
        assert row["tokens_per_second"] == pytest.approx(row["rows"] * 2 / row["seconds"])
        assert row["peer_ratio"] == pytest.approx(row["peer_seconds"] / row["seconds"])
        assert row["plain_seconds"] > 0
    inference, forward, training = (row["floor_seconds"] for row in report["rows"][:3])
    assert training == pytest.approx(3 * forward)
    assert inference == forward
    assert "packed" in report["facts"]["path_of_inference"]
    assert "plain torch" in report["facts"]["path_of_forward_and_training"]


def test_lstm_alone_in_bfloat16(capsys: Capture) -> None:
    report = bench([*LSTM, "--no-peers", "--precision", "bfloat16"], capsys)
    assert report["product_rate"]["dtype"] == "bfloat16"
    assert all("peer_seconds" not in row for row in report["rows"])
    assert not any("nn.LSTM" in note for note in report["notes"])


def test_cnn(tmp_path: Path, capsys: Capture) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Live in the present. It is a gift that lasts.", encoding="utf-8")
    report = bench(["cnn", "--words", 20, "--text", text, "--repeats", 1], capsys)
    assert "20 (11 distinct)" in report["facts"]["words"]
    assert [(row["slots"], row["work"]) for row in report["rows"]] == [
        (slots, work) for slots in ("trimmed", "all") for work in ("forward", "training")
    ]
    for row in report["rows"]:
        assert row["words_per_second"] == pytest.approx(20 / row["seconds"])
        assert row["plain_ratio"] == pytest.approx(row["plain_seconds"] / row["seconds"])
    trimmed, full = report["rows"][1], report["rows"][3]
    assert trimmed["floor_seconds"] < full["floor_seconds"]


def test_cnn_in_bfloat16(capsys: Capture) -> None:
    report = bench(["cnn", "--words", 3, "--repeats", 1, "--precision", "bfloat16"], capsys)
    assert len(report["rows"]) == 4


@pytest.mark.parametrize("loss", ["sampled", "full", "adaptive"])
@pytest.mark.parametrize("freeze", ["nothing", "body"])
def test_train(loss: str, freeze: str, recipe: Path, capsys: Capture) -> None:
    settings = [f"softmax.loss={loss}", f"train.freeze={freeze}", "softmax.cutoffs=[20]"]
    report = bench(
        ["train", recipe, "--data", recipe.parent / "corpus", "--windows", 2, "--window-steps", 3,
         *(part for setting in settings for part in ("--set", setting))],
        capsys,
    )  # fmt: skip
    (row,) = report["rows"]
    assert (row["rows"], row["steps"]) == (4, 3)
    assert row["tokens_per_second"] == pytest.approx(12 / row["seconds"])
    assert row["slowest_tokens_per_second"] <= row["fastest_tokens_per_second"]
    assert row["peak_bytes"] > 10**6
    assert all(part in report["facts"]["floor_of"] for part in ("LSTMs", "words", "softmax"))


def test_embed(weights: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    report = bench(
        ["embed", weights, "--sentences", 5, "--repeats", 1, "--one-at-a-time", "--no-peers",
         "--file", "hdf5", "--folder", folder],
        capsys,
    )  # fmt: skip
    assert report["facts"]["sentences"] == 5
    num_tokens = report["facts"]["tokens"]
    cold, warm, alone, to_file, plain = report["rows"]
    assert [row["way"] for row in (cold, warm, alone)] == ["cold", "warm", "one at a time, warm"]
    for row in (cold, warm, alone, to_file):
        assert row["tokens_per_second"] == pytest.approx(num_tokens / row["seconds"])
    assert cold["floor_seconds"] > warm["floor_seconds"]
    assert to_file["way"] == "to hdf5, cold"
    assert to_file["bytes"] == plain["bytes"] > num_tokens * 12 * 3 * 4  # float32, 3 layers
    assert to_file["floor_seconds"] >= plain["seconds"]
    assert not any(folder.iterdir())


@pytest.mark.parametrize("format", ["npy", "parquet"])
def test_embed_to_other_files(format: str, weights: Path, tmp_path: Path, capsys: Capture) -> None:
    if format == "parquet":
        pytest.importorskip("pyarrow")
    arguments = ["--repeats", 1, "--no-peers", "--file", format, "--folder", tmp_path]
    report = bench(["embed", weights, "--sentences", 3, *arguments], capsys)
    assert report["rows"][-2]["way"] == f"to {format}, cold"
    assert report["rows"][-1]["bytes"] > 0
    assert {path.name for path in tmp_path.iterdir()} == {"model"}


def test_embed_next_to_allennlp(weights: Path, capsys: Capture) -> None:
    """If it is not installed, the table names the command that installs it."""
    report = bench(["embed", weights, "--sentences", 3, "--repeats", 1], capsys)
    ways = [row["way"] for row in report["rows"]]
    if importlib.util.find_spec("allennlp") is None:
        assert ways == ["cold", "warm"]
        assert any("pip install --no-deps allennlp" in note for note in report["notes"])
    else:
        assert ways[2:] == ["AllenNLP, text order", "AllenNLP, sorted by length"]
        assert all(row["cold_ratio"] > 0 for row in report["rows"][2:])


def test_embed_what_allennlp_cannot_read(tmp_path: Path, capsys: Capture) -> None:
    model = write_many_langs(tmp_path, "word_char", default_rng(0))
    report = bench(["embed", model, "--sentences", 3, "--repeats", 1], capsys)
    assert [row["way"] for row in report["rows"]] == ["cold", "warm"]
    assert any(note.startswith("AllenNLP is missing: ") for note in report["notes"])


def test_embed_in_int8(capsys: Capture) -> None:
    reason = why_not_int8()
    if reason is not None:
        pytest.skip(reason)
    arguments = ["--sentences", 2, "--repeats", 1, "--no-peers", "--precision", "int8"]
    report = bench(["embed", *arguments], capsys)
    assert report["product_rate"]["dtype"] == "int8"
    assert "8-bit" in report["facts"]["path_of_LSTMs"]


def test_embed_of_random_weights(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "text.txt").write_text("Live in the present. It is a gift.")
    arguments = ["bench", "embed", "--text", tmp_path / "text.txt", "--repeats", 1, "--no-peers"]
    code, out, err = run_here(arguments, capsys)
    assert (code, err) == (0, "")
    assert "random weights of the small size" in out
    assert [row[0] for row in cells(out)[2:]] == ["cold", "warm"]


def test_outputs(tmp_path: Path, capsys: Capture) -> None:
    """The files have the content of stdout, and are overwritten only with --force."""
    table, values = tmp_path / "new" / "lstm.md", tmp_path / "lstm.json"
    arguments = ["bench", *LSTM, "--out", table, "--out", values]
    code, out, err = run_here(arguments, capsys)
    assert (code, err) == (0, "")
    assert table.read_text(encoding="utf-8") == out
    report = json.loads(values.read_text(encoding="utf-8"))
    heading, _, *rows = cells(out)
    assert heading[:3] == ["rows", "steps", "work"]
    assert [row[:3] for row in rows] == [
        [str(row["rows"]), str(row["steps"]), row["work"]] for row in report["rows"]
    ]
    assert_one_line(*run_here(arguments, capsys), str(table), "--force")
    assert run_here([*arguments, "--force"], capsys)[0] == 0


def test_in_a_process(weights: Path) -> None:
    done = run_elmox("bench", "embed", weights, "--sentences", 2, "--repeats", 1, "--no-peers")
    assert (done.returncode, done.stderr) == (0, "")
    assert "share of the floor" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (["lstm", "--out", "x.txt"], [".md or .json"]),
        (["lstm", "--device", "nowhere"], ["--device nowhere"]),
        (["cnn", "--text", "missing.txt"], ["missing.txt does not exist"]),
        (["train", "missing.toml"], ["missing.toml does not exist"]),
        (["embed", "missing.hdf5"], ["missing.hdf5"]),
        (["embed", "--text", "missing.txt"], ["missing.txt does not exist"]),
        (["embed", "--file", "npy", "--folder", "missing"], ["--folder missing"]),
    ],
)
def test_mistakes(
    arguments: list[object],
    messages: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(*run_here(["bench", *arguments], capsys), *messages)


def test_a_gpu_that_is_not_there(capsys: Capture) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert_one_line(*run_here(["bench", "lstm", "--device", "cuda"], capsys), "--device cuda")


def test_train_without_a_corpus(recipe: Path, tmp_path: Path, capsys: Capture) -> None:
    arguments = ["bench", "train", recipe, "--data", tmp_path / "none"]
    assert_one_line(*run_here(arguments, capsys), str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("verb", "mentions"),
    [
        ("lstm", ["--size", "--rows", "--steps", "--compile", "--no-peers", "--precision"]),
        ("cnn", ["--size", "--words", "--text", "--precision"]),
        ("train", ["TOML file", "--data", "--set", "--windows", "--window-steps"]),
        ("embed", ["--one-at-a-time", "--file", "--folder", "--no-peers"]),
    ],
)
def test_help(verb: str, mentions: list[str], capsys: Capture) -> None:
    code, out, err = run_here(["bench", verb, "--help"], capsys)
    assert (code, err) == (0, "")
    assert all(mention in out for mention in [*mentions, "--out", "--json", "--device"])
