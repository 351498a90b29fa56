"""ELMo's layers of a data set: written by `embed_sentences`, resumed after an interruption."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import elmox.vectors.chunks
import elmox.vectors.embed
from elmox.elmo import Elmo
from elmox.tasks.fit.layers import layers_path, stored_layers
from elmox.vectors.workspace import workspace_of

SENTENCES = [["sentence", str(i), "of", "many"] for i in range(200)]


class Interrupted(list[list[str]]):
    """Sentences that break off before the last ones."""

    def __iter__(self) -> Iterator[list[str]]:
        yield from self[:150]
        raise KeyboardInterrupt


def test_an_interrupted_computation_is_resumed(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elmox.vectors.chunks, "CHUNK_BYTES", 2**12)
    monkeypatch.setattr(elmox.vectors.embed, "default_part_bytes", lambda elmo: 2**12)
    elmo = Elmo.from_pretrained(tiny, device="cpu")
    path = layers_path(elmo, SENTENCES, tmp_path / "cache")
    with pytest.raises(KeyboardInterrupt):
        stored_layers(elmo, Interrupted(SENTENCES), path)
    assert [entry.name for entry in path.parent.iterdir()] == [workspace_of(path).name]
    first_part = workspace_of(path) / "shards" / "shard-00000.npy"
    written = first_part.stat().st_mtime_ns
    with stored_layers(elmo, SENTENCES, path) as resumed:
        assert (path / "shard-00000.npy").stat().st_mtime_ns == written
        undisturbed = stored_layers(elmo, SENTENCES, tmp_path / "other" / path.name)
        for one, other in zip(resumed, undisturbed, strict=True):
            np.testing.assert_array_equal(one, other)
    assert list(path.parent.iterdir()) == [path]


def test_a_workspace_that_a_kill_left_is_removed(tiny: Path, tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained(tiny, device="cpu")
    path = layers_path(elmo, SENTENCES, tmp_path)
    stored_layers(elmo, SENTENCES, path).close()
    workspace_of(path).mkdir()
    assert len(stored_layers(elmo, SENTENCES, path)) == len(SENTENCES)
    assert list(tmp_path.iterdir()) == [path]
