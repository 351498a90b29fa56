"""Writing many entries at once gives the same bytes, and errors of the disk are raised."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shell import tree

import elmox.vectors.chunks
import elmox.vectors.embed
import elmox.vectors.parts
from elmox.errors import ElmoxError
from elmox.io.background import background_thread
from elmox.vectors.files import open_writer
from elmox.vectors.layout import Layout
from elmox.vectors.parts import Parts

LAYOUT = Layout(2, 3, "float16")


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 9), max_size=25),
    cuts=st.lists(st.integers(0, 25), max_size=4),
    part_rows=st.integers(1, 12),
    part_entries=st.integers(1, 8),
)
def test_the_same_bytes(
    memory_folder: Path,
    lengths: list[int],
    cuts: list[int],
    part_rows: int,
    part_entries: int,
) -> None:
    folder = Path(mkdtemp(dir=memory_folder))
    part_bytes = part_rows * LAYOUT.row_bytes - 1
    rows = np.random.default_rng(0).standard_normal((sum(lengths), 2, 3)).astype(np.float16)
    ends = np.cumsum(lengths, dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elmox.vectors.parts, "PART_ENTRIES", part_entries)
        with open_writer(folder / "one", layout=LAYOUT, job={}, part_bytes=part_bytes) as writer:
            for length, end in zip(lengths, ends.tolist(), strict=True):
                writer.append(np.moveaxis(rows[end - length : end], 0, 1))
        with open_writer(folder / "many", layout=LAYOUT, job={}, part_bytes=part_bytes) as writer:
            bounds = [0, *sorted(min(cut, len(lengths)) for cut in cuts), len(lengths)]
            for a, b in pairwise(bounds):
                part = np.array(lengths[a:b], np.int64)
                start = int(sum(lengths[:a]))
                writer.append_rows(rows[start : start + part.sum()], part)
    names = sorted(path.name for path in (folder / "one").iterdir())
    assert sorted(path.name for path in (folder / "many").iterdir()) == names
    for name in names:
        assert (folder / "one" / name).read_bytes() == (folder / "many" / name).read_bytes()


def test_a_run_ends_with_its_part(tmp_path: Path) -> None:
    parts = Parts(tmp_path, LAYOUT, part_bytes=4 * LAYOUT.row_bytes)
    run, count = parts.reserve_run(np.array([1, 2, 3, 1]))
    assert (run.num_tokens, count) == (6, 3)  # the third entry fills the part
    run, count = parts.reserve_run(np.array([1]))
    assert (run.num_tokens, count, parts.num_closed) == (1, 1, 1)
    parts.discard()


def submit_all(*works: Callable[[], None]) -> None:
    with background_thread() as thread:
        for work in works:
            thread.submit(work)


def fail() -> None:
    raise ElmoxError("no space")


def test_an_error_in_the_background_is_raised() -> None:
    done: list[int] = []
    with pytest.raises(ElmoxError, match="no space"):
        submit_all(lambda: done.append(1), fail, lambda: done.append(2))
    assert done == [1]
    with pytest.raises(ElmoxError, match="no space"):
        submit_all(fail)  # the last one: raised at the end


def test_work_under_way_is_finished_when_the_caller_fails() -> None:
    done: list[int] = []

    def work_and_leave() -> None:
        with background_thread() as thread:
            thread.submit(lambda: done.append(1))
            raise KeyError

    with pytest.raises(KeyError):
        work_and_leave()
    assert done == [1]


@pytest.mark.skipif(os.name != "posix", reason="no limit on the size of files")
def test_a_full_disk_in_the_background(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    from elmox.elmo import Elmo

    monkeypatch.setattr(elmox.vectors.chunks, "CHUNK_BYTES", 2**12)
    elmo = Elmo.from_pretrained(tiny, device="cpu")
    (tmp_path / "in.txt").write_text("the cat sat\n" * 200)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**13, before[1]))
    try:
        with pytest.raises(ElmoxError, match=r"cannot write .*\.npy: File too large") as caught:
            elmox.vectors.embed.embed_file(elmo, str(tmp_path / "in.txt"), tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "out").exists()
    summary = elmox.vectors.embed.embed_file(elmo, str(tmp_path / "in.txt"), tmp_path / "out")
    assert (summary.num_lines, summary.num_tokens) == (200, 600)


@pytest.mark.parametrize("name", ["out", "out.jsonl"])
@pytest.mark.parametrize("in_rows", [False, True])
def test_an_open_part_is_saved_and_continued(
    name: str, in_rows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries after the last save are written again, and every byte is the same."""
    rows = np.random.default_rng(0).standard_normal((40, 2, 3)).astype(np.float16)

    def write(output: Path, stop: int) -> int:
        """Write entries of two tokens up to `stop`; all twenty finish the output."""
        writer = open_writer(output, layout=LAYOUT, job={"n": 1})
        first = writer.num_done
        for i in range(first, stop):
            entry = rows[2 * i : 2 * i + 2]
            if in_rows:
                writer.append_rows(entry, np.array([2]), [b'{"n": %d}' % i])
            else:
                writer.append(entry.swapaxes(0, 1), b'{"n": %d}' % i)
            if i == 11:
                monkeypatch.setattr(elmox.vectors.parts, "SAVE_SECONDS", 1e9)
        if stop == 20:
            writer.finish()
        else:
            writer.close()
        return first

    write(tmp_path / f"undisturbed-{name}", 20)
    monkeypatch.setattr(elmox.vectors.parts, "SAVE_SECONDS", 0.0)
    assert write(tmp_path / name, 5) == 0
    saved = 5 if in_rows else 4  # a reserved entry is complete when the next one is reserved
    assert write(tmp_path / name, 15) == saved
    assert write(tmp_path / name, 20) == (12 if in_rows else 11)
    assert tree(tmp_path / name) == tree(tmp_path / f"undisturbed-{name}")
    if name == "out.jsonl":
        expected = (tmp_path / f"undisturbed-{name}").read_bytes()
        assert (tmp_path / name).read_bytes() == expected
    assert not Path(f"{tmp_path / name}.partial").exists()
