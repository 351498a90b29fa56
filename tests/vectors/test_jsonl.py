"""Vectors as JSON lines: tokens, offsets and numbers that are read back exactly."""

import json
import os
import signal
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
from broken import rng
from checkpoints import random_options, write_ai2
from vector_job import in_child, leave_parts, make_entry, write_job, write_killed

import elmox.vectors.chunks
import elmox.vectors.embed
import elmox.vectors.parts
from elmox.elmo import Elmo
from elmox.errors import ElmoxError, OutputExists
from elmox.vectors.embed import embed_file, embed_sentences
from elmox.vectors.files import open_vectors, open_writer
from elmox.vectors.layout import DType, Layout

LAYOUT = Layout(3, 4, "float16")


@pytest.fixture(scope="module")
def elmo(tmp_path_factory: pytest.TempPathFactory) -> Elmo:
    path = write_ai2(tmp_path_factory.mktemp("model"), random_options(), rng())
    return Elmo.from_pretrained(path, device="cpu")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def embed(elmo: Elmo, tmp_path: Path, name: str, content: str, **options: Any) -> Any:
    (tmp_path / name).write_text(content, "utf-8")
    embed_file(elmo, tmp_path / name, tmp_path / "out.jsonl", **options)
    return read(tmp_path / "out.jsonl")


def test_running_text_has_tokens_and_offsets(elmo: Elmo, tmp_path: Path) -> None:
    texts = ["The cat  sat. It can't fly!", "", "naïve 天"]
    lines = embed(elmo, tmp_path, "in.txt", "\n".join(texts), layers="top")
    assert [list(line) for line in lines] == [["tokens", "offsets", "vectors"]] * 3
    assert lines[0]["tokens"] == ["The", "cat", "sat", ".", "It", "ca", "n't", "fly", "!"]
    assert lines[1] == {"tokens": [], "offsets": [], "vectors": []}
    for text, line in zip(texts, lines, strict=True):
        assert [text[start:end] for start, end in line["offsets"]] == line["tokens"]
    embed_file(elmo, tmp_path / "in.txt", tmp_path / "npy", layers="top")
    for line, entry in zip(lines, open_vectors(tmp_path / "npy"), strict=True):
        vectors = np.array(line["vectors"], np.float32).reshape(entry.shape)
        np.testing.assert_array_equal(vectors, entry)


def test_tokenized_text_has_offsets_in_its_line(elmo: Elmo, tmp_path: Path) -> None:
    (line,) = embed(elmo, tmp_path, "in.txt", " the  cat.\n", tokenized=True)
    assert (line["tokens"], line["offsets"]) == (["the", "cat."], [[1, 4], [6, 10]])
    assert np.array(line["vectors"]).shape == (3, 2, 12)


def test_keys_of_json_lines_are_passed_through(elmo: Elmo, tmp_path: Path) -> None:
    values = [
        {"id": "a", "text": "A cat.", "meta": {"é": [1, None]}, "vectors": 7},
        {"tokens": ["a", "b"], "label": "x", "offsets": [[5, 6], [7, 8]]},
        {"tokens": [], "broken": "\ud83d"},
    ]
    content = "".join(f"{json.dumps(value)}\n" for value in values)
    first, second, third = embed(elmo, tmp_path, "in.jsonl", content, layers=[0, 2])
    assert list(first) == ["id", "text", "meta", "tokens", "offsets", "vectors"]
    assert (first["id"], first["text"], first["meta"]) == ("a", "A cat.", {"é": [1, None]})
    assert (first["tokens"], first["offsets"]) == (["A", "cat", "."], [[0, 1], [2, 5], [5, 6]])
    assert np.array(first["vectors"]).shape == (2, 3, 12)
    # Offsets that come with tokens are passed through.
    assert (second["label"], second["offsets"]) == ("x", [[5, 6], [7, 8]])
    assert third == {"broken": "\ud83d", "tokens": [], "vectors": [[], []]}
    assert "é" in (tmp_path / "out.jsonl").read_text("utf-8")


def test_sentences_from_memory(elmo: Elmo, tmp_path: Path) -> None:
    sentences: list[str | list[str]] = ["It rains.", ["a", "b"]]
    embed_sentences(elmo, sentences, tmp_path / "out.ndjson", layers="average")
    first, second = read(tmp_path / "out.ndjson")
    assert first["offsets"] == [[0, 2], [3, 8], [8, 9]]
    assert list(second) == ["tokens", "vectors"]
    expected = elmo.encode_tokens([["a", "b"]])[0]
    np.testing.assert_allclose(second["vectors"], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_numbers_are_read_back_exactly(tmp_path: Path, dtype: DType) -> None:
    if dtype == "float16":
        values = np.arange(2**16, dtype=np.uint16).view(np.float16)
    else:
        values = np.random.default_rng(0).integers(0, 2**32, 2**15, np.uint32).view(np.float32)
    finite = values[np.isfinite(values)]
    rows = finite[: len(finite) // 8 * 8].reshape(-1, 8)
    with open_writer(tmp_path / "a.jsonl", layout=Layout(None, 8, dtype), job={}) as writer:
        writer.append(rows)
    (line,) = read(tmp_path / "a.jsonl")
    np.testing.assert_array_equal(np.array(line["vectors"]).astype(dtype), rows)


def test_vectors_that_json_cannot_hold_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(ElmoxError, match="JSON cannot hold"),
        open_writer(tmp_path / "a.jsonl", layout=LAYOUT, job={}) as writer,
    ):
        writer.append(np.full((3, 1, 4), np.nan, np.float16))
    assert not (tmp_path / "a.jsonl").exists()


def test_lines_larger_than_chunks_and_windows(
    elmo: Elmo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"Start. {'The cat sat. ' * 30}\nEnd.\n"
    whole = embed(elmo, tmp_path, "in.txt", text)
    monkeypatch.setattr(elmox.vectors.chunks, "CHUNK_BYTES", 4 * 3 * 12 * 20)
    monkeypatch.setattr(elmox.vectors.parts.Entry.windows, "__defaults__", (2**9,))
    pieces = embed(elmo, tmp_path, "in.txt", text, force=True)
    assert [line["offsets"] for line in pieces] == [line["offsets"] for line in whole]
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(one["vectors"], other["vectors"], rtol=0, atol=1e-6)


def test_an_interrupted_file_is_resumed(
    elmo: Elmo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elmox.vectors.chunks, "CHUNK_BYTES", 2**12)
    texts = [f"Line number {i} is here." for i in range(60)]

    def interrupted() -> Any:
        yield from texts[:50]
        raise KeyboardInterrupt

    options: dict[str, Any] = {"job_id": "texts", "part_bytes": 2**12}
    with pytest.raises(KeyboardInterrupt):
        embed_sentences(elmo, interrupted(), tmp_path / "out.jsonl", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl.partial"]
    summary = embed_sentences(elmo, iter(texts), tmp_path / "out.jsonl", **options)
    assert 0 < summary.num_resumed < summary.num_lines == 60
    embed_sentences(elmo, texts, tmp_path / "whole.jsonl", **options)
    content = (tmp_path / "out.jsonl").read_bytes()
    assert content == (tmp_path / "whole.jsonl").read_bytes()
    assert [line["tokens"][2] for line in read(tmp_path / "out.jsonl")] == [*map(str, range(60))]
    with pytest.raises(OutputExists, match="exists already"):  # it has no metadata
        embed_sentences(elmo, texts, tmp_path / "out.jsonl", **options)
    assert (tmp_path / "out.jsonl").read_bytes() == content


def test_a_token_that_is_not_in_its_line_is_named(
    elmo: Elmo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elmo, "_tokenize", str.upper)
    with pytest.raises(ElmoxError, match="line 2: token 'A' is not in the text at character 0"):
        embed(elmo, tmp_path, "in.txt", "A\na\n")


def test_it_is_not_opened_as_vectors(tmp_path: Path) -> None:
    write_job(tmp_path / "a.jsonl", 3, LAYOUT)
    assert [list(line) for line in read(tmp_path / "a.jsonl")] == [["vectors"]] * 3
    with pytest.raises(ElmoxError, match=r"read with json\.loads, line by line"):
        open_vectors(tmp_path / "a.jsonl")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("force", [False, True])
def test_killed_at_every_operation_on_files(memory_folder: Path, force: bool) -> None:
    """The second run completes the file, or raises because the first one already has."""
    folder = Path(mkdtemp(dir=memory_folder))
    write_job(folder / "expected.jsonl", 12, LAYOUT)
    expected = (folder / "expected.jsonl").read_bytes()
    num_finished = 0
    for number in count(1):
        output = folder / str(number) / "out.jsonl"
        output.parent.mkdir()
        if force:
            write_job(output, 2, LAYOUT, options="old")
            assert in_child(partial(leave_parts, output, LAYOUT)) == 3
        status = in_child(partial(write_killed, number, output, 12, LAYOUT, force))
        if status == 0:
            break
        assert status == -signal.SIGKILL
        try:
            write_job(output, 12, LAYOUT, force=force)
        except OutputExists:
            num_finished += 1
        assert output.read_bytes() == expected
        assert num_finished == 0 or not force
    assert number > 15
    assert num_finished <= 2  # between the removal of job.json and that of its directory


def test_entries_are_those_that_were_written(tmp_path: Path) -> None:
    write_job(tmp_path / "a.jsonl", 12, LAYOUT)
    for i, line in enumerate(read(tmp_path / "a.jsonl")):
        expected = make_entry(i, LAYOUT)
        vectors = np.array(line["vectors"], np.float16).reshape(expected.shape)
        np.testing.assert_array_equal(vectors, expected)
