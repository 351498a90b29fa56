"""Ctrl-C: one line, exit code 130, no partial output, and the same command continues.

`elmox train`, which finishes its step first, has its tests in test_cli_train.py.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from checkpoints import random_options, write_ai2
from shell import SOURCE, command, environment, run_elmox, tree
from tagged_files import NAMES, write_columns

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no signals")

PART_TOKENS = 2**26 // (3 * 128 * 4)  # of the model below, in a part of an unfinished output
AGAIN = "elmox: interrupted; run the same command again to continue"


def interrupted(arguments: list[object], is_working: Callable[[], bool]) -> list[str]:
    """Interrupt `elmox ARGUMENTS` once it works, and return its lines on stderr.

    The signal goes to all its processes, as a terminal sends it.
    """
    process = subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,
        # Tests that run in the background may ignore it, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not is_working():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b""), err
    return err.decode().splitlines()


def has_lines(path: Path, number: int) -> bool:
    return path.exists() and len(path.read_text().splitlines()) >= number


def test_embed(tmp_path: Path) -> None:
    weights = write_ai2(
        tmp_path / "model", random_options(projection_dim=64), np.random.default_rng(0)
    )
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat and the dog .\n" * (2 * PART_TOKENS // 10 + 100))
    arguments: list[object] = ["embed", weights, text, tmp_path / "out", "--tokenized", "--json"]
    shard = tmp_path / "out.partial" / "shards" / "shard-00000.npy"
    assert interrupted(arguments, shard.exists) == [AGAIN]
    assert not (tmp_path / "out").exists()
    done = run_elmox(*arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["num_resumed"] > 0
    (tmp_path / "out").rename(tmp_path / "resumed")
    assert run_elmox(*arguments).returncode == 0
    quiet, resumed = tree(tmp_path / "out"), tree(tmp_path / "resumed")
    assert quiet.keys() == resumed.keys()
    for name in quiet:
        if name.startswith("shard"):  # batches are others after an interruption: the last bits
            whole, joined = (np.load(tmp_path / folder / name) for folder in ("out", "resumed"))
            np.testing.assert_allclose(joined, whole, rtol=0, atol=1e-5)
        else:
            assert quiet[name] == resumed[name]


def fit(folder: Path, *verb: str) -> list[object]:
    data = folder / "names.txt"
    write_columns(data, NAMES)
    changes = ["words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=[12,12]"]
    changes += ["fit.epochs=40", "fit.patience=40", "fit.least_updates=1"]
    files = ["--train", data, "--dev", data, "--out", folder / "run", "--cache", folder / "cache"]
    return [*verb, *files, *(part for change in changes for part in ("--set", change))]


def losses(folder: Path) -> list[float]:
    lines = (folder / "seed-0" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


def test_fit(tmp_path: Path) -> None:
    arguments = [*fit(tmp_path, "fit", "ner"), "--elmo", "none"]
    metrics = tmp_path / "run" / "seed-0" / "metrics.jsonl"
    lines = interrupted(arguments, lambda: has_lines(metrics, 3))
    assert all(line.startswith("elmox: epoch") for line in lines[:-1])
    assert lines[-1] == AGAIN
    done = run_elmox(*arguments)
    assert done.returncode == 0, done.stderr
    assert "continuing after epoch" in done.stderr
    (tmp_path / "run").rename(tmp_path / "resumed")
    quiet = run_elmox(*arguments)
    assert (quiet.returncode, quiet.stdout) == (0, done.stdout)
    assert losses(tmp_path / "resumed") == losses(tmp_path / "run")


def test_ablate(tiny: Path, tmp_path: Path) -> None:
    arguments = [*fit(tmp_path, "ablate", "ner", "place"), "--elmo", tiny]
    out = tmp_path / "run"
    lines = interrupted(arguments, lambda: any(out.rglob("metrics.jsonl")))
    assert lines[-1] == AGAIN
    assert not (out / "place.md").exists()
    done = run_elmox(*arguments)
    assert done.returncode == 0, done.stderr
    assert (out / "place.md").exists()


@pytest.mark.parametrize("entry", [["-m", "elmox"], ["-c", "import elmox.__main__ as m; m.run()"]])
def test_the_first_moment(entry: list[str], tmp_path: Path) -> None:
    """Before any verb can run: while the packages that it needs are being imported."""
    (tmp_path / "typer.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, *entry, "info"],
        env=environment(PYTHONPATH=f"{tmp_path}{os.pathsep}{SOURCE}"),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "elmox: interrupted\n")


def test_prepare(tmp_path: Path) -> None:
    """It starts again: nothing is left."""
    text = tmp_path / "text.txt"
    text.write_text("The cat, they log, sat on the mat. The dog didn't.\n" * 400_000)
    before = set(tmp_path.iterdir())

    def is_working() -> bool:
        return any(any(path.iterdir()) for path in tmp_path.glob(".corpus.*"))

    arguments = ["prepare", text, "--out", tmp_path / "corpus", "--workers", 2]
    assert interrupted(arguments, is_working) == ["elmox: interrupted"]
    assert set(tmp_path.iterdir()) == before


def test_probe(tmp_path: Path) -> None:
    """A verb of two words: nothing is written."""
    pipe = tmp_path / "train.conllu"
    os.mkfifo(pipe)
    writers: list[int] = []  # open until the end: the reader must wait, and not see an empty file

    def is_reading() -> bool:
        with suppress(OSError):  # there is no reader yet
            writers.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(writers)

    arguments = ["probe", "pos", "--train", pipe, "--dev", pipe, "--test", pipe]
    lines = interrupted([*arguments, "--out", tmp_path / "out"], is_reading)
    os.close(writers[0])
    assert lines == ["elmox: interrupted"]
    assert list(tmp_path.iterdir()) == [pipe]
