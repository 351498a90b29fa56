"""The paper's network for question answering (Clark and Gardner 2017).

One bidirectional GRU reads question and text, trilinear attention joins them, a second GRU and
self-attention of the text are added to that, and two more GRUs score the first and the last word of
the answer.

ELMo joins the lowest GRU's input, its output, or both. `middle` and `output` are the same place
here: after that GRU, before the text attends to the question.

A text is read as one sentence, however long.

Shapes: B questions, N = 2B sentences (a question, then its text), T words, H cells, E = 2H plus
ELMo's width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmox.config import Strict
from elmox.io.settings import PositiveInt, Share
from elmox.io.transfer import to_device
from elmox.tasks.base import Head, HeadSettings
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import PackedOrder, SharedDropout, read_padded
from elmox.tasks.qa.passages import Passage, TextQuestion
from elmox.tasks.qa.trilinear import BiAttention, SelfAttention


@dataclass(frozen=True)
class AnsweringSettings(HeadSettings):
    """Settings of a recipe's `[head]`.

    Attributes:
        hidden: cells of each direction of all GRUs; the other layers are twice as wide.
        dropout: on the input of attention and of all GRUs except the lowest, one mask for all words
            (variational dropout, Gal and Ghahramani 2016). The lowest GRU has none: `words.dropout`
            and `elmo.dropout` precede it.
        longest_context: words of a text in training, at most: a longer text is cut to a part with
            the answer. Predictions and scores are over whole texts.
        longest_answer: words of a predicted passage, at most.
        no_answer: predict "no answer" too. Otherwise questions without an answer are left out, in
            training and in scoring.
    """

    hidden: PositiveInt = 90
    dropout: Share = 0.2
    longest_context: PositiveInt = 400
    longest_answer: PositiveInt = 17
    no_answer: bool = False


@dataclass(frozen=True)
class AnsweringConfig(Strict):
    """A network without its weights.

    Attributes:
        settings: the recipe's.
        left_out: number of training questions that were not trained on, for people to read.
    """

    settings: AnsweringSettings
    left_out: int = 0


class BiGru(nn.Module):
    """A bidirectional GRU over padded sentences.

    Args:
        input_dim: D, the width of its inputs.
        num_cells: cells of each direction.
    """

    def __init__(self, input_dim: int, num_cells: int) -> None:
        super().__init__()
        self.gru = nn.GRU(input_dim, num_cells, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor, order: PackedOrder) -> Tensor:
        """(N, T, D) to (N, T, 2 * num_cells), zero at padding."""
        return read_padded(self.gru, words, order)


class Scores(NamedTuple):
    """Scores of words as the first and as the last of the answer, and of there being none.

    A passage scores the sum of its two words. Padding scores minus infinity, and so does "none" if
    the network always answers.
    """

    first: Tensor  # (B, T)
    last: Tensor  # (B, T)
    none: Tensor  # (B,)

    def total(self) -> Tensor:
        """Return the logarithm of the sum over all answers, (B,)."""
        passages = self.first.logsumexp(1) + self.last.logsumexp(1)
        return torch.logaddexp(passages, self.none)


class Bidaf(Head[TextQuestion, Passage]):
    """Bidirectional attention, self-attention of the text, first and last word."""

    def __init__(self, config: AnsweringConfig, widths: Widths) -> None:
        super().__init__()
        settings = config.settings
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
        self.first = nn.Linear(width, 1, bias=False)  # a softmax ignores a bias
        self.last = nn.Linear(width, 1, bias=False)
        self.none = NoAnswer(width, hidden) if settings.no_answer else None

    def forward(self, texts: Embedded) -> Scores:
        """Return the scores of all words."""
        question_lengths, text_lengths = texts.lengths[::2], texts.lengths[1::2]
        num_asked, num_words = int(question_lengths.max()), int(text_lengths.max())
        words = self.encoder(texts.input, PackedOrder.of(texts.lengths, texts.input))  # (N, T, 2H)
        elmo = [vectors for vectors in (texts.middle, texts.output) if vectors is not None]
        words = self.dropout(torch.cat([words, *elmo], dim=-1))  # (N, T, E)
        question, question_mask = words[::2, :num_asked], texts.mask[::2, :num_asked]
        text, mask = words[1::2, :num_words], texts.mask[1::2, :num_words]
        order = PackedOrder.of(text_lengths, text)
        text = self.joined(self.attention(text, mask, question, question_mask))  # (B, T, 2H)
        again = self.dropout(self.reader(self.dropout(text), order))
        text = text + self.reread(self.self_attention(again, mask))
        firsts = self.first_reader(self.dropout(text), order)
        lasts = self.last_reader(self.dropout(torch.cat([text, firsts], dim=-1)), order)
        first = self.first(firsts)[..., 0].masked_fill(~mask, -torch.inf)
        last = self.last(lasts)[..., 0].masked_fill(~mask, -torch.inf)
        if self.none is None:
            return Scores(first, last, first.new_full((len(first),), -torch.inf))
        ends = [(first.softmax(1), firsts), (last.softmax(1), lasts)]
        return Scores(first, last, self.none(ends, text, mask))

    def loss(self, texts: Embedded, examples: Sequence[TextQuestion]) -> Tensor:
        """Return minus the mean log probability of predicting one of the gold answers."""
        scores: Scores = self(texts)
        most = max(1, *(len(example.answers) for example in examples))
        padded = [e.answers + ((-1, -1),) * (most - len(e.answers)) for e in examples]
        positions = to_device(np.array(padded, np.int64), scores.first.device)  # (B, most, 2)
        is_answer = positions[..., 0] >= 0
        first, last = positions.clamp(min=0).unbind(-1)
        passages = scores.first.gather(1, first) + scores.last.gather(1, last)
        passages = passages.masked_fill(~is_answer, -torch.inf)
        none = scores.none.masked_fill(is_answer[:, 0], -torch.inf)  # gold if no passage is
        gold = torch.cat([passages, none[:, None]], dim=1).logsumexp(1)
        return (scores.total() - gold).mean()

    def predict(self, texts: Embedded, examples: Sequence[TextQuestion]) -> list[Passage]:
        """Return the most likely passage of each text, of at most `longest_answer` words."""
        scores: Scores = self(texts)
        most = min(self._longest, scores.last.shape[1])
        ends = F.pad(scores.last, (0, most - 1), value=-torch.inf).unfold(1, most, 1)
        best, indices = (scores.first[..., None] + ends).flatten(1).max(1)  # of (B, T * most)
        total = scores.total()
        likely, none = (best - total).exp().tolist(), (scores.none - total).exp().tolist()
        passages = []
        for row, index in enumerate(indices.tolist()):
            start, more = divmod(index, most)
            no_answer = None if self.none is None else none[row]
            passages.append(Passage(start, start + more + 1, likely[row], no_answer))
        return passages


class NoAnswer(nn.Module):
    """The score of there being no answer (Clark and Gardner 2017, section 4.3).

    It reads the likely first words, the likely last words, and the words of the text that it has
    learned to attend to.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.importance = nn.Linear(width, 1, bias=False)
        self.score = nn.Sequential(nn.Linear(3 * width, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, ends: Sequence[tuple[Tensor, Tensor]], text: Tensor, mask: Tensor) -> Tensor:
        """Return the score, (B,).

        Args:
            ends: for first and last words: probabilities (B, T), and vectors (B, T, 2H).
            text: (B, T, 2H).
            mask: of the text, (B, T).
        """
        importance = self.importance(text)[..., 0].masked_fill(~mask, -torch.inf).softmax(1)
        weighted = [*ends, (importance, text)]
        pooled = [(weights[:, None] @ words)[:, 0] for weights, words in weighted]
        score: Tensor = self.score(torch.cat(pooled, dim=-1))
        return score[:, 0]
