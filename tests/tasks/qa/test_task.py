"""Question answering: files of both kinds, passages in words and characters, texts too long to
learn from, ten questions by heart, questions without an answer, what a batch changes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from fits import fit_task, tag_objects
from shared_data import SHARED
from shell import run_here

from elmox.errors import ElmoxError, NothingToLearn
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.qa import trilinear
from elmox.tasks.qa.network import Bidaf
from elmox.tasks.qa.passages import Passage, TextQuestion, cropped, tokenized_questions
from elmox.tasks.qa.questions import Answer, Question
from elmox.tasks.qa.task import QuestionAnswering
from elmox.tasks.recipe import TaskRecipe, task_recipe
from elmox.tasks.registry import TASKS

ADA = "Ada Lovelace (1815-1852) lived in London;  she didn't like  Paris."
CAT = "The cat sleeps. The dog, a large one, runs home."
# None: the text does not contain the answer.
QUESTIONS: tuple[tuple[str, str, str | None], ...] = (
    (ADA, "Who lived in London?", "Ada Lovelace"),
    (ADA, "Where did she live?", "London"),
    (ADA, "What didn't she like?", "Paris"),
    (ADA, "When was she born?", "1815"),
    (ADA, "What did she do in London?", "lived"),
    (ADA, "What was her son's name?", None),
    (CAT, "Who sleeps?", "The cat"),
    (CAT, "Who runs?", "The dog, a large one,"),
    (CAT, "Where to?", "home"),
    (CAT, "When?", None),
    ("Stop", "What now?", "Stop"),
    ("Go", "", "Go"),
    (" ", "What?", None),
)
TINY = ["words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=8"]
BY_HEART = ["head.dropout=0", "words.dropout=0", "elmo.dropout=0", "fit.lr=0.02"]
TASK = QuestionAnswering(TASKS["qa"])
SUBJQA_HEAD = "q_review_id,question,review,human_ans_spans,human_ans_indices"


def recipe(*changes: str) -> TaskRecipe:
    short = ["fit.batch_size=16", "fit.least_updates=45", "fit.epochs=2"]
    return task_recipe(None, [*TINY, *BY_HEART, *short, *changes])


def as_squad(number: int, text: str, question: str, answer: str | None) -> dict[str, Any]:
    """A paragraph with one question, of version 2.0."""
    answers = [] if answer is None else [{"text": answer, "answer_start": text.index(answer)}]
    values = {"id": f"q{number}", "question": question, "answers": answers}
    return {"context": text, "qas": [{**values, "is_impossible": answer is None}]}


def write_squad(path: Path, questions: Sequence[tuple[str, str, str | None]] = QUESTIONS) -> Path:
    paragraphs = [as_squad(number, *question) for number, question in enumerate(questions)]
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    return path


def question_about(context: str, *answers: tuple[int, int], name: str = "q") -> TextQuestion:
    """A question whose answers are these characters."""
    spans = tuple(Answer(context[start:end], start) for start, end in answers)
    return tokenized_questions([Question(name, context, "Why?", spans, not spans)])[0]


def sized(*lengths: tuple[int, int], answers: Sequence[tuple[int, int]] = ()) -> list[TextQuestion]:
    """Questions of so many words about texts of so many words."""
    return [
        TextQuestion(
            ("a",) * num_question_words,
            ("b",) * words,
            (),
            Question("", "", "", ()),
            tuple(answers),
        )
        for num_question_words, words in lengths
    ]


def random_texts(lengths: Sequence[tuple[int, int]], width: int, seed: int = 0) -> Embedded:
    """Questions and texts of these lengths with ELMo at both ends, 3 wide at the second."""
    torch.manual_seed(seed)
    flat = torch.tensor(lengths).flatten()
    mask = torch.arange(int(flat.max())) < flat[:, None]
    return Embedded(
        mask,
        flat,
        torch.randn(*mask.shape, width) * mask[..., None],
        output=torch.randn(*mask.shape, 3) * mask[..., None],
    )


def network(**settings: object) -> Bidaf:
    torch.manual_seed(0)
    head = TASK.build_head({"settings": {"hidden": 4, **settings}}, Widths(5, output=3))
    assert isinstance(head, Bidaf)
    return head


def test_files_of_both_kinds(tmp_path: Path) -> None:
    squad = TASK.read(write_squad(tmp_path / "train-v2.0.json"))
    assert " ".join(squad[7].context) == "The cat sleeps . The dog , a large one , runs home ."
    assert squad[7].question == ("Who", "runs", "?")
    assert squad[7].answers == ((4, 10),)
    assert squad[0].context is squad[1].context  # one text, once in memory
    rows = [f'"{n}","{q}","{t} ANSWERNOTFOUND","{a}","({s}, {e})"' for n, q, t, a, s, e in (
        ("r1", "Is it good?", "Very good, yes.", "Very good", 0, 9),
        ("r1", "Is it good?", "Very good, yes.", "yes", 11, 14),
        ("r2", "Why?", "Very good, yes.", "ANSWERNOTFOUND", 16, 30),
    )]  # fmt: skip
    (tmp_path / "train.csv").write_text("\n".join([SUBJQA_HEAD, *rows]) + "\n")
    subjqa = TASK.read(tmp_path / "train.csv")
    assert [question.answers for question in subjqa] == [((0, 1), (3, 3)), ()]
    assert TASK.sentences(subjqa[1]) == (("Why", "?"), ("Very", "good", ",", "yes", "."))
    with pytest.raises(ElmoxError, match="not JSON"):
        TASK.read((tmp_path / "train.csv").rename(tmp_path / "train.json"))


def test_words_and_characters(tmp_path: Path) -> None:
    """Answers come back as they are in the text, in whole words."""
    for example, (_, _, answer) in zip(
        TASK.read(write_squad(tmp_path / "a.json")), QUESTIONS, strict=True
    ):
        if answer is None:
            assert example.answers == ()
            continue
        ((first, last),) = example.answers
        whole = "1815-1852" if answer == "1815" else answer  # a word is not cut
        assert Passage(first, last + 1, 1.0).text(example) == whole
    assert question_about(ADA, (ADA.index("don"), ADA.index("dn't"))).answers == ((7, 10),)
    twice = question_about(CAT, (4, 7), (4, 7), (3, 8), (20, 23))
    assert twice.answers == ((1, 1), (5, 5))
    assert question_about("a  b", (1, 3)).answers == ()  # blanks
    blank = question_about(" ")
    assert (len(blank.context), Passage(0, 1, 1.0).text(blank)) == (1, "")


def test_long_texts_are_cropped() -> None:
    text = " ".join(f"w{i}" for i in range(100))
    spot = text.index("w60"), text.index("w63") - 1
    far = text.index("w5 "), text.index("w5 ") + 2
    starts = set()
    for number in range(40):
        whole = question_about(text, spot, far, name=f"q{number}")
        part = cropped(whole, 10)
        assert len(part.context) == len(part.characters) == 10
        ((first, last),) = part.answers  # the other one is outside
        assert part.context[first : last + 1] == ("w60", "w61", "w62")
        assert Passage(first, last + 1, 1.0).text(part) == "w60 w61 w62"
        assert cropped(whole, 10) == part
        starts.add(first)
    assert starts == set(range(8))  # all places that leave room for the answer
    whole = question_about(text, spot)
    assert cropped(whole, 2).context == ("w60", "w61", "w62")
    assert cropped(whole, 100) is whole
    assert len(cropped(question_about(text), 10).context) == 10
    both = question_about(text, spot, (spot[0], spot[0] + 3))
    assert len(cropped(both, 10).answers) == 2


def test_by_heart(tiny: Path, tmp_path: Path) -> None:
    """A model that always answers: with ELMo at both ends, saved, loaded, given words."""
    data = write_squad(tmp_path / "asked.json")
    chosen = recipe(f"elmo.model={tiny}", "elmo.place=both")
    results = fit_task("qa", chosen, data, data, tmp_path / "run", device="cpu", cache=tmp_path)
    # "1815" is part of a word: that answer cannot be predicted.
    assert results.best.dev == {"f1": 90.0, "exact": 90.0, "left_out": 3.0}
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    assert fitted.score(data) == results.best.dev
    assert fitted.model.description.head["left_out"] == 3
    questions = [{"id": i, "context": c, "question": q} for i, (c, q, _) in enumerate(QUESTIONS)]
    predictions = tag_objects(fitted, questions)
    read = TASK.read(data)  # blank texts are read, and answered, as those of a file
    for example, shown, passage in zip(
        read, predictions, fitted.predict_examples(read), strict=True
    ):
        assert (tuple(shown["question"]), tuple(shown["context"])) == (
            example.question,
            example.context,
        )
        assert shown["answer"] == passage.text(example)
    assert (predictions[11]["answer"], predictions[12]["answer"]) == ("Go", "")
    shown = predictions[7]
    keys = ["id", "question", "context", "answer", "probability", "start", "end"]
    assert list(shown) == [*keys, "start_char", "end_char", "offsets"]
    assert CAT[shown["start_char"] : shown["end_char"]] == shown["answer"]
    assert [CAT[start:end] for start, end in shown["offsets"]["context"]] == shown["context"]
    assert (shown["answer"], shown["start"], shown["end"]) == ("The dog, a large one,", 4, 11)
    assert 0.5 < shown["probability"] <= 1
    (again,) = tag_objects(fitted, [{"context": shown["context"], "question": shown["question"]}])
    assert again["answer"] == "The dog , a large one ,"  # of words alone
    checked = [i for i in range(11) if QUESTIONS[i][2] not in (None, "1815")]
    assert [predictions[i]["answer"] for i in checked] == [QUESTIONS[i][2] for i in checked]
    long = tag_objects(fitted, [{"question": ["Who"], "context": [f"w{i}" for i in range(1000)]}])[
        0
    ]
    assert 0 <= long["start"] < long["end"] <= min(1000, long["start"] + 17)


def test_no_answer_by_heart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_squad(
        tmp_path / "asked.json", [question for question in QUESTIONS if question[2] != "1815"]
    )
    chosen = recipe("elmo.model=none", "head.no_answer=true")
    results = fit_task("qa", chosen, data, data, tmp_path / "run", device="cpu", cache=tmp_path)
    names = ("f1", "exact", "has_answer_f1", "has_answer_exact", "no_answer_exact")
    assert results.best.dev == dict.fromkeys(names, 100.0)
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    assert fitted.model.description.head["left_out"] == 0
    questions = [
        {"context": CAT, "question": text, "text": "A. B."} for text in ("Where to?", "When?")
    ]
    lines = tmp_path / "asked.jsonl"
    lines.write_text("".join(json.dumps(question) + "\n" for question in questions))
    code, out, err = run_here(["tag", results.best.model, lines], capsys)
    assert code == 0, err
    answered, unanswered = map(json.loads, out.splitlines())  # other keys are copied
    assert answered.pop("text") == unanswered.pop("text") == "A. B."
    assert answered["answer"] == "home"
    assert set(unanswered) == {"question", "context", "answer", "probability", "offsets"}
    assert unanswered["answer"] is None
    assert unanswered["probability"] > 0.5


def test_the_number_of_omitted_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a percentage like the other scores, also when a fit is resumed."""
    data = write_squad(tmp_path / "asked.json")
    chosen = recipe("elmo.model=none", "fit.epochs=1", "fit.least_updates=1")
    options: dict[str, Any] = {"device": "cpu", "cache": tmp_path}
    out, log_lines = tmp_path / "run", list[str]()
    for _ in range(2):
        results = fit_task("qa", chosen, data, data, out, log=log_lines.append, **options)
        assert repr(results.best.dev["left_out"]) == "3"
    (epoch,) = (line for line in log_lines if line.startswith("epoch 1"))
    assert epoch.split(", ")[-1] == "left_out 3"
    code, printed, err = run_here(["eval", results.best.model, data], capsys)
    assert code == 0, err
    assert printed.splitlines()[-1].split() == ["left_out", "3"]


def test_files_without_answers_are_refused_before_anything_is_fitted(tmp_path: Path) -> None:
    data = write_squad(tmp_path / "asked.json")
    bare = write_squad(
        tmp_path / "bare.json", [question for question in QUESTIONS if question[2] is None]
    )
    options: dict[str, Any] = {"device": "cpu", "cache": tmp_path}
    out = tmp_path / "run"
    for part, dev, test in (("dev", bare, None), ("test", data, bare)):
        message = f"the {part} data: nothing to score, none of 3 questions has an answer"
        with pytest.raises(ElmoxError, match=message):
            fit_task("qa", recipe("elmo.model=none"), data, dev, out, test=test, **options)
    assert not out.exists()
    TASK.check_scorable(
        TASK.read(bare), TASK.parse_settings({"no_answer": True}), "bare"
    )  # then they are scored


def test_scores_are_of_the_text(tmp_path: Path) -> None:
    """The blanks and signs between the words count, and each version scores in its way."""
    examples = TASK.read(write_squad(tmp_path / "asked.json"))
    # Where there is no answer, the last word before the period is given.
    spans = [(e.answers or ((max(0, len(e.context) - 2),) * 2,))[0] for e in examples]
    right = [Passage(first, last + 1, 1.0) for first, last in spans]
    assert right[5].text(examples[5]) == "Paris"
    assert TASK.score(examples, right) == {"f1": 90.0, "exact": 90.0, "left_out": 3.0}
    unsure = [passage._replace(no_answer=0.4) for passage in right]
    scores = TASK.score(examples, unsure)
    assert scores["has_answer_exact"] == pytest.approx(90)
    # A blank text's passage is empty, which is what "no answer" is written as.
    assert scores["no_answer_exact"] == pytest.approx(100 / 3)
    assert scores["exact"] == pytest.approx(100 * 10 / 13)
    none = [passage._replace(no_answer=0.6) for passage in right]
    expected = {"has_answer_f1": 0.0, "has_answer_exact": 0.0, "no_answer_exact": 100.0}
    assert TASK.score(examples, none).items() >= expected.items()
    unanswered = [number for number, example in enumerate(examples) if not example.source.answers]
    few = [examples[number] for number in unanswered]
    with pytest.raises(ElmoxError, match="none of 3 questions has an answer"):
        TASK.score(few, [right[number] for number in unanswered])
    assert set(TASK.score(few, [none[i] for i in unanswered])) == {"f1", "exact", "no_answer_exact"}


def test_the_likeliest_passage() -> None:
    """Against all passages one by one; longer ones than allowed are not predicted."""
    lengths = [(2, 9), (4, 1), (1, 30)]
    texts, examples = random_texts(lengths, 5), sized(*lengths)
    for longest, no_answer in ((1, False), (4, True), (50, False)):
        head = network(longest_answer=longest, no_answer=no_answer).eval()
        with torch.no_grad():
            scores = head(texts)
            passages = head.predict(texts, examples)
        for row, (_, words) in enumerate(lengths):
            odds = scores.first[row, :words, None].exp() * scores.last[row, None, :words].exp()
            total = odds.sum() + scores.none[row].exp()
            allowed = [(i, j) for i in range(words) for j in range(i, min(words, i + longest))]
            first, last = max(allowed, key=lambda span: float(odds[span]))
            assert (passages[row].start, passages[row].end) == (first, last + 1)
            assert passages[row].probability == pytest.approx(float(odds[first, last] / total))
            if no_answer:
                expected = float(scores.none[row].exp() / total)
                assert passages[row].no_answer == pytest.approx(expected, rel=1e-5)
            else:
                assert passages[row].no_answer is None


def test_loss_is_of_any_right_answer() -> None:
    """Minus the log of what all right answers have together of all that could be answered."""
    lengths = [(2, 9), (4, 3), (3, 1)]
    texts = random_texts(lengths, 5)
    spans: list[tuple[tuple[int, int], ...]] = [((0, 3), (2, 2)), (), ((0, 0),)]
    examples = [
        sized(sizes, answers=answers)[0] for sizes, answers in zip(lengths, spans, strict=True)
    ]
    head = network(no_answer=True).eval()
    scores = head(texts)
    losses = []
    for row, answers in enumerate(spans):
        odds = scores.first[row, :, None].exp() * scores.last[row, None].exp()
        none = scores.none[row].exp()
        right = sum(odds[span] for span in answers) if answers else none
        losses.append(-torch.log(right / (odds.sum() + none)))
    assert torch.allclose(head.loss(texts, examples), torch.stack(losses).mean(), atol=1e-6)


def test_a_batch_changes_no_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does attention a few words at a time."""
    head = network(no_answer=True).eval()
    lengths = [(3, 2), (1, 1), (9, 4), (2, 200), (7, 1)]
    texts = random_texts(lengths, 5)
    assert texts.output is not None
    together = head(texts)
    assert together.first.shape == (5, 200)
    monkeypatch.setattr(trilinear, "PAIRS_AT_ONCE", 500)
    for row, (num_question_words, words) in enumerate(lengths):
        rows, most = slice(2 * row, 2 * row + 2), max(num_question_words, words)
        alone = head(
            Embedded(
                texts.mask[rows, :most],
                texts.lengths[rows],
                texts.input[rows, :most],
                output=texts.output[rows, :most],
            )
        )
        assert torch.allclose(alone.first[0], together.first[row, :words], atol=1e-6)
        assert torch.allclose(alone.last[0], together.last[row, :words], atol=1e-6)
        assert torch.allclose(alone.none[0], together.none[row], atol=1e-6)


def test_attention_one_pair_at_a_time() -> None:
    torch.manual_seed(0)
    text, question = torch.randn(1, 4, 3), torch.randn(1, 2, 3)
    self_attention = trilinear.SelfAttention(3)
    attended = self_attention(text, torch.ones(1, 4, dtype=torch.bool))
    for i in range(4):
        h, others = text[0, i], text[0, [j for j in range(4) if j != i]]
        weights = torch.stack(
            [self_attention.of_other @ p + self_attention.of_both @ (h * p) for p in others]
        ).softmax(0)
        c = weights @ others
        assert torch.allclose(attended[0, i], torch.cat([h, c, h * c]), atol=1e-6)
    both = trilinear.BiAttention(3)
    masks = torch.ones(1, 4, dtype=torch.bool), torch.ones(1, 2, dtype=torch.bool)
    attended = both(text, masks[0], question, masks[1])
    scores = torch.stack([
        torch.stack([both.of_text(h)[0] + both.of_question(p)[0] + both.of_both @ (h * p)
                     for p in question[0]])
        for h in text[0]
    ])  # fmt: skip
    summary = scores.amax(1).softmax(0) @ text[0]
    for i in range(4):
        h, c = text[0, i], scores[i].softmax(0) @ question[0]
        assert torch.allclose(attended[0, i], torch.cat([h, c, h * c, summary * c]), atol=1e-6)


@pytest.mark.parametrize("no_answer", [False, True])
def test_every_weight_learns(no_answer: bool) -> None:
    head = network(no_answer=no_answer)
    lengths = [(2, 9), (4, 3), (3, 1)]
    examples = sized(*lengths[:1], answers=[(1, 2)]) + sized(*lengths[1:], answers=[(0, 0)])
    head.loss(random_texts(lengths, 5), examples).backward()  # type: ignore[no-untyped-call]
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("head.hidden=0", r"head\.hidden is 0"),
        ("head.dropout=1", r"head\.dropout is 1"),
        ("head.longest_context=0", r"head\.longest_context is 0"),
        ("head.longest_answer=0", r"head\.longest_answer is 0"),
        ("head.no_answer=some", r"no_answer"),
        ("head.layers=2", "layers"),
        ("head.hidden=2", r"no question has an answer .* or head\.no_answer=true"),
    ],
)
def test_bad_settings(change: str, message: str, tmp_path: Path) -> None:
    data = write_squad(
        tmp_path / "asked.json", [question for question in QUESTIONS if question[2] is None]
    )
    with pytest.raises(ElmoxError, match=message):
        fit_task(
            "qa",
            recipe("elmo.model=none", change),
            data,
            data,
            tmp_path / "run",
            device="cpu",
            cache=tmp_path,
        )


def test_questions_that_teach_nothing(tmp_path: Path) -> None:
    questions = TASK.read(write_squad(tmp_path / "asked.json", [(CAT, "When?", None)]))
    with pytest.raises(NothingToLearn):
        TASK.training_examples(questions, TASK.parse_settings({}), print)
    assert (
        TASK.training_examples(questions, TASK.parse_settings({"no_answer": True}), print)
        == questions
    )


@pytest.mark.skipif(not (SHARED / "tasks" / "qa_xquad_en").is_dir(), reason="no XQuAD")
def test_the_real_xquad() -> None:
    """Right passages, cut at words, score nearly all; the official scorer forgives signs."""
    examples = TASK.read(SHARED / "tasks" / "qa_xquad_en" / "xquad.en.json")
    assert len(examples) == 1190
    right = [Passage(e.answers[0][0], e.answers[0][1] + 1, 1.0) for e in examples]
    scores = TASK.score(examples, right)
    assert scores["exact"] > 99
    assert scores["f1"] > 99.5
    assert scores["left_out"] == 0
