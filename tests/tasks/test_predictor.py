"""`TaskPredictor`: texts in every form, aligned outputs, offsets, and what it shows of itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fits import fit_task, predicted
from tagged_files import NAMES, write_columns

from elmox.errors import ElmoxError
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import task_recipe
from elmox.tasks.tagging.task import TaggingOutput

SMALL = ["words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=[12, 12]"]
BY_HEART = ["head.dropout=0", "words.dropout=0", "elmo.dropout=0", "fit.lr=0.03"]
SHORT = ["fit.batch_size=4", "fit.epochs=12", "fit.least_updates=1", "elmo.model=none"]
TEXT = "Ada Lovelace lived in London.  Paris is large."


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> TaskPredictor:
    folder = tmp_path_factory.mktemp("tagger")
    data = write_columns(folder / "names.txt", NAMES)
    recipe = task_recipe(None, [*SMALL, *BY_HEART, *SHORT])
    results = fit_task("ner", recipe, data, data, folder / "run", device="cpu", cache=folder)
    assert results.mean["dev"] > 95
    return TaskPredictor.from_pretrained(results.model, device="cpu")


def test_a_string(tagger: TaskPredictor) -> None:
    """One sentence, one output, with positions in tokens and in characters."""
    text = "Ada Lovelace lived in London"
    output = tagger.predict(text)
    assert isinstance(output, TaggingOutput)
    assert output.tokens == tuple(text.split())
    assert output.tags == ("B-PER", "I-PER", "O", "O", "B-LOC")
    assert output.spans is not None
    spans = [(text[span.start_char : span.end_char], span.label) for span in output.spans]
    assert spans == [("Ada Lovelace", "PER"), ("London", "LOC")]
    assert output.to_dict()["spans"][0] == {
        "start": 0,
        "end": 2,
        "label": "PER",
        "start_char": 0,
        "end_char": 12,
    }


def test_texts_in_every_form(tagger: TaskPredictor) -> None:
    """An output for each text, whatever its form, however many sentences it has."""
    tokens = ["Paris", "is", "large"]
    texts: list[Any] = ["Paris is large", tokens, {"text": "Paris is large", "id": 3}, TEXT, ""]
    outputs = predicted(tagger, texts)
    assert [output["tokens"] for output in outputs[:3]] == [tokens] * 3
    assert len({str(output["tags"]) for output in outputs[:3]}) == 1
    assert "offsets" not in outputs[1]  # tokens have no text
    assert "start_char" not in outputs[1]["spans"][0]
    assert len(outputs[3]["tokens"]) == 10
    assert outputs[4] == {"tokens": [], "tags": [], "spans": [], "offsets": []}
    assert predicted(tagger, iter(texts)) == outputs
    assert predicted(tagger, []) == []
    mapping = tagger.predict({"tokens": tokens})
    assert isinstance(mapping, TaggingOutput)
    assert mapping.tokens == tuple(tokens)


def test_a_sentence_of_thousands_of_tokens(
    tagger: TaskPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read in equal pieces, and the caller is told."""
    monkeypatch.setattr("elmox.tasks.tagging.task.LONGEST_SENTENCE", 5)
    words = ["Ada", "Lovelace", "lived", "in", "London", ",", "Paris", "is", "large", "and"]
    short, empty = ["He", "slept"], list[str]()
    with pytest.warns(UserWarning, match="a sentence of 10 tokens: read in pieces") as caught:
        outputs = tagger.predict([short, words, empty])
    assert caught[0].filename == __file__
    alone = [output.to_dict()["tags"] for output in tagger.predict([words[:5], words[5:], short])]
    tags = [output.to_dict()["tags"] for output in outputs]
    assert tags == [alone[2], alone[0] + alone[1], []]
    assert max(span["end"] for span in outputs[1].to_dict()["spans"]) > 5


def test_running_text(tagger: TaskPredictor) -> None:
    """One output per sentence; positions are those in the whole text."""
    outputs = [output.to_dict() for output in tagger.predict_document(TEXT)]
    assert [len(output["tokens"]) for output in outputs] == [6, 4]
    for output in outputs:
        assert [TEXT[start:end] for start, end in output["offsets"]] == output["tokens"]
        for span in output["spans"]:
            first, last = output["offsets"][span["start"]], output["offsets"][span["end"] - 1]
            assert (span["start_char"], span["end_char"]) == (first[0], last[1])
    assert outputs == tagger.predict_json({"text": TEXT})


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", None], r"texts\[1\]: tokens is None, expected a text or a list of tokens"),
        ([["a", 1]], r"texts\[0\]: tokens is \['a', 1\]"),
        (["a", {"premise": "b"}], r"texts\[1\]: the keys are premise, expected text or tokens"),
        ({"id": 1}, "^the keys are id, expected text or tokens"),
        (None, r"^texts is None \(NoneType\): expected a string, a list"),
        (b"Ada", r"^texts is b'Ada' \(bytes\): expected a string, a list"),
        (3, r"^texts is 3 \(int\): expected a string, a list"),
    ],
)
def test_inputs_that_are_not_text(tagger: TaskPredictor, texts: Any, message: str) -> None:
    with pytest.raises(ElmoxError, match=message):
        tagger.predict(texts)


def test_its_repr(tagger: TaskPredictor) -> None:
    assert repr(tagger) == "TaskPredictor(ner, labels=[LOC, PER], elmo='none', device='cpu')"


def test_other_tasks_show_their_labels(tmp_path: Path) -> None:
    words = [chr(ord("a") + i) for i in range(8)]
    data = write_columns(tmp_path / "tags.txt", [[(word, word.upper()) for word in words]])
    recipe = task_recipe(None, [*SMALL, *SHORT, "fit.epochs=1"])
    results = fit_task("pos", recipe, data, data, tmp_path / "run", device="cpu", cache=tmp_path)
    tagger = TaskPredictor.from_pretrained(results.model, device="cpu")
    assert "labels=[A, B, C, D, E, F, and 2 others]" in repr(tagger)


def test_a_bilm_for_a_model_without_one(tagger: TaskPredictor, tmp_path: Path) -> None:
    data = write_columns(tmp_path / "names.txt", NAMES)
    recipe = task_recipe(None, [*SMALL, *SHORT, "fit.epochs=1"])
    results = fit_task("ner", recipe, data, data, tmp_path / "run", device="cpu", cache=tmp_path)
    with pytest.raises(ElmoxError, match=r"fitted without ELMo: leave out elmo='english-small'"):
        TaskPredictor.from_pretrained(results.model, elmo="english-small", device="cpu")


def as_is(path: Path) -> Path:
    return path


@pytest.mark.parametrize("kind", [str, as_is])
def test_score(tagger: TaskPredictor, kind: Callable[[Path], Any], tmp_path: Path) -> None:
    path = write_columns(tmp_path / "names.txt", NAMES)
    assert tagger.score(kind(path))["f1"] > 95
