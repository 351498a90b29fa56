"""Cards: readable by people, and by the hub's own parser."""

import json
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from language_models import tiny_lm
from shell import assert_one_line, run_here

from elmox import Elmo
from elmox.pretrained.card import card_body, card_license

SCORES = [
    {"task": "parts of speech", "dataset": "UD English-EWT", "metric": "accuracy", "value": 96.6,
     "type": "token-classification"},
    {"task": "language model", "dataset": "Wikipedia", "metric": "perplexity", "value": 49.1,
     "split": "valid"},
]  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model directory with a recipe, a log, and the scores of a tagger."""
    folder = tmp_path / "welsh-small"
    tiny_lm(tmp_path / "lm").elmo().save_pretrained(folder, dtype="int8")
    (folder / "training.toml").write_text("[train]\nsteps = 20\n")
    (folder / "metrics.jsonl").write_text('{"step": 10}\n{"step": 20, "perplexity": 51.2}\n')
    (folder / "taggers" / "pos").mkdir(parents=True)
    scores = {"metric": "accuracy", "dev": {"accuracy": 95.0}, "test": {"accuracy": 94.5}}
    scores |= {"data": "UD Welsh-CCG", "license": "CC BY-SA 4.0"}
    (folder / "taggers" / "pos" / "scores.json").write_text(json.dumps(scores))
    return folder


def test_a_whole_card(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scores.json").write_text(json.dumps(SCORES))
    (tmp_path / "data.md").write_text("Ten novels.\n")
    arguments: list[object] = ["card", model, "--language", "cy", "--license", "CC-BY-4.0"]
    arguments += ["--dataset", "wikipedia", "--scores", tmp_path / "scores.json"]
    arguments += ["--data", tmp_path / "data.md"]
    assert_one_line(*run_here(arguments, capsys), "README.md exists already", "--force")
    code, out, err = run_here([*arguments, "--force"], capsys)
    assert (code, out.strip()) == (0, str(model / "README.md")), err
    card = ModelCard.load(model / "README.md")
    assert card.data.to_dict()["library_name"] == "elmox"
    assert card.data.language == ["cy"]
    assert card.data.license == "cc-by-4.0"
    assert card.data.datasets == ["wikipedia"]
    results = card.data.eval_results
    assert results is not None
    assert [(r.task_name, r.metric_type, r.metric_value, r.dataset_split) for r in results] == [
        ("parts of speech", "accuracy", 96.6, "test"),
        ("language model", "perplexity", 49.1, "valid"),
    ]
    for text in (
        "# welsh-small: an ELMo biLM",
        " in int8 |",
        "## Data\n\nTen novels.",
        "```toml\n[train]\nsteps = 20\n```",
        "perplexity 51.2",
        "| parts of speech | UD English-EWT, test | accuracy | 96.6 |",
        "| `pos` | UD Welsh-CCG | CC BY-SA 4.0 | dev accuracy 95.00, test accuracy 94.50 |",
        "## Limits",
        "licensed under CC-BY-4.0",
    ):
        assert text in card.text
    Elmo.from_pretrained(model)


def test_the_header_is_found_again(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_here(["card", model, "--license", "CC-BY-4.0", "--force"], capsys)
    assert code == 0, err
    card = (model / "README.md").read_text()
    assert card_license(card) == "cc-by-4.0"
    assert card_body(card).startswith("# welsh-small")
    assert card_license("# No header\n") is None
    assert card_body("# No header\n") == "# No header\n"


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ("{}", "expected a list of scores"),
        ('[{"task": "pos"}]', "scores.json[0]: "),
        ("[", "is not JSON"),
        ('[{"task": "a", "dataset": "b", "metric": "c", "value": 1, "more": 2}]', "[0]: more"),
    ],
)
def test_bad_scores(
    scores: str,
    message: str,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "scores.json").write_text(scores)
    before = (model / "README.md").read_bytes()
    arguments = ["card", model, "--force", "--scores", tmp_path / "scores.json"]
    assert_one_line(*run_here(arguments, capsys), message)
    assert (model / "README.md").read_bytes() == before


def test_not_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_one_line(*run_here(["card", tmp_path], capsys), "is not a model directory")
