"""Atomic writes: in one step, by one process at a time, and no leftovers of killed processes."""

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

import elmox.io.files
from elmox.errors import ElmoxError
from elmox.io.files import atomic_directory, atomic_write, refuse_existing, write_together
from elmox.io.locks import alone_in, take_lock
from elmox.io.temporary import missing, scratch_directory

pytest.importorskip("fcntl", reason="no locks on this system")


def put(folder: Path, name: str, text: str) -> None:
    """Make a directory `name` with one file."""
    with atomic_directory(folder / name) as new:
        (new / "file").write_text(text)


def kill_while_writing(path: Path, directory: bool) -> None:
    """Start a process that is killed while it writes `path`."""
    pid = os.fork()
    if pid == 0:
        with (atomic_directory if directory else atomic_write)(path) as new:
            (new / "half" if directory else new).write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.fixture(params=[True, False], ids=["exchange", "no exchange"])
def exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """File systems that can exchange two names, and others."""
    if not request.param:
        monkeypatch.setattr(elmox.io.files, "_renameat2", lambda: None)
    return bool(request.param)


def test_a_directory_is_replaced(tmp_path: Path, exchange: bool) -> None:
    for text in ("old", "new"):
        put(tmp_path, "out", text)
        assert (tmp_path / "out" / "file").read_text() == text
    (tmp_path / "link").symlink_to(tmp_path / "out")
    put(tmp_path, "link", "the target")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out" / "file").read_text() == "the target"
    assert sorted(os.listdir(tmp_path)) == ["link", "out"]


@pytest.mark.skipif(elmox.io.files._renameat2() is None, reason="cannot exchange names")
def test_readers_always_see_a_directory(tmp_path: Path) -> None:
    put(tmp_path, "out", "0")
    done = threading.Event()
    looks: list[bool] = []

    def look() -> None:
        while not done.is_set():
            looks.append((tmp_path / "out").is_dir())

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(50):
        put(tmp_path, "out", str(number))
    done.set()
    reader.join()
    assert looks
    assert all(looks)


@pytest.mark.parametrize("directory", [True, False])
def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path, directory: bool) -> None:
    others = (".out.toml", ".out.2.tmp-0123abcd", ".output.tmp-0123abcd", "out.tmp")
    for name in others:
        (tmp_path / name).write_text("mine")
    path = tmp_path / "out"
    kill_while_writing(path, directory)
    assert len(os.listdir(tmp_path)) == len(others) + 1
    refuse_existing(path, force=False)
    assert sorted(os.listdir(tmp_path)) == sorted(others)


def test_files_of_a_running_process_stay(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "out") as new:
        (new / "file").write_text("slow")
        put(tmp_path, "out", "quick")
        assert (new / "file").read_text() == "slow"
    assert (tmp_path / "out" / "file").read_text() == "slow"
    assert os.listdir(tmp_path) == ["out"]


def test_an_old_directory_is_restored(tmp_path: Path) -> None:
    put(tmp_path, "out", "old")
    hidden = tmp_path / ".out.old-0123abcd"
    (tmp_path / "out").rename(hidden)
    assert str(hidden) in missing(tmp_path / "out", "")
    with pytest.raises(ElmoxError, match="exists already"):
        refuse_existing(tmp_path / "out", force=False)
    assert (tmp_path / "out" / "file").read_text() == "old"


def test_scratch_directories_of_killed_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stale = tmp_path / ".scratch.tmp-0123abcd"
    stale.mkdir()
    with scratch_directory("scratch") as one, scratch_directory("scratch") as other:
        assert not stale.exists()
        assert one.is_dir()
        assert other.is_dir()
    assert os.listdir(tmp_path) == []


def test_files_that_belong_together(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("a", "b", "c"))
    write_together({first: b"1", second: b"1"}, force=False)
    third.write_bytes(b"of the old ones")

    def fail(path: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ElmoxError, match="No space left"):
        write_together({first: b"2", second: fail}, force=True)
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"1")
    with pytest.raises(ElmoxError, match="exists already"):
        write_together({tmp_path / "d": b"", second: b""}, force=False, obsolete=[third])
    write_together({first: b"2", second: b"2"}, force=True, obsolete=[third])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"2", "b": b"2"}


def test_a_lock_is_for_one_process(tmp_path: Path) -> None:
    with alone_in(tmp_path, "working in"):
        pid = os.fork()
        if pid == 0:
            try:
                take_lock(tmp_path)
            except BlockingIOError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        with pytest.raises(ElmoxError, match=f"another process is working in {tmp_path}"):
            alone_in(tmp_path, "working in").__enter__()


def test_a_forked_process_does_not_keep_a_lock(tmp_path: Path) -> None:
    """A data loader, for example, may outlive its parent for a moment."""
    lock = take_lock(tmp_path)
    assert lock is not None
    ready, child_ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(child_ready, b"x")
        time.sleep(60)
        os._exit(0)
    try:
        os.read(ready, 1)
        lock.release()
        again = take_lock(tmp_path)
        assert again is not None
        again.release()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("text")
    path = tmp_path / "text.txt" / "model"
    folder = re.escape(str(path.parent))
    expected = rf"cannot write .*model: {folder} is a file, expected a directory"
    for opened in (atomic_write, atomic_directory):
        with pytest.raises(ElmoxError, match=expected), opened(path):
            pass
