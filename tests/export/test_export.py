"""Exports against the models they were made from, for all encoders and options."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from onnx_models import LSTM, MODELS, VOCABULARY, tiny_elmo, with_softmax
from sentences import batches

from elmox import Elmo, ElmoxError
from elmox.errors import OutputExists
from elmox.export import OnnxElmo, export_onnx
from elmox.export import check as export_check
from elmox.export.check import ExportDiffers

SENTENCES = [["The", "cat", "sat", "."], [], ["naïve", "天", "😀", "x" * 70], ["the"]]


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return tiny_elmo()


@pytest.fixture(scope="module")
def exported(elmo: Elmo, tmp_path_factory: pytest.TempPathFactory) -> OnnxElmo:
    folder = tmp_path_factory.mktemp("export") / "onnx"
    export_onnx(elmo, folder)
    return OnnxElmo.from_pretrained(folder)


def assert_same(elmo: Elmo, onnx_elmo: OnnxElmo, sentences: list[list[str]]) -> None:
    expected = elmo.encode_tokens(sentences, layers="all")
    vectors = onnx_elmo.encode_tokens(sentences, layers="all")
    for a, b in zip(vectors, expected, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model(tmp_path: Path, name: str, single: bool) -> None:
    elmo = MODELS[name](tmp_path / "model")
    report = export_onnx(elmo, tmp_path / "onnx", single=single, state=True)
    assert report.difference < 1e-5
    graphs = {"elmo.onnx"} if single else {"words.onnx", "context.onnx"}
    assert graphs <= report.files.keys()
    assert_same(elmo, OnnxElmo.from_pretrained(tmp_path / "onnx"), SENTENCES)


@given(batch=batches())
@settings(deadline=None, max_examples=60)
def test_any_batch(elmo: Elmo, exported: OnnxElmo, batch: list[list[str]]) -> None:
    assert_same(elmo, exported, batch)


def test_graphs_are_plain_onnx(exported: OnnxElmo) -> None:
    """Inputs of int32 or float32, one opset, one loop per layer, no operators of one runtime."""
    for name in ("words.onnx", "context.onnx"):
        model = onnx.load(exported._folder / name)
        assert [(o.domain, o.version) for o in model.opset_import] == [("", 17)]
        for value in model.graph.input:
            kind = value.type.tensor_type.elem_type
            assert kind in (onnx.TensorProto.INT32, onnx.TensorProto.FLOAT)
        loops = [node for node in model.graph.node if node.op_type == "Scan"]
        assert len(loops) == (2 if name == "context.onnx" else 0)


def test_float16_only_where_lossless(tmp_path: Path, elmo: Elmo) -> None:
    assert export_onnx(elmo, tmp_path / "a").weights == "float32"
    half = Elmo(elmo.checkpoint()).to("cpu", "float16").to("cpu", "float32")
    assert export_onnx(half, tmp_path / "b").weights == "float16"
    assert_same(half, OnnxElmo.from_pretrained(tmp_path / "b"), SENTENCES)
    some = half.checkpoint().tensors["lstm.0.input_weight"]
    some[0, 0, 0] = 1 / 3
    assert export_onnx(half, tmp_path / "c").weights == "mixed"
    assert_same(half, OnnxElmo.from_pretrained(tmp_path / "c"), SENTENCES)


def test_float16_on_request_is_the_rounded_model(tmp_path: Path, elmo: Elmo) -> None:
    report = export_onnx(elmo, tmp_path / "onnx", weights="float16")
    assert report.weights == "float16"
    assert 1e-5 < report.difference < 1e-2
    rounded = Elmo(elmo.checkpoint()).to("cpu", "float16").to("cpu", "float32")
    assert_same(rounded, OnnxElmo.from_pretrained(tmp_path / "onnx"), SENTENCES)


def test_float16_that_overflows_is_refused(tmp_path: Path) -> None:
    huge = tiny_elmo()
    huge.reader.bilm.state_dict()["token_encoder.projection.weight"][0, 0] = 1e6
    with pytest.raises(ElmoxError, match="float16"):
        export_onnx(huge, tmp_path / "onnx", weights="float16")
    assert not (tmp_path / "onnx").exists()


def test_int8_points_in_the_same_directions(tmp_path: Path, elmo: Elmo) -> None:
    report = export_onnx(elmo, tmp_path / "int8", weights="int8")
    assert 0.999 <= report.cosine < 1
    exact = np.concatenate(elmo.encode_tokens(SENTENCES, layers="all"), axis=1)
    onnx_elmo = OnnxElmo.from_pretrained(tmp_path / "int8")
    vectors = np.concatenate(onnx_elmo.encode_tokens(SENTENCES, layers="all"), axis=1)
    norms = np.linalg.norm(exact, axis=-1) * np.linalg.norm(vectors, axis=-1)
    assert ((exact * vectors).sum(-1) / norms).min() > 0.999


def test_start_state(tmp_path: Path, elmo: Elmo) -> None:
    warm = Elmo(elmo.checkpoint())
    warm.warm_up([["a", "cat"], ["sat"]])
    export_onnx(warm, tmp_path / "onnx", state=True)
    onnx_elmo = OnnxElmo.from_pretrained(tmp_path / "onnx", state="warm")
    assert_same(warm, onnx_elmo, SENTENCES)
    onnx_elmo.state = "zero"
    assert_same(elmo, onnx_elmo, SENTENCES)


def test_final_state_continues_a_text(tmp_path: Path, elmo: Elmo) -> None:
    """Reading two calls with the state handed over is what `Elmo.stateful` does."""
    export_onnx(elmo, tmp_path / "onnx", state=True)
    onnx_elmo, stateful, state = OnnxElmo.from_pretrained(tmp_path / "onnx"), elmo.stateful(), None
    for sentences in ([["The", "cat"], ["a"]], [["sat"], ["on", "the", "mat"]]):
        layers, state = onnx_elmo.read(sentences, state)
        for row, expected in enumerate(stateful.encode_tokens(sentences, layers="all")):
            vectors = layers[:, row, 1 : 1 + len(sentences[row])]
            np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize("adaptive", [False, True])
def test_softmax_scores_and_fills_gaps(tmp_path: Path, adaptive: bool) -> None:
    elmo = with_softmax(tiny_elmo(replace(LSTM, projection_dim=16)), adaptive)
    export_onnx(elmo, tmp_path / "onnx", softmax=True)
    onnx_elmo = OnnxElmo.from_pretrained(tmp_path / "onnx")
    words = (tmp_path / "onnx" / "vocab.txt").read_text("utf-8").splitlines()
    assert words == list(VOCABULARY)
    sentence, dim = ["the", "cat", "word7"], elmo.config.lstm.projection_dim
    top = onnx_elmo.read([sentence])[0][-1, 0]
    forward = onnx_elmo.log_probs(top[:-1, :dim])  # before `</S>` every token predicts the next one
    backward = onnx_elmo.log_probs(top[1:, dim:])
    score = elmo.score([sentence])[0]
    targets = [words.index(word) for word in (*sentence, "</S>")]
    assert score.backward is not None
    np.testing.assert_allclose(forward[range(4), targets], score.forward, atol=1e-4)
    targets = [words.index(word) for word in ("<S>", *sentence)]
    np.testing.assert_allclose(np.roll(backward[range(4), targets], -1), score.backward, atol=1e-4)
    left = elmo.predict(["the", "cat", "___"], direction="left", k=3)
    ranked = [words[i] for i in forward[2].argsort()[::-1] if i >= 3]
    assert [prediction.word for prediction in left] == ranked[:3]


def test_without_a_softmax(tmp_path: Path, elmo: Elmo, exported: OnnxElmo) -> None:
    with pytest.raises(ElmoxError, match="softmax=True: a tiny model has no softmax"):
        export_onnx(elmo, tmp_path / "onnx", softmax=True)
    with pytest.raises(ElmoxError, match="softmax=True"):
        exported.log_probs(np.zeros((1, 6), np.float32))


def test_mixes(tmp_path: Path, elmo: Elmo) -> None:
    mixed = Elmo(elmo.checkpoint())
    mixed.set_mix([0.5, -1.0, 2.0], gamma=1.5, name="pos")
    export_onnx(mixed, tmp_path / "onnx")
    vectors = OnnxElmo.from_pretrained(tmp_path / "onnx").encode_tokens(SENTENCES, layers="mix:pos")
    for a, b in zip(vectors, mixed.encode_tokens(SENTENCES, layers="mix"), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_golden_sentence(exported: OnnxElmo) -> None:
    golden = json.loads((exported._folder / "golden.json").read_text("utf-8"))
    assert exported.tokenize(golden["text"]) == golden["tokens"]
    vectors = exported.encode_tokens([golden["tokens"]], layers="all")[0]
    np.testing.assert_allclose(vectors, golden["layers"], atol=1e-6)


def test_nothing_is_overwritten(tmp_path: Path, elmo: Elmo) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "notes.txt").write_text("mine")
    with pytest.raises(OutputExists, match="force=True"):
        export_onnx(elmo, tmp_path / "onnx")
    assert [path.name for path in (tmp_path / "onnx").iterdir()] == ["notes.txt"]
    export_onnx(elmo, tmp_path / "onnx", force=True)
    assert not (tmp_path / "onnx" / "notes.txt").exists()


@pytest.mark.parametrize("part", ["lstm.1.recurrent_weight", "token_encoder.highways.0.carry.bias"])
def test_a_wrong_graph_is_never_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The check compares with the model as it is, here changed after the graphs were written."""
    elmo, check = tiny_elmo(), export_check.check_export

    def after_a_change(folder: Path, original: Elmo, stored: Elmo | None) -> object:
        original.reader.bilm.state_dict()[part].add_(1e-3)
        return check(folder, original, stored)

    monkeypatch.setattr("elmox.export.export.check_export", after_a_change)
    with pytest.raises(ExportDiffers, match="nothing was written"):
        export_onnx(elmo, tmp_path / "onnx")
    assert list(tmp_path.iterdir()) == []


def test_int8_that_is_too_coarse_is_refused(tmp_path: Path) -> None:
    """One huge weight leaves no levels for the others, though its filter never fires."""
    elmo = tiny_elmo()
    tensors = elmo.reader.bilm.state_dict()
    tensors["token_encoder.char_cnn.convolutions.0.bias"][0] = -100
    for gate in ("carry", "transform"):
        tensors[f"token_encoder.highways.0.{gate}.weight"][:, 0] = 1000
    with pytest.raises(ExportDiffers, match="cosine"):
        export_onnx(elmo, tmp_path / "onnx", weights="int8")
    assert list(tmp_path.iterdir()) == []


def test_bad_weights(tmp_path: Path, elmo: Elmo) -> None:
    with pytest.raises(ElmoxError, match="weights='float64'"):
        export_onnx(elmo, tmp_path / "onnx", weights="float64")  # type: ignore[arg-type]


def test_the_model_is_left_as_it_was(tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained(dtype="bfloat16", device="cpu")
    before = elmo.encode_tokens(SENTENCES)
    report = export_onnx(elmo, tmp_path / "onnx")
    assert str(elmo.dtype) == "torch.bfloat16"
    assert report.files["words.onnx"] + report.files["context.onnx"] < 28_000_000 * 2
    for a, b in zip(elmo.encode_tokens(SENTENCES), before, strict=True):
        np.testing.assert_array_equal(a, b)
