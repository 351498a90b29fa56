"""Vectors on disk: they are read back as written, whatever happens to the process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal, get_args

import h5py
import numpy as np
import pytest
import vector_job
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_job import make_entry, write_job

import elmox.vectors.files
from elmox.errors import ElmoxError
from elmox.vectors import parquet
from elmox.vectors.files import Vectors, format_of, open_vectors, open_writer
from elmox.vectors.formats import FORMATS, Format, ReadableFormat
from elmox.vectors.layout import Array, Layout
from elmox.vectors.parts import PART_ENTRIES, Index, Parts

try:
    import pyarrow
except ImportError:
    pyarrow = None

needs_pyarrow = pytest.mark.skipif(pyarrow is None, reason="no pyarrow")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")

OUTPUTS = ["out.hdf5", "out", pytest.param("out.parquet", marks=needs_pyarrow)]
FILES = ["out.hdf5", pytest.param("out.parquet", marks=needs_pyarrow)]
LAYOUT = Layout(3, 4, "float16")


def job_command(*arguments: object) -> list[str]:
    return [sys.executable, vector_job.__file__, *(str(argument) for argument in arguments)]


def job_environment() -> dict[str, str]:
    source = Path(elmox.vectors.files.__file__).parents[2]
    return {**os.environ, "PYTHONPATH": str(source)}


def run_job(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        job_command(*arguments), env=job_environment(), capture_output=True, text=True, check=False
    )


def start_job(*arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        job_command(*arguments), env=job_environment(), stdout=subprocess.DEVNULL
    )


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None, f"the job ended before {path} was there"
        assert time.monotonic() < deadline
        time.sleep(0.001)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    assert process.wait() == -signal.SIGKILL


def assert_entries(
    path: Path, num_entries: int, layout: Layout = LAYOUT, num_tokens: int | None = None
) -> None:
    with open_vectors(path) as vectors:
        assert len(vectors) == num_entries
        for i, entry in enumerate(vectors):
            expected = make_entry(i, layout, num_tokens)
            assert entry.dtype == expected.dtype
            np.testing.assert_array_equal(entry, expected, strict=True)
        assert vectors.meta["num_entries"] == num_entries
        assert vectors.meta["about"] == {"model": "tiny"}


def content(path: Path) -> dict[str, bytes]:
    """Return all bytes of a file or a directory."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {file.name: file.read_bytes() for file in path.iterdir()}


def interrupt(path: Path, at: int, force: bool = False) -> None:
    """Start the job of 60 entries and leave it by an exception at entry `at`."""

    def leave(i: int) -> None:
        if i == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_job(path, 60, LAYOUT, force=force, before_entry=leave)


# Round trips


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("num_layers", [None, 1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_round_trip(
    tmp_path: Path, output: str, num_layers: int | None, dtype: Literal["float32", "float16"]
) -> None:
    layout = Layout(num_layers, 5, dtype)
    assert write_job(tmp_path / output, 40, layout) == 0
    assert_entries(tmp_path / output, 40, layout)
    assert [path.name for path in tmp_path.iterdir()] == [output]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(("num_entries", "num_tokens"), [(0, None), (1, 0), (12, 0), (1, 300)])
def test_round_trip_of_extremes(
    tmp_path: Path, output: str, num_entries: int, num_tokens: int | None
) -> None:
    write_job(tmp_path / output, num_entries, LAYOUT, num_tokens=num_tokens)
    assert_entries(tmp_path / output, num_entries, num_tokens=num_tokens)


@pytest.mark.parametrize("output", OUTPUTS)
def test_indexing(tmp_path: Path, output: str) -> None:
    write_job(tmp_path / output, 10, LAYOUT)
    vectors = open_vectors(str(tmp_path / output))
    np.testing.assert_array_equal(vectors[-1], make_entry(9, LAYOUT))
    np.testing.assert_array_equal(vectors[np.int64(3)], make_entry(3, LAYOUT))  # type: ignore[index]
    for bad in (10, -11):
        with pytest.raises(IndexError, match=f"entry {bad} of .* which has 10"):
            vectors[bad]
    with pytest.raises(TypeError):
        vectors["1"]  # type: ignore[index]
    last = vectors[9]
    vectors.close()
    np.testing.assert_array_equal(last, make_entry(9, LAYOUT))
    with pytest.raises(ElmoxError, match="was closed"):
        vectors[0]


@pytest.mark.parametrize("output", OUTPUTS)
def test_repr(tmp_path: Path, output: str) -> None:
    write_job(tmp_path / output, 10, LAYOUT)
    with open_vectors(tmp_path / output) as vectors:
        path = str(tmp_path / output)
        assert repr(vectors) == f"Vectors({path!r}, 10 entries, 3 layers, dim=4, dtype=float16)"
    write_job(tmp_path / f"one_{output}", 1, Layout(None, 4, "float32"))
    assert "1 layer, dim=4, dtype=float32" in repr(open_vectors(tmp_path / f"one_{output}"))


@pytest.mark.parametrize("output", OUTPUTS)
def test_entry_of_several_windows(
    tmp_path: Path, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halves of the dimensions, from the left and from the right, as a biLM writes a long line."""
    monkeypatch.setattr(parquet, "MAX_ROW_VALUES", 100 * LAYOUT.row_values)
    layout = Layout(3, 1024, "float32")
    expected = make_entry(1, layout, 1000)  # 12 MB: more than one window everywhere
    with open_writer(tmp_path / output, layout=layout, job={}) as writer:
        writer.append(make_entry(0, layout))
        entry = writer.reserve(1000)
        for start in range(0, 1000, 300):
            entry[:, start : start + 300, :512] = expected[:, start : start + 300, :512]
        for start in reversed(range(0, 1000, 170)):
            entry[:, start : start + 170, 512:] = expected[:, start : start + 170, 512:]
        writer.append(make_entry(2, layout))
    with open_vectors(tmp_path / output) as vectors:
        np.testing.assert_array_equal(vectors[1], expected)
        for i in (0, 2):
            np.testing.assert_array_equal(vectors[i], make_entry(i, layout))


def test_reserved_entry_starts_as_zeros(tmp_path: Path) -> None:
    with open_writer(tmp_path / "out", layout=LAYOUT, job={}) as writer:
        writer.reserve(2)[0, 1] = 1
    np.testing.assert_array_equal(
        open_vectors(tmp_path / "out")[0][:, :, 0], [[0, 1], [0, 0], [0, 0]]
    )


indices = st.one_of(
    st.integers(-3, 2), st.slices(3), st.builds(slice, st.none() | st.integers(-4, 4))
)
token_indices = st.one_of(
    st.integers(-6, 5),
    st.builds(slice, st.none() | st.integers(-7, 7), st.none() | st.integers(-7, 7)),
)
keys = st.one_of(
    st.just(...),
    st.tuples(indices),
    st.tuples(indices, token_indices),
    st.tuples(indices, token_indices, indices),
    st.tuples(st.just(...), token_indices, indices),
    st.tuples(indices, st.just(...)),
    st.tuples(st.just(...), indices),
)


@settings(max_examples=200, deadline=None)
@given(key=keys, seed=st.integers(0, 99))
def test_entry_behaves_as_an_array(
    tmp_path_factory: pytest.TempPathFactory, key: Index, seed: int
) -> None:
    layout = Layout(3, 3, "float32")
    expected = make_entry(seed, layout, 6)
    parts = Parts(tmp_path_factory.mktemp("parts"), layout)
    entry = parts.reserve(6)
    entry[...] = expected
    np.testing.assert_array_equal(entry[key], expected[key])
    value = np.arange(expected[key].size).reshape(expected[key].shape)
    entry[key] = value
    expected[key] = value
    np.testing.assert_array_equal(entry[...], expected)
    parts.discard()


@pytest.mark.parametrize("key", [(0, slice(0, 6, 2)), (0, 0, 0, 0), (..., ...), (0, 6)])
def test_entry_refuses_other_indices(tmp_path: Path, key: Index) -> None:
    entry = Parts(tmp_path, Layout(3, 3, "float32")).reserve(6)
    with pytest.raises(IndexError):
        entry[key]


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 2, 4), (3, 2, 5), (3, 1, 2, 4)])
def test_wrong_shape_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with (
        pytest.raises(ElmoxError, match=r"expected \(3, 'T', 4\)"),
        open_writer(tmp_path / "out", layout=LAYOUT, job={}) as writer,
    ):
        writer.append(np.zeros(shape, np.float32))


# Formats on the disk


def test_hdf5_has_the_layout_of_bilm_tf(tmp_path: Path) -> None:
    write_job(tmp_path / "out.h5", 12, LAYOUT)
    with h5py.File(tmp_path / "out.h5") as file:
        assert set(file) == {str(i) for i in range(12)}
        for i in range(12):
            dataset = file[str(i)]
            assert dataset.shape == (3, i * 5 % 8, 4)
            assert dataset.chunks is None
            assert dataset.compression is None
            np.testing.assert_array_equal(dataset[...], make_entry(i, LAYOUT))


def test_npy_needs_only_numpy(tmp_path: Path) -> None:
    write_job(tmp_path / "out", 30, LAYOUT)
    index = np.load(tmp_path / "out" / "index.npy")
    assert len(set(index[:, 0])) > 1
    for i, (shard, start, num_tokens) in enumerate(index):
        rows = np.load(tmp_path / "out" / f"shard-{shard:05d}.npy")[start : start + num_tokens]
        np.testing.assert_array_equal(rows.transpose(1, 0, 2), make_entry(i, LAYOUT))
    assert json.loads((tmp_path / "out" / "meta.json").read_text())["num_entries"] == 30


@needs_pyarrow
def test_parquet_has_a_row_per_entry(tmp_path: Path) -> None:
    write_job(tmp_path / "out.parquet", 30, LAYOUT)
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table.column("id").to_pylist() == list(range(30))
    for row in table.to_pylist():
        entry = np.array(row["vectors"], np.float16).reshape(3, row["num_tokens"], 4)
        np.testing.assert_array_equal(entry, make_entry(row["id"], LAYOUT))


@needs_pyarrow
def test_parquet_reads_the_row_group_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage all row groups except one, whose entries can still be read."""
    monkeypatch.setattr(parquet, "_GROUP_VALUES", 200)
    path = tmp_path / "out.parquet"
    write_job(path, 40, LAYOUT)
    metadata = pyarrow.parquet.read_metadata(path)
    assert metadata.num_row_groups > 3
    kept = [metadata.row_group(2).column(c) for c in range(metadata.num_columns)]
    ids = range(kept[0].statistics.min, kept[0].statistics.max + 1)
    start = min(column.data_page_offset for column in kept)
    stop = max(column.data_page_offset + column.total_compressed_size for column in kept)
    footer = metadata.serialized_size + 8
    data = bytearray(path.read_bytes())
    data[4:start] = b"\xff" * (start - 4)
    data[stop:-footer] = b"\xff" * (len(data) - footer - stop)
    path.write_bytes(data)
    vectors = open_vectors(path)
    for i in ids:
        np.testing.assert_array_equal(vectors[i], make_entry(i, LAYOUT))
    with pytest.raises(ElmoxError, match="damaged"):
        vectors[0]


def test_npy_is_mapped_not_read(tmp_path: Path) -> None:
    write_job(tmp_path / "out", 30, LAYOUT)
    vectors = open_vectors(tmp_path / "out")
    (tmp_path / "out" / "shard-00001.npy").unlink()
    np.testing.assert_array_equal(vectors[1], make_entry(1, LAYOUT))
    assert not vectors[1].flags.owndata
    assert not vectors[1].flags.writeable
    with pytest.raises(ElmoxError, match=r"shard-00001\.npy (cannot be read|does not exist)"):
        vectors[20]


def test_parts_of_many_empty_entries_are_bounded(tmp_path: Path) -> None:
    parts = Parts(tmp_path, LAYOUT)
    for _ in range(PART_ENTRIES + 2):
        parts.reserve(0)
    parts.seal()
    assert [len(index) for index in parts.indexes()] == [PART_ENTRIES, 2]


# Files of other programs


def foreign(path: Path, keys: list[str], **extra: Array) -> list[Array]:
    entries = [make_entry(i, Layout(3, 4, "float32"), i) for i in range(len(keys))]
    with h5py.File(path, "w") as file:
        for key, entry in zip(keys, entries, strict=True):
            file.create_dataset(key, data=entry, dtype="float32")
        for key, value in extra.items():
            file.create_dataset(key, data=value)
    return entries


@pytest.mark.parametrize("num_entries", [1, 12])
def test_bilm_tf_dump(tmp_path: Path, num_entries: int) -> None:
    keys = [str(i) for i in range(num_entries)]
    entries = foreign(tmp_path / "dump.hdf5", keys)
    vectors = open_vectors(tmp_path / "dump.hdf5")
    assert len(vectors) == num_entries
    assert vectors.meta == {}
    assert repr(vectors).endswith(f"dump.hdf5', {num_entries} entries)")
    for read, written in zip(vectors, entries, strict=True):
        np.testing.assert_array_equal(read, written, strict=True)


def test_allennlp_dump(tmp_path: Path) -> None:
    sentences = np.array([json.dumps({"a b": "0"})], dtype=object)
    entries = foreign(tmp_path / "dump", ["0", "1", "2"], sentence_to_index=sentences)
    vectors = open_vectors(tmp_path / "dump")  # detected by content, not by name
    assert len(vectors) == 3
    np.testing.assert_array_equal(vectors[2], entries[2])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["embedding"], "without datasets named 0, 1"),
        (["the\tcat", "01"], "without datasets named 0, 1"),
        (["0", "1", "3"], "dataset 2 is missing, but 3 exists"),
    ],
)
def test_hdf5_of_something_else(tmp_path: Path, keys: list[str], message: str) -> None:
    foreign(tmp_path / "dump.hdf5", keys)
    with pytest.raises(ElmoxError, match=message):
        open_vectors(tmp_path / "dump.hdf5")


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("hello")
    (tmp_path / "nothing").write_text("")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "meta.json").write_text(
        json.dumps({"elmox_vectors": 2, "num_layers": None, "dim": 1, "dtype": "float32"})
    )
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "meta.json").write_text("{")
    (tmp_path / "cut.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
    for name, message in {
        "missing": "no such file",
        "empty": r"without meta\.json",
        "text": "has none of the formats hdf5, parquet, npy",
        "nothing": "has none of the formats hdf5, parquet, npy",
        "new": "format 2.* update elmox",
        "damaged": "damaged",
        "cut.hdf5": "cannot be read as HDF5",
    }.items():
        with pytest.raises(ElmoxError, match=message) as caught:
            open_vectors(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
        assert "\n" not in str(caught.value)


@needs_pyarrow
def test_other_parquet(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ElmoxError, match="a parquet file without vectors"):
        open_vectors(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1" + bytes(50))
    with pytest.raises(ElmoxError, match="cannot read this parquet file"):
        open_vectors(tmp_path / "b.parquet")


# Names and existing files


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.hdf5", "hdf5"), ("a.H5", "hdf5"), ("b/a.parquet", "parquet"), ("vectors", "npy")],
)
def test_format_of(name: str, format: Format) -> None:
    assert format in get_args(Format)
    assert format_of(name) == format


def test_one_table_names_the_formats() -> None:
    assert get_args(Format) == tuple(FORMATS)
    assert set(ReadableFormat) < set(FORMATS)
    for name in FORMATS:
        is_readable = elmox.vectors.files._FILES[name].source is not None
        assert is_readable == (name in set(ReadableFormat))
        assert f"out{FORMATS[name].suffixes[0]}" in ("out", f"out.{name}")


def test_format_of_other_names(tmp_path: Path) -> None:
    (tmp_path / "v1.0").mkdir()
    assert format_of(tmp_path / "v1.0") == "npy"
    with pytest.raises(
        ElmoxError, match=r"'\.npy' is not a format of vectors: expected NAME\.hdf5 .*NAME\.parquet"
    ):
        format_of(tmp_path / "a.npy")


@pytest.mark.parametrize("output", OUTPUTS)
def test_existing_output(tmp_path: Path, output: str) -> None:
    write_job(tmp_path / output, 5, LAYOUT)
    before = content(tmp_path / output)
    with pytest.raises(ElmoxError, match=r"exists already: .* overwrite it with force=True"):
        write_job(tmp_path / output, 7, LAYOUT)
    assert content(tmp_path / output) == before
    interrupt(tmp_path / output, 40, force=True)
    assert content(tmp_path / output) == before  # replaced only at the end
    write_job(tmp_path / output, 7, LAYOUT, force=True)
    assert_entries(tmp_path / output, 7)
    assert [path.name for path in tmp_path.iterdir()] == [output]


def test_output_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "out.h5"
    writer = open_writer(output, layout=LAYOUT, job={})
    writer.append(make_entry(0, LAYOUT))
    output.write_text("precious")
    with pytest.raises(ElmoxError, match="exists already"):
        writer.finish()
    assert output.read_text() == "precious"
    with open_writer(output, layout=LAYOUT, job={}, force=True) as writer:
        assert writer.num_done == 1
    np.testing.assert_array_equal(open_vectors(output)[0], make_entry(0, LAYOUT))


@pytest.mark.parametrize("output", OUTPUTS)
def test_force_does_not_replace_other_directories(tmp_path: Path, output: str) -> None:
    (tmp_path / output).mkdir()
    (tmp_path / output / "thesis.tex").write_text("precious")
    with pytest.raises(ElmoxError, match="a directory with other files in it"):
        write_job(tmp_path / output, 1, LAYOUT, force=True)
    assert (tmp_path / output / "thesis.tex").read_text() == "precious"
    (tmp_path / f"{output}.partial").mkdir()
    (tmp_path / f"{output}.partial" / "notes").write_text("precious")
    (tmp_path / output / "thesis.tex").unlink()
    with pytest.raises(ElmoxError, match="'notes', which elmox did not write"):
        write_job(tmp_path / output, 1, LAYOUT, force=True)
    assert (tmp_path / f"{output}.partial" / "notes").read_text() == "precious"


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match=r"there is no directory .*nowhere: create it"):
        write_job(tmp_path / "nowhere" / "out.h5", 1, LAYOUT)
    with pytest.raises(ElmoxError, match="not a regular file"):
        write_job(Path(os.devnull), 1, LAYOUT, format="hdf5", force=True)
    with pytest.raises(ElmoxError, match="shorten it"):
        open_writer(tmp_path / "out", layout=LAYOUT, job={}, about={"tokens": "x" * 50_000})
    assert list(tmp_path.iterdir()) == []


def test_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out.h5").symlink_to(tmp_path / "disk" / "real.h5")
    write_job(tmp_path / "out.h5", 3, LAYOUT)
    assert (tmp_path / "out.h5").is_symlink()
    assert_entries(tmp_path / "disk" / "real.h5", 3)


# Interruptions


@pytest.mark.parametrize("output", OUTPUTS)
def test_resume_gives_the_same_bytes(tmp_path: Path, output: str) -> None:
    (tmp_path / "whole").mkdir()
    write_job(tmp_path / "whole" / output, 60, LAYOUT)
    interrupt(tmp_path / output, 40)
    with pytest.raises(ElmoxError, match="unfinished"):
        open_vectors(tmp_path / output)
    with pytest.raises(ElmoxError, match="unfinished"):
        open_vectors(tmp_path / f"{output}.partial")
    assert 0 < write_job(tmp_path / output, 60, LAYOUT) < 40
    assert content(tmp_path / output) == content(tmp_path / "whole" / output)


@pytest.mark.parametrize("output", OUTPUTS)
def test_another_job_is_refused(tmp_path: Path, output: str) -> None:
    interrupt(tmp_path / output, 40)
    other = Layout(3, 4, "float32")
    with pytest.raises(ElmoxError, match=r'another job \(options: \[""\] before, \["x"\] now\)'):
        write_job(tmp_path / output, 60, LAYOUT, options="x")
    with pytest.raises(ElmoxError, match=r"partial belongs to another job \(vectors: .*force=True"):
        write_job(tmp_path / output, 60, other)
    assert write_job(tmp_path / output, 60, other, force=True) == 0
    assert_entries(tmp_path / output, 60, other)


def test_two_writers_at_once(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with open_writer(tmp_path / "out", layout=LAYOUT, job={}) as writer:
        writer.append(make_entry(0, LAYOUT))
        with pytest.raises(ElmoxError, match="another process is writing"):
            open_writer(tmp_path / "out", layout=LAYOUT, job={}, force=True)
    assert len(open_vectors(tmp_path / "out")) == 1


def test_closed_writer(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "out", layout=LAYOUT, job={})
    writer.append(make_entry(0, LAYOUT))
    writer.close()
    with pytest.raises(RuntimeError, match="closed"):
        writer.append(make_entry(1, LAYOUT))
    with pytest.raises(RuntimeError, match="closed"):
        writer.finish()
    assert not (tmp_path / "out").exists()


@needs_fork
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("force", [False, True])
def test_kill_at_every_operation_on_files(memory_folder: Path, output: str, force: bool) -> None:
    folder = Path(mkdtemp(dir=memory_folder))
    write_job(folder / output, 12, LAYOUT)
    (folder / "sweep").mkdir()
    options = ["--force"] if force else []
    done = run_job(folder / "sweep", "--sweep", output, "--entries", 12, *options)
    assert done.returncode == 0, done.stderr
    num_kills = int(done.stdout)
    assert num_kills > 15
    for number in range(1, num_kills + 1):
        assert content(folder / "sweep" / str(number) / output) == content(folder / output)


@pytest.mark.parametrize("output", OUTPUTS)
def test_kill_while_writing(tmp_path: Path, output: str) -> None:
    options = ["--entries", 150, "--delay", 0.002]
    for shard, moment in [(0, 0.0), (1, 0.013), (3, 0.007), (7, 0.02)]:
        process = start_job(tmp_path / output, *options)
        wait_for(tmp_path / f"{output}.partial" / "shards" / f"shard-{shard:05d}.npy", process)
        time.sleep(moment)
        kill(process)
        assert not (tmp_path / output).exists()
    done = run_job(tmp_path / output, *options)
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout) < 150
    assert_entries(tmp_path / output, 150)
    assert [path.name for path in tmp_path.iterdir()] == [output]


@pytest.mark.parametrize("output", FILES)
@pytest.mark.parametrize("moment", [0.0, 0.02, 0.06])
def test_kill_while_joining(tmp_path: Path, output: str, moment: float) -> None:
    layout = Layout(3, 512, "float16")
    options = ["--entries", 2000, "--tokens", 4, "--dim", 512, "--part-bytes", 1 << 22]
    process = start_job(tmp_path / output, *options)
    wait_for(tmp_path / f"{output}.partial" / "joined", process)
    time.sleep(moment)
    kill(process)
    assert not (tmp_path / output).exists()
    done = run_job(tmp_path / output, *options)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 2000
    assert_entries(tmp_path / output, 2000, layout, 4)


# A full disk (simulated by a limit on the size of files), and memory


def assert_one_line_about(path: Path, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 1, done
    last = done.stderr.rstrip("\n").rpartition("\n")[2]
    assert last.startswith(f"elmox.errors.ElmoxError: cannot write {path}: File too large; "), last


@pytest.mark.skipif(os.name != "posix", reason="no limit on the size of files")
@pytest.mark.parametrize("output", OUTPUTS)
def test_disk_full_while_writing(tmp_path: Path, output: str) -> None:
    done = run_job(tmp_path / output, "--max-file", 700, "--limit-at", 40)
    partial = tmp_path / f"{output}.partial"
    assert_one_line_about(partial / "open-00003.npy", done)
    assert not (tmp_path / output).exists()
    done = run_job(tmp_path / output)
    assert done.returncode == 0, done.stderr
    assert 20 < int(done.stdout) <= 40
    assert_entries(tmp_path / output, 60)


@pytest.mark.skipif(os.name != "posix", reason="no limit on the size of files")
@pytest.mark.parametrize("output", FILES)
@pytest.mark.parametrize(("num_entries", "num_tokens"), [(30, 1000), (4000, 1)])
def test_disk_full_while_joining(
    tmp_path: Path, output: str, num_entries: int, num_tokens: int
) -> None:
    """The HDF5 library crashes on the error if there are many small entries."""
    options = ["--entries", num_entries, "--tokens", num_tokens, "--part-bytes", 20_000]
    done = run_job(tmp_path / output, *options, "--max-file", 60_000)
    partial = tmp_path / f"{output}.partial"
    assert_one_line_about(partial / "joined", done)
    assert not (tmp_path / output).exists()
    assert not (partial / "joined").exists()
    done = run_job(tmp_path / output, *options)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == num_entries
    assert_entries(tmp_path / output, num_entries, num_tokens=num_tokens)


@pytest.mark.skipif(sys.platform != "linux", reason="maximal memory in kB is that of Linux")
@pytest.mark.parametrize("output", OUTPUTS)
def test_memory_is_bounded(tmp_path: Path, output: str) -> None:
    """200 MB: 100 in one entry, 100 in many."""
    sizes = ["--entries", 170, "--tokens", 100, "--dim", 1024]
    done = run_job(tmp_path / output, "--memory", *sizes)
    assert done.returncode == 0, done.stderr
    # A row of parquet costs some 20 bytes per number, so 2.2 GB for the long one if it were whole.
    assert int(done.stdout) < (200 if output == "out.parquet" else 30) << 20
    vectors: Vectors = open_vectors(tmp_path / output)
    assert vectors.meta["num_tokens"] == 2 * 170 * 100
    window = make_entry(0, Layout(3, 1024, "float16"), 100)
    np.testing.assert_array_equal(vectors[0][:, -100:], window)
    np.testing.assert_array_equal(vectors[170], window)


def test_import_is_light_and_pyarrow_optional(tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["pyarrow"] = None
from elmox.vectors.files import open_writer, ElmoxError
from elmox.vectors.layout import Layout
assert "torch" not in sys.modules
try:
    open_writer({str(tmp_path / "a.parquet")!r}, layout=Layout(None, 1, "float32"), job={{}})
except ElmoxError as error:
    sys.stdout.write(str(error))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=job_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pip install 'elmox[parquet]'" in done.stdout
    assert list(tmp_path.iterdir()) == []
