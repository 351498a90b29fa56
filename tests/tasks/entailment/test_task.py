"""Entailment: readers chosen by name, ten pairs by heart, empty sentences, what a batch changes."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from fits import fit_task, tag_objects
from shell import run_elmox, run_here

from elmox.errors import ElmoxError
from elmox.tasks.entailment.network import EntailmentPair
from elmox.tasks.entailment.task import Entailment
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import TaskRecipe, task_recipe
from elmox.tasks.registry import TASKS

PAIRS = (
    ("A man eats.", "A man is eating.", "entailment"),
    ("A man eats.", "Nothing eats.", "contradiction"),
    ("A man eats.", "He is old.", "neutral"),
    ("Nothing eats.", "A man eats.", "contradiction"),
    ("Two dogs run", "Dogs run", "entailment"),
    ("Dogs run", "Two dogs run", "neutral"),
    ("The cat sleeps", "The cat doesn't sleep", "contradiction"),
    ("The cat sleeps", "", "neutral"),
    ("", "Nothing sleeps", "contradiction"),
    ("Stop", "Stop", "entailment"),
)
TINY = ["words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=8"]
BY_HEART = ["head.dropout=0", "words.dropout=0", "elmo.dropout=0", "fit.lr=0.02"]
TASK = Entailment(TASKS["nli"])


def recipe(*changes: str) -> TaskRecipe:
    short = ["fit.batch_size=4", "fit.least_updates=20", "fit.epochs=6", "fit.patience=2"]
    return task_recipe(None, [*TINY, *BY_HEART, *short, *changes])


def write_sick(path: Path, pairs: Sequence[tuple[str, str, str]] = PAIRS) -> Path:
    lines = ["pair_ID\tsentence_A\tsentence_B\tentailment_judgment"]
    lines += [f"{i}\t{a}\t{b}\t{label.upper()}" for i, (a, b, label) in enumerate(pairs)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_snli(path: Path) -> Path:
    rows = [(*pair, str(number)) for number, pair in enumerate(PAIRS)] + [("x", "y", "-", "none")]
    keys = ("sentence1", "sentence2", "gold_label", "pairID")
    lines = (json.dumps(dict(zip(keys, row, strict=True))) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def random_texts(lengths: Sequence[int], width: int, seed: int = 0) -> Embedded:
    """Sentences of these lengths with ELMo at both ends, 3 wide at the second."""
    torch.manual_seed(seed)
    mask = torch.arange(max(1, *lengths)) < torch.tensor(lengths)[:, None]
    shape = (*mask.shape, 1)
    return Embedded(
        mask,
        torch.tensor(lengths),
        torch.randn(*mask.shape, width) * mask.view(shape),
        output=torch.randn(*mask.shape, 3) * mask.view(shape),
    )


def test_files_of_both_kinds(tmp_path: Path) -> None:
    sick = TASK.read(write_sick(tmp_path / "SICK_train.txt"))
    snli = TASK.read(write_snli(tmp_path / "snli_train.jsonl"))
    assert sick == snli  # without the pair that has no gold label
    assert sick[6] == EntailmentPair(
        ("The", "cat", "sleeps"), ("The", "cat", "does", "n't", "sleep"), "contradiction"
    )
    assert TASK.sentences(sick[8]) == ((), ("Nothing", "sleeps"))
    with pytest.raises(ElmoxError, match="no column pair_ID"):
        TASK.read((tmp_path / "snli_train.jsonl").rename(tmp_path / "snli.txt"))


def test_ten_pairs_by_heart(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_sick(tmp_path / "pairs.txt")
    chosen = recipe(f"elmo.model={tiny}", "elmo.place=both")
    results = fit_task("nli", chosen, data, data, tmp_path / "run", device="cpu", cache=tmp_path)
    assert (results.metric, results.mean) == ("accuracy", {"dev": 100.0})
    code, _, err = run_here(["tag", results.best.model, data], capsys)
    assert code != 0
    assert f"{data}: nli reads JSON lines (.jsonl) or tables (.csv) with premise, hypothesis" in err
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    assert fitted.score(data) == {"accuracy": 100.0}
    questions = [{"id": i, "premise": a, "hypothesis": b} for i, (a, b, _) in enumerate(PAIRS)]
    predictions = tag_objects(fitted, questions)
    assert [prediction["label"] for prediction in predictions] == [label for _, _, label in PAIRS]
    lines = "".join(json.dumps(question) + "\n" for question in questions).encode()
    piped = run_elmox("tag", results.best.model, "-", stdin=lines)
    labels = [json.loads(line)["label"] for line in piped.stdout.splitlines()]
    assert labels == [prediction["label"] for prediction in predictions], piped.stderr
    (bare,) = tag_objects(
        fitted, [{"premise": "", "hypothesis": ""}]
    )  # without a word in all the data
    assert bare["label"] in {label for _, _, label in PAIRS}
    shown = predictions[6]
    assert shown["hypothesis"] == ["The", "cat", "does", "n't", "sleep"]
    assert max(shown["probabilities"], key=shown["probabilities"].get) == "contradiction"
    assert sum(shown["probabilities"].values()) == pytest.approx(1)


def test_places_of_elmo_and_labels_unseen(tiny: Path, tmp_path: Path) -> None:
    """Middle and output are one place; labels missing in training are never predicted."""
    train = write_sick(tmp_path / "train.txt", [pair for pair in PAIRS if pair[2] != "neutral"])
    dev = write_sick(tmp_path / "dev.txt")
    scores = []
    for place in ("middle", "output"):
        chosen = recipe(f"elmo.model={tiny}", f"elmo.place={place}", "fit.epochs=1")
        out = tmp_path / place
        results = fit_task("nli", chosen, train, dev, out, device="cpu", cache=tmp_path)
        scores.append((results.best.dev, results.best.epochs))
        fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
        shown = tag_objects(fitted, [{"premise": ["x"] * 1000, "hypothesis": ["y"]}])
        assert list(shown[0]["probabilities"]) == ["entailment", "contradiction"]
    assert scores[0] == scores[1]
    assert 0 < scores[0][0]["accuracy"] <= 70


def test_a_batch_changes_no_prediction() -> None:
    torch.manual_seed(0)
    head = TASK.build_head(
        {"settings": {"hidden": 4}, "labels": ("a", "b", "c")}, Widths(5, output=3)
    )
    head.eval()
    lengths = [3, 2, 1, 1, 9, 4, 0, 5, 200, 0]
    texts = random_texts(lengths, 5)
    assert texts.output is not None
    together = head(texts)
    assert together.shape == (5, 3)
    for pair in range(5):
        rows = slice(2 * pair, 2 * pair + 2)
        longest = max(1, *lengths[rows])
        alone = Embedded(
            texts.mask[rows, :longest],
            texts.lengths[rows],
            texts.input[rows, :longest],
            output=texts.output[rows, :longest],
        )
        assert torch.allclose(head(alone)[0], together[pair], atol=1e-6)


def test_premise_and_hypothesis_are_not_the_same() -> None:
    """Attention goes to the other sentence of the same pair, and no further."""
    torch.manual_seed(0)
    head = TASK.build_head({"settings": {"hidden": 4}, "labels": ("a", "b")}, Widths(5)).eval()
    texts = random_texts((3, 3, 2, 3), 5)
    given = texts.input.clone().requires_grad_()
    head(Embedded(texts.mask, texts.lengths, given))[0].sum().backward()
    assert given.grad is not None
    moved = given.grad.abs().sum((1, 2))
    assert (moved[:2] > 0).all()
    assert (moved[2:] == 0).all()
    other = [1, 0, 3, 2]
    swapped = head(Embedded(texts.mask[other], texts.lengths[other], texts.input[other]))
    given = texts.input
    assert not torch.allclose(swapped[0], head(Embedded(texts.mask, texts.lengths, given))[0])


def test_every_weight_learns() -> None:
    torch.manual_seed(0)
    head = TASK.build_head({"settings": {"hidden": 4}, "labels": ("a", "b")}, Widths(5, output=3))
    examples = [EntailmentPair(("x",) * 3, ("y",) * 2, "a"), EntailmentPair((), ("y",), "b")]
    loss = head.loss(random_texts((3, 2, 0, 1), 5), examples)
    loss.backward()  # type: ignore[no-untyped-call]
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("head.hidden=0", r"head\.hidden is 0"),
        ("head.dropout=1", r"head\.dropout is 1"),
        ("head.layers=2", "head"),
    ],
)
def test_bad_settings(change: str, message: str, tmp_path: Path) -> None:
    data = write_sick(tmp_path / "pairs.txt")
    with pytest.raises(ElmoxError, match=message):
        fit_task(
            "nli",
            recipe("elmo.model=none", change),
            data,
            data,
            tmp_path / "run",
            device="cpu",
            cache=tmp_path,
        )
