"""`elmox train` as processes: killed, stopped, out of disk, and several together."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from corpora import small_corpus
from forked import (
    free_port,
    rank_environment,
    run_ranks,
    start,
    train_and_look_back,
    train_run,
)
from shell import (
    assert_one_line,
    command,
    environment,
    limit_files,
    run_elmox,
    run_here,
    run_in_new_python,
)
from training_runs import losses, metrics

RECIPE = """
[data]
dir = "{corpus}"
[model]
preset = "small"
[model.lstm]
cell_dim = 16
projection_dim = 8
[model.char_cnn]
filters = [[1, 8], [2, 8]]
num_highways = 1
[softmax]
samples = 64
[train]
rows = 8
steps = 5
max_steps = 100
[optim]
name = "adamw"
lr = 0.01
clip_norm = 1.0
sum_over_steps = false
[report]
log_every = 1
eval_every = 50
save_every = 20
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    corpus = small_corpus(folder)
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(corpus=corpus.path), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def undisturbed(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Return the losses of an undisturbed run."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    done = run_elmox("train", recipe, "--out", out, "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step"] == 100
    assert "held-out perplexity" in done.stderr
    assert "tokens/s" in done.stderr
    return losses(out)


def _start(*arguments: object, **variables: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command(*arguments),
        env=environment(**variables),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # A test runner in the background ignores SIGINT, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def _wait_for_step(out: Path, step: int, process: "subprocess.Popen[bytes]") -> None:
    give_up = time.monotonic() + 120
    while len(losses(out)) < step:
        assert process.poll() is None, process.stderr.read() if process.stderr else b""
        assert time.monotonic() < give_up
        time.sleep(0.02)


def _resume(recipe: Path, out: Path) -> None:
    process = start(train_run, recipe, [], out, True)
    process.join()
    assert process.exitcode == 0


def test_kill_9_and_resume(recipe: Path, undisturbed: list[float], tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = _start("train", recipe, "--out", out, "--device", "cpu")
    _wait_for_step(out, 33, process)
    process.kill()
    process.communicate()
    _resume(recipe, out)
    assert losses(out) == undisturbed


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_save_first(
    number: signal.Signals, code: int, recipe: Path, undisturbed: list[float], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = _start("train", recipe, "--out", out, "--device", "cpu")
    _wait_for_step(out, 25, process)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"continue with --resume" in err
    done = len(losses(out))
    assert 25 <= done < 100
    assert (out / "checkpoints" / f"step-{done:08}" / "trainer.json").exists()
    _resume(recipe, out)
    assert losses(out) == undisturbed


def test_one_process_at_a_time(recipe: Path, undisturbed: list[float], tmp_path: Path) -> None:
    """Two at once lost lines of the metrics. A killed process leaves no lock."""
    out = tmp_path / "run"
    process = _start("train", recipe, "--out", out, "--device", "cpu")
    _wait_for_step(out, 22, process)
    process.send_signal(signal.SIGSTOP)
    other = run_elmox("train", recipe, "--out", out, "--device", "cpu", "--resume")
    assert_one_line(other.returncode, other.stdout, other.stderr, "another process is training in")
    process.kill()
    process.communicate()
    _resume(recipe, out)
    assert losses(out) == undisturbed


def test_full_disk(recipe: Path, undisturbed: list[float], tmp_path: Path) -> None:
    """The checkpoint that does not fit is not there; the next run continues from the one before."""
    out = tmp_path / "run"
    first = run_in_new_python(
        "train", recipe, "--out", out, "--device", "cpu", "--set", "report.save_every=40",
        max_file_bytes=60_000,
    )  # fmt: skip
    assert first.returncode == 1
    assert first.stderr.strip().splitlines()[-1].startswith("elmox: cannot write ")
    assert not list((out / "checkpoints").glob("*"))
    _resume(recipe, out)
    assert losses(out) == undisturbed


def test_errors_are_one_line(
    recipe: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for arguments, message in (
        (["none.toml", "--out", tmp_path / "a"], "none.toml does not exist"),
        ([recipe, "--out", tmp_path / "a", "--set", "optim.lr=-1"], "optim.lr is -1"),
        ([recipe, "--out", tmp_path / "a", "--set", "data.dir=nowhere"], "expected a corpus"),
        ([recipe, "--out", tmp_path / "a", "--device", "abacus"], "abacus"),
    ):
        assert_one_line(*run_here(["train", *arguments], capfd), message)
    assert not (tmp_path / "a").exists()


def _torchrun(
    num: int, *arguments: object, max_restarts: int = 1, max_file_bytes: int | None = None
) -> "subprocess.Popen[bytes]":
    """Start several processes; any free port, since other tests run at the same time."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(num)]
    launch += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    launch += ["--max-restarts", str(max_restarts)]
    return subprocess.Popen(
        [*launch, "-m", "elmox", "train", *map(str, arguments), "--device", "cpu"],
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=partial(limit_files, max_file_bytes),
    )


def _finish(process: "subprocess.Popen[bytes]") -> tuple[str, str]:
    """Wait for a process, which must succeed, and return its stdout and stderr."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err.decode()
    return out.decode(), err.decode()


def test_two_processes_follow_one(recipe: Path, undisturbed: list[float], tmp_path: Path) -> None:
    """Same global batch, dropout on, candidates shared: 100 steps to 1e-4."""
    out = tmp_path / "run"
    run_ranks(2, train_run, recipe, [], out)
    np.testing.assert_allclose(losses(out), undisturbed, rtol=1e-4)
    assert [line["step"] for line in metrics(out) if "perplexity" in line] == [50, 100]


def test_every_loss_in_two_processes(recipe: Path, tmp_path: Path) -> None:
    """The published optimizer, full and adaptive softmax, uneven rows, pieces, both inputs."""
    common = ["train.max_steps=20", "train.rows=7", "train.reset=0.1"]
    common += ["train.accumulate=2", "optim.name=adagrad"]
    for loss, more in (
        ("full", ["model.input=both", "model.word_dim=4"]),
        ("adaptive", ["softmax.cutoffs=[50]"]),
    ):
        settings = [*common, f"softmax.loss={loss}", *more]
        alone, both = tmp_path / f"{loss}-1", tmp_path / f"{loss}-2"
        train_run(recipe, settings, alone)
        run_ranks(2, train_run, recipe, settings, both)
        np.testing.assert_allclose(losses(both, "loss"), losses(alone, "loss"), rtol=1e-4)


def test_the_model_goes_before_the_processes_part(recipe: Path, tmp_path: Path) -> None:
    """Otherwise one process may wait for the other forever, as in one of some dozens of runs."""
    run_ranks(2, train_and_look_back, recipe, ["train.max_steps=2"], tmp_path / "run")


def test_a_full_disk_ends_all_processes(recipe: Path, tmp_path: Path) -> None:
    """The first process writes; the other must not wait for it forever."""
    out = tmp_path / "run"
    process = _torchrun(2, recipe, "--out", out, max_restarts=0, max_file_bytes=60_000)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 1
    assert "elmox: cannot write " in err.decode()
    assert not list((out / "checkpoints").glob("step-*"))


def test_resume_on_another_number_of_processes(
    recipe: Path, undisturbed: list[float], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = _start("train", recipe, "--out", out, "--device", "cpu")
    _wait_for_step(out, 45, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    run_ranks(3, train_run, recipe, [], out, True)  # 8 rows: 2, 3 and 3
    np.testing.assert_allclose(losses(out), undisturbed, rtol=1e-4)


def test_a_rank_says_that_it_lost_another(recipe: Path, tmp_path: Path) -> None:
    """Without torchrun, which may kill a rank before it prints its error."""
    out, port = tmp_path / "run", free_port()
    survivor, other = (
        _start("train", recipe, "--out", out, "--device", "cpu", **rank_environment(rank, 2, port))
        for rank in range(2)
    )
    _wait_for_step(out, 10, survivor)
    other.kill()
    _, err = survivor.communicate(timeout=120)
    other.communicate()
    assert survivor.returncode == 1
    assert b"elmox: process 0 lost another of the 2 processes: " in err
    assert b"continue with --resume" in err


def test_a_rank_that_dies_is_restarted(
    recipe: Path, undisturbed: list[float], tmp_path: Path
) -> None:
    """kill -9 of one rank takes the other down; torchrun starts both again and they continue."""
    out = tmp_path / "run"
    process = _torchrun(2, recipe, "--out", out)
    _wait_for_step(out, 50, process)
    children = psutil.Process(process.pid).children(recursive=True)
    ranks = sorted(child.pid for child in children if "train" in child.cmdline())
    assert len(ranks) == 2
    os.kill(ranks[1], signal.SIGKILL)
    printed, err = _finish(process)
    assert printed.count("done after 100 steps") == 1  # one of them prints
    assert "resuming from" in err
    np.testing.assert_allclose(losses(out), undisturbed, rtol=1e-4)


def test_a_recipe_without_its_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run_here(["train", "tiny", "--out", "runs/tiny"], capsys)
    advice = "prepare one, or give its directory as --set data.dir=DIR"
    assert_one_line(code, out, err, "data/tiny does not exist", "`elmox prepare`", advice)
