"""The examples at the end of each verb's help, run as they are."""

import shlex
import shutil
from pathlib import Path

import pytest
from example_files import write_example_files
from shell import run_here

from elmox.cli.main import VERBS
from elmox.cli.verb import Verb

NAMES = [name for verbs in VERBS.values() for name, verb in verbs.items() if isinstance(verb, Verb)]
NAMES += [f"probe {name}" for name in ("pos", "wsd")]
NAMES += [f"plan {name}" for name in ("train", "embed")]
NAMES += [f"bench {name}" for name in ("lstm", "cnn", "train", "embed")]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files for the examples: texts, a tiny model called english-small, a corpus, a tagger."""
    folder = tmp_path_factory.mktemp("examples")
    write_example_files(folder)
    shutil.copytree(folder / "trained-model", folder / "english-small")  # found before the bundled
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ELMOX_CACHE", str(folder / "cache"))
        run("prepare text.txt --out data/tiny --min-count 1")
        run("index english-small text.txt text.index --min-count 1")
        run("fit ner --train names.txt --dev names.txt --out runs/names --set fit.epochs=1")
    return folder


def run(arguments: str) -> None:
    """Run a command, which must succeed."""
    from typer.testing import CliRunner

    from elmox.cli.main import app

    result = CliRunner().invoke(app, shlex.split(arguments), prog_name="elmox")
    assert result.exit_code == 0, f"elmox {arguments}: {result.output}{result.exception}"


def examples(verb: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The examples in the help of a verb."""
    code, out, err = run_here([*verb.split(), "--help"], capsys)
    assert (code, err) == (0, "")
    _, heading, text = out.partition("\nExamples:\n")
    assert heading
    return [line.strip() for line in text.splitlines()]


@pytest.mark.parametrize("verb", NAMES)
def test_examples_run(
    verb: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(files, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ELMOX_CACHE", str(folder / "cache"))
    commands = examples(verb, capsys)
    assert len(commands) == 2
    for command in commands:
        assert command.startswith(f"elmox {verb}")
        assert len(command) <= 96, "it would be wrapped"
        code, _, err = run_here([*shlex.split(command)[1:]], capsys)
        assert code == 0, f"{command}: {err}"


@pytest.mark.parametrize("verb", ["", *NAMES, "plan", "probe", "bench"])
def test_help_is_whole(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No summary is cut, and the names of values are in capitals."""
    code, out, err = run_here([*verb.split(), "--help"], capsys)
    assert (code, err) == (0, "")
    assert "...\n" not in out.replace("TEXT...\n", "").replace("[ARGS]...\n", "")
    for type_name in ("<str>", "<path>", "<int", "{model}", "[required]..."):
        assert type_name not in out


def test_verbs_in_sections(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_here(["--help"], capsys)
    positions = [out.index(f"\n{heading}:\n") for heading in VERBS]
    assert positions == sorted(positions)
    for verbs in VERBS.values():
        for name in verbs:
            assert f"\n  {name} " in out
    assert "neighbours" not in out
    _, out, _ = run_here(["embed", "--help"], capsys)
    assert out.startswith("Usage: elmox embed [OPTIONS] MODEL INPUT OUTPUT\n")
