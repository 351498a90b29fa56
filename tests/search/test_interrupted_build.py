"""A build that is killed at any of its operations on files continues to the same index."""

from pathlib import Path

import pytest
from vector_job import in_child, kill_at

from elmox import Elmo, ElmoxError, OccurrenceIndex
from elmox.search import build as build_module
from elmox.search.build import IndexSummary, build_index

SENTENCES = [
    f"The {word} of the river is a bank." for word in ["mouth", "side", "end", "bank", "rise"]
]


@pytest.fixture(scope="module")
def elmo(tiny: Path) -> Elmo:
    return Elmo.from_pretrained(tiny)


def build(elmo: Elmo, folder: Path) -> None:
    build_index(elmo, folder / "text.txt", folder / "index", min_count=1, buffer_bytes=300)


def test_killed_at_every_operation(elmo: Elmo, memory_folder: Path, tmp_path: Path) -> None:
    text = "\n".join(SENTENCES * 3)
    (tmp_path / "text.txt").write_text(text)
    build(elmo, tmp_path)
    expected = (tmp_path / "index").read_bytes()
    folder = memory_folder / "killed"
    folder.mkdir()
    (folder / "text.txt").write_text(text)

    def killed(event: int) -> None:
        kill_at(event, folder)
        build(elmo, folder)

    num_killed = 0
    for event in range(1, 200):
        code = in_child(lambda event=event: killed(event))  # type: ignore[misc]
        if code == 0:
            break
        assert code == -9
        num_killed += 1
        build(elmo, folder)
        assert (folder / "index").read_bytes() == expected
        assert sorted(path.name for path in folder.iterdir()) == ["index", "text.txt"]
        (folder / "index").unlink()
    assert num_killed > 10


def test_lines_are_not_embedded_again(
    elmo: Elmo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_module, "CHUNK_BYTES", {"cpu": 2**14})
    monkeypatch.setattr(build_module, "LINES_TOKENS", 2**10)
    (tmp_path / "text.txt").write_text("A bank lends.\n" * 2_000 + "A bank.\n")
    path = tmp_path / "index"

    def build_all() -> IndexSummary:
        return build_index(
            elmo, tmp_path / "text.txt", path, min_count=1, max_per_word=500, buffer_bytes=1
        )

    def killed() -> None:
        kill_at(40, tmp_path)
        build_all()

    assert in_child(killed) == -9
    with pytest.raises(ElmoxError, match="is unfinished"):
        OccurrenceIndex.open(path)
    with pytest.raises(ElmoxError, match="belongs to another job"):
        build_index(elmo, tmp_path / "text.txt", path, min_count=2)
    summary = build_all()
    assert 0 < summary.num_resumed < summary.num_lines == 2_001
    uses = OccurrenceIndex.open(path).uses("bank")
    assert len(uses) == 500
    assert [use.line for use in uses] == sorted({use.line for use in uses})
    assert uses[0].line < 10
    assert uses[-1].line > 1_990
