"""Search across all words: with faiss, and without it."""

import builtins
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmox import Elmo, OccurrenceIndex
from elmox.search import any_word
from elmox.search.any_word import faiss_path

SENTENCES = [
    f"The {first} saw a {second} near the {third}."
    for first in ("cat", "dog", "man", "horse")
    for second in ("house", "tree", "river", "bank")
    for third in ("lake", "forest", "church", "road", "hill")
]


@pytest.fixture(scope="module")
def index(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> OccurrenceIndex:
    path = tmp_path_factory.mktemp("any") / "text.index"
    return OccurrenceIndex.build(Elmo.from_pretrained(tiny), SENTENCES, path, min_count=1)


def exact(index: OccurrenceIndex, vector: np.ndarray) -> list[float]:
    cosines = np.concatenate([index.vectors(word) @ vector for word in index.words])
    return sorted(cosines.tolist(), reverse=True)


def hide_faiss(patch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def load(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if name == "faiss":
            raise ImportError(name)
        return real(name, globals, locals, fromlist, level)

    patch.setattr(builtins, "__import__", load)


def test_the_scan_is_exact_and_notifies(index: OccurrenceIndex) -> None:
    query = index.parse("A **bank** near the lake")
    with pytest.MonkeyPatch.context() as patch:
        hide_faiss(patch)
        with pytest.warns(UserWarning, match="faiss is not installed, so all"):
            matches = index.search("A **bank** near the lake", top_k=5, any_word=True)
    assert matches[0].similarity == pytest.approx(exact(index, index.vector(query))[0], abs=1e-5)
    assert len({match.use.sentence for match in matches}) == 5


@pytest.mark.parametrize("cells", [False, True])
def test_faiss_finds_the_same(
    cells: bool, index: OccurrenceIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    if cells:
        monkeypatch.setattr(any_word, "IVF_ABOVE", 10)
        monkeypatch.setattr(any_word, "NUM_CELLS", 4)
        monkeypatch.setattr(any_word, "NUM_VISITED", 4)
    for old in index.path.parent.glob("*.faiss"):
        old.unlink()
    opened = OccurrenceIndex.open(index.path)
    matches = opened.search("A **bank** near the lake", top_k=10, any_word=True)
    with pytest.MonkeyPatch.context() as patch:
        hide_faiss(patch)
        with pytest.warns(UserWarning, match="faiss"):
            expected = opened.search("A **bank** near the lake", top_k=10, any_word=True)
    similarities = [match.similarity for match in expected]
    assert [match.similarity for match in matches] == pytest.approx(similarities, abs=1e-5)
    assert [path.name for path in index.path.parent.glob("*.faiss")] == [
        faiss_path(opened._file).name
    ]


def test_the_cache_is_made_again_if_damaged_or_old(index: OccurrenceIndex) -> None:
    pytest.importorskip("faiss")
    path = faiss_path(index._file)
    path.unlink(missing_ok=True)
    expected = OccurrenceIndex.open(index.path).search("A **bank**", any_word=True)
    whole = path.read_bytes()
    for damaged in (b"", b"IxSQ", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        assert OccurrenceIndex.open(index.path).search("A **bank**", any_word=True) == expected
        assert path.read_bytes() == whole
    path.unlink()
    old = path.with_name(f"{index.path.name}.0123456789ab.faiss")
    old.write_bytes(b"of a former index")
    OccurrenceIndex.open(index.path).search("A **bank**", any_word=True)
    assert path.exists()
    assert not old.exists()
