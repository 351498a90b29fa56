"""NaN and infinite numbers are errors at the edges, not vectors."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from language_models import tiny_lm

from elmox import Elmo, ElmoEmbedding, ElmoxError, LayerMix
from elmox.config import LstmConfig
from elmox.model.layer_mix import Mix
from elmox.vectors.embed import embed_file

SENTENCES = [["Live", "in", "the", "present"], ["I", "will"]]
BAD = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("name", ["forget_bias", "cell_clip", "proj_clip"])
@pytest.mark.parametrize("number", BAD)
def test_configurations(name: str, number: float, tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match=rf"lstm.{name} is {number}, expected a finite number"):
        LstmConfig(**{name: number})  # type: ignore[arg-type]
    Elmo.from_pretrained(tiny).save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["lstm"][name] = number
    path.write_text(json.dumps(config))
    (tmp_path / "model" / "checksums.json").unlink()
    with pytest.raises(ElmoxError, match=name):
        Elmo.from_pretrained(tmp_path / "model")


@pytest.mark.parametrize("number", [*BAD, 1e300])
def test_mixes(number: float, tiny: Path) -> None:
    elmo = Elmo.from_pretrained(tiny)
    with pytest.raises(ElmoxError, match="mix weights"):
        elmo.set_mix([0.0, number, 0.0])
    with pytest.raises(ElmoxError, match="gamma"):
        elmo.set_mix([0.0, 0.0, 0.0], gamma=number)
    with pytest.raises(ElmoxError, match="mix weights"):
        ElmoEmbedding(elmo, mix_weights=[0.0, number, 0.0])
    with pytest.raises(ElmoxError, match="gamma"):
        Mix((0.0,), number)
    assert not elmo.mixes


@pytest.mark.parametrize("dropout", [math.nan, -0.1, 1.5])
def test_dropout(dropout: float) -> None:
    with pytest.raises(ElmoxError, match=r"dropout is .*, expected 0 to 1"):
        LayerMix(3, dropout=dropout)


@pytest.fixture
def large(tmp_path: Path) -> Elmo:
    """A language model whose token vectors are beyond the range of float16; its weights are not."""
    lm = tiny_lm(tmp_path)
    elmo = Elmo.from_pretrained(lm.weights, softmax=lm.softmax, softmax_vocab=lm.vocab)
    projection = elmo.reader.bilm.get_parameter("token_encoder.projection.weight")
    projection.data.mul_(6e4 / projection.abs().max())
    bias = elmo.reader.bilm.get_parameter("token_encoder.projection.bias")
    bias.data.fill_(6e4)
    return elmo


def test_float16_vectors(large: Elmo) -> None:
    assert np.isfinite(large.encode(SENTENCES, layers="all")).all()
    assert np.isfinite(large.to(dtype="bfloat16").encode(SENTENCES, layers="all")).all()
    large.to(dtype="float16")
    expected = "vectors computed in float16 are NaN or infinite: .* use dtype='bfloat16'"
    with pytest.raises(ElmoxError, match=expected):
        large.encode(SENTENCES, layers="all")
    with pytest.raises(ElmoxError, match=expected):
        large.encode_tokens(SENTENCES, layers=0, convert_to_tensor=True)
    with pytest.raises(ElmoxError, match=expected):
        ElmoEmbedding(large)(SENTENCES)


def test_scores(large: Elmo) -> None:
    large.reader.bilm.get_parameter("token_encoder.projection.weight").data[0] = math.nan
    expected = "log-probabilities computed in float32 are NaN or infinite"
    with pytest.raises(ElmoxError, match=expected):
        large.score(SENTENCES)
    with pytest.raises(ElmoxError, match=expected):
        large.predict(SENTENCES[0], 1)
    with pytest.raises(ElmoxError, match=expected):
        large.evaluate(SENTENCES)


@pytest.mark.parametrize("stored", ["float32", "float16"])
@pytest.mark.parametrize("computed", ["float32", "float16"])
@pytest.mark.parametrize("chunk", [2**25, 2**6])
def test_float16_files(
    stored: str, computed: str, chunk: int, large: Elmo, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("elmox.vectors.chunks.CHUNK_BYTES", chunk)  # a small one: a sentence is cut
    source = tmp_path / "in.txt"
    source.write_text("Live in the present\n")
    large.to(dtype=computed)
    if (stored, computed) == ("float32", "float32"):
        embed_file(large, str(source), tmp_path / "out")
        return
    word = "computed in float16" if computed == "float16" else "largest of float16"
    with pytest.raises(ElmoxError, match=f"vectors .*{word}"):
        embed_file(large, str(source), tmp_path / "out", dtype=stored)  # type: ignore[arg-type]


def test_weights_beyond_float16(tiny: Path) -> None:
    elmo = Elmo.from_pretrained(tiny)
    expected = elmo.encode(SENTENCES)
    bias = elmo.reader.bilm.get_parameter("lstm.0.bias")
    with torch.no_grad():
        bias[0, 0] += 1e6
    with pytest.raises(ElmoxError, match=r"lstm.0.bias has values beyond 65,504"):
        elmo.to(dtype="float16")
    with torch.no_grad():
        bias[0, 0] -= 1e6
    np.testing.assert_allclose(elmo.encode(SENTENCES), expected, atol=0.1)  # as it was
