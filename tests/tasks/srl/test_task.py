"""Semantic roles: learned by heart, stored and loaded, decoded within bounds, refused."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fits import fit_task, tag_objects
from hypothesis import given, settings
from hypothesis import strategies as st
from shell import assert_one_line, run_elmox, run_here

from elmox.errors import ElmoxError
from elmox.kernels.recurrence.packing import Packing
from elmox.tasks.data.propositions import Argument, Proposition, RoleSentence
from elmox.tasks.fit.results import Results
from elmox.tasks.nn.crf import Crf
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import TaskRecipe, task_recipe
from elmox.tasks.registry import TASKS
from elmox.tasks.srl.network import RoleLabeler, best_tags
from elmox.tasks.srl.task import SemanticRoles
from elmox.tasks.tagging.spans import allowed_transitions

# Words, and for each predicate its index and its arguments; V if it has more than that one word.
EXAMPLES: tuple[tuple[str, dict[int, str]], ...] = (
    ("Ada gave him the book", {1: "ARG0 0 0, ARG2 2 2, ARG1 3 4"}),
    ("He fell", {1: "ARG1 0 0"}),
    ("Stop", {0: ""}),
    ("Ada saw him fall", {1: "ARG0 0 0, ARG1 2 3", 3: "ARG1 2 2"}),
    ("She took off", {1: "ARG0 0 0, V 1 2"}),
    ("He gave it up yesterday", {1: "ARG0 0 0, ARG1 2 2, C-V 3 3, ARGM-TMP 4 4"}),
    ("Yesterday Ada , she said , fell", {4: "ARG1 0 1, ARG0 3 3, C-ARG1 6 6", 6: "ARG1 1 1"}),
    ("the man who saw Ada slept", {3: "ARG0 0 1, R-ARG0 2 2, ARG1 4 4", 5: "ARG1 0 4"}),
    ("no verbs here", {}),
    ("They fell and slept yesterday", {1: "ARG1 0 0", 3: "ARG0 0 0, ARGM-TMP 4 4"}),
)
WORDS = [text.split() for text, predicates in EXAMPLES if predicates]
QUESTIONS = [
    {"tokens": text.split(), "predicates": list(predicates)}
    for text, predicates in EXAMPLES
    if predicates
]

SMALL = ["words.dim=8", "words.filters=4", "words.min_count=1", "head.hidden=32", "head.layers=2"]
BY_HEART = ["head.flag_dim=6", "head.dropout=0", "words.dropout=0", "elmo.dropout=0", "fit.lr=0.03"]
LONG = ["fit.batch_size=4", "fit.epochs=24", "fit.patience=24", "fit.least_updates=1"]


def props(predicates: dict[int, str]) -> list[dict[str, Any]]:
    propositions = []
    for pred, text in predicates.items():
        args = [part.split() for part in text.split(", ") if part]
        args += [] if any(label == "V" for label, _, _ in args) else [["V", str(pred), str(pred)]]
        spans = [[label, int(first), int(last)] for label, first, last in args]
        propositions.append({"pred": pred, "lemma": "x", "frame": "x.01", "args": spans})
    return propositions


def write(path: Path, examples: Sequence[tuple[str, dict[int, str]]] = EXAMPLES) -> Path:
    lines = []
    for text, predicates in examples:
        words = text.split()
        values = {"sent_id": text, "words": words, "xpos": ["X"] * len(words)}
        lines.append(json.dumps(values | {"props": props(predicates)}) + "\n")
    path.write_text("".join(lines))
    return path


def recipe(*changes: str) -> TaskRecipe:
    return task_recipe(None, [*SMALL, *BY_HEART, *LONG, *changes])


def fit_roles(folder: Path, chosen: TaskRecipe, dev: Path | None = None) -> Results:
    data, cache = write(folder / "roles.jsonl"), folder / "cache"
    return fit_task("srl", chosen, data, dev or data, folder / "run", device="cpu", cache=cache)


def labeler(widths: Widths, **changes: Any) -> RoleLabeler:
    task = SemanticRoles(TASKS["srl"])
    chosen: dict[str, Any] = {"hidden": 8, "layers": 3, "flag_dim": 4, **changes}
    torch.manual_seed(0)
    examples = [sentence("a b c", {1: "ARG0 0 0"})]
    config = task.configure(examples, task.parse_settings(chosen))
    head = task.build_head(asdict(config), widths)
    assert isinstance(head, RoleLabeler)
    return head


def sentence(text: str, predicates: dict[int, str]) -> RoleSentence:
    propositions = (
        Proposition(
            values["pred"], "x", "x.01", tuple(Argument(a, b, c + 1) for a, b, c in values["args"])
        )
        for values in props(predicates)
    )
    return RoleSentence("", tuple(text.split()), (), tuple(propositions))


def embedded(lengths: Sequence[int], widths: Widths) -> Embedded:
    """Return random vectors that depend only on the length of the sentence."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    parts = []
    for width in (widths.input, widths.middle, widths.output):
        vectors = torch.zeros(*mask.shape, width)
        for row, length in enumerate(lengths):
            generator = torch.Generator().manual_seed(length)
            vectors[row, :length] = torch.randn(length, width, generator=generator)
        parts.append(vectors)
    others = (part if part.shape[2] else None for part in parts[1:])
    return Embedded(mask, torch.tensor(lengths), parts[0], *others)


@pytest.mark.parametrize("place", ["input", "middle", "both"])
def test_ten_sentences_by_heart(place: str, tiny: Path, tmp_path: Path) -> None:
    results = fit_roles(tmp_path, recipe(f"elmo.model={tiny}", f"elmo.place={place}"))
    assert (results.metric, results.mean) == ("f1", {"dev": 100.0})
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    assert fitted.score(tmp_path / "roles.jsonl") == {"f1": 100, "precision": 100, "recall": 100}
    predictions = tag_objects(fitted, QUESTIONS)
    assert predictions[0] == {
        "tokens": WORDS[0],
        "predicates": [1],
        "propositions": [
            {
                "predicate": 1,
                "arguments": [
                    {"start": 0, "end": 1, "label": "ARG0"},
                    {"start": 2, "end": 3, "label": "ARG2"},
                    {"start": 3, "end": 5, "label": "ARG1"},
                ],
            }
        ],
    }
    labels = [
        [
            [arg["label"] for arg in proposition["arguments"]]
            for proposition in prediction["propositions"]
        ]
        for prediction in predictions
    ]
    assert labels[4] == [["ARG0"]]  # neither V ("took off") nor C-V ("gave it up") is an argument
    assert labels[5] == [["ARG0", "ARG1", "ARGM-TMP"]]
    alone = [tag_objects(fitted, [question])[0] for question in reversed(QUESTIONS)]
    assert alone == predictions[::-1]


def test_any_sentence_can_be_labeled(tmp_path: Path) -> None:
    """With labels in the dev data that training did not have, too."""
    dev = write(tmp_path / "dev.jsonl", [("Ada fell", {1: "ARGM-NEW 0 0"})])
    results = fit_roles(tmp_path, recipe("elmo.model=none", "fit.epochs=1"), dev)
    assert results.mean == {"dev": 0.0}
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    long = ["word"] * 1000
    one, none, empty, many = tag_objects(
        fitted,
        [
            {"tokens": ["x"], "predicates": [0]},
            {"tokens": ["x", "y"], "predicates": []},
            {"tokens": [], "predicates": []},
            {"tokens": long, "predicates": [999, 0, 5]},
        ],
    )
    assert one["propositions"] == [{"predicate": 0, "arguments": []}]
    assert none["propositions"] == []
    assert empty == {"predicates": [], "tokens": [], "propositions": []}
    assert [proposition["predicate"] for proposition in many["propositions"]] == [999, 0, 5]
    assert tag_objects(fitted, [{"tokens": ["x", "y"], "predicates": []}]) == [none]


def test_a_text_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Indices count all its tokens, over stdin and from a file; what is wrong is named."""
    results = fit_roles(tmp_path, recipe("elmo.model=none", "fit.epochs=1"))
    model = results.best.model
    text = "I ate it. It was a very long day. He went home."
    questions: list[dict[str, Any]] = [
        {"id": "a", "text": "I ate it . He went .", "predicates": [1, 5]},
        {"id": "b", "text": text, "predicates": [12]},
    ]
    lines = tmp_path / "asked.jsonl"
    lines.write_text("".join(json.dumps(question) + "\n" for question in questions))
    code, out, err = run_here(["tag", model, lines], capsys)
    assert code == 0, err
    first, second = map(json.loads, out.splitlines())
    assert first["tokens"] == questions[0]["text"].split()
    assert [proposition["predicate"] for proposition in first["propositions"]] == [1, 5]
    assert second["tokens"][12] == "went"
    assert tag_objects(TaskPredictor.from_pretrained(model, device="cpu"), questions) == [
        first,
        second,
    ]
    piped = run_elmox("tag", model, "-", stdin=lines.read_bytes())
    assert (piped.returncode, piped.stdout) == (0, out), piped.stderr
    lines.write_text(json.dumps(questions[0]) + '\n\n{"text": "", "predicates": [0]}\n')
    code, out, err = run_here(["tag", model, lines], capsys)
    expected = "predicates is [0], expected an empty list for a sentence without words"
    assert_one_line(code, out, err, f"{lines}, line 3: {expected}")
    lines.rename(tmp_path / "asked.txt")
    code, out, err = run_here(["tag", model, tmp_path / "asked.txt"], capsys)
    expected = "srl reads JSON lines (.jsonl) or tables (.csv) with tokens, predicates"
    assert_one_line(code, out, err, expected, "--json-lines")
    piped = run_elmox("tag", model, "-", stdin=b"He went home .\n")
    assert_one_line(
        piped.returncode, piped.stdout, piped.stderr, f"stdin ({expected}), line 1: not"
    )


@pytest.mark.parametrize(
    ("predicates", "message"),
    [
        (None, "srl requires predicates too"),
        ([2], r"predicates is \[2\], expected a list of indices from 0 to 1, each once"),
        ([-1], "expected a list of indices"),
        ([0, 0], "each once"),
        ([True], "expected a list of indices"),
        ([[0]], "expected a list of indices"),
        ("0", "expected a list of indices"),
        (0, "expected a list of indices"),
    ],
)
def test_bad_questions(predicates: Any, message: str) -> None:
    with pytest.raises(ElmoxError, match=message) as caught:
        SemanticRoles(TASKS["srl"]).example_from_input(
            {"tokens": ["He", "fell"], "predicates": predicates}
        )
    assert len(str(caught.value).splitlines()) == 1


def test_files(tmp_path: Path) -> None:
    task = SemanticRoles(TASKS["srl"])
    assert [list(example.words) for example in task.read(write(tmp_path / "a.jsonl"))] == WORDS
    with pytest.raises(ElmoxError, match="no predicates"):
        task.read(write(tmp_path / "none.jsonl", EXAMPLES[8:9]))
    twice = [("He fell", {1: "ARG1 0 0"})]
    line = json.loads(write(tmp_path / "b.jsonl", twice).read_text())
    line["props"] *= 2
    (tmp_path / "b.jsonl").write_text(json.dumps(line))
    with pytest.raises(ElmoxError, match=r"b\.jsonl, sentence He fell: two propositions"):
        task.read(tmp_path / "b.jsonl")


def test_conll2012(tmp_path: Path) -> None:
    path = tmp_path / "a.gold_conll"
    rows = ("He PRP * - - - - * (ARG1*) -", "fell VBD * fall 01 1 - * (V*) -")
    body = "".join(f"a 0 {number} {row}\n" for number, row in enumerate(rows))
    path.write_text(f"#begin document (a); part 000\n{body}\n#end document\n")
    (example,) = SemanticRoles(TASKS["srl"]).read(path)
    assert (example.words, example.propositions[0].pred) == (("He", "fell"), 1)
    assert example.propositions[0].args == (Argument("ARG1", 0, 1), Argument("V", 1, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("head.cells=3", "head"),
        ("head.layers=0", r"head\.layers is 0"),
        ("head.dropout=1", r"head\.dropout is 1"),
    ],
)
def test_bad_settings(change: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match=message):
        fit_roles(tmp_path, recipe("elmo.model=none", change))


def test_one_layer_has_no_middle() -> None:
    with pytest.raises(ElmoxError, match=r"give head\.layers 2 or more"):
        labeler(Widths(5, middle=3), layers=1)
    labeler(Widths(5, output=3), layers=1)


def test_gradients_reach_everything() -> None:
    widths = Widths(5, middle=3, output=2)
    head = labeler(widths)
    texts = embedded((4, 2), widths)
    parts = (texts.input, texts.middle, texts.output)
    inputs = [part.requires_grad_() for part in parts if part is not None]
    loss = head.loss(texts, [sentence("a b c d", {1: "ARG0 0 0", 2: ""}), sentence("a b", {1: ""})])
    loss.backward()  # type: ignore[no-untyped-call]
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum(-1).gt(0).float().mean() > 0.9, name
    for part in inputs:
        assert part.grad is not None
        assert (part.grad.abs().sum(-1) > 0).equal(texts.mask)
    nothing = head.loss(texts, [sentence("a b c d", {}), sentence("a b", {})])
    nothing.backward()  # type: ignore[no-untyped-call]
    assert nothing == 0


def test_predictions_do_not_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    widths = Widths(5, middle=3, output=2)
    head = labeler(widths).eval()
    torch.nn.init.normal_(head.scores.weight, std=3)
    lengths = (3, 7, 1, 5)
    examples = [
        sentence("w " * length, dict.fromkeys(range(0, length, 2), "")) for length in lengths
    ]
    predictions = head.predict(embedded(lengths, widths), examples)
    assert [len(sentence_roles) for sentence_roles in predictions] == [2, 4, 1, 3]
    assert any(roles for sentence_roles in predictions for roles in sentence_roles)
    for example, length, sentence_roles in zip(examples, lengths, predictions, strict=True):
        assert head.predict(embedded((length,), widths), [example]) == [sentence_roles]
    monkeypatch.setattr("elmox.tasks.srl.network.MAX_WORDS", 10)
    assert head.predict(embedded(lengths, widths), examples) == predictions


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 99))
def test_the_best_tags(lengths: list[int], num_labels: int, seed: int) -> None:
    """Against a CRF without transition scores, where large scores force the position of V."""
    lengths.sort(reverse=True)
    labels = ["V", "A", "C-V", "R-A"][:num_labels]
    tags = ["O", *(f"{p}-{label}" for p in "BI" for label in labels)]
    shape = (len(lengths), lengths[0], len(tags))
    scores = torch.randn(shape, generator=_chance(seed), dtype=torch.float64)  # large sums below
    mask = torch.arange(lengths[0]) < torch.tensor(lengths)[:, None]
    flags = torch.zeros(mask.shape, dtype=torch.int64)
    flags[range(len(lengths)), [(seed + row) % n for row, n in enumerate(lengths)]] = 1
    packing = Packing.of(np.array(lengths))
    places = torch.from_numpy(packing.rows), torch.from_numpy(packing.steps)
    decoded = torch.zeros(mask.shape, dtype=torch.int64)
    decoded[places] = best_tags(scores[places], flags[places], packing.sizes)
    forced = scores.clone()
    forced[..., 1] += torch.where(flags == 1, 1e4, -1e4)
    crf = Crf(len(tags), *allowed_transitions(tags, "BIO"))
    for path, sequence in zip(crf.decode(forced, mask), decoded.tolist(), strict=True):
        assert path == sequence[: len(path)]


def _chance(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
