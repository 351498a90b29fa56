"""`elmox embed` writes the vectors of the library, for all kinds of input and output."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken import rng
from checkpoints import (
    random_options,
    write_ai2,
    write_allennlp_archive,
    write_token_file,
)
from shell import assert_one_line, run_elmox, run_here, tree

from elmox.elmo import Elmo
from elmox.text.sentences import sentences_of
from elmox.vectors.embed import embed_file
from elmox.vectors.files import open_vectors

try:
    import pyarrow
except ImportError:
    pyarrow = None

PARQUET = pytest.param(
    "out.parquet", marks=pytest.mark.skipif(pyarrow is None, reason="no pyarrow")
)
RAW = ["Live in the present. It's a gift!", "", "Live in the present. It's a gift!", "naïve 天 😀"]
TOKENS = [["The", "cat", "sat", "."], [], ["The", "cat", "sat", "."], ["naïve", "天"], [], ["a"]]
TEXT = "The cat sat .\n \nThe cat  sat .\nnaïve\t天\r\n\na"


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_ai2(tmp_path / "model", random_options(), rng())


def assert_vectors(path: Path, expected: list[Any], dtype: str = "float32") -> None:
    with open_vectors(path) as vectors:
        assert len(vectors) == len(expected)
        for array, reference in zip(vectors, expected, strict=True):
            assert array.dtype == dtype
            np.testing.assert_allclose(
                array, reference.astype(dtype), rtol=0, atol=1e-6 if dtype == "float32" else 1e-3
            )


def encode_lines(elmo: Elmo, lines: list[list[list[str]]]) -> list[Any]:
    """Return all layers of lines with several sentences each."""
    empty = np.zeros((elmo.num_layers, 0, elmo.dim), np.float32)
    return [
        np.concatenate([empty, *elmo.encode_tokens(sentences, layers="all")], axis=1)
        for sentences in lines
    ]


@pytest.mark.parametrize("output", ["out.hdf5", "out.h5", "out", PARQUET])
def test_embed_text(output: str, weights: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(TEXT.encode())
    done = run_elmox("embed", weights, tmp_path / "in.txt", tmp_path / output, "--tokenized")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith(f"elmox: 6 lines in {tmp_path / output}; 11 tokens in ")
    assert "weights.hdf5" in done.stderr
    expected = Elmo.from_pretrained(weights).encode_tokens(TOKENS, layers="all")
    assert_vectors(tmp_path / output, expected)
    assert not Path(f"{tmp_path / output}.partial").exists()


def test_embed_raw_text_from_stdin(weights: Path, tmp_path: Path) -> None:
    done = run_elmox("embed", weights, "-", tmp_path / "out", stdin="\n".join(RAW).encode())
    assert done.returncode == 0, done.stderr
    elmo = Elmo.from_pretrained(weights)
    lines = [sentences_of(line, elmo.tokenize) for line in RAW]
    assert [len(sentences) for sentences in lines] == [2, 0, 2, 1]
    assert_vectors(tmp_path / "out", encode_lines(elmo, lines))


PRESENT = "I will buy you a present."


def test_text_is_running_text_by_default(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The vectors of the shell, of `embed_file` and of `encode_tokens` are those of 7 tokens."""
    (tmp_path / "in.txt").write_text(f"{PRESENT}\n")
    code, _, err = run_here(["embed", weights, tmp_path / "in.txt", tmp_path / "shell"], capsys)
    assert code == 0, err
    elmo = Elmo.from_pretrained(weights)
    embed_file(elmo, str(tmp_path / "in.txt"), tmp_path / "python")
    expected = elmo.encode_tokens([PRESENT], layers="all")
    assert expected[0].shape[1] == 7
    assert_vectors(tmp_path / "shell", expected)
    assert_vectors(tmp_path / "python", expected)


def test_raw_is_a_deprecated_no_op(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text(PRESENT)
    arguments = ["embed", weights, tmp_path / "in.txt", tmp_path / "out", "--json"]
    code, out, err = run_here([*arguments, "--raw"], capsys)
    assert (code, json.loads(out)["num_tokens"]) == (0, 7)
    assert err == "elmox: --raw is deprecated: running text is the default now\n"
    assert "--raw" not in run_here(["embed", "--help"], capsys)[1]


def test_embed_json_lines(weights: Path, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [{"id": 7, "tokens": tokens, "n": None} for tokens in TOKENS]
    lines += [{"text": text} for text in RAW]
    (tmp_path / "in.jsonl").write_text("\n".join(["", *map(json.dumps, lines)]))
    done = run_elmox("embed", weights, tmp_path / "in.jsonl", tmp_path / "out.hdf5")
    assert done.returncode == 0, done.stderr
    elmo = Elmo.from_pretrained(weights)
    expected: list[list[list[str]]] = [[], *([tokens] for tokens in TOKENS)]
    expected += [sentences_of(text, elmo.tokenize) for text in RAW]
    assert_vectors(tmp_path / "out.hdf5", encode_lines(elmo, expected))


def test_embed_prints_a_summary_as_json(weights: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.hdf5"
    done = run_elmox("embed", weights, "-", output, "--json", stdin=b"a b\n\nc\n")
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    assert summary.pop("seconds") >= 0
    counts = {"num_lines": 3, "num_resumed": 0, "num_tokens": 3}
    assert summary == {"output": str(output), **counts, "was_complete": False}


@pytest.mark.parametrize(
    ("argument", "layers"),
    [("all", "all"), ("average", "average"), ("top", "top"), ("1", 1), ("-1", -1), ("0,2", [0, 2])],
)
def test_embed_layers(
    argument: str, layers: Any, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text(TEXT)
    output = tmp_path / "out.hdf5"
    arguments = ["embed", weights, tmp_path / "in.txt", output, "--tokenized"]
    assert run_here([*arguments, "--layers", argument], capsys)[0] == 0
    assert_vectors(output, Elmo.from_pretrained(weights).encode_tokens(TOKENS, layers=layers))


def test_embed_a_stored_mix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = write_allennlp_archive(tmp_path / "model", random_options(), rng(), num_mixes=2)
    (tmp_path / "in.txt").write_text(TEXT)
    arguments = ["embed", archive, tmp_path / "in.txt", tmp_path / "out", "--tokenized", "--layers"]
    assert run_here([*arguments, "mix:scalar_mix_1"], capsys)[0] == 0
    expected = Elmo.from_pretrained(archive).encode_tokens(TOKENS, layers="mix:scalar_mix_1")
    assert_vectors(tmp_path / "out", expected)


def test_embed_half_precision(weights: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.hdf5"
    options = ["--tokenized", "--dtype", "float16"]
    done = run_elmox("embed", weights, "-", output, *options, stdin=TEXT.encode())
    assert done.returncode == 0, done.stderr
    expected = Elmo.from_pretrained(weights).encode_tokens(TOKENS, layers="all")
    assert_vectors(output, expected, "float16")


@pytest.mark.parametrize("output", ["out.hdf5", "out", PARQUET])
@pytest.mark.parametrize(("content", "num_lines"), [("", 0), ("\n", 1), ("\n \n\t\n", 3)])
def test_embed_nothing(
    content: str,
    num_lines: int,
    output: str,
    weights: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "in.txt").write_text(content)
    assert run_here(["embed", weights, tmp_path / "in.txt", tmp_path / output], capsys)[0] == 0
    assert_vectors(tmp_path / output, [np.zeros((3, 0, 12), np.float32)] * num_lines)


def test_embed_with_a_byte_order_mark(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("a b", encoding="utf-8-sig")
    assert run_here(["embed", weights, tmp_path / "in.txt", tmp_path / "out"], capsys)[0] == 0
    expected = Elmo.from_pretrained(weights).encode_tokens([["a", "b"]], layers="all")
    assert_vectors(tmp_path / "out", expected)


def test_embed_from_the_warm_state(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elmo = Elmo.from_pretrained(weights)
    cold = elmo.encode_tokens(TOKENS, layers="all")
    elmo.warm_up([["some", "typical", "text"]])
    elmo.save_pretrained(tmp_path / "warm")
    (tmp_path / "in.txt").write_text(TEXT)
    arguments = ["embed", tmp_path / "warm", tmp_path / "in.txt", tmp_path / "out", "--tokenized"]
    assert run_here([*arguments, "--state", "warm"], capsys)[0] == 0
    assert_vectors(tmp_path / "out", elmo.encode_tokens(TOKENS, layers="all"))
    assert not np.allclose(open_vectors(tmp_path / "out")[0], cold[0], atol=1e-4)


@pytest.mark.parametrize("output", ["out.hdf5", "out", PARQUET])
@pytest.mark.parametrize("killed", [False, True])
def test_embed_again(
    output: str, killed: bool, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A complete output is recognized, even with a folder that a killed process left behind."""
    (tmp_path / "in.txt").write_text(TEXT)
    arguments = ["embed", weights, tmp_path / "in.txt", tmp_path / output]
    assert run_here(arguments, capsys)[0] == 0
    before = tree(tmp_path)
    if killed:
        Path(f"{tmp_path / output}.partial").mkdir()
    code, out, err = run_here(arguments, capsys)
    assert (code, out) == (0, "")
    assert f"{tmp_path / output} is complete: 6 lines" in err
    assert tree(tmp_path) == before
    assert_one_line(*run_here([*arguments, "--layers", "top"], capsys), "exists already")
    (tmp_path / "in.txt").write_text("another text\n")
    assert_one_line(*run_here(arguments, capsys), "exists already")


@pytest.mark.parametrize("output", ["out.hdf5", "out", PARQUET])
def test_embed_force(
    output: str, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    arguments = ["embed", weights, tmp_path / "in.txt", tmp_path / output, "--tokenized"]
    assert run_here(arguments, capsys)[0] == 0
    (tmp_path / "in.txt").write_text(TEXT)
    assert run_here([*arguments, "--force"], capsys)[0] == 0
    expected = Elmo.from_pretrained(weights).encode_tokens(TOKENS, layers="all")
    assert_vectors(tmp_path / output, expected)
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "model", output}


def test_token_embeddings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = write_ai2(tmp_path / "model", random_options(), rng())
    tokens = write_token_file(tmp_path / "tokens", 6, rng())
    vocab = tokens.parent / "vocab.txt"
    (tmp_path / "in.txt").write_text("the cat unheard of\n")
    arguments = ["embed", weights, tmp_path / "in.txt", tmp_path / "out"]
    code, _, err = run_here([*arguments, "--token-embeddings", tokens, "--vocab", vocab], capsys)
    assert code == 0, err
    elmo = Elmo.from_pretrained(weights, token_embeddings=tokens, vocab=vocab)
    expected = elmo.encode_tokens([["the", "cat", "unheard", "of"]], layers="all")
    assert_vectors(tmp_path / "out", expected)
