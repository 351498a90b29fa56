"""ELMo behind the Auto classes of transformers: vectors, saving, pipelines, its Trainer."""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_parts import random_options
from checkpoints import write_many_langs, write_word_model

import elmox
from elmox import ElmoxError

pytest.importorskip("transformers")

from datasets import Dataset
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    pipeline,
)

from elmox.integrations.transformers import (
    ElmoConfig,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)

SENTENCES = ["I will buy you a present.", "", "naïve 天😀 " + "a" * 60, "Now"]
EXACT = 1e-6


@pytest.fixture(scope="module")
def native(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory of elmox."""
    folder = tmp_path_factory.mktemp("native") / "model"
    elmox.Elmo.from_pretrained(tiny).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, saved by transformers."""
    folder = tmp_path_factory.mktemp("saved")
    model = ElmoModel.from_elmo(tiny)
    model.save_pretrained(folder)
    ElmoTokenizer.of(model.config).save_pretrained(folder)
    return folder


def encoded(tokenizer: Any, sentences: list[str] = SENTENCES) -> Any:
    return tokenizer(sentences, return_tensors="pt", padding=True)


@pytest.mark.parametrize("kind", ["native", "saved"])
def test_auto_classes_give_the_vectors_of_encode_tokens(
    kind: str, tiny: Path, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(kind)
    model = AutoModel.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert isinstance(model, ElmoModel)
    assert isinstance(tokenizer, ElmoTokenizer)
    output = model(**encoded(tokenizer), output_hidden_states=True)
    assert len(output.hidden_states) == 3
    elmo = elmox.Elmo.from_pretrained(tiny)
    expected = elmo.encode_tokens(SENTENCES), elmo.encode_tokens(SENTENCES, layers="all")
    for row, (mean, layers) in enumerate(zip(*expected, strict=True)):
        hidden = output.last_hidden_state[row].numpy()
        np.testing.assert_allclose(hidden[: len(mean)], mean, atol=EXACT)
        assert not hidden[len(mean) :].any()
        stacked = torch.stack(output.hidden_states)[:, row, : len(mean)].numpy()
        np.testing.assert_allclose(stacked, layers, atol=EXACT)


@pytest.mark.parametrize("layers", ["top", 0])
def test_the_layer_of_the_configuration_is_returned(
    native: Path, tmp_path: Path, layers: Any
) -> None:
    model = AutoModel.from_pretrained(native, layers=layers)
    model.save_pretrained(tmp_path)
    expected = elmox.Elmo.from_pretrained(native).encode_tokens(["Now"], layers=layers)[0]
    for each in (model, AutoModel.from_pretrained(tmp_path)):
        actual = each(**encoded(AutoTokenizer.from_pretrained(native), ["Now"]))[0]
        np.testing.assert_allclose(actual[0].numpy(), expected, atol=EXACT)


def test_saving_writes_no_pickle_and_loading_is_exact(saved: Path, tmp_path: Path) -> None:
    model = AutoModel.from_pretrained(saved)
    model.save_pretrained(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}
    again = AutoModel.from_pretrained(tmp_path)
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


def test_back_to_elmox(saved: Path, tiny: Path, tmp_path: Path) -> None:
    elmo = AutoModel.from_pretrained(saved).to_elmo()
    assert elmo.digest() == elmox.Elmo.from_pretrained(tiny).digest()
    with pytest.raises(ElmoxError, match="saved by transformers"):
        elmox.Elmo.from_pretrained(saved)


def test_pipeline_feature_extraction(saved: Path, tiny: Path) -> None:
    extract = pipeline("feature-extraction", model=str(saved), tokenizer=str(saved), device="cpu")
    expected = elmox.Elmo.from_pretrained(tiny).encode_tokens(SENTENCES)
    for features, vectors in zip(extract(SENTENCES), expected, strict=True):
        np.testing.assert_allclose(
            np.reshape(features, (-1, vectors.shape[1])), vectors, atol=EXACT
        )
    batches = extract([SENTENCES[0], SENTENCES[3]], batch_size=2)
    np.testing.assert_allclose(batches[1][0][:1], expected[3], atol=EXACT)


def test_random_weights_are_those_of_training(tiny: Path) -> None:
    config = ElmoModel.from_elmo(tiny).config
    torch.manual_seed(0)
    models = [AutoModel.from_config(config) for _ in range(2)]
    first, second = (model.state_dict() for model in models)
    for name, tensor in first.items():
        assert tensor.isfinite().all(), name
    assert any(not torch.equal(first[name], second[name]) for name in first)
    highway = next(name for name in first if name.endswith("carry.bias"))
    assert (first[highway] == -2).all()
    assert not first["bilm.token_encoder.char_cnn.embedding.weight"][0].any()


def test_new_heads_are_initialized_and_the_bilm_stays_frozen(saved: Path, native: Path) -> None:
    torch.manual_seed(0)
    for folder in (saved, native):
        model = AutoModelForTokenClassification.from_pretrained(folder, num_labels=5)
        assert model.classifier.out_features == 5
        learned = {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad}
        assert learned == {"mix", "encoder", "classifier"}
        assert model.mix.gamma.tolist() == [1.0]
        assert model.mix.weights.tolist() == [[0.0] * 3]
        assert not model.classifier.bias.any()
        assert 0.005 < float(model.classifier.weight.detach().std()) < 0.05
        for name, tensor in model.state_dict().items():
            assert tensor.isfinite().all(), name
        thawed = ElmoForTokenClassification.from_pretrained(folder, freeze_bilm=False)
        assert all(parameter.requires_grad for parameter in thawed.parameters())


def test_options_of_from_pretrained_reach_a_directory_of_elmox(native: Path, tiny: Path) -> None:
    model, info = ElmoForTokenClassification.from_pretrained(
        native, dtype=torch.bfloat16, num_labels=4, output_loading_info=True
    )
    assert model.dtype == torch.bfloat16
    assert model.classifier.out_features == 4
    assert {name.split(".")[0] for name in info["missing_keys"]} == {"mix", "encoder", "classifier"}
    batch = encoded(AutoTokenizer.from_pretrained(native), ["Now"])
    expected = elmox.Elmo.from_pretrained(tiny, dtype="bfloat16").encode_tokens(["Now"])[0]
    vectors = model.elmo(**batch).last_hidden_state[0].float().numpy()
    np.testing.assert_allclose(vectors, expected, atol=1e-2)


def test_a_damaged_file_is_not_filled_with_random_weights(saved: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(saved / "model.safetensors")
    tensors.pop(sorted(tensors)[0])
    (tmp_path / "config.json").write_bytes((saved / "config.json").read_bytes())
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ElmoxError, match="lacks some weights"):
        AutoModel.from_pretrained(tmp_path)


def test_scores_do_not_depend_on_the_batch(saved: Path) -> None:
    model = AutoModelForTokenClassification.from_pretrained(saved, num_labels=3).eval()
    tokenizer = AutoTokenizer.from_pretrained(saved)
    together = model(**encoded(tokenizer)).logits
    for row, sentence in enumerate(SENTENCES):
        alone = model(**encoded(tokenizer, [sentence])).logits[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, atol=EXACT, rtol=1e-5)


@pytest.mark.parametrize("frozen", [True, False])
def test_its_trainer_trains_a_tagger(native: Path, tmp_path: Path, frozen: bool) -> None:
    tokenizer = AutoTokenizer.from_pretrained(native)
    words = [["the", "cat", "sat"], ["a", "cat"], ["the", "film", "was", "good"], ["sat"]] * 4
    nouns = {"cat", "film"}
    rows = [tokenizer(tokens, is_split_into_words=True) for tokens in words]
    data = Dataset.from_list(
        [
            {**row, "labels": [int(word in nouns) for word in tokens]}
            for row, tokens in zip(rows, words, strict=True)
        ]
    )
    torch.manual_seed(0)
    model = AutoModelForTokenClassification.from_pretrained(
        native, num_labels=2, freeze_bilm=frozen, classifier_dropout=0.0, classifier_dim=16
    )
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    arguments = TrainingArguments(
        str(tmp_path / "run"), num_train_epochs=1, per_device_train_batch_size=4,
        learning_rate=0.05, use_cpu=True, report_to="none", disable_tqdm=True, save_strategy="no",
    )  # fmt: skip
    collator = DataCollatorForTokenClassification(tokenizer)
    trainer = Trainer(model, arguments, train_dataset=data, data_collator=collator)
    start = trainer.evaluate(data)["eval_loss"]
    trainer.train()
    assert trainer.evaluate(data)["eval_loss"] < start
    moved = {
        n.split(".")[0] for n, t in model.state_dict().items() if not torch.equal(t, before[n])
    }
    assert moved == {"mix", "encoder", "classifier"} | (set() if frozen else {"elmo"})
    trainer.save_model(str(tmp_path / "tagger"))
    loaded = AutoModelForTokenClassification.from_pretrained(tmp_path / "tagger").eval()
    batch = encoded(tokenizer, ["the cat sat"])
    torch.testing.assert_close(loaded(**batch).logits, model.eval()(**batch).logits)
    assert loaded.config.num_labels == 2


def test_the_tokenizer(native: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(native)
    text = "Don't look back."
    assert tokenizer.tokenize(text) == elmox.Elmo.from_pretrained(native).tokenize(text)
    one = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    assert [text[start:end] for start, end in one["offset_mapping"]] == tokenizer.tokenize(text)
    assert one["attention_mask"] == [1] * 5
    cut = tokenizer([text, "Now"], truncation=True, max_length=2, padding="max_length")
    assert np.shape(cut["input_ids"]) == (2, 2, 50)
    assert cut["attention_mask"] == [[1, 1], [1, 0]]
    wide = tokenizer([text], padding=True, pad_to_multiple_of=8, return_tensors="np")
    assert wide["input_ids"].shape == (1, 8, 50)
    assert tokenizer.decode(wide["input_ids"][0], skip_special_tokens=True) == "Do n't look back ."
    assert tokenizer.batch_decode(wide["input_ids"])[0].endswith(". <pad> <pad> <pad>")
    assert tokenizer.convert_ids_to_tokens(tokenizer.convert_tokens_to_ids(["天", "<S>"])) == [
        "天",
        "<S>",
    ]
    tokenizer.save_pretrained(tmp_path)
    for copy in (AutoTokenizer.from_pretrained(tmp_path), pickle.loads(pickle.dumps(tokenizer))):
        assert copy(text)["input_ids"] == one["input_ids"]


def test_a_mask_hides_tokens(saved: Path) -> None:
    model, tokenizer = AutoModel.from_pretrained(saved), AutoTokenizer.from_pretrained(saved)
    batch = encoded(tokenizer, ["Live in the present"])
    batch["attention_mask"][:, 2:] = 0
    alone = model(**encoded(tokenizer, ["Live in"]))[0]
    masked = model(**batch, return_dict=False)[0]
    torch.testing.assert_close(masked[:, :2], alone, atol=EXACT, rtol=1e-5)
    assert not masked[:, 2:].any()


def test_models_of_words_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    write_word_model(tmp_path, random_options(), rng)
    for path in (tmp_path / "weights.hdf5", write_many_langs(tmp_path / "m", "char", rng)):
        with pytest.raises(ElmoxError, match="words or code points"):
            ElmoModel.from_elmo(path)


def test_bad_input_is_named(native: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(native)
    with pytest.raises(ElmoxError, match="single sentences"):
        tokenizer("a", "b")
    with pytest.raises(ElmoxError, match="padded on the right"):
        tokenizer(["a", "b c"], padding=True, padding_side="left")
    with pytest.raises(ElmoxError, match="expected integers of shape"):
        ElmoModel.from_pretrained(native)(torch.zeros(1, 2, dtype=torch.long))
    with pytest.raises(ElmoxError, match="layers"):
        ElmoModel.from_pretrained(native, layers="all")
    assert (
        AutoConfig.from_pretrained(native).hidden_size
        == ElmoConfig.from_pretrained(native).hidden_size
    )


def test_without_transformers_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = "elmox.integrations.transformers"
    for name in list(sys.modules):
        if name.partition(".")[0] == "transformers":
            monkeypatch.setitem(sys.modules, name, None)
        elif name.startswith(ours):
            monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ElmoxError, match=r"transformers is not installed: pip install .elmox"):
        __import__(ours)
