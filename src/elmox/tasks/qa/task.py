"""Question answering: the passage of a text that answers a question.

The paper's network is that of Clark and Gardner (2017): one bidirectional GRU reads
question and text, trilinear attention joins them, a second GRU and attention of the text to itself
are added to what that found, and two more GRUs score the first and the last word of the answer.

ELMo joins the lowest GRU's input, its output, or both; `middle` and `output` are the same place
here: after that GRU, before the text looks at the question.

A text is read as one sentence, however long.

Shapes: B questions, N = 2B sentences (a question, then its text), T words, H cells, E = 2H and
ELMo's width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmox.config import validated
from elmox.errors import ElmoxError, NothingToLearn
from elmox.io.progress import Log
from elmox.io.settings import at_least, share
from elmox.io.text_files import text_suffix
from elmox.io.transfer import to_device
from elmox.tasks.data.questions import NamedTexts, Questions
from elmox.tasks.data.texts import Sentence
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import PackedOrder, SharedDropout, read_padded
from elmox.tasks.qa.metrics import score_squad, score_squad2
from elmox.tasks.qa.passages import (
    TOKENIZER,
    Passage,
    TextQuestion,
    cropped,
    tokenized_questions,
    untold_question,
)
from elmox.tasks.qa.questions import Question
from elmox.tasks.qa.squad import read_squad
from elmox.tasks.qa.subjqa import read_subjqa
from elmox.tasks.qa.trilinear import BiAttention, SelfAttention


@dataclass(frozen=True)
class AnsweringSettings:
    """What a recipe may say under `[head]`.

    Attributes:
        hidden: cells of each direction of all GRUs; the other layers are twice as wide.
        dropout: on what goes into attention and into all GRUs but the lowest: the same elements of
            all words (variational dropout, Gal and Ghahramani 2016). The lowest GRU reads words
            that `words.dropout` and `elmo.dropout` have thinned already.
        longest_context: most words of a text in training: of a longer one, a part with the answer.
            Asked and scored, texts are read whole.
        longest_answer: most words of a passage that is answered.
        no_answer: whether "there is none" is an answer. Otherwise questions without one are left
            out, of what is learned from and of what is scored.
    """

    hidden: int = 90
    dropout: float = 0.2
    longest_context: int = 400
    longest_answer: int = 17
    no_answer: bool = False

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a protocol name, not a field)

    def __post_init__(self) -> None:
        for name in ("hidden", "longest_context", "longest_answer"):
            at_least(1, f"head.{name}", getattr(self, name))
        share("head.dropout", self.dropout)


@dataclass(frozen=True)
class AnsweringDescription:
    """A network, but for its weights.

    Attributes:
        settings: the recipe's.
        left_out: questions of the training data that were not learned from; for people to read.
    """

    settings: AnsweringSettings
    left_out: int = 0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


class QuestionAnswering:
    """The task; a `Task`, which learns from other examples than its file has: from parts of long
    texts, and perhaps not from questions without an answer; and which `ScoresSome`."""

    def __init__(self, name: str = "qa") -> None:
        self.name = name
        self.metric = "f1"
        self.asks: Questions = NamedTexts("question", "context")
        self.tokenizer: str | None = TOKENIZER

    def read(self, path: Path) -> list[TextQuestion]:
        """SubjQA where the file is called .csv (.gz, .xz), SQuAD's JSON, 1.1 or 2.0, else."""
        is_csv = text_suffix(path) == ".csv"
        return tokenized_questions(read_subjqa(path) if is_csv else read_squad(path))

    def training_examples(
        self,
        examples: Sequence[TextQuestion],
        settings: Mapping[str, Any],
        log: Log = lambda message: None,
    ) -> list[TextQuestion]:
        """What is learned from.

        Args:
            examples: as `read` gave them.
            settings: the recipe's, under `[head]`.
            log: told nothing: the model's description counts what is left out.
        """
        own = _settings(settings)
        found = [cropped(e, own.longest_context) for e in examples if _is_learned(e, own)]
        if not found:
            allowed = "" if own.no_answer else ", or head.no_answer=true, which allows that"
            raise NothingToLearn(
                "nothing to learn from, no question has an answer of whole words: expected other "
                f"data{allowed}"
            )
        return found

    def unlabeled(self, values: Mapping[str, Any]) -> TextQuestion:
        """A question of which nothing is known."""
        text = values.get("strings", {}).get("context")
        return untold_question(tuple(values["question"]), tuple(values["context"]), text)

    def without_words(self) -> None:
        """There always are some: where a text is blank, a word that stands for that is read."""
        return None

    def sentences(self, example: TextQuestion) -> Sequence[Sentence]:
        """Question and text."""
        return (example.question, example.context)

    def describe(
        self, train: Sequence[TextQuestion], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The settings, and how much of the training data they leave out."""
        own = _settings(settings)
        left_out = sum(not _is_learned(example, own) for example in train)
        return asdict(AnsweringDescription(own, left_out))

    def check_scored(self, examples: Sequence[TextQuestion], settings: Mapping[str, Any]) -> None:
        """A model that always answers is scored where there is an answer."""
        if not _settings(settings).no_answer:
            _answerable(examples)

    def head(self, description: Mapping[str, Any], widths: Widths) -> nn.Module:
        """A network with fresh weights."""
        own = validated(AnsweringDescription, description, "the question answering model")
        return Bidaf(own.settings, widths)

    def score(
        self, examples: Sequence[TextQuestion], answers: Sequence[Passage]
    ) -> dict[str, float]:
        """F1 and exact match, as SQuAD's scripts have them.

        Of a model that always answers: over the questions with an answer, as version 1.1, and
        `left_out`, the number of the others. Of a model that need not: over all questions, as
        version 2.0, over those with an answer, and over those without, where F1 is the same as
        exact match.
        """
        questions = [example.source for example in examples]
        pairs = zip(examples, answers, strict=True)
        said = {example.source.id: answer.text(example) for example, answer in pairs}
        if any(answer.no_answer is None for answer in answers):
            answerable = _answerable(examples)
            found = score_squad(answerable, said)
            left_out = len(questions) - len(answerable)
            return {"f1": found.f1, "exact": found.exact, "left_out": left_out}
        both = score_squad2(questions, said)
        scores = {"f1": both.overall.f1, "exact": both.overall.exact}
        if any(question.answers for question in questions):
            scores["has_answer_f1"] = both.has_answer.f1
            scores["has_answer_exact"] = both.has_answer.exact
        if not all(question.answers for question in questions):
            scores["no_answer_exact"] = both.no_answer.exact
        return scores

    def show(self, example: TextQuestion, answer: Passage) -> dict[str, Any]:
        """The words; the answer's text, the places of its words, and how likely it is."""
        shown = {"question": list(example.question), "context": list(example.context)}
        if not answer.is_answer:
            return {**shown, "answer": None, "probability": answer.no_answer}
        return {
            **shown,
            "answer": answer.text(example),
            "start": answer.start,
            "end": answer.end,
            "probability": answer.probability,
        }


def _settings(values: Mapping[str, Any]) -> AnsweringSettings:
    return validated(AnsweringSettings, values, "the recipe's [head]")


def _answerable(examples: Sequence[TextQuestion]) -> list[Question]:
    """The questions that have an answer, of which there must be some."""
    found = [example.source for example in examples if example.source.answers]
    if not found:
        raise ElmoxError(
            f"nothing to score, none of {len(examples):,} questions has an answer: expected some, "
            "or a model fitted with head.no_answer=true"
        )
    return found


def _is_learned(example: TextQuestion, settings: AnsweringSettings) -> bool:
    """Whether the right answer is one that the model could give."""
    return bool(example.answers) or (settings.no_answer and not example.source.answers)


class BiGru(nn.Module):
    """A bidirectional GRU over padded sentences.

    Args:
        width: D, of the words.
        cells: of each direction.
    """

    def __init__(self, width: int, cells: int) -> None:
        super().__init__()
        self.gru = nn.GRU(width, cells, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor, order: PackedOrder) -> Tensor:
        """(N, T, D) to (N, T, 2 * cells), zero at padding."""
        return read_padded(self.gru, words, order)


class Scores(NamedTuple):
    """Of words as the first and as the last of the answer, and of there being none.

    A passage scores the sum of its two words. Padding scores minus infinity, and so does "none"
    where it is not among the answers.
    """

    first: Tensor  # (B, T)
    last: Tensor  # (B, T)
    none: Tensor  # (B,)

    def total(self) -> Tensor:
        """The logarithm of what probabilities are shares of, (B,)."""
        passages = self.first.logsumexp(1) + self.last.logsumexp(1)
        return torch.logaddexp(passages, self.none)


class Bidaf(nn.Module):
    """Bidirectional attention, attention of the text to itself, first and last word; a `Head`."""

    def __init__(self, settings: AnsweringSettings, widths: Widths) -> None:
        super().__init__()
        self._longest, hidden = settings.longest_answer, settings.hidden
        width = 2 * hidden
        self.dropout = SharedDropout(settings.dropout)
        self.encoder = BiGru(widths.input, hidden)
        self.attention = BiAttention(width + widths.middle + widths.output)
        self.joined = nn.Sequential(nn.Linear(self.attention.width, width), nn.ReLU())
        self.reader = BiGru(width, hidden)
        self.self_attention = SelfAttention(width)
        self.reread = nn.Sequential(nn.Linear(self.self_attention.width, width), nn.ReLU())
        self.first_reader = BiGru(width, hidden)
        self.last_reader = BiGru(2 * width, hidden)
        self.first = nn.Linear(width, 1, bias=False)  # a softmax takes no note of a bias
        self.last = nn.Linear(width, 1, bias=False)
        self.none = NoAnswer(width, hidden) if settings.no_answer else None

    def forward(self, texts: Embedded) -> Scores:
        """The scores of all words."""
        num_asked, num_words = (int(own.max()) for own in (texts.lengths[::2], texts.lengths[1::2]))
        found = self.encoder(texts.input, PackedOrder.of(texts.lengths, texts.input))  # (N, T, 2H)
        elmo = [own for own in (texts.middle, texts.output) if own is not None]
        found = self.dropout(torch.cat([found, *elmo], dim=-1))  # (N, T, E)
        question, question_mask = found[::2, :num_asked], texts.mask[::2, :num_asked]
        text, mask = found[1::2, :num_words], texts.mask[1::2, :num_words]
        order = PackedOrder.of(texts.lengths[1::2], text)
        text = self.joined(self.attention(text, mask, question, question_mask))  # (B, T, 2H)
        again = self.dropout(self.reader(self.dropout(text), order))
        text = text + self.reread(self.self_attention(again, mask))
        firsts = self.first_reader(self.dropout(text), order)
        lasts = self.last_reader(self.dropout(torch.cat([text, firsts], dim=-1)), order)
        first = self.first(firsts)[..., 0].masked_fill(~mask, -torch.inf)
        last = self.last(lasts)[..., 0].masked_fill(~mask, -torch.inf)
        if self.none is None:
            return Scores(first, last, first.new_full((len(first),), -torch.inf))
        seeming = [(first.softmax(1), firsts), (last.softmax(1), lasts)]
        return Scores(first, last, self.none(seeming, text, mask))

    def loss(self, texts: Embedded, examples: Sequence[TextQuestion]) -> Tensor:
        """Minus the mean log probability that one of the right answers is given."""
        scores: Scores = self(texts)
        most = max(1, *(len(example.answers) for example in examples))
        padded = [e.answers + ((-1, -1),) * (most - len(e.answers)) for e in examples]
        places = to_device(np.array(padded, np.int64), scores.first.device)  # (B, most, 2)
        there = places[..., 0] >= 0
        first, last = places.clamp(min=0).unbind(-1)
        passages = scores.first.gather(1, first) + scores.last.gather(1, last)
        passages = passages.masked_fill(~there, -torch.inf)
        none = scores.none.masked_fill(there[:, 0], -torch.inf)  # right where no passage is
        right = torch.cat([passages, none[:, None]], dim=1).logsumexp(1)
        return (scores.total() - right).mean()

    def answers(self, texts: Embedded, examples: Sequence[TextQuestion]) -> list[Passage]:
        """The likeliest passage of each text, no longer than passages may be."""
        scores: Scores = self(texts)
        most = min(self._longest, scores.last.shape[1])
        ends = F.pad(scores.last, (0, most - 1), value=-torch.inf).unfold(1, most, 1)
        best, places = (scores.first[..., None] + ends).flatten(1).max(1)  # of (B, T * most)
        total = scores.total()
        likely, none = (best - total).exp().tolist(), (scores.none - total).exp().tolist()
        found = []
        for row, place in enumerate(places.tolist()):
            start, more = divmod(place, most)
            no_answer = None if self.none is None else none[row]
            found.append(Passage(start, start + more + 1, likely[row], no_answer))
        return found


class NoAnswer(nn.Module):
    """The score of there being no answer (Clark and Gardner 2017, section 4.3).

    It looks at what seems to be the first word, at what seems to be the last, and at the words of
    the text that it has learned to look at.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.importance = nn.Linear(width, 1, bias=False)
        self.score = nn.Sequential(nn.Linear(3 * width, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(
        self, seeming: Sequence[tuple[Tensor, Tensor]], text: Tensor, mask: Tensor
    ) -> Tensor:
        """The score, (B,).

        Args:
            seeming: for first and last words: probabilities (B, T), and vectors (B, T, 2H).
            text: (B, T, 2H).
            mask: of the text, (B, T).
        """
        importance = self.importance(text)[..., 0].masked_fill(~mask, -torch.inf).softmax(1)
        weighted = [*seeming, (importance, text)]
        pooled = [(weights[:, None] @ words)[:, 0] for weights, words in weighted]
        score: Tensor = self.score(torch.cat(pooled, dim=-1))
        return score[:, 0]
