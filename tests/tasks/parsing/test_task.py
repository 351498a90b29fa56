"""The parser: trees learned by heart, its scores written out word by word, any sentence."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from fits import fit_task, predicted
from torch import Tensor

from elmox.config import validated
from elmox.errors import ElmoxError
from elmox.io.conllu import TreebankSentence
from elmox.tasks.fit.results import Results
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.parsing import network
from elmox.tasks.parsing.network import Parse, Parser, ParserConfig, Sides
from elmox.tasks.parsing.spanning_tree import is_tree
from elmox.tasks.parsing.task import Parsing
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import TaskRecipe, task_recipe
from elmox.tasks.registry import TASKS

Tree = Sequence[tuple[str, int, str]]

TREES: tuple[Tree, ...] = (
    (("the", 2, "det"), ("cat", 3, "nsubj"), ("slept", 0, "root")),
    (("cats", 2, "nsubj"), ("sleep", 0, "root"), (".", 2, "punct")),
    (("she", 2, "nsubj"), ("saw", 0, "root"), ("the", 4, "det"), ("cat", 2, "obj")),
    (("Stop", 0, "root"),),
    (("cats", 3, "nsubj:pass"), ("were", 3, "aux:pass"), ("seen", 0, "root")),
    (("she", 2, "nsubj"), ("slept", 0, "root"), ("and", 4, "cc"), ("left", 2, "conj")),
    (("the", 2, "det"), ("dog", 0, "root"), ("she", 4, "nsubj"), ("saw", 2, "acl:relcl")),
    (("dogs", 0, "root"), ("and", 3, "cc"), ("cats", 1, "conj")),
    (("were", 3, "cop"), ("cats", 3, "nsubj"), ("there", 0, "root"), ("?", 3, "punct")),
    (("there", 2, "advmod"), ("left", 0, "root"), ("the", 4, "det"), ("dog", 2, "nsubj")),
)
WORDS = [[word for word, _, _ in tree] for tree in TREES]
RELATIONS = ("det", "nsubj", "root")
SMALL = ["words.dim=8", "words.filters=8", "words.min_count=1"]
HEAD = ["head.hidden=[16, 16]", "head.arc_dim=24", "head.relation_dim=16"]
BY_HEART = ["head.dropout=0", "words.dropout=0", "elmo.dropout=0", "fit.lr=0.02"]
LONG = ["fit.batch_size=4", "fit.least_updates=12", "fit.epochs=10", "fit.patience=10"]


def write_trees(path: Path, trees: Sequence[Tree]) -> Path:
    lines = (
        "".join(
            f"{place}\t{word}\t_\tX\t_\t_\t{head}\t{relation}\t_\t_\n"
            for place, (word, head, relation) in enumerate(tree, start=1)
        )
        for tree in trees
    )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def recipe(*changes: str) -> TaskRecipe:
    return task_recipe(None, [*SMALL, *HEAD, *BY_HEART, *LONG, *changes])


def fit_trees(folder: Path, chosen: TaskRecipe, **options: Any) -> Results:
    """Fit ten trees, which are also what the best epoch is chosen by."""
    data = write_trees(folder / "trees.conllu", TREES)
    files = {"train": data, "dev": data} | options
    return fit_task("parse", chosen, out=folder / "run", device="cpu", cache=folder, **files)


def parser(widths: Widths, **settings: Any) -> Parser:
    """Return a small parser whose random weights differ between all parts."""
    small = {"hidden": (4, 3), "arc_dim": 5, "relation_dim": 4, "dropout": 0.0} | settings
    description = {"settings": small, "relations": RELATIONS}
    torch.manual_seed(0)
    model = Parser(validated(ParserConfig, description, "a test"), widths)
    torch.nn.init.normal_(model.root)
    return model


def embedded(lengths: Sequence[int], widths: Widths) -> Embedded:
    """Random vectors, zero at padding."""
    chance = torch.Generator().manual_seed(len(lengths))
    sizes = torch.tensor(lengths)
    mask = torch.arange(max(lengths)) < sizes.unsqueeze(1)
    input_, middle, output = (
        torch.randn(*mask.shape, width, generator=chance) * mask.unsqueeze(2) if width else None
        for width in (widths.input, widths.middle, widths.output)
    )
    assert input_ is not None
    return Embedded(mask, sizes, input_, middle, output)


def one_of(texts: Embedded, row: int) -> Embedded:
    """A sentence of a batch, by itself."""
    length = int(texts.lengths[row])

    def cut(vectors: Tensor | None) -> Tensor | None:
        return None if vectors is None else vectors[row : row + 1, :length]

    alone = cut(texts.input)
    assert alone is not None
    mask, lengths = texts.mask[row : row + 1, :length], texts.lengths[row : row + 1]
    return Embedded(mask, lengths, alone, cut(texts.middle), cut(texts.output))


def sentence(heads: Sequence[int]) -> TreebankSentence:
    """Return a sentence with these heads and relations of all kinds."""
    none = ("_",) * len(heads)
    relations = tuple(RELATIONS[index % 3] for index in range(len(heads)))
    return TreebankSentence(none, none, none, none, none, tuple(heads), relations, (), 1)


EXAMPLES = [sentence([2, 0, 2, 3]), sentence([0]), sentence([0, 3, 1])]
ALL_PLACES = Widths(6, 3, 2)


@pytest.mark.parametrize("place", ["input", "middle", "both"])
def test_ten_trees_by_heart(place: str, tiny: Path, tmp_path: Path) -> None:
    results = fit_trees(tmp_path, recipe(f"elmo.model={tiny}", f"elmo.place={place}"))
    assert (results.metric, results.mean) == ("las", {"dev": 100.0})
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    assert predicted(fitted, WORDS) == [
        {"tokens": list(words), "heads": list(heads), "deprels": list(relations)}
        for words, heads, relations in (zip(*tree, strict=True) for tree in TREES)
    ]
    assert fitted.score(tmp_path / "trees.conllu") == {"las": 100.0, "uas": 100.0}


def test_any_sentence_can_be_parsed(tmp_path: Path) -> None:
    results = fit_trees(tmp_path, recipe("elmo.model=none", "fit.epochs=1"))
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    sentences = [["x"], [], ["日本", "😀"], ["the", "word"] * 500, [""], *WORDS]
    predictions = predicted(fitted, sentences)
    assert predictions[1] == {"tokens": [], "heads": [], "deprels": []}
    for words, prediction in zip(sentences, predictions, strict=True):
        heads = torch.tensor(prediction["heads"]).numpy()
        assert [len(heads), len(prediction["deprels"])] == [len(words)] * 2
        assert not words or is_tree(heads)
    assert [predicted(fitted, [words])[0] for words in sentences] == predictions


def test_relations_that_training_had_not(tmp_path: Path) -> None:
    """They are wrong; a new subtype of one that it had is not, as subtypes do not count."""
    other = [list(tree) for tree in TREES]
    other[1][2] = (".", 2, "dep")
    other[2][3] = ("cat", 2, "obj:new")
    dev = write_trees(tmp_path / "dev.conllu", other)
    results = fit_trees(tmp_path, recipe("elmo.model=none", "fit.epochs=2"), dev=dev)
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    assert fitted.score(dev) == results.best.dev
    learned = {relation for tree in TREES for _, _, relation in tree}
    assert {
        deprel for prediction in predicted(fitted, WORDS) for deprel in prediction["deprels"]
    } <= learned
    best = [Parse([h for _, h, _ in tree], [r for _, _, r in tree]) for tree in TREES]
    num_words = sum(map(len, TREES))
    expected = {"las": 100 * (num_words - 1) / num_words, "uas": 100.0}
    assert fitted.task.score(fitted.task.read(dev), best) == pytest.approx(expected)


def test_scores_word_by_word() -> None:
    """Dozat and Manning's equations, for each pair of words alone."""
    model = parser(ALL_PLACES)
    with torch.no_grad():
        sides: Sides = model(embedded([4, 2], ALL_PLACES))
        arcs = model.arc_scores(sides)
        heads = torch.tensor([[2, 0, 1, 1], [0, 1, 0, 0]])
        relations = model.relation_scores(sides, heads)
        form, prior = model.arcs.weight, model.arcs.bias
        forms = model.relations.weight.view(3, 5, 4)  # relation, head and 1, dependent
        biases = model.relations.bias.view(3, 5)
        for row in range(2):
            for word in range(4):
                for head in range(5):
                    vector = sides.arc_heads[row, head]
                    expected = vector @ form @ sides.arc_dependents[row, word] + vector @ prior
                    torch.testing.assert_close(arcs[row, word, head], expected)
                vector = sides.relation_heads[row, heads[row, word]]
                dependent = sides.relation_dependents[row, word]
                for relation in range(3):
                    expected = vector @ forms[relation, :4] @ dependent  # of both
                    expected = expected + vector @ biases[relation, :4]  # of the head
                    expected = expected + forms[relation, 4] @ dependent  # of the dependent
                    expected = expected + biases[relation, 4]  # of neither
                    torch.testing.assert_close(relations[row, word, relation], expected)


def test_the_loss_word_by_word() -> None:
    model, texts = parser(ALL_PLACES), embedded([4, 1, 3], ALL_PLACES)
    loss = model.loss(texts, EXAMPLES)
    losses = []
    for row, example in enumerate(EXAMPLES):
        sides = model(one_of(texts, row))
        arcs = model.arc_scores(sides)[0]
        relations = model.relation_scores(sides, torch.tensor([example.heads]))[0]
        for word, (head, deprel) in enumerate(zip(example.heads, example.deprels, strict=True)):
            others = [i for i in range(len(example) + 1) if i != word + 1]  # not itself
            losses.append(
                -arcs[word, others].log_softmax(0)[others.index(head)]
                - relations[word].log_softmax(0)[RELATIONS.index(deprel)]
            )
    torch.testing.assert_close(loss, torch.stack(losses).mean())


def test_padding_does_not_matter() -> None:
    model, texts = parser(ALL_PLACES).eval(), embedded([4, 1, 3, 9], ALL_PLACES)
    with torch.no_grad():
        together = model.predict(texts, [])
        assert [model.predict(one_of(texts, row), [])[0] for row in range(4)] == together
    assert [len(tree.heads) for tree in together] == [4, 1, 3, 9]


@pytest.mark.parametrize("widths", [ALL_PLACES, Widths(6)])
def test_every_weight_learns(widths: Widths) -> None:
    model = parser(widths, dropout=0.3)
    loss = model.loss(embedded([4, 1, 3], widths), EXAMPLES)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    for (name, _), gradient in zip(model.named_parameters(), gradients, strict=True):
        assert gradient.isfinite().all(), name
        assert gradient.count_nonzero() > gradient.numel() // 4, name


def test_relations_some_arcs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parser(Widths(6))
    sides = model(embedded([5, 5, 3], Widths(6)))
    heads = torch.tensor([[2, 0, 1, 5, 4], [0, 1, 1, 3, 3], [2, 0, 1, 0, 0]])
    whole = model.relation_scores(sides, heads)
    monkeypatch.setattr(network, "ARCS_AT_ONCE", 4)
    torch.testing.assert_close(model.relation_scores(sides, heads), whole)


def test_dropout_takes_the_same_of_all_words() -> None:
    model = parser(Widths(6), dropout=0.2, arc_dim=500)
    gone = model(embedded([7, 7], Widths(6))).arc_dependents == 0  # leaky ReLUs give no zeros
    assert (gone == gone[:, :1]).all()
    assert 0.15 < gone.float().mean() < 0.25
    assert (gone[0] != gone[1]).any()


def test_text_without_annotation() -> None:
    task = Parsing(TASKS["parse"])
    example = task.example_from_input({"tokens": ["a", "b"]})
    assert task.sentences(example) == (("a", "b"),)
    assert task.format_prediction(example, Parse([2, 0], ["det", "root"]), {}).to_dict() == {
        "tokens": ["a", "b"],
        "heads": [2, 0],
        "deprels": ["det", "root"],
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("head.hidden=[]", "number of layers in head.hidden is 0"),
        ("head.hidden=[0]", r"head\.hidden is 0"),
        ("head.arc_dim=0", r"head\.arc_dim is 0"),
        ("head.relation_dim=0", r"head\.relation_dim is 0"),
        ("head.dropout=1", r"head\.dropout is 1"),
        ("head.mlp=3", "head"),
    ],
)
def test_bad_settings(change: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match=message):
        fit_trees(tmp_path, recipe("elmo.model=none", change))


def test_the_middle_needs_two_layers() -> None:
    with pytest.raises(ElmoxError, match="two layers or more"):
        parser(Widths(6, 3), hidden=(4,))


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text("1\ta\t_\t_\t_\t_\t7\tdet\t_\t_\n\n", encoding="utf-8")
    with pytest.raises(ElmoxError, match="line 1: the head of word 1"):
        Parsing(TASKS["parse"]).read(path)
