"""Shards: parts of a text, embedded by several processes and merged to the plain output's bytes."""

import filecmp
import gzip
import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from broken import rng
from checkpoints import random_options, write_ai2
from embed_job import embed_and_be_killed, small_blocks
from shell import assert_one_line, run_here, tree

import elmox.vectors.chunks
from elmox.elmo import Elmo
from elmox.errors import ElmoxError, OutputExists
from elmox.text.lines import block_starts, read_lines
from elmox.vectors.embed import embed_file
from elmox.vectors.files import open_vectors
from elmox.vectors.job import EmbedOptions
from elmox.vectors.shard_plan import merge
from elmox.vectors.shards import ShardEmbedder

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

WORDS = ("the", "cat", "sat", ".", "naïve", "天", "😀", "present", "gift", "buy")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ai2(tmp_path_factory.mktemp("model"), random_options(), rng())


@pytest.fixture(scope="module")
def elmo(model: Path) -> Elmo:
    return Elmo.from_pretrained(model, device="cpu")


@pytest.fixture(autouse=True)
def _small_blocks() -> Iterator[None]:
    with small_blocks():
        yield


def random_lines(num_lines: int) -> list[str]:
    """Lines of 0 to 30 words, one of 500 words, always the same."""
    chance = random.Random(0)
    lines = [" ".join(chance.choices(WORDS, k=chance.randrange(31))) for _ in range(num_lines)]
    lines[num_lines // 2] = " ".join(chance.choices(WORDS, k=500))
    return lines


def write_text(path: Path, num_lines: int = 120) -> Path:
    """Write random lines in the format of the name."""
    lines = random_lines(num_lines)
    if path.suffix == ".jsonl":
        lines = [json.dumps({"tokens": line.split(), "n": 1}) for line in lines]
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.table({"n": range(num_lines), "text": lines}), path)
        return path
    text = "\ufeff" + "\r\n".join(lines) if path.suffix != ".jsonl" else "\n".join(lines)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def same_bytes(path: Path, expected: Path) -> bool:
    """Whether two files, or two folders of files, are the same byte for byte."""
    if expected.is_file():
        return filecmp.cmp(path, expected, shallow=False)
    return tree(path) == tree(expected)


@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz", "in.jsonl", "in.parquet"])
def test_blocks_divide_all_lines(name: str, tmp_path: Path) -> None:
    path = str(write_text(tmp_path / name))
    format: Any = {".jsonl": "jsonl", ".parquet": "parquet"}.get(Path(name).suffix, "raw")
    lines = list(read_lines(path, format, str.split))
    assert [line.text for line in lines if format == "raw"] in ([], random_lines(120))
    for size in (1, 7, 64, 1000, 10**6):
        starts = block_starts(path, format, size)
        firsts = [
            i
            for i, line in enumerate(lines)
            if i == 0 or line.start // size != lines[i - 1].start // size
        ]
        assert [start.line for start in starts] == firsts
        assert [start.start for start in starts] == [lines[i].start for i in firsts]
    for origin in block_starts(path, format, 300):
        assert list(read_lines(path, format, str.split, origin=origin)) == lines[origin.line :]
        assert list(read_lines(path, format, str.split, 2, origin)) == lines[origin.line + 2 :]


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n", b"a", b"a\n", b"\n" * 9 + b"a"])
def test_blocks_of_hardly_any_text(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(content)
    num_lines = len(list(read_lines(str(path), "raw", str.split)))
    starts = block_starts(str(path), "raw", 3)
    assert [start.line for start in starts] == list(range(0, num_lines, 3))


def test_errors_in_a_block_have_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"good\n" * 10 + b"bad \xff\n")
    origin = block_starts(str(path), "raw", 20)[2]
    with pytest.raises(ElmoxError, match="line 11: byte 5 is not UTF-8"):
        list(read_lines(str(path), "raw", str.split, origin=origin))


@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz", "in.jsonl", "in.parquet"])
@pytest.mark.parametrize("output", ["out.parquet", "out.hdf5", "out"])
def test_merged_parts_are_the_plain_output(
    output: str, name: str, elmo: Elmo, tmp_path: Path
) -> None:
    source = write_text(tmp_path / name)
    embed_file(elmo, source, tmp_path / f"plain_{output}", layers="top")
    embedder = ShardEmbedder(elmo, source, tmp_path / output, EmbedOptions("top"))
    plan = embedder.plan
    assert plan.num_parts > 5
    shards = [plan.shard(i, 4) for i in range(1, 5)]
    assert [number for shard in shards for number in shard] == list(range(plan.num_parts))
    chance = random.Random(0)
    for number in chance.sample(range(plan.num_parts), plan.num_parts):  # in any order
        embedder.embed(number)
    counts = merge(plan)
    with open_vectors(tmp_path / f"plain_{output}") as vectors:
        assert counts == (120, vectors.meta["num_tokens"])
    assert same_bytes(tmp_path / output, tmp_path / f"plain_{output}")
    assert not plan.folder.exists()
    assert plan.is_merged()
    assert merge(plan) == counts  # nothing is left to do


def test_a_folder_of_parts_is_read_like_a_file(elmo: Elmo, tmp_path: Path) -> None:
    source = write_text(tmp_path / "in.txt")
    embed_file(elmo, source, tmp_path / "plain.parquet")
    embedder = ShardEmbedder(elmo, source, tmp_path / "out.parquet", EmbedOptions())
    plan = embedder.plan
    for number in range(1, plan.num_parts):
        embedder.embed(number)
    with pytest.raises(ElmoxError, match="some parts are missing"):
        open_vectors(plan.folder)
    embedder.embed(0)
    with open_vectors(plan.folder) as parts, open_vectors(tmp_path / "plain.parquet") as plain:
        assert (len(parts), parts.meta["num_tokens"]) == (len(plain), plain.meta["num_tokens"])
        for i in (0, 119, 60, 61, 5):
            assert np.array_equal(parts[i], plain[i])
    table = pa.parquet.read_table(plan.folder)  # as other programs read it
    assert sorted(set(table.column("id").to_pylist())) == list(range(120))


def test_a_resumed_plain_run_has_the_same_chunks(
    elmo: Elmo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_text(tmp_path / "in.txt")
    embed_file(elmo, source, tmp_path / "plain", part_bytes=2**11)
    chunks: list[int] = []
    embed = elmox.vectors.chunks.ChunkEmbedder._embed

    def stop(self: Any, chunk: Any, first: int, *rest: Any) -> int:
        chunks.append(first)
        if len(chunks) == limit:
            raise KeyboardInterrupt
        return embed(self, chunk, first, *rest)

    monkeypatch.setattr(elmox.vectors.chunks.ChunkEmbedder, "_embed", stop)
    for limit in (4, 9, 20, 0):
        del chunks[:]
        try:
            embed_file(elmo, source, tmp_path / "out", part_bytes=2**11)
        except KeyboardInterrupt:
            assert limit
    assert chunks[0] > 0  # it was continued
    assert same_bytes(tmp_path / "out", tmp_path / "plain")


def test_a_killed_process_loses_one_part_at_most(model: Path, elmo: Elmo, tmp_path: Path) -> None:
    source, output = write_text(tmp_path / "in.txt"), tmp_path / "out.parquet"
    embed_file(elmo, source, tmp_path / "plain.parquet")
    embedder = ShardEmbedder(elmo, source, output, EmbedOptions())
    num_missing = [embedder.plan.num_parts]
    for number in (2, 9, 15):
        process = forked.start(embed_and_be_killed, model, source, output, number)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        num_missing.append(len(embedder.plan.missing()))
    assert num_missing == sorted(num_missing, reverse=True)
    assert num_missing[0] > num_missing[-1] > 0
    for part in embedder.plan.missing():
        embedder.embed(part)
    assert {path.name for path in embedder.plan.folder.iterdir()} == {
        embedder.plan.path(part).name for part in range(embedder.plan.num_parts)
    }  # nothing of the killed ones is left
    merge(embedder.plan)
    assert same_bytes(output, tmp_path / "plain.parquet")


def test_parts_of_another_job_are_refused(elmo: Elmo, tmp_path: Path) -> None:
    source, output = write_text(tmp_path / "in.txt"), tmp_path / "out.parquet"
    ShardEmbedder(elmo, source, output, EmbedOptions()).embed(0)
    other = ShardEmbedder(elmo, source, output, EmbedOptions("top"))
    other_text = bytearray(source.read_bytes())
    other_text[-1:] = b"x"
    source.write_bytes(other_text)
    for embedder in (other, ShardEmbedder(elmo, source, output, EmbedOptions())):
        with pytest.raises(ElmoxError, match=r"part-00000-of-\d+.parquet belongs to another job"):
            embedder.embed(0)
        with pytest.raises(ElmoxError, match="belongs to another job"):
            merge(embedder.plan)
    assert not output.exists()


def test_nothing_is_merged_before_all_parts_are_there(elmo: Elmo, tmp_path: Path) -> None:
    source, output = write_text(tmp_path / "in.txt"), tmp_path / "out.parquet"
    embedder = ShardEmbedder(elmo, source, output, EmbedOptions())
    embedder.embed(1)
    with pytest.raises(ElmoxError, match=r"parts are missing, the first is part-00000"):
        merge(embedder.plan)
    output.write_text("something else")
    with pytest.raises(OutputExists):
        embedder.plan.is_merged()
    with pytest.raises(OutputExists):
        merge(embedder.plan)
    assert not embedder.plan.is_merged(force=True)


def test_the_command_line(
    model: Path, elmo: Elmo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = write_text(tmp_path / "in.txt"), tmp_path / "out.parquet"
    embed_file(elmo, source, tmp_path / "plain.parquet", layers="top")
    arguments: list[object] = ["embed", model, source, output, "--layers", "top", "--device", "cpu"]
    for shard in ("3/3", "1/3", "1/3", "2/3"):
        code, out, err = run_here([*arguments, "--shard", shard], capsys)
        assert (code, out) == (0, ""), err
        assert f"shard {shard}: " in err
    code, out, err = run_here([*arguments, "--merge", "--json"], capsys)
    assert code == 0, err
    assert json.loads(out)["num_lines"] == 120
    assert same_bytes(output, tmp_path / "plain.parquet")
    assert run_here(arguments, capsys)[0] == 0  # the plain command recognizes it, too
    code, _, err = run_here([*arguments, "--shard", "2/3"], capsys)
    assert code == 0, err
    assert not Path(f"{output}.shards").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard", "0/3"], "expected 1/3 to 3/3"),
        (["--shard", "4/3"], "expected 1/3 to 3/3"),
        (["--merge"], "parts are missing"),
    ],
)
def test_bad_shards(
    options: list[str],
    message: str,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = write_text(tmp_path / "in.txt")
    assert_one_line(
        *run_here(["embed", model, source, tmp_path / "o.parquet", *options], capsys), message
    )


@pytest.mark.parametrize(
    "options",
    [["--shard", "three"], ["--shard", "1/2", "--merge"], ["--workers", "2"], ["--no-merge"]],
)
def test_wrong_usage(
    options: list[str], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_text(tmp_path / "in.txt")
    code, _, err = run_here(["embed", model, source, tmp_path / "o.parquet", *options], capsys)
    assert code == 2
    assert "--shard" in err or "--ray" in err


def test_input_and_output_without_shards(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_text(tmp_path / "in.txt")
    shard = ["--shard", "1/2"]
    assert_one_line(*run_here(["embed", model, "-", tmp_path / "o", *shard], capsys), "stdin")
    assert_one_line(
        *run_here(["embed", model, source, tmp_path / "o.jsonl", *shard], capsys), "JSON lines"
    )
