"""Outputs that are symbolic links: every verb writes the target, and the link stays."""

import os
from pathlib import Path

import pytest
from example_files import write_example_files
from shell import run_here

# Each writes `link`, with the suffix that selects its format.
COMMANDS = {
    "embed, a file": ("embed trained-model text.txt link.hdf5", ".hdf5"),
    "embed, shards": ("embed trained-model text.txt link", ""),
    "convert, a directory": ("convert trained-model link", ""),
    "convert, AI2's files": ("convert trained-model link.hdf5", ".hdf5"),
    "export": ("export trained-model link", ""),
    "index": ("index trained-model text.txt link.index --min-count 1", ".index"),
    "prepare": ("prepare text.txt --out link --min-count 1", ""),
    "card": ("card trained-model --out link.md", ".md"),
}
RUNS = {
    "fit": "fit ner --train names.txt --dev names.txt --out link --set fit.epochs=1 "
    "--elmo trained-model",
    "package": "package trained-model --out link --name mine --license MIT",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("linked")
    write_example_files(folder)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_the_target_is_written(
    name: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words, suffix = COMMANDS[name]
    arguments: list[object] = [*words.split()]
    disk, link = tmp_path / "disk", tmp_path / f"link{suffix}"
    disk.mkdir()
    target = disk / f"target{suffix}"
    link.symlink_to(target)
    for path in files.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)

    assert run_here(arguments, capsys)[0] == 0
    assert link.is_symlink()
    first = target.stat().st_ino
    assert not [path for path in os.listdir(tmp_path) if path.startswith(".")]

    code, _, error = run_here(arguments, capsys)
    assert (code == 0) == name.startswith(("embed", "index")), error  # those are complete already
    assert target.stat().st_ino == first
    other = [argument if argument != "text.txt" else "domain.txt" for argument in arguments]
    code, _, error = run_here([*other, "--force"], capsys)
    assert code == 0, error
    assert link.is_symlink()
    assert target.stat().st_ino != first
    assert all(path.name.startswith("target") for path in disk.iterdir())


@pytest.mark.parametrize("name", RUNS)
def test_a_directory_is_filled(
    name: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "disk")
    for path in files.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    code, _, error = run_here([*RUNS[name].split()], capsys)
    assert code == 0, error
    assert link.is_symlink()
    assert list((tmp_path / "disk").iterdir())
