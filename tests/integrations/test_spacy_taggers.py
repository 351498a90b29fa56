"""Fitted models as components of spaCy pipelines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import spacy
from fits import fit_task
from spacy.tokens import Doc, Span
from tagged_files import NAMES, write_columns

from elmox import ElmoxError, TaskPredictor
from elmox.integrations.spacy.taggers import PredictorComponent
from elmox.tasks.recipe import task_recipe

SMALL = ["words.dim=8", "words.filters=0", "words.min_count=1", "head.hidden=[16]"]
BY_HEART = ["head.dropout=0", "words.dropout=0", "elmo.dropout=0", "fit.lr=0.02"]
LONG = ["fit.batch_size=4", "fit.least_updates=8", "fit.epochs=10", "fit.patience=10"]
TAGS = {"the": "DET", "a": "DET", "cat": "NOUN", "dog": "NOUN", "sat": "VERB", ".": "PUNCT"}
SENTENCES = [
    ["the", "cat", "sat", "."],
    ["a", "dog", "sat", "."],
    ["the", "dog", "sat"],
    ["a", "cat", "sat"],
    ["cat", "sat"],
    ["sat"],
]


def treebank(sentences: Sequence[Sequence[str]]) -> str:
    """Every word but the verb depends on the next one, punctuation on the verb."""
    blocks = []
    for words in sentences:
        root = words.index("sat") + 1
        lines = []
        for number, word in enumerate(words, start=1):
            head = 0 if number == root else number + 1 if number < root else root
            relation = (
                "root" if not head else {"DET": "det", "NOUN": "nsubj"}.get(TAGS[word], "punct")
            )
            lines.append(f"{number}\t{word}\t_\t{TAGS[word]}\t_\t_\t{head}\t{relation}\t_\t_\n")
        blocks.append("".join(lines))
    return "\n".join(blocks) + "\n"


def fitted(task: str, data: Path, elmo: Path, settings: Sequence[str] = ()) -> str:
    out = data.parent / task
    recipe = task_recipe(None, [f"elmo.model={elmo}", *SMALL, *BY_HEART, *LONG, *settings])
    fit_task(task, recipe, data, data, out, device="cpu", cache=data.parent / "cache")
    return str(out / "seed-0" / "model")


@pytest.fixture(scope="module")
def models(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model per task, fitted to a handful of sentences."""
    folder = tmp_path_factory.mktemp("models")
    trees = folder / "trees.conllu"
    trees.write_text(treebank(SENTENCES), encoding="utf-8")
    return {
        "ner": fitted("ner", write_columns(folder / "names.txt", NAMES), tiny),
        "pos": fitted("pos", trees, tiny),
        "parse": fitted("parse", trees, tiny, ["head.arc_dim=24", "head.relation_dim=16"]),
    }


def pipeline(component: str, model: str, **config: Any) -> Any:
    nlp = spacy.blank("en")
    made = nlp.add_pipe(component, config={"model": model, **config})
    assert isinstance(made, PredictorComponent)
    return nlp


def test_entities(models: dict[str, str]) -> None:
    nlp = pipeline("elmox_ner", models["ner"])
    predictor: Any = TaskPredictor.from_pretrained(models["ner"], device="cpu")
    texts = ["Ada Lovelace lived in  London .", "", "Charles met Ada in Paris", " \n"]
    docs = list(nlp.pipe(texts))
    num_entities = 0
    for doc in docs:
        tokens = [token.text for token in doc if not token.is_space]
        (expected,) = predictor.predict([tokens])
        assert [(e.text.split(), e.label_) for e in doc.ents] == [
            (tokens[span.start : span.end], span.label) for span in expected.spans
        ]
        assert doc.has_annotation("ENT_IOB")
        num_entities += len(doc.ents)
    assert num_entities >= 4
    assert nlp.get_pipe("elmox_ner").labels == ("LOC", "PER")
    assert nlp.meta["requirements"][0].startswith("elmox>=")


def test_entities_that_are_there_win(models: dict[str, str]) -> None:
    nlp = pipeline("elmox_ner", models["ner"])
    doc = nlp.make_doc("Ada Lovelace lived in London")
    doc.ents = [Span(doc, 1, 3, label="MINE")]
    entities = [(entity.text, entity.label_) for entity in nlp(doc).ents]
    assert ("Lovelace lived", "MINE") in entities
    assert not any(text.startswith("Ada") for text, _ in entities)
    assert ("London", "LOC") in entities


def test_tags(models: dict[str, str]) -> None:
    doc = pipeline("elmox_pos", models["pos"])("the  cat sat.")
    assert [token.text for token in doc] == ["the", " ", "cat", "sat", "."]
    assert [token.tag_ for token in doc] == ["DET", "_SP", "NOUN", "VERB", "PUNCT"]
    assert [token.pos_ for token in doc] == ["DET", "SPACE", "NOUN", "VERB", "PUNCT"]


def test_tags_that_are_not_universal_leave_pos_alone(tiny: Path, tmp_path: Path) -> None:
    tagged = [[("the", "DT"), ("cat", "NN")], [("a", "DT"), ("dog", "NN")]]
    model = fitted("pos", write_columns(tmp_path / "tags.txt", tagged), tiny)
    doc = pipeline("elmox_pos", model)("the cat")
    assert [(token.tag_, token.pos_) for token in doc] == [("DT", ""), ("NN", "")]


def test_trees(models: dict[str, str]) -> None:
    nlp = pipeline("elmox_parser", models["parse"])
    doc, empty, blank = nlp.pipe(["the  cat sat. The dog sat", "", "  "])
    predictor: Any = TaskPredictor.from_pretrained(models["parse"], device="cpu")
    words = [["the", "cat", "sat", "."], ["The", "dog", "sat"]]
    positions = [[0, 2, 3, 4], [5, 6, 7]]
    assert [sent.text for sent in doc.sents] == ["the  cat sat.", "The dog sat"]
    for sentence, indexes, output in zip(words, positions, predictor.predict(words), strict=True):
        assert [doc[i].text for i in indexes] == sentence
        for position, head, relation in zip(indexes, output.heads, output.deprels, strict=True):
            token = doc[position]
            assert token.head.i == (indexes[head - 1] if head else position)
            assert token.dep_ == (relation if head else "ROOT")
    assert doc[1].head.i == 0
    assert doc[1].dep_ == "dep"
    assert doc.has_annotation("DEP")
    assert [token.text for token in doc[3].lefts] == ["cat"]
    assert [chunk.root.text for chunk in doc.sents] == ["sat", "sat"]
    assert len(empty) == 0
    assert [token.head.i for token in blank] == [0]


def test_given_sentences_are_kept(models: dict[str, str]) -> None:
    nlp = pipeline("elmox_parser", models["parse"])
    words = ["the", "cat", "sat", "a", "dog", "sat"]
    doc = nlp(Doc(nlp.vocab, words, sent_starts=[True, False, False, True, False, False]))
    assert [len(sent) for sent in doc.sents] == [3, 3]
    whole = pipeline("elmox_parser", models["parse"], sentences="doc")
    doc = whole(Doc(nlp.vocab, words, sent_starts=[True, False, False, True, False, False]))
    assert [len(sent) for sent in doc.sents] == [6]


def test_together_and_stored(models: dict[str, str], tmp_path: Path) -> None:
    nlp = pipeline("elmox_parser", models["parse"])
    nlp.add_pipe("elmox_pos", config={"model": models["pos"]})
    nlp.add_pipe("elmox_ner", config={"model": models["ner"]})
    doc = nlp("the cat sat. London sat")
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")("the cat sat. London sat")
    assert loaded.to_json() == doc.to_json()
    assert doc.to_json()["tokens"][1]["dep"] == "nsubj"


def test_a_model_for_another_task_is_refused(models: dict[str, str]) -> None:
    with pytest.raises(ElmoxError, match="is a model for pos, the component 'elmox_ner' expects"):
        pipeline("elmox_ner", models["pos"])("the cat")


def test_the_default_is_the_ready_tagger_of_the_bundled_model() -> None:
    nlp = spacy.blank("en")
    for component, task in (("elmox_ner", "ner"), ("elmox_pos", "pos"), ("elmox_parser", "parse")):
        nlp.add_pipe(component)
        assert nlp.get_pipe_config(component)["model"] == task
