"""Coreference: which spans of a document are mentions of the same entity.

The paper's model is end-to-end span ranking (Lee et al. 2017): a bidirectional LSTM reads each
sentence, all spans up to some width are scored as mentions, the best are kept (`mentions.py`), and
each of them is linked to the likeliest of those before it, or to none (`antecedents.py`). What is
linked is an entity. It learns from entities alone: the likelihood of all right antecedents of a
mention together is raised. A mention that is linked to none is not answered, so that there are no
entities of one mention among the answers.

ELMo joins the LSTM's input, and so attention's mean of a span's words; and its output.

Two things are not as in the paper. In training, mentions of entities are kept, whatever their score
and however many they are, but for those that cross another: from few documents it would otherwise
take long to learn them, as nothing is learned from spans that are not kept. And the genre is no
feature; who speaks is one where the training data tells it.

A batch's sentences are read together, its documents are then gone through one by one.

Shapes: N sentences, T words of the longest, P words of a document, W widths of spans, M mentions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from elmox.config import validated
from elmox.errors import ElmoxError, NothingToLearn
from elmox.io.progress import Log
from elmox.io.settings import above, at_least, share
from elmox.io.transfer import to_device
from elmox.tasks.coref.antecedents import AntecedentScorer, antecedent_loss, right_antecedents
from elmox.tasks.coref.mentions import Mentions, MentionScorer
from elmox.tasks.coref.metrics import score_coreference
from elmox.tasks.data.conll2012 import Mention, read_conll2012
from elmox.tasks.data.documents import Clusters, Document, annotated, untold
from elmox.tasks.data.questions import Documents, Questions
from elmox.tasks.data.texts import Sentence
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import Encoder, SharedDropout

LARGEST_WIDTH = 50  # words of a mention: more would be a mistake, and fill the memory


@dataclass(frozen=True)
class CoreferenceSettings:
    """What a recipe may say under `[head]`.

    Attributes:
        hidden: cells of each direction of the LSTM, layer by layer.
        feed_forward: widths of the layers of each feed-forward net.
        feature_dim: width of the vectors that stand for widths, distances and speakers.
        max_width: words of a mention, at most.
        spans_per_word: how many spans are kept as mentions, as a share of the number of words; in
            training as many as there are mentions of entities, where those are more.
        antecedents: candidates of a mention, at most: the nearest ones.
        sentences: of a document, at most, in training. Longer ones are learned from in parts of
            equal length (where the paper takes another piece of them every time), and links from
            one part to another are not seen.
        dropout: on the layers of feed-forward nets and the vectors of features.
        lstm_dropout: on what the LSTM gives, one mask for all words of a sentence.
    """

    hidden: tuple[int, ...] = (200,)
    feed_forward: tuple[int, ...] = (150, 150)
    feature_dim: int = 20
    max_width: int = 10
    spans_per_word: float = 0.4
    antecedents: int = 250
    sentences: int = 50
    dropout: float = 0.2
    lstm_dropout: float = 0.4

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a protocol name, not a field)

    def __post_init__(self) -> None:
        for name in ("hidden", "feed_forward"):
            sizes = getattr(self, name)
            if not sizes:
                raise ElmoxError(f"head.{name} is empty, expected the width of a layer or more")
            for size in sizes:
                at_least(1, f"head.{name}", size)
        for name in ("feature_dim", "max_width", "antecedents", "sentences"):
            at_least(1, f"head.{name}", getattr(self, name))
        if self.max_width > LARGEST_WIDTH:
            raise ElmoxError(
                f"head.max_width is {self.max_width}, expected at most {LARGEST_WIDTH}: memory "
                "grows with its third power"
            )
        above(0, "head.spans_per_word", self.spans_per_word)
        share("head.dropout", self.dropout)
        share("head.lstm_dropout", self.lstm_dropout)


@dataclass(frozen=True)
class CoreferenceDescription:
    """A span ranker, but for its weights."""

    settings: CoreferenceSettings
    speakers: bool  # whether it matters who speaks

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


class Coreference:
    """The task; a `Task`, which learns from parts of the documents of its file."""

    name = "coref"
    metric = "f1"
    asks: Questions = Documents()
    tokenizer: str | None = None

    def read(self, path: Path) -> list[Document]:
        """CoNLL-2012: a file, or a folder's files that have conll in their names, by name."""
        files = [path]
        if path.is_dir():
            names = sorted(path.rglob("*conll*"))
            files = [own for own in names if own.is_file() and not own.name.startswith(".")]
            if not files:
                raise ElmoxError(f"{path} has no files with conll in their names: give CoNLL-2012")
        documents = (annotated(own) for file in files for own in read_conll2012(file))
        found = [own for own in documents if own.sentences]
        if not any(own.clusters for own in found):
            raise ElmoxError(f"{path} has no entities: expected CoNLL-2012 with coreference")
        return found

    def training_examples(
        self,
        examples: Sequence[Document],
        settings: Mapping[str, Any],
        log: Log = lambda message: None,
    ) -> list[Document]:
        """Documents, or as few equal parts of them as there must be.

        Args:
            examples: as `read` gave them.
            settings: the recipe's, under `[head]`.
            log: told how many links are from one part to another, and how many mentions are too
                wide, if any are.
        """
        head = validated(CoreferenceSettings, settings, "the recipe's [head]")
        most = head.sentences
        clusters = [own for one in examples for own in one.clusters if len(own) > 1]
        widths = [own.stop - own.start for cluster in clusters for own in cluster]
        if wide := sum(own > head.max_width for own in widths):
            log(
                f"{wide:,} of {len(widths):,} mentions that are linked are not learned from: they "
                f"are longer than head.max_width, {head.max_width} words"
            )
        found = [part for own in examples for part in own.parts(most)]
        links, left = (sum(own.num_links for own in those) for those in (examples, found))
        if links and not left:
            raise NothingToLearn(
                f"head.sentences is {most}: documents in parts of so many sentences have none of "
                f"their {links:,} links between mentions left to learn from: raise head.sentences"
            )
        if left < links:
            log(
                f"{links - left:,} of {links:,} links between mentions are not learned from: they "
                f"lead from one part of a document to another (head.sentences is {most})"
            )
        return found

    def unlabeled(self, values: Mapping[str, Any]) -> Document:
        """A document, perhaps with `speakers`: for each sentence a name, or a name a word."""
        return untold(values["sentences"], values.get("speakers"))

    def without_words(self) -> Clusters:
        """No entities."""
        return ()

    def sentences(self, example: Document) -> Sequence[Sentence]:
        """Those of the document."""
        return example.sentences

    def describe(self, train: Sequence[Document], settings: Mapping[str, Any]) -> dict[str, Any]:
        """Whether somebody speaks to somebody in the training data."""
        own = validated(CoreferenceSettings, settings, "the recipe's [head]")
        if not any(len(cluster) > 1 for document in train for cluster in document.clusters):
            raise NothingToLearn(
                "nothing to learn from: no entity is mentioned twice: give other data, or more of "
                "it"
            )
        speakers = any(len(set(document.speakers)) > 1 for document in train)
        return asdict(CoreferenceDescription(own, speakers))

    def head(self, description: Mapping[str, Any], widths: Widths) -> nn.Module:
        """A span ranker with fresh weights."""
        return SpanRanker(validated(CoreferenceDescription, description, "the model"), widths)

    def score(self, examples: Sequence[Document], answers: Sequence[Clusters]) -> dict[str, float]:
        """F1 of MUC, B-cubed and CEAF-phi4, and their mean, as CoNLL-2012 counts.

        First without entities of one mention on either side, as OntoNotes has none, then with them.
        """
        both = [(own.clusters, found) for own, found in zip(examples, answers, strict=True)]
        scores: dict[str, float] = {}
        for suffix, keep_singletons in (("", False), ("_singletons", True)):
            found = score_coreference(both, keep_singletons=keep_singletons)
            scores |= {
                f"f1{suffix}": found.mean,
                f"muc{suffix}": found.muc.f1,
                f"b3{suffix}": found.b_cubed.f1,
                f"ceaf{suffix}": found.ceaf.f1,
            }
        return scores

    def show(self, example: Document, answer: Clusters) -> dict[str, Any]:
        """The sentences, and each entity's mentions: the sentence, the places in it, the words."""
        starts = np.cumsum([0, *map(len, example.sentences)])

        def shown(mention: Mention) -> dict[str, Any]:
            number = int(np.searchsorted(starts, mention.start, side="right")) - 1
            start, end = (int(place - starts[number]) for place in mention)
            words = list(example.sentences[number][start:end])
            return {"sentence": number, "start": start, "end": end, "words": words}

        clusters = [[shown(mention) for mention in cluster] for cluster in answer]
        return {"sentences": [list(own) for own in example.sentences], "clusters": clusters}


@dataclass(frozen=True)
class _Known:
    """What training knows about a document.

    Attributes:
        entities: for each span the number of its entity, from 1 on, or 0: (P, W).
        count: of spans that have one; counted on the host, which else would wait for a GPU.
    """

    entities: Tensor
    count: int


@dataclass(frozen=True)
class _Ranked:
    """What the network says about a document."""

    mentions: Mentions
    scores: Tensor  # (M, 1 + K) of antecedents


class SpanRanker(nn.Module):
    """Spans, mentions, antecedents; a `Head`."""

    def __init__(self, description: CoreferenceDescription, widths: Widths) -> None:
        super().__init__()
        settings = description.settings
        self._settings = settings
        self.encoder = Encoder(widths, settings.hidden, SharedDropout(settings.lstm_dropout))
        self.mentions = MentionScorer(
            self.encoder.width,
            widths.input,
            max_width=settings.max_width,
            feature_dim=settings.feature_dim,
            hidden=settings.feed_forward,
            dropout=settings.dropout,
        )
        self.antecedents = AntecedentScorer(
            self.mentions.width,
            most=settings.antecedents,
            feature_dim=settings.feature_dim,
            hidden=settings.feed_forward,
            dropout=settings.dropout,
            speakers=description.speakers,
        )

    def forward(
        self,
        texts: Embedded,
        examples: Sequence[Document],
        known: Sequence[_Known] | None = None,
    ) -> Iterator[_Ranked]:
        """One document after the other.

        Args:
            texts: their sentences.
            examples: the documents.
            known: the entities of each document, all of whose mentions are kept. None where they
                are to be found out.
        """
        encoded = self.encoder(texts).flatten(0, 1)  # (N * T, X)
        embedded = texts.input.flatten(0, 1)  # (N * T, E)
        longest, row = texts.mask.shape[1], 0
        for number, own in enumerate(examples):
            lengths = texts.lengths[row : row + len(own.sentences)].numpy()
            ends = np.repeat(np.cumsum(lengths), lengths)  # (P,)
            rows = np.repeat(np.arange(row, row + len(lengths)), lengths)
            steps = np.arange(len(ends)) - ends + lengths[rows - row]
            arrays = np.stack([rows * longest + steps, ends, _speakers(own)])
            words, stops, speakers = to_device(arrays, encoded.device)
            count = max(1, int(self._settings.spans_per_word * len(ends)))
            first: Tensor | None = None
            if known is not None:  # a short document may have more of them than it would keep
                count, first = max(count, known[number].count), known[number].entities > 0
            mentions = self.mentions(
                F.embedding(words, encoded), F.embedding(words, embedded), stops, count, first
            )
            yield _Ranked(mentions, self.antecedents(mentions, speakers))
            row += len(lengths)

    def loss(self, texts: Embedded, examples: Sequence[Document]) -> Tensor:
        """The mean over documents of the mean over mentions."""
        most, device = self._settings.max_width, texts.mask.device
        known = [_known(own, most, device) for own in examples]
        losses = []
        for own, ranked in zip(known, self(texts, examples, known), strict=True):
            found = own.entities.flatten()[ranked.mentions.places]
            right = right_antecedents(found, ranked.scores.shape[1] - 1)
            losses.append(antecedent_loss(ranked.scores, right))
        return torch.stack(losses).mean()

    def answers(self, texts: Embedded, examples: Sequence[Document]) -> list[Clusters]:
        """The entities of each document, of two mentions or more."""
        found = []
        for ranked in self(texts, examples):
            places = zip(
                ranked.mentions.starts.tolist(), ranked.mentions.lasts.tolist(), strict=True
            )
            spans = [Mention(start, last + 1) for start, last in places]
            found.append(linked(spans, ranked.scores.argmax(1).tolist()))
        return found


def linked(mentions: Sequence[Mention], offsets: Sequence[int]) -> Clusters:
    """The entities that links make, ordered by their first mentions.

    Args:
        mentions: of a document.
        offsets: how many mentions before each one its antecedent is; 0 for none.
    """
    clusters: dict[int, list[Mention]] = {}  # by the number of each mention that is in one
    for number, (mention, offset) in enumerate(zip(mentions, offsets, strict=True)):
        if offset:
            before = number - offset
            clusters[number] = clusters.setdefault(before, [mentions[before]])
            clusters[number].append(mention)
    distinct = {id(own): tuple(own) for own in clusters.values()}
    return tuple(sorted(distinct.values()))


def _speakers(document: Document) -> NDArray[np.int64]:
    """A number for each word's speaker; not to be known is a speaker too: (P,)."""
    if not document.speakers:
        return np.zeros(sum(map(len, document.sentences)), np.int64)
    _, numbers = np.unique(np.array(document.speakers), return_inverse=True)
    return numbers.astype(np.int64)


def _known(document: Document, max_width: int, device: torch.device) -> _Known:
    entities = _entities(document, max_width)
    return _Known(to_device(entities, device), int(np.count_nonzero(entities)))


def _entities(document: Document, max_width: int) -> NDArray[np.int64]:
    """For each span the number of its entity, from 1 on, or 0: (P, W).

    Entities of one mention count as none: there is nothing to learn from them. What is a mention of
    two entities counts for the first, as in the scores.
    """
    found = np.zeros((sum(map(len, document.sentences)), max_width), np.int64)
    several = [cluster for cluster in document.clusters if len(cluster) > 1]
    for number, cluster in reversed([*enumerate(several, start=1)]):
        for start, stop in cluster:
            if stop - start <= max_width:
                found[start, stop - start - 1] = number
    return found
