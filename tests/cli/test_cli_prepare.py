"""`elmox prepare`: its output, wrong arguments, pipes, full disks and interruptions."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from corpora import some_text
from shell import assert_one_line, command, environment, run_elmox, run_here, tree

from elmox.training.corpus import sources
from elmox.training.corpus.corpus import open_corpus
from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "text"
    path.write_text("the cat sat .\n\nthe cat <S> the\n")
    return path


def test_command(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    code, printed, err = run_here(
        ["prepare", source, "--out", out, "--tokenized", "--hold-out", 2, "--min-count", 1],
        capsys,
    )
    assert (code, err) == (0, "")
    facts = dict(line.split(None, 1) for line in printed.splitlines())
    assert facts["train"].startswith("4 tokens, 1 sentence, 1 document, 1 shard; 0.00% unknown")
    assert "1 literal <S> or </S>" in facts["valid"]
    assert facts["vocabulary"].startswith("7 words")
    assert facts["digest"] == open_corpus(out).info.digest
    again = [
        "prepare",
        source,
        "--out",
        out,
        "--tokenized",
        "--json",
        "--valid",
        source.parent / "v*",
    ]
    assert_one_line(*run_here(again, capsys), "--force")
    (source.parent / "valid.txt").write_text("a dog\n")
    code, printed, err = run_here([*again, "--force", "--tokenizer", "treebank"], capsys)
    assert (code, err) == (0, "")
    info = open_corpus(out, verify=True).info
    assert json.loads(printed) == {"output": str(out), **json.loads(json.dumps(info.to_dict()))}
    assert (info.tokenizer, info.valid and info.valid.num_tokens) == ("treebank", 2)
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hold-out", 3], "--hold-out 3 holds out nothing, because"),
        (["--hold-out", 1], "--hold-out is 1, expected at least 2"),
        (["--hold-out", 2, "--valid", "-"], "choose one"),
        (["--valid", "TEXT"], "is training text and held-out text (--valid)"),
        (["--vocab-size", 3], "expected at least 4"),
        (["--min-count", 0], "expected at least 1"),
        (["--shard-tokens", 0], "expected at least 1"),
        (["--max-characters", 2], "expected at least 3"),
        (["--workers", 0], "--workers is 0, expected at least 1"),
        (["--tokenizer", "moses"], "unknown tokenizer 'moses'"),
        (["--vocab", "TEXT", "--vocab-size", 9], "--vocab is used unchanged"),
        (["--vocab", "nowhere"], "nowhere does not exist"),
        (["nowhere"], "nowhere does not exist"),
        (["--out", "TEXT", "--force"], "not a directory"),
    ],
)
def test_wrong_arguments(
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[object],
    message: str,
) -> None:
    before = tree(tmp_path)
    arguments = [source if argument == "TEXT" else argument for argument in arguments]
    always = ["prepare", source, "--out", tmp_path / "out", "--tokenized"]
    done = run_here([*always, *arguments], capsys)
    assert_one_line(*done, message)
    assert tree(tmp_path) == before


def test_directories_with_other_files_stay(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    arguments = ["prepare", source, "--out", tmp_path / "out", "--tokenized"]
    assert run_here(arguments, capsys)[0] == 0  # an empty one may be filled
    (tmp_path / "out" / "notes.txt").write_text("mine")
    before = tree(tmp_path)
    assert_one_line(*run_here([*arguments, "--force"], capsys), "notes.txt")
    assert tree(tmp_path) == before


def test_stdin_and_no_torch(tmp_path: Path) -> None:
    """Text from a pipe, several workers, and no torch in any process."""
    plain = some_text(40_000)
    assert len(plain) > 2 * sources.BLOCK_BYTES
    (tmp_path / "text").write_text(plain)
    options = PrepareOptions(tokenized=True)
    prepare_corpus([str(tmp_path / "text")], tmp_path / "out", options, num_workers=1)
    flags = ["--tokenized", "--workers", 2, "--json"]
    arguments = command("prepare", "-", "--out", tmp_path / "piped", *flags)
    done = subprocess.run(
        arguments,
        input=plain.encode(),
        capture_output=True,
        env=environment(PYTHONPROFILEIMPORTTIME="1"),
        check=True,
    )
    assert json.loads(done.stdout)["train"]["num_tokens"] == len(plain.split())
    assert tree(tmp_path / "piped") == tree(tmp_path / "out")
    modules = {line.rsplit(b"|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert b"numpy" in modules
    assert b"torch" not in modules


def test_full_disk(source: Path, tmp_path: Path) -> None:
    source.write_text(some_text(2000))
    before = tree(tmp_path)
    done = run_elmox(
        "prepare", source, "--out", tmp_path / "out", "--tokenized", max_file_bytes=50_000
    )
    assert_one_line(done.returncode, done.stdout, done.stderr, "cannot write", "File too large")
    assert tree(tmp_path) == before


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted(tmp_path: Path, how: signal.Signals) -> None:
    process = subprocess.Popen(
        command("prepare", "-", "--out", tmp_path / "out", "--tokenized", "--workers", 2),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,
        # If the tests run in the background, they may ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None
    process.stdin.write(b"the cat sat .\n" * (10 * sources.BLOCK_BYTES // 14))
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".out.*/train-00000.npy")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # Ctrl-C reaches the whole group; a kill only the one, and the workers must notice.
    if how == signal.SIGINT:
        os.killpg(process.pid, how)
    else:
        process.kill()
    # It returns when the pipes are closed, which is when the workers are gone too.
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130 if how == signal.SIGINT else -9, b"")
    assert b"Traceback" not in err
    assert not (tmp_path / "out").exists()
    if how == signal.SIGINT:
        assert os.listdir(tmp_path) == []
