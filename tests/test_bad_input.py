"""Whatever is wrong, the answer is one line that names it, and nothing half made stays behind."""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from broken import Broken, rng
from broken_ai2 import FILES, OPTIONS
from broken_archives import ARCHIVES
from broken_folders import ALLENNLP, MANY_LANGS, NATIVE, OTHERS
from checkpoints import random_options, write_ai2
from shell import assert_one_line, run_elmox

import elmox.cli.main
from elmox.elmo import Elmo
from elmox.errors import ElmoxError

MODELS = [*FILES, *OPTIONS, *ARCHIVES, *NATIVE, *MANY_LANGS, *ALLENNLP, *OTHERS]
# Through the shell in a process of their own: one for each way in which a file can be wrong.
REPRESENTATIVE = (
    "hdf5 cut to 0.6",
    "options: lstm.n_layers 3",
    "nan in char_embed",
    "options cut",
    "zip with ../escaped",
    "zip bomb",
    "malicious encoder.pkl",
    "malicious weights.th",
    "safetensors cut to 0.5",
    "empty directory",
)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything under a folder: names and contents."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def run_here(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """`elmox ARGUMENTS` in this process: exit code, stdout, stderr."""
    old = sys.argv
    sys.argv = ["elmox", *map(str, arguments)]
    try:
        with pytest.raises(SystemExit) as left:
            elmox.cli.main.run()
    finally:
        sys.argv = old
    captured = capsys.readouterr()
    return int(left.value.code or 0), captured.out, captured.err


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A sound model."""
    return write_ai2(tmp_path / "sound", random_options(), rng())


@pytest.mark.parametrize("broken", MODELS, ids=lambda broken: broken.name)
def test_broken_model(
    broken: Broken,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, scratch = tmp_path / "models" / "given", tmp_path / "scratch"
    folder.mkdir(parents=True)
    scratch.mkdir()
    path = broken.build(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    before = tree(tmp_path)
    with pytest.raises(ElmoxError) as caught:
        Elmo.from_pretrained(path, device="cpu")
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 1000
    for said in broken.says:
        assert said in message
    assert str(scratch) not in message
    code, out, err = run_here(["convert", path, tmp_path / "out"], capsys)
    assert_one_line(code, out, err, *broken.says)
    assert tree(tmp_path) == before, "something was written"


@pytest.mark.parametrize("name", REPRESENTATIVE)
@pytest.mark.parametrize("verb", ["info", "embed", "convert"])
def test_broken_model_in_the_shell(name: str, verb: str, tmp_path: Path) -> None:
    broken = next(broken for broken in MODELS if broken.name == name)
    folder = tmp_path / "models" / "given"
    folder.mkdir(parents=True)
    path = broken.build(folder)
    (tmp_path / "in.txt").write_text("a b\n")
    before = tree(tmp_path)
    arguments = {"info": [], "embed": [tmp_path / "in.txt", tmp_path / "out.hdf5"]}
    done = run_elmox(verb, path, *arguments.get(verb, [tmp_path / "out"]))
    assert_one_line(done.returncode, done.stdout, done.stderr, *broken.says)
    assert tree(tmp_path) == before
