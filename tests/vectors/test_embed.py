"""Embedding files and sentences: interruptions, other jobs, lines larger than memory."""

import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from broken import rng
from checkpoints import random_options, write_ai2, write_many_langs
from embed_job import embed_and_report, embed_in_small_steps
from shell import command, environment, run_elmox

import elmox.model.bilm
import elmox.vectors.chunks
from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.inference.runner import Reader
from elmox.text.sentences import sentences_of
from elmox.vectors.embed import embed_file, embed_sentences
from elmox.vectors.files import open_vectors

try:
    import pyarrow
except ImportError:
    pyarrow = None

needs_pyarrow = pytest.mark.skipif(pyarrow is None, reason="no pyarrow")
OUTPUTS = ["out.hdf5", "out", pytest.param("out.parquet", marks=needs_pyarrow)]
WORDS = ("the", "cat", "sat", ".", "naïve", "天", "😀", "present", "gift", "buy")
NUM_KILLS = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ai2(tmp_path_factory.mktemp("model"), random_options(), rng())


def write_text(path: Path, num_lines: int) -> Path:
    """Write lines of 0 to 30 words, always the same."""
    chance = random.Random(0)
    lines = [" ".join(chance.choices(WORDS, k=chance.randrange(31))) for _ in range(num_lines)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def assert_same(path: Path, expected: Path) -> None:
    with open_vectors(path) as vectors, open_vectors(expected) as expected_vectors:
        assert vectors.meta == expected_vectors.meta
        assert len(vectors) == len(expected_vectors)
        for entry, expected_entry in zip(vectors, expected_vectors, strict=True):
            np.testing.assert_allclose(entry, expected_entry, rtol=0, atol=1e-6)


def wait_for_part(output: Path, number: int, process: BaseProcess) -> None:
    """Wait until the job has closed its part of that number."""
    part = Path(f"{output}.partial") / "shards" / f"shard-{number:05d}.npy"
    deadline = time.monotonic() + 120
    while not part.exists():
        assert process.exitcode is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.001)


def start_job(model: Path, source: Path, output: Path) -> BaseProcess:
    return forked.start(embed_and_report, model, source, output, summary_path(output))


def summary_path(output: Path) -> Path:
    return Path(f"{output}.json")


def kill(process: BaseProcess) -> None:
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("output", OUTPUTS)
def test_killed_again_and_again(output: str, model: Path, tmp_path: Path) -> None:
    source = write_text(tmp_path / "in.txt", 500)  # 7,500 tokens, 65 parts
    embed_in_small_steps(model, source, tmp_path / f"undisturbed_{output}")
    chance = random.Random(output)
    for attempt in range(NUM_KILLS):
        process = start_job(model, source, tmp_path / output)
        wait_for_part(tmp_path / output, 15 * attempt + chance.randrange(15), process)
        time.sleep(chance.uniform(0, 0.02))
        kill(process)
        assert not (tmp_path / output).exists()
    process = start_job(model, source, tmp_path / output)
    process.join()
    assert process.exitcode == 0
    summary = json.loads(summary_path(tmp_path / output).read_text())
    assert summary["num_lines"] == 500
    assert summary["num_resumed"] > 500 * 30 / 75  # at least thirty parts
    assert_same(tmp_path / output, tmp_path / f"undisturbed_{output}")
    assert not Path(f"{tmp_path / output}.partial").exists()


def test_the_shell_killed_at_any_moment(model: Path, tmp_path: Path) -> None:
    source = write_text(tmp_path / "in.txt", 3000)
    output = tmp_path / "out.hdf5"
    arguments = ["embed", model, source, output, "--tokenized"]
    began = time.monotonic()
    undisturbed = run_elmox("embed", model, source, tmp_path / "undisturbed.hdf5", "--tokenized")
    duration = time.monotonic() - began
    assert undisturbed.returncode == 0, undisturbed.stderr
    chance = random.Random(0)
    for _ in range(NUM_KILLS):
        process = subprocess.Popen(command(*arguments), env=environment(), stdout=subprocess.PIPE)
        time.sleep(chance.uniform(0.3, 1) * duration)
        process.kill()
        process.communicate()
    if not output.exists():  # the last one may have been fast enough
        done = run_elmox(*arguments)
        assert done.returncode == 0, done.stderr
    assert_same(output, tmp_path / "undisturbed.hdf5")
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "out.hdf5", "undisturbed.hdf5"}


def test_another_input_is_not_continued(model: Path, tmp_path: Path) -> None:
    source, output = write_text(tmp_path / "in.txt", 300), tmp_path / "out.hdf5"
    process = start_job(model, source, output)
    wait_for_part(output, 2, process)
    kill(process)
    with source.open("a") as file:
        file.write("one more line\n")
    with pytest.raises(ElmoxError, match=r"another job \(input: .*force=True") as caught:
        embed_in_small_steps(model, source, output)
    assert len(str(caught.value).splitlines()) == 1
    assert not output.exists()
    summary = embed_in_small_steps(model, source, output, force=True)
    assert (summary.num_lines, summary.num_resumed) == (301, 0)


SAME: dict[str, Any] = {"tokenized": True, "part_bytes": 2**10}


def interrupt(model: Elmo, source: Path, output: Path, **options: Any) -> None:
    """Leave an unfinished output with closed parts: the last line cannot be read."""
    good = source.read_bytes()
    source.write_bytes(good + b"\xff\n")
    with pytest.raises(ElmoxError, match="UTF-8"):
        embed_file(model, str(source), output, **SAME, **options)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"layers": "average"}, "layers"),
        ({"tokenized": False}, "lines"),
        ({"dtype": "float16"}, "vectors"),
        ({"part_bytes": 2**11}, "vectors"),
        ({}, None),
    ],
)
def test_another_job_is_not_continued(
    changed: dict[str, Any],
    named: str | None,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elmox.vectors.chunks, "CHUNK_BYTES", 2**12)
    elmo = Elmo.from_pretrained(model, device="cpu")
    source = write_text(tmp_path / "in.txt", 100)
    interrupt(elmo, source, tmp_path / "out")
    message = rf"another job \({named}: " if named else "line 101"
    with pytest.raises(ElmoxError, match=message):
        embed_file(elmo, str(source), tmp_path / "out", **{**SAME, **changed})


@pytest.mark.parametrize("kind", ["weights", "precision", "dictionary", "mix", "warm state"])
def test_another_model_is_not_continued(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elmox.vectors.chunks, "CHUNK_BYTES", 2**12)
    folder = write_many_langs(tmp_path / "model", "char", rng())
    elmo = Elmo.from_pretrained(folder, device="cpu")
    elmo.set_mix([0, 1, 2])
    layers = "mix" if kind == "mix" else "all"
    if kind == "warm state":
        elmo.warm_up([["a"]])
    source = write_text(tmp_path / "in.txt", 100)
    interrupt(elmo, source, tmp_path / "out", layers=layers)
    if kind == "weights":
        next(elmo.reader.bilm.parameters())[0] += 1
    elif kind == "precision":
        elmo.to(dtype="bfloat16")
    elif kind == "dictionary":
        dictionary = (folder / "char.dic").read_text()
        swapped = dictionary.replace("a\t", "?\t").replace("b\t", "a\t").replace("?\t", "b\t")
        (folder / "char.dic").write_text(swapped)
        elmo = Elmo.from_pretrained(folder, device="cpu")
        elmo.set_mix([0, 1, 2])
    elif kind == "mix":
        elmo.set_mix([0, 1, 3])
    elif kind == "warm state":
        elmo.warm_up([["b"]])
    with pytest.raises(ElmoxError, match=r"another job \(model: "):
        embed_file(elmo, str(source), tmp_path / "out", layers=layers, **SAME)


LAYERS = [("all", 3), ("average", 1), ([0, 2], 2), (1, 1)]  # and the number of layers
CHUNK = 20  # tokens


def lower_chunk(monkeypatch: pytest.MonkeyPatch, num_chosen: int) -> None:
    monkeypatch.setattr(elmox.vectors.chunks, "CHUNK_BYTES", 4 * 12 * num_chosen * CHUNK)


@pytest.mark.parametrize("output", ["out.hdf5", "out"])
@pytest.mark.parametrize(("layers", "num_chosen"), LAYERS)
def test_lines_larger_than_a_chunk(
    layers: Any,
    num_chosen: int,
    output: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lines of many sentences, of which none, one or all are larger than a chunk."""
    lower_chunk(monkeypatch, num_chosen)
    elmo = Elmo.from_pretrained(model, device="cpu")
    short, long = "The cat sat. ", f"The cat {'really ' * 30}sat. "
    texts = ["", short, short * 10, long, short + long, long + short, f"{short}{long}" * 4, "End."]
    (tmp_path / "in.txt").write_text("\n".join(texts))
    embed_file(elmo, str(tmp_path / "in.txt"), tmp_path / output, layers=layers)
    with open_vectors(tmp_path / output) as vectors:
        assert len(vectors) == len(texts)
        for entry, text in zip(vectors, texts, strict=True):
            sentences = sentences_of(text, elmo.tokenize)
            assert entry.shape[-2] == sum(map(len, sentences))
            if sentences:
                expected = np.concatenate(elmo.encode_tokens(sentences, layers=layers), axis=-2)
                np.testing.assert_allclose(entry, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("state", ["zero", "warm"])
@pytest.mark.parametrize(("layers", "num_chosen"), LAYERS)
@pytest.mark.parametrize("output", OUTPUTS)
def test_sentence_larger_than_a_chunk(
    output: str,
    layers: Any,
    num_chosen: int,
    state: Any,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lower_chunk(monkeypatch, num_chosen)
    elmo = Elmo.from_pretrained(model, device="cpu")
    elmo.warm_up([["some", "text"]])
    elmo.state = state
    chance = random.Random(0)
    lengths = (5, 400, 0, CHUNK - 1, CHUNK, CHUNK + 1, 1, 333)
    lines = [chance.choices(WORDS, k=length) for length in lengths]
    (tmp_path / "in.txt").write_text("\n".join(map(" ".join, lines)))
    expected = elmo.encode_tokens(lines, layers=layers)
    in_windows: list[int] = []
    read_long = Reader.read_long

    def spy(self: Reader, sentence: list[str], *arguments: Any, **options: Any) -> Any:
        in_windows.append(len(sentence))
        return read_long(self, sentence, *arguments, **options)

    monkeypatch.setattr(Reader, "read_long", spy)
    monkeypatch.setattr(elmox.model.bilm, "default_window_tokens", lambda *_: 8)
    embed_file(elmo, str(tmp_path / "in.txt"), tmp_path / output, layers=layers, tokenized=True)
    assert in_windows == [400, CHUNK + 1, 333]
    with open_vectors(tmp_path / output) as vectors:
        for entry, expected_entry in zip(vectors, expected, strict=True):
            np.testing.assert_allclose(entry, expected_entry, rtol=0, atol=1e-6)


# embed_sentences


def random_sentences(num_sentences: int) -> list[list[str]]:
    """Return sentences of 0 to 30 words, always the same."""
    chance = random.Random(0)
    return [chance.choices(WORDS, k=chance.randrange(31)) for _ in range(num_sentences)]


def raw_bytes(path: Path) -> list[bytes]:
    with open_vectors(path) as vectors:
        return [entry.tobytes() for entry in vectors]


def stop_after(sentences: list[list[str]], num_sentences: int) -> Iterator[list[str]]:
    yield from sentences[:num_sentences]
    raise KeyboardInterrupt


@pytest.mark.parametrize("output", OUTPUTS)
def test_sentences_give_the_bytes_of_a_file(output: str, model: Path, tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained(model, device="cpu")
    sentences = random_sentences(60)
    (tmp_path / "in.txt").write_text("".join(f"{' '.join(words)}\n" for words in sentences))
    embed_file(elmo, tmp_path / "in.txt", tmp_path / f"file_{output}", tokenized=True)
    expected = raw_bytes(tmp_path / f"file_{output}")
    summary = embed_sentences(elmo, sentences, tmp_path / output)
    assert (summary.num_lines, summary.num_tokens) == (60, sum(map(len, sentences)))
    assert raw_bytes(tmp_path / output) == expected
    embed_sentences(elmo, (tuple(words) for words in sentences), tmp_path / f"generated_{output}")
    assert raw_bytes(tmp_path / f"generated_{output}") == expected


def test_strings_are_tokenized_by_the_model(model: Path, tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained(model, device="cpu")
    texts = ["The cat sat.", "", "A present!"]
    embed_sentences(elmo, texts, tmp_path / "out", layers="top")
    for entry, text in zip(open_vectors(tmp_path / "out"), texts, strict=True):
        expected = elmo.encode_tokens([elmo.tokenize(text)], layers="top")[0]
        np.testing.assert_allclose(entry, expected, rtol=0, atol=1e-6)


def test_a_list_of_sentences_is_resumed(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elmox.vectors.chunks, "CHUNK_BYTES", 2**12)
    elmo = Elmo.from_pretrained(model, device="cpu")
    sentences = random_sentences(100)
    embed_sentences(elmo, sentences, tmp_path / "undisturbed", part_bytes=2**10)

    class Interrupted(list[list[str]]):
        """A list that can be read once, which is for its digest."""

        reads = 0

        def __iter__(self) -> Iterator[list[str]]:
            self.reads += 1
            return super().__iter__() if self.reads == 1 else stop_after(sentences, 90)

    output = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        embed_sentences(elmo, Interrupted(sentences), output, part_bytes=2**10)
    with pytest.raises(ElmoxError, match=r"another job \(input: "):
        embed_sentences(elmo, sentences[:-1], output, part_bytes=2**10)
    summary = embed_sentences(elmo, sentences, output, part_bytes=2**10)
    assert 0 < summary.num_resumed < summary.num_lines == 100
    assert raw_bytes(output) == raw_bytes(tmp_path / "undisturbed")
    assert embed_sentences(elmo, sentences, output, part_bytes=2**10).was_complete


def test_a_generator_is_resumed_by_its_job_id(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elmox.vectors.chunks, "CHUNK_BYTES", 2**12)
    elmo = Elmo.from_pretrained(model, device="cpu")
    sentences = random_sentences(100)
    for output, job_id in [("named", "version 1"), ("unnamed", None)]:
        with pytest.raises(KeyboardInterrupt):
            embed_sentences(
                elmo, stop_after(sentences, 90), tmp_path / output, job_id=job_id, part_bytes=2**10
            )
    with pytest.raises(ElmoxError, match=r"another job \(input: "):
        embed_sentences(elmo, iter(sentences), tmp_path / "unnamed", part_bytes=2**10)
    with pytest.raises(ElmoxError, match=r"another job \(input: "):
        embed_sentences(
            elmo, iter(sentences), tmp_path / "named", job_id="version 2", part_bytes=2**10
        )
    summary = embed_sentences(
        elmo, iter(sentences), tmp_path / "named", job_id="version 1", part_bytes=2**10
    )
    assert 0 < summary.num_resumed < summary.num_lines == 100
    embed_sentences(elmo, sentences, tmp_path / "undisturbed", part_bytes=2**10)
    assert raw_bytes(tmp_path / "named") == raw_bytes(tmp_path / "undisturbed")
    again = embed_sentences(
        elmo, sentences, tmp_path / "named", job_id="version 1", part_bytes=2**10
    )
    assert again.was_complete


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ("one string", "expected several sentences"),
        (None, "sentences is None"),
        ({"a": 1}, "a mapping"),
        ([["a"], ["b", 3]], "sentence 1 has the token 3"),
        (iter([["a"], 7]), "sentence 1 is 7"),
    ],
)
def test_sentences_of_another_type(
    sentences: Any, message: str, model: Path, tmp_path: Path
) -> None:
    elmo = Elmo.from_pretrained(model, device="cpu")
    with pytest.raises(ElmoxError, match=message):
        embed_sentences(elmo, sentences, tmp_path / "out")
    assert not (tmp_path / "out").exists()
