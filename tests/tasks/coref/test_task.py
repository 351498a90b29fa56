"""Coreference: spans that do not cross, scores against plain loops, documents learned by heart."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fits import fit_task, tag_objects
from shell import run_here
from torch import Tensor, nn

from elmox.errors import ElmoxError, NothingToLearn
from elmox.tasks.coref import antecedents
from elmox.tasks.coref.antecedents import (
    DISTANCES,
    antecedent_loss,
    gold_antecedents,
    pairs_that_fit,
)
from elmox.tasks.coref.documents import Document
from elmox.tasks.coref.mentions import best_spans
from elmox.tasks.coref.network import SpanRanker, _gold, linked
from elmox.tasks.coref.task import Coreference
from elmox.tasks.data import batches as data
from elmox.tasks.data.batches import TaskData
from elmox.tasks.data.conll2012 import Mention
from elmox.tasks.model import read_model
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import TaskRecipe, task_recipe
from elmox.tasks.registry import TASKS

# A word, and after a stroke which mentions begin and end there, as in the last column of the files.
DOCUMENTS = (
    "Ada/(1) met Charles/(2) . | She/(1) liked him/(2) .",
    "The/(1 old/ engine/1) stopped . | It/(1) was/ broken .",
    "Grace/(1) sold her/(2|(1) car/2) . | The/(2 car/2) was red .",
    "Alan/(1) ran . | Alan/(1) saw the/(2 sea/2) .",
    "A/(1 dog/1) barked at the/(2 cat/2) . | The/(2 cat/2) hid . | The/(1 dog/1) slept .",
    "Stop !",
    "Mary/(1) and/ John/(2) left . | They/(3) returned . | John/(2) slept . | They/(3) sang .",
    "Rain fell . | It/(1) wet the/(2 streets/2) . | The/(2 wet/ streets/2) shone .",
    "He/(1) knew he/(1) was/ wrong .",
    "Rose/(1) saw the/(2 king/(3)|2) . | The/(2 king/2) slept .",
)
TINY = ["words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=[16]"]
TINY += ["head.feed_forward=[24, 24]", "head.feature_dim=4", "head.max_width=4"]
TINY += ["head.spans_per_word=1"]
BY_HEART = ["head.dropout=0", "head.lstm_dropout=0", "words.dropout=0", "elmo.dropout=0"]
BY_HEART += ["fit.lr=0.01", "fit.batch_size=3", "fit.least_updates=30", "fit.epochs=7"]
BY_HEART += ["fit.patience=9"]
TASK = Coreference(TASKS["coref"])


def recipe(*changes: str) -> TaskRecipe:
    return task_recipe(None, [*TINY, *BY_HEART, *changes])


def write(path: Path, texts: Sequence[str] = DOCUMENTS, speakers: str = "") -> Path:
    """CoNLL-2012. The sentences' speakers are those letters, again and again."""
    lines = []
    for name, text in enumerate(texts):
        lines.append(f"#begin document (d{name}); part 0")
        for number, sentence in enumerate(text.split(" | ")):
            speaker = speakers[number % len(speakers)] if speakers else "_"
            for place, word in enumerate(sentence.split()):
                form, _, cell = word.partition("/")
                cells = [f"d{name}", "0", str(place), form, *"_____", speaker, "_", "_", cell]
                lines.append("\t".join(cells))
            lines.append("")
        lines.append("#end document")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def words_of(document: Document) -> list[str]:
    return [word for sentence in document.sentences for word in sentence]


def without_characters(output: dict[str, Any]) -> dict[str, Any]:
    """An output without its positions in the text."""
    characters = ("start_char", "end_char")
    clusters = [
        [{key: mention[key] for key in mention if key not in characters} for mention in cluster]
        for cluster in output["clusters"]
    ]
    return {"sentences": output["sentences"], "clusters": clusters}


def embedded(documents: Sequence[Document], width: int, output: int = 3, seed: int = 0) -> Embedded:
    """Return random vectors that depend only on the length of the sentence."""
    sentences = [sentence for document in documents for sentence in document.sentences]
    longest = max(map(len, sentences))
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    mask = torch.arange(longest) < lengths[:, None]
    vectors = torch.zeros(len(sentences), longest, width + output)
    for row, sentence in enumerate(sentences):
        chance = torch.Generator().manual_seed(seed + len(sentence))
        vectors[row, : len(sentence)] = torch.randn(len(sentence), width + output, generator=chance)
    inputs, outputs = vectors[..., :width], vectors[..., width:]
    return Embedded(mask, lengths, inputs, output=outputs if output else None)


def ranker(widths: Widths, speakers: bool = False, seed: int = 0, **settings: object) -> SpanRanker:
    torch.manual_seed(seed)
    small = {"hidden": (4,), "feed_forward": (6, 5), "feature_dim": 3, "max_width": 4, **settings}
    head = TASK.build_head({"settings": small, "speakers": speakers}, widths)
    assert isinstance(head, SpanRanker)
    return head


@pytest.mark.parametrize("seed", range(8))
def test_the_best_spans_do_not_cross(seed: int) -> None:
    """Against the plain way: one span after the other, by falling score."""
    chance = np.random.default_rng(seed)
    num_words, most = int(chance.integers(1, 30)), int(chance.integers(1, 6))
    scores = chance.normal(size=(num_words, most)).round(1)  # some are alike
    if seed == 0:
        scores = np.arange(num_words * most, dtype=float).reshape(num_words, most)
    scores[chance.random(scores.shape) < 0.2] = -np.inf
    scores[0, 0] = 0.0
    count = int(chance.integers(1, num_words + 1))
    taken: list[tuple[int, int]] = []
    for index in np.argsort(-scores.reshape(-1), kind="stable").tolist():
        start, stop = index // most, index // most + index % most + 1
        crosses = any(s < start < e < stop or start < s < stop < e for s, e in taken)
        if np.isfinite(scores.reshape(-1)[index]) and not crosses and len(taken) < count:
            taken.append((start, stop))
    indices = best_spans(torch.from_numpy(scores), count).tolist()
    assert [(p // most, p // most + p % most + 1) for p in indices] == sorted(taken)


def plain_layer(parts: Sequence[tuple[nn.Linear, Tensor]], rest: nn.Module) -> Tensor:
    """A feed-forward net of all parts side by side, as the paper has it."""
    weight = torch.cat([layer.weight for layer, _ in parts], dim=1)
    bias = next(layer.bias for layer, _ in parts if layer.bias is not None)
    output: Tensor = rest(weight @ torch.cat([part for _, part in parts]) + bias)
    return output


@pytest.mark.parametrize(("gigabytes", "expected"), [(8, 2**13), (40, 2**14), (80, 2**15)])
def test_pairs_that_fit_on_a_gpu(gigabytes: int, expected: int) -> None:
    pair = 4 * 1500
    assert pairs_that_fit(gigabytes * 10**9, pair) == expected
    assert pairs_that_fit(gigabytes * 10**9 * 101 // 100, pair) == expected  # one like it


def test_scores_against_plain_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mentions and pairs one by one, as in the paper; the network takes few at a time."""
    monkeypatch.setattr(antecedents, "MOST_PAIRS", 5)
    text = Document(
        (("a", "b", "c"), ("d",), ("e", "f", "g", "h", "i", "j")), speakers=(*"xxxyyyyyyy",)
    )
    head = ranker(Widths(5, output=3), speakers=True, spans_per_word=1.2, antecedents=7).eval()
    texts = embedded([text], 5)
    (ranked,) = head(texts, [text])
    inside = texts.mask.flatten()
    encoded = head.encoder(texts).flatten(0, 1)[inside]
    inputs = texts.input.flatten(0, 1)[inside]
    scorer, pairs = head.mentions, head.antecedents
    mentions, vectors = ranked.mentions, []
    assert len(mentions.indices) == 12
    for number, (start, last) in enumerate(zip(mentions.starts, mentions.lasts, strict=True)):
        span = slice(int(start), int(last) + 1)
        head_word = scorer.importance(encoded[span]).softmax(0).squeeze(-1) @ inputs[span]
        width = scorer.widths.weight[int(last - start)]
        parts = encoded[start], encoded[last], head_word, width
        layers = scorer.start, scorer.last, scorer.head, scorer.feature
        score = plain_layer([*zip(layers, parts, strict=True)], scorer.rest)
        assert torch.allclose(score, mentions.scores[number], atol=1e-6)
        vectors.append(torch.cat(parts))
    assert torch.allclose(torch.stack(vectors), mentions.vectors, atol=1e-6)
    assert ranked.scores.shape == (12, 8)
    assert pairs.speakers is not None
    for number, offset in np.ndindex(12, 8):
        score = ranked.scores[number, offset]
        if offset == 0 or offset > number:
            assert score == (0 if offset == 0 else -np.inf)
            continue
        before = number - offset
        distance = sum(offset >= bound for bound in DISTANCES) - 1
        same = (mentions.starts[number] < 3) == (mentions.starts[before] < 3)
        features = [pairs.distances.weight[distance], pairs.speakers.weight[int(same)]]
        a, b = vectors[number], vectors[before]
        parts = a, b, a * b, torch.cat(features)
        layers = pairs.anaphor, pairs.antecedent, pairs.product, pairs.features
        expected = plain_layer([*zip(layers, parts, strict=True)], pairs.rest)
        expected = expected + mentions.scores[number] + mentions.scores[before]
        assert torch.allclose(score, expected.squeeze(), atol=1e-6)


def test_mentions_are_kept_in_training() -> None:
    """Gold mentions are kept whatever their score, except crossing ones and singletons."""
    clusters = (
        (Mention(0, 3), Mention(4, 5), Mention(1, 4)),
        (Mention(6, 8), Mention(6, 7), Mention(0, 8)),
        (Mention(5, 6),),
    )
    document = Document((("x",) * 5, ("y",) * 5), clusters)
    known = _gold(document, 4, torch.device("cpu"))
    assert known.entities.sum() == 3 * 1 + 2 * 2  # one mention is too wide
    texts = embedded([document], 5, output=0)
    for seed, share in ((0, 0.5), (1, 0.5), (2, 0.5), (3, 0.1)):
        head = ranker(Widths(5), spans_per_word=share, seed=seed)
        (ranked,) = head(texts, [document], [known])
        spans = {*zip(ranked.mentions.starts.tolist(), ranked.mentions.lasts.tolist(), strict=True)}
        assert spans >= {(4, 4), (6, 7), (6, 6)}
        assert len(spans & {(0, 2), (1, 3)}) == 1
        assert len(spans) == 5


def test_more_mentions_than_spans_are_kept(tmp_path: Path) -> None:
    """By the share of words alone one would be kept, and nothing learned."""
    (short,) = TASK.read(write(tmp_path / "short.conll", ["He/(1) ate his/(1)"]))
    head = ranker(Widths(5, output=3)).eval()
    assert head.loss(embedded([short], 5), [short]) > 0
    assert head.predict(embedded([short], 5), [short]) == [()]  # predictions are bounded


def test_mentions_that_fit_change_nothing() -> None:
    """No additional spans are kept if the gold mentions are among those kept anyway."""
    clusters = ((Mention(0, 2), Mention(4, 5)), (Mention(5, 7), Mention(9, 10)))
    document = Document((("x",) * 5, ("y",) * 5), clusters)
    texts, known = embedded([document], 5), _gold(document, 4, torch.device("cpu"))
    assert known.count == 4
    head = ranker(Widths(5, output=3), spans_per_word=0.4).eval()
    uncounted = replace(known, count=0)
    first, second = (next(head(texts, [document], [gold])) for gold in (known, uncounted))
    assert torch.equal(first.mentions.indices, second.mentions.indices)
    assert torch.equal(first.scores, second.scores)
    assert len(first.mentions.indices) == 4


def test_gold_antecedents() -> None:
    """All gold antecedents together; column 0 if there is none among the candidates."""
    entities = torch.tensor([1, 0, 1, 2, 1, 2])
    right = gold_antecedents(entities, 2)
    gold_columns = [{0}, {0}, {2}, {0}, {2}, {2}]
    assert [set(row.nonzero().flatten().tolist()) for row in right] == gold_columns
    several = gold_antecedents(torch.tensor([3, 3, 3]), 2)
    assert several.tolist() == [[True, False, False], [False, True, False], [False, True, True]]
    scores = torch.randn(3, 3).masked_fill(torch.ones(3, 3).triu(1).bool(), float("-inf"))
    likely = scores.softmax(1)
    expected = [likely[0, 0], likely[1, 1], likely[2, 1] + likely[2, 2]]
    loss = antecedent_loss(scores, several)
    assert torch.allclose(loss, -torch.stack(expected).log().mean(), atol=1e-6)


def test_links_make_entities() -> None:
    spans = [Mention(index, index + 1) for index in range(7)]

    def numbers(offsets: Sequence[int]) -> list[list[int]]:
        return [[mention.start for mention in cluster] for cluster in linked(spans, offsets)]

    assert numbers([0, 0, 2, 0, 3, 2, 0]) == [[0, 2], [1, 4], [3, 5]]
    assert numbers([0, 1, 1, 0, 1, 3, 0]) == [[0, 1, 2, 5], [3, 4]]
    assert numbers([0] * 7) == []
    assert linked([], []) == ()


def test_files_and_folders(tmp_path: Path) -> None:
    whole = TASK.read(write(tmp_path / "all.conll"))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "README").write_text("no documents")
    write(folder / "b.conll", DOCUMENTS[6:])
    write(folder / "a.conll", DOCUMENTS[:6])
    assert TASK.read(folder) == whole
    assert whole[2].sentences[0] == ("Grace", "sold", "her", "car", ".")
    assert whole[2].clusters == (((0, 1), (2, 3)), ((2, 4), (5, 7)))
    with pytest.raises(ElmoxError, match="has no entities"):
        TASK.read(write(tmp_path / "none.conll", ["Stop !"]))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".a.conll.swp").write_bytes(b"\xff")  # an editor's
    with pytest.raises(ElmoxError, match="has no files with conll in their names"):
        TASK.read(tmp_path / "empty")
    alone = TASK.read(write(tmp_path / "alone.conll", DOCUMENTS[4:5]))[0].part(0, 1)
    with pytest.raises(NothingToLearn, match="no entity is mentioned twice"):
        TASK.configure([alone], TASK.parse_settings({}))
    with pytest.raises(ElmoxError, match="max_width is 51, expected at most 50"):
        TASK.parse_settings({"max_width": 51})


def test_long_documents_are_learned_from_in_parts(tmp_path: Path) -> None:
    document = TASK.read(write(tmp_path / "a.conll", DOCUMENTS[4:5], "ABC"))[0]
    assert TASK.training_examples([document], TASK.parse_settings({"sentences": 3}), print) == [
        document
    ]
    first, second = document.parts(2)
    other = TASK.read(write(tmp_path / "b.conll", DOCUMENTS[8:9]))[0]  # a link within a sentence
    assert TASK.training_examples(
        [document, other], TASK.parse_settings({"sentences": 2}), print
    ) == [
        first,
        second,
        other,
    ]
    clusters = ((Mention(0, 2),), (Mention(4, 6),))
    assert first == Document(document.sentences[:1], clusters, ("A",) * 7)
    assert second == Document(document.sentences[1:], clusters, ("B",) * 4 + ("C",) * 4)
    assert [*words_of(first), *words_of(second)] == words_of(document)


def test_links_that_are_cut_are_reported(tmp_path: Path) -> None:
    """Once for a fit of several seeds, and not where none are cut."""
    file = write(tmp_path / "ten.conll")
    little = ["elmo.model=none", "fit.epochs=1", "fit.least_updates=1"]
    for most, num_seeds, message in (
        (4, 1, ""),
        (3, 1, "2 of 13 links between mentions are not trained on"),  # John and they
        (1, 2, "11 of 13 links between mentions are not trained on"),  # except Grace and he
    ):
        log_lines: list[str] = []
        chosen = recipe(*little, f"head.sentences={most}")
        out = tmp_path / f"run-{most}"
        fit_task(
            "coref",
            chosen,
            file,
            file,
            out,
            seeds=num_seeds,
            device="cpu",
            cache=tmp_path,
            log=log_lines.append,
        )
        warnings = [line for line in log_lines if "links" in line]
        assert len(warnings) == bool(message)
        assert message in "".join(warnings)
        assert all(f"head.sentences is {most}" in line for line in warnings)
    none = write(tmp_path / "none.conll", [*DOCUMENTS[:2], "Stop !"])
    with pytest.raises(NothingToLearn, match=r"any of the 3 links .* raise head\.sentences"):
        fit_task("coref", chosen, none, file, tmp_path / "run-none", device="cpu", cache=tmp_path)


def test_mentions_that_are_too_long_are_reported(tmp_path: Path) -> None:
    text = "the/(0 old queen/0) and a/(1 very old king/1) said she/(0)"  # he is mentioned once
    document = TASK.read(write(tmp_path / "a.conll", [text]))[0]
    for widest, messages in (
        (3, []),
        (2, ["1 of 2 linked mentions are not trained on: they are longer than "
             "head.max_width, 2 words"]),
    ):  # fmt: skip
        log_lines: list[str] = []
        assert TASK.training_examples(
            [document], TASK.parse_settings({"max_width": widest}), log_lines.append
        ) == [document]
        assert log_lines == messages


def test_ten_documents_by_heart(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "ten.conll")
    chosen = recipe(f"elmo.model={tiny}", "elmo.place=both")
    results = fit_task("coref", chosen, file, file, tmp_path / "run", device="cpu", cache=tmp_path)
    assert (results.metric, results.mean) == ("f1", {"dev": 100.0})
    assert [results.best.dev[name] for name in ("muc", "b3", "ceaf")] == [100.0] * 3
    assert results.best.dev["f1_singletons"] < 100  # there are some, and none are predicted
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    documents = TASK.read(file)
    for document, prediction in zip(documents, fitted.predict_examples(documents), strict=True):
        assert prediction == tuple(cluster for cluster in document.clusters if len(cluster) > 1)
    car = documents[2]
    questions_path = tmp_path / "asked.jsonl"
    text = " ".join(" ".join(sentence) for sentence in car.sentences).replace(" .", ".")
    questions = [
        {"sentences": [*car.sentences, []], "id": 7},
        {"text": text},
        {"tokens": words_of(documents[8])},
        {"sentences": [], "id": 8},
    ]
    questions_path.write_text("".join(json.dumps(question) + "\n" for question in questions))
    code, out, err = run_here(["tag", results.best.model, questions_path], capsys)
    assert code == 0, err
    first, second, third, last = map(json.loads, out.splitlines())
    for mention in (mention for cluster in second["clusters"] for mention in cluster):
        assert text[mention["start_char"] : mention["end_char"]].split() == mention["words"]
    second = without_characters(second)
    assert first == {"id": 7, **second}
    grace, the_car = first["clusters"]
    assert grace[0] == {"sentence": 0, "start": 0, "end": 1, "words": ["Grace"]}
    assert the_car == [
        {"sentence": 0, "start": 2, "end": 4, "words": ["her", "car"]},
        {"sentence": 1, "start": 0, "end": 2, "words": ["The", "car"]},
    ]
    assert [mention["words"] for mention in third["clusters"][0]] == [["He"], ["he"]]
    assert last == {"id": 8, "sentences": [], "clusters": []}
    (tmp_path / "lines.txt").write_text(f"{text}\n\nHe knew he was wrong.\n")
    code, out, err = run_here(["tag", results.best.model, tmp_path / "lines.txt"], capsys)
    both = [json.loads(line) for line in out.splitlines()]
    assert [output["line"] for output in both] == [1, 3]
    assert list(map(without_characters, both)) == [second, third], err
    lines = [" ".join(sentence) for sentence in (*car.sentences, (), (), *documents[8].sentences)]
    for name, option in (("tokens.txt", ["--tokenized"]), ("raw.txt", [])):  # a sentence a line
        (tmp_path / name).write_text("\n" + "\n".join(lines))
        code, out, err = run_here(["tag", results.best.model, tmp_path / name, *option], capsys)
        both = [without_characters(json.loads(line)) for line in out.splitlines()]
        assert both == [second, third], err


def test_speakers_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same words by one speaker and by two: only the speaker distinguishes the entities."""
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder / "one.conll", ["I/(1) slept . | I/(1) ate ."], "A")
    write(folder / "two.conll", ["I/(1) slept . | I/(2) ate ."], "AB")
    chosen = recipe("elmo.model=none")
    out = tmp_path / "run"
    results = fit_task("coref", chosen, folder, folder, out, device="cpu", cache=tmp_path)
    assert results.mean == {"dev": 100.0}
    sentences = [["I", "slept", "."], [], ["I", "ate", "."]]
    cases: list[tuple[object, int]] = [
        (["X", "-", "X"], 1),
        (["X", "-", "Y"], 0),
        ([["X"] * 3, [], ["Y"] * 3], 0),
        ([["X"] * 3, "Y", "X"], 1),
        (None, 1),
    ]
    questions_path = tmp_path / "asked.jsonl"
    questions = [{"sentences": sentences, "speakers": speakers} for speakers, _ in cases]
    questions_path.write_text("".join(json.dumps(question) + "\n" for question in questions))
    code, printed, err = run_here(["tag", results.best.model, questions_path], capsys)
    assert code == 0, err
    predictions = [json.loads(line) for line in printed.splitlines()]
    assert [len(prediction["clusters"]) for prediction in predictions] == [
        number for _, number in cases
    ]
    assert [prediction["speakers"] for prediction in predictions] == [
        speakers for speakers, _ in cases
    ]


def test_bad_questions(tmp_path: Path) -> None:
    file = write(tmp_path / "ten.conll")
    chosen = recipe("elmo.model=none", "fit.epochs=1", "fit.least_updates=1")
    results = fit_task("coref", chosen, file, file, tmp_path / "run", device="cpu", cache=tmp_path)
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    for question, message in (
        ({"sentences": "She left."}, "sentences is 'She left.', expected a list of sentences"),
        ({"sentences": [["a"], 3]}, "a sentence is 3, expected a text or a list of tokens"),
        ({"words": ["a"]}, "the keys are words, expected sentences, text or tokens"),
        ({"text": "He left.", "speakers": "Ann"}, "speakers is 'Ann', expected a list"),
        ({"tokens": ["a"], "speakers": []}, "speakers has 0 entries, .* the document has 1"),
        ({"sentences": ["a", "b"], "speakers": ["A"]}, "has 1 entries, .* the document has 2"),
        ({"sentences": ["a", ["b"]], "speakers": ["A", 3]}, "of sentence 1 .* is 3, expected a n"),
        ({"sentences": ["a"], "speakers": [[None]]}, r"sentence 0 .* is \[None\], expected a name"),
        ({"sentences": ["a b"], "speakers": [["A"]]}, "a list of 1, .* the sentence has 2"),
    ):
        with pytest.raises(ElmoxError, match=message):
            tag_objects(fitted, [question])


def test_a_batch_changes_no_prediction() -> None:
    """Nor do documents of one word, of a long sentence, or of many sentences."""
    head = ranker(Widths(5, output=3), antecedents=20).eval()
    lengths = [(3, 2), (1,), (1000,), (1, 1), tuple(range(1, 30))]
    documents = [Document(tuple(("x",) * size for size in sizes)) for sizes in lengths]
    together = [*head(embedded(documents, 5), documents)]
    for document, ranked in zip(documents, together, strict=True):
        (alone,) = head(embedded([document], 5), [document])
        assert torch.equal(alone.mentions.indices, ranked.mentions.indices)
        assert torch.allclose(alone.scores, ranked.scores, atol=1e-5)
    predictions = head.predict(embedded(documents, 5), documents)
    assert predictions[1] == ()
    for document, clusters in zip(documents, predictions, strict=True):
        ends = np.cumsum([len(sentence) for sentence in document.sentences])
        for start, stop in (mention for cluster in clusters for mention in cluster):
            assert stop <= ends[np.searchsorted(ends, start, side="right")]  # within a sentence


@pytest.mark.parametrize("speakers", [False, True])
def test_every_weight_learns(speakers: bool, tmp_path: Path) -> None:
    examples = TASK.read(write(tmp_path / "a.conll", DOCUMENTS, "AB" if speakers else ""))
    config = TASK.configure(examples, TASK.parse_settings({}))
    assert config.speakers is speakers
    head = ranker(Widths(5, output=3), speakers, spans_per_word=1.0)
    head.loss(embedded(examples, 5), examples).backward()  # type: ignore[no-untyped-call]
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_the_middle_needs_two_layers() -> None:
    """There is one by default: docs/tasks/coref.md and --help state what to do."""
    with pytest.raises(ElmoxError, match=r"give head\.hidden two layers or more"):
        TASK.build_head({"settings": {}, "speakers": False}, Widths(5, middle=2))
    assert len(ranker(Widths(5, middle=2), hidden=(4, 4)).encoder.layers) == 2


def test_a_loss_of_nothing() -> None:
    """One word has no antecedent: nothing to learn, and no failure."""
    head = ranker(Widths(5, output=0))
    document = Document((("x",),), ((Mention(0, 1),),))
    loss = head.loss(embedded([document], 5, output=0), [document])
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert all(
        parameter.grad is None or parameter.grad.isfinite().all() for parameter in head.parameters()
    )


def test_dropout_is_the_same_for_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs are scored twice in training: with bit-identical gradients."""
    document = Document((("x",) * 9, ("y",) * 7), ((Mention(0, 1), Mention(9, 11)),))
    gradients = []
    for once in (False, True):
        head = ranker(Widths(5, output=0), spans_per_word=1.0, dropout=0.5)
        if once:
            monkeypatch.setattr(
                antecedents, "_recomputed", lambda function, *inputs: function(*inputs)
            )
        torch.manual_seed(1)
        head.loss(embedded([document], 5, output=0), [document]).backward()  # type: ignore[no-untyped-call]
        gradients.append(
            [
                parameter.grad.clone()
                for parameter in head.parameters()
                if parameter.grad is not None
            ]
        )
    assert all(map(torch.equal, *gradients))


def test_predictions_are_made_in_bounded_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "ten.conll")
    chosen = recipe("elmo.model=none", "fit.epochs=1", "fit.least_updates=1")
    results = fit_task("coref", chosen, file, file, tmp_path / "run", device="cpu", cache=tmp_path)
    documents = TASK.read(file)
    batches = TaskData(read_model(Path(results.best.model)), documents, None)
    assert len([*batches.in_order(64)]) == 1
    monkeypatch.setattr(data, "MAX_WORDS", 20)
    chunks = [batch.tolist() for batch in batches.in_order(64)]
    assert sorted(index for batch in chunks for index in batch) == [*range(10)]
    for batch in chunks:
        sentences = [sentence for index in batch for sentence in documents[index].sentences]
        assert len(batch) == 1 or len(sentences) * max(map(len, sentences)) <= 20
    assert max(map(len, chunks)) > 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("head.hidden=[]", r"layers in head\.hidden is 0"),
        ("head.feed_forward=[0]", r"head\.feed_forward is 0"),
        ("head.max_width=0", r"head\.max_width is 0"),
        ("head.spans_per_word=0", r"head\.spans_per_word is 0"),
        ("head.lstm_dropout=1", r"head\.lstm_dropout is 1"),
        ("head.genres=2", "head"),
    ],
)
def test_bad_settings(change: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match=message):
        TASK.parse_settings(recipe(change).head)
