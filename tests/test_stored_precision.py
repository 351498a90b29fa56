"""Model directories at half the size, with a warm state and a card of their own."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from language_models import TinyLm, tiny_lm
from safetensors.torch import load_file
from shell import assert_one_line, run_here

from elmox import Elmo, ElmoxError
from elmox.model.checkpoint import Checkpoint, in_precision
from elmox.pretrained.load import load_checkpoint
from elmox.pretrained.native import write_directory

SENTENCES = [["The", "cat", "sat", "."], [], ["naïve", "天"]]


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> TinyLm:
    return tiny_lm(tmp_path_factory.mktemp("lm"))


@pytest.fixture
def full(lm: TinyLm, tmp_path: Path) -> Path:
    """A model directory in float32, with everything that one may hold."""
    elmo = lm.elmo()
    elmo.set_mix([1.0, 0.0, -1.0], gamma=1 / 3, name="ner")
    elmo.warm_up(SENTENCES)
    elmo.save_pretrained(tmp_path / "full")
    return tmp_path / "full"


def stored_types(folder: Path, name: str) -> set[torch.dtype]:
    return {tensor.dtype for tensor in load_file(folder / f"{name}.safetensors").values()}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounded_once_and_computed_in_float32(
    full: Path, dtype: torch.dtype, tmp_path: Path
) -> None:
    Elmo.from_pretrained(full).save_pretrained(tmp_path / "half", dtype=dtype)
    for name in ("model", "softmax", "state"):
        assert stored_types(tmp_path / "half", name) == {dtype}
    assert stored_types(tmp_path / "half", "mixes") == {torch.float32}
    before, after = load_checkpoint(full), load_checkpoint(tmp_path / "half")
    assert before.softmax is not None
    assert after.softmax is not None
    for whole, half in (
        (before.tensors, after.tensors),
        (before.softmax.tensors, after.softmax.tensors),
        (vars(before.warm_state), vars(after.warm_state)),
    ):
        assert whole.keys() == half.keys()
        for name in whole:
            assert half[name].dtype == torch.float32
            assert torch.equal(half[name], whole[name].to(dtype).float())
            assert not torch.equal(half[name], whole[name])
    assert after.softmax.vocab == before.softmax.vocab
    assert after.mixes == before.mixes


def test_stored_again_nothing_changes(full: Path, tmp_path: Path) -> None:
    Elmo.from_pretrained(full).save_pretrained(tmp_path / "half", dtype="float16")
    half = Elmo.from_pretrained(tmp_path / "half")
    half.save_pretrained(tmp_path / "again", dtype="float16")
    half.save_pretrained(tmp_path / "float32")
    for name in ("model", "softmax", "state"):
        file = f"{name}.safetensors"
        stored = (tmp_path / "half" / file).read_bytes()
        assert (tmp_path / "again" / file).read_bytes() == stored
        assert stored_types(tmp_path / "float32", name) == {torch.float32}
    for a, b in zip(
        half.encode_tokens(SENTENCES, layers="all"),
        Elmo.from_pretrained(tmp_path / "float32").encode_tokens(SENTENCES, layers="all"),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(half.encode(SENTENCES), Elmo.from_pretrained(full).encode(SENTENCES),
                               rtol=0, atol=2e-3)  # fmt: skip


def test_the_softmax_waits_until_it_is_used(full: Path, tmp_path: Path) -> None:
    """Encoding reads neither softmax nor vocabulary, which are damaged here."""
    Elmo.from_pretrained(full).save_pretrained(tmp_path / "half", dtype="float16")
    for name in ("softmax.safetensors", "vocab.txt"):
        (tmp_path / "half" / name).write_bytes(b"\xff\xff")
    elmo = Elmo.from_pretrained(tmp_path / "half", state="warm")
    assert elmo.encode(SENTENCES).shape == (3, elmo.dim)
    with pytest.raises(ElmoxError, match=r"vocab\.txt is not UTF-8"):
        elmo.predict("a ___ .")


def test_values_too_large_for_float16(full: Path, tmp_path: Path) -> None:
    checkpoint = load_checkpoint(full)
    tensors = {name: tensor.clone() for name, tensor in checkpoint.tensors.items()}
    tensors["lstm.1.bias"][0, 0] = 7e4
    large = replace(checkpoint, tensors=tensors)
    with pytest.raises(ElmoxError, match=r"lstm\.1\.bias of the biLM has values beyond 65,504"):
        in_precision(large, torch.float16)
    assert torch.isfinite(in_precision(large, torch.bfloat16).tensors["lstm.1.bias"]).all()
    write_directory(large, tmp_path / "large")


def test_in_8_bits(full: Path, tmp_path: Path) -> None:
    """A quarter of the size; the rounded model is the same wherever it is stored again."""
    whole = Elmo.from_pretrained(full)
    whole.save_pretrained(tmp_path / "eight", dtype="int8")
    eight = Elmo.from_pretrained(tmp_path / "eight")
    stored = load_file(tmp_path / "eight" / "model.safetensors")
    assert stored["lstm.0.input_weight"].dtype == torch.int8
    assert stored["lstm.0.input_weight.scales"].dtype == torch.float16
    assert stored["lstm.0.bias"].dtype == torch.float16
    assert torch.int8 not in {
        tensor.dtype for name, tensor in stored.items() if "char_cnn" in name
    }  # few weights, and every layer depends on them
    assert torch.int8 in stored_types(tmp_path / "eight", "softmax")
    for a, b in zip(whole.encode(SENTENCES), eight.encode(SENTENCES), strict=True):
        assert a @ b >= 0.999 * np.linalg.norm(a) * np.linalg.norm(b)
    assert eight.mixes == whole.mixes
    assert eight.evaluate(SENTENCES).perplexity == pytest.approx(
        whole.evaluate(SENTENCES).perplexity, rel=0.01
    )
    eight.save_pretrained(tmp_path / "again", dtype="int8")
    eight.save_pretrained(tmp_path / "float32")
    for name in ("model", "softmax", "state"):
        file = f"{name}.safetensors"
        stored_bytes = (tmp_path / "eight" / file).read_bytes()
        assert (tmp_path / "again" / file).read_bytes() == stored_bytes
    assert Elmo.from_pretrained(tmp_path / "float32").digest() == eight.digest()


def test_each_file_in_a_format_of_its_own(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["convert", full, tmp_path / "mixed", "--dtype", "float16"]
    code, _, err = run_here([*arguments, "--softmax-dtype", "int8"], capsys)
    assert code == 0, err
    assert stored_types(tmp_path / "mixed", "model") == {torch.float16}
    assert torch.int8 in stored_types(tmp_path / "mixed", "softmax")
    config = json.loads((tmp_path / "mixed" / "config.json").read_text())
    assert (config["format"], config["storage"]) == (2, {"softmax": "int8"})
    Elmo.from_pretrained(tmp_path / "mixed").predict("a ___ .")
    arguments = ["convert", full, tmp_path / "old.hdf5", "--softmax-dtype", "int8"]
    assert_one_line(*run_here(arguments, capsys), "leave out --dtype, --softmax-dtype")


@pytest.mark.parametrize(
    ("format", "storage", "message"),
    [
        (1, None, "holds torch.int8, expected floating point"),
        (1, {"model": "int8"}, "of format 1 has storage"),
        (2, None, "of format 2 has storage None"),
        (2, {"model": "int4"}, "of format 2 has storage"),
        (2, {"mixes": "int8"}, "of format 2 has storage"),
        (2, ["model"], "of format 2 has storage"),
        (3, {"model": "int8"}, "has format 3, this elmox reads 1 and 2: upgrade elmox"),
        (True, None, "has format True"),
    ],
)
def test_declarations_of_the_config(
    format: object, storage: object, message: str, full: Path, tmp_path: Path
) -> None:
    Elmo.from_pretrained(full).save_pretrained(tmp_path / "eight", dtype="int8")
    path = tmp_path / "eight" / "config.json"
    settings = json.loads(path.read_text()) | {"format": format, "storage": storage}
    path.write_text(json.dumps(settings))
    with pytest.raises(ElmoxError, match=message):
        Elmo.from_pretrained(tmp_path / "eight").encode(SENTENCES)


def test_convert_stores_all_of_it(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "card.md").write_text("---\nlicense: cc-by-sa-4.0\n---\n# Mine\n\n{facts}\n\nEnd\n")
    (tmp_path / "text.txt").write_text("The cat sat . It is naïve .\n\nThe cat .\n", "utf-8")
    arguments = ["convert", full, tmp_path / "half", "--dtype", "float16"]
    arguments += ["--warm-up", tmp_path / "text.txt", "--card", tmp_path / "card.md"]
    code, out, err = run_here(arguments, capsys)
    assert (code, out) == (0, ""), err
    assert stored_types(tmp_path / "half", "model") == {torch.float16}
    card = (tmp_path / "half" / "README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: cc-by-sa-4.0\n---\n# Mine\n\n| | |\n")
    assert card.endswith("| mixes | ner |\n\nEnd\n")
    assert "in float16 |" in card
    assert "| softmax (predicts words) | 11 words |" in card
    elmo = Elmo.from_pretrained(full)
    elmo.warm_up(["The cat sat .", "It is naïve .", "The cat ."])
    state, stored = elmo.checkpoint().warm_state, load_checkpoint(tmp_path / "half").warm_state
    assert state is not None
    assert stored is not None
    assert torch.equal(stored.cell, state.cell.half().float())
    assert torch.equal(stored.hidden, state.hidden.half().float())


def test_everyone_may_read_what_was_written(full: Path) -> None:
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in full.iterdir()}
    assert set(modes.values()) == {modes["config.json"]}


@pytest.mark.parametrize(
    "more", [["--dtype", "float16"], ["--warm-up", "text.txt"], ["--card", "card.md"]]
)
def test_ai2s_format_has_no_place_for_it(
    more: list[object], full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_here(["convert", full, tmp_path / "out.hdf5", *more], capsys)
    assert_one_line(*result, "AI2's format only holds float32 weights")
    assert not list(tmp_path.glob("out*"))


def test_a_card_that_cannot_be_read(
    full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "latin.md").write_bytes(b"na\xefve")
    for name, message in (("missing.md", "does not exist"), ("latin.md", "not UTF-8")):
        arguments = ["convert", full, tmp_path / "out", "--card", tmp_path / name]
        assert_one_line(*run_here(arguments, capsys), name, message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("new_vocab", [False, True])
def test_finetuning_goes_on_from_float16(
    full: Path, new_vocab: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Elmo.from_pretrained(full).save_pretrained(tmp_path / "half", dtype="float16")
    (tmp_path / "domain.txt").write_text("the cat sat .\nThe naïve cat .\n\n" * 12, "utf-8")
    out = tmp_path / "out"
    arguments = ["finetune", tmp_path / "half", tmp_path / "domain.txt", "--tokenized"]
    arguments += ["--out", out, "--json"]
    arguments += ["--new-vocab", "--min-count", 1] if new_vocab else []
    code, shown, err = run_here([*arguments, "--hold-out", 3, "--device", "cpu"], capsys)
    assert code == 0, err
    report = json.loads(shown)
    assert report["after"] < report["before"]
    tuned: Checkpoint = load_checkpoint(out / "model")
    assert tuned.softmax is not None
    assert stored_types(out / "model", "model") == {torch.float32}
    start = load_checkpoint(out / "start")
    half = load_checkpoint(tmp_path / "half")
    assert all(torch.equal(start.tensors[name], half.tensors[name]) for name in half.tensors)
