"""`elmox embed --ray` on a real cluster of two workers, whose processes are killed or stopped."""

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from broken import rng
from checkpoints import random_options, write_ai2
from shell import assert_one_line, command, environment, run_here

from elmox.elmo import Elmo
from elmox.vectors.embed import embed_file

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")

NUM_PARTS = 20
NUM_ROWS = NUM_PARTS * 2048
WORDS = ("the", "cat", "sat", ".", "present", "gift", "buy")
# Ray lets only those in who know the token of the cluster: this one is of no other use.
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
OPTIONS = ("--layers", "top", "--device", "cpu")


class Cluster:
    """A Ray cluster of this test, and what is embedded on it."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self.folder = folder

    def start(self, output: str) -> subprocess.Popen[str]:
        """Start `elmox embed --ray` in the background."""
        return subprocess.Popen(
            command(
                "embed",
                self.folder / "model" / "weights.hdf5",
                self.folder / "in.parquet",
                self.folder / output,
                *OPTIONS,
                "--ray",
                self.address,
                "--workers",
                2,
            ),
            env=environment(**TOKEN),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def parts(self, output: str) -> list[Path]:
        """The finished parts."""
        return sorted(self.folder.glob(f"{output}.shards/part-*.parquet"))

    def wait_for_parts(self, output: str, number: int, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 180
        while len(self.parts(output)) < number:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def workers(self) -> list[int]:
        """The processes of actors that write parts."""
        return [
            process.pid
            for process in psutil.process_iter(["cmdline"])
            if "ray::_Worker" in " ".join(process.info["cmdline"] or [])
            and str(self.folder) in process.environ().get("ELMOX_TEST_FOLDER", "")
        ]

    def assert_same(self, output: str) -> None:
        """Check the bytes against the plain command's."""
        expected = (self.folder / "plain.parquet").read_bytes()
        assert (self.folder / output).read_bytes() == expected
        assert not (self.folder / f"{output}.shards").exists()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("ray")
    head = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--port=0",
         "--num-cpus=2", "--object-store-memory=100000000", "--include-dashboard=false",
         "--disable-usage-stats"],
        env=environment(ELMOX_TEST_FOLDER=str(folder), **TOKEN), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        write_files(folder)  # while the cluster starts
        assert head.stdout is not None
        address = ""
        for line in head.stdout:
            if "--address=" in line:
                address = line.split("--address=")[1].strip().strip("'")
            if address and "--block" in line:
                break
        yield Cluster(address, folder)
    finally:
        started = [*psutil.Process(head.pid).children(recursive=True), psutil.Process(head.pid)]
        for process in started:  # Ray takes half a minute to stop by itself
            with suppress(psutil.NoSuchProcess):
                process.kill()
        head.communicate()


def write_files(folder: Path) -> None:
    """Write a model, a text, and what the plain command makes of them."""
    model = write_ai2(folder / "model", random_options(), rng())
    chance = random.Random(0)
    rows = [chance.choices(WORDS, k=chance.randrange(12)) for _ in range(NUM_ROWS)]
    pa.parquet.write_table(pa.table({"tokens": rows}), folder / "in.parquet")
    embed_file(
        Elmo.from_pretrained(model, device="cpu"),
        folder / "in.parquet",
        folder / "plain.parquet",
        layers="top",
    )


def test_a_worker_and_the_driver_are_killed_and_a_worker_is_stopped(cluster: Cluster) -> None:
    """First a worker, whose part Ray repeats; then the driver; then the same command again.

    In that run a worker is stopped, as on a machine that is lost: it holds a part forever, which
    the other one repeats.
    """
    driver = cluster.start("out.parquet")
    cluster.wait_for_parts("out.parquet", 3, driver)
    os.kill(cluster.workers()[0], signal.SIGKILL)
    cluster.wait_for_parts("out.parquet", len(cluster.parts("out.parquet")) + 3, driver)
    driver.kill()
    driver.communicate()
    done = cluster.parts("out.parquet")
    assert 6 <= len(done) < NUM_PARTS - 4
    written = {path: path.stat().st_mtime_ns for path in done}
    assert not (cluster.folder / "out.parquet").exists()

    driver = cluster.start("out.parquet")
    cluster.wait_for_parts("out.parquet", len(done) + 2, driver)
    kept = {path: path.stat().st_mtime_ns for path in cluster.parts("out.parquet")}
    assert written.items() <= kept.items()  # nothing was embedded again
    os.kill(cluster.workers()[0], signal.SIGSTOP)
    # So many parts are left that the stopped worker has one of them, or gets one.
    assert len(cluster.parts("out.parquet")) < NUM_PARTS - 1
    _, errors = driver.communicate(timeout=180)
    assert driver.returncode == 0, errors
    cluster.assert_same("out.parquet")


def test_an_existing_output_is_an_error_before_ray_is_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No cluster is at this address, and there is no such model."""
    (tmp_path / "text.txt").write_text("Hello .\n")
    (tmp_path / "out.parquet").write_text("mine")
    arguments = ["embed", "no-model", tmp_path / "text.txt", "--ray", "127.0.0.1:1"]
    failed = run_here([*arguments, tmp_path / "out.parquet"], capsys)
    assert_one_line(*failed, "out.parquet", "--force")
    failed = run_here([*arguments, tmp_path / "out.jsonl"], capsys)
    assert_one_line(*failed, "JSON lines are not written in shards")
    assert (tmp_path / "out.parquet").read_text() == "mine"


def test_errors_of_workers_are_one_line(cluster: Cluster) -> None:
    (cluster.folder / "bad.jsonl").write_text(json.dumps({"neither": 1}))
    done = subprocess.run(
        command(
            "embed",
            cluster.folder / "model" / "weights.hdf5",
            cluster.folder / "bad.jsonl",
            cluster.folder / "bad.parquet",
            *OPTIONS,
            "--ray",
            cluster.address,
        ),
        env=environment(**TOKEN),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "bad.jsonl, line 1: expected" in done.stderr
