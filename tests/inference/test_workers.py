"""Encoding by several processes."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from elmox import ArgumentError, Elmo, ElmoxError
from elmox.inference import workers

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

SENTENCES = [["Live", "in", "the", "present"], [], ["I", "will"], *([f"w{n}"] for n in range(9))]


@pytest.fixture(scope="module")
def elmo(tiny: Path) -> Elmo:
    return Elmo.from_pretrained(tiny, device="cpu")


@pytest.mark.parametrize("number", [1, 2, 5])
def test_the_same_vectors(elmo: Elmo, number: int) -> None:
    torch.ones(2**20).exp()  # this process has used its threads, which workers do not have
    arrays = elmo.encode_tokens(SENTENCES, layers="all", num_workers=number, batch_size=3)
    tensors = elmo.encode_tokens(SENTENCES, num_workers=number, convert_to_tensor=True)
    pooled = elmo.encode(SENTENCES, num_workers=number, normalize_embeddings=True)
    for actual, expected in (
        (arrays, elmo.encode_tokens(SENTENCES, layers="all")),
        (tensors, elmo.encode_tokens(SENTENCES)),
        (pooled, elmo.encode(SENTENCES, normalize_embeddings=True)),
    ):
        for ours, theirs in zip(actual, expected, strict=True):
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=0, atol=2e-6)


def test_nothing_to_encode(elmo: Elmo) -> None:
    assert elmo.encode_tokens([], num_workers=2) == []
    assert elmo.encode([], num_workers=2).shape == (0, elmo.dim)


def test_errors(elmo: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="num_workers is -1, expected at least 0"):
        elmo.encode(SENTENCES, num_workers=-1)
    with pytest.raises(ArgumentError, match="state cannot be carried"):
        elmo.stateful().encode(SENTENCES, num_workers=2)
    monkeypatch.setattr(workers, "_run", _die)
    with pytest.raises(ElmoxError, match="a worker process was killed"):
        elmo.encode(SENTENCES, num_workers=2)


def _die(rows: object) -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""
