"""Sequence tagging: part-of-speech tags, chunks, named entities.

The paper's tagger (supplement A.6; Lample et al. 2016, Peters et al. 2017): two layers of
bidirectional LSTMs, then a CRF whose transitions are those that the tags' scheme allows. With
`elmo.place = "middle"`, ELMo joins after the first layer, where TagLM had it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from elmox.config import validated
from elmox.errors import ElmoxError
from elmox.io.conllu import UNSPECIFIED, read_conllu
from elmox.io.settings import at_least, share
from elmox.io.transfer import to_device
from elmox.tasks.data.columns import TaggedSentence, read_columns
from elmox.tasks.data.questions import Questions, Sentences
from elmox.tasks.data.texts import Sentence
from elmox.tasks.metrics.accuracy import score_tags
from elmox.tasks.nn.crf import Crf
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import Encoder
from elmox.tasks.nn.padding import padded_labels
from elmox.tasks.tagging.span_f1 import score_spans
from elmox.tasks.tagging.spans import (
    OUTSIDE,
    Scheme,
    allowed_transitions,
    converted,
    scheme_of,
    spans_of,
    tag_of,
)

ANY_SCHEME: Scheme = "BIOUL"  # read as this, tags of the other schemes spell the same spans

_SPAN_TAG = re.compile("[BIULES]-.+")


def _check_spans(path: Path, examples: Sequence[TaggedSentence]) -> None:
    """Refuse tags that spell no spans."""
    for number, own in enumerate(examples, start=1):
        try:
            scheme_of([own.tags])
        except ElmoxError as error:
            raise ElmoxError(f"{path}, sentence {number}: {error}") from None


def _refuse_spans(path: Path, examples: Sequence[TaggedSentence]) -> None:
    """Refuse tags all of which spell spans: no inventory of parts of speech is like that."""
    tags = {tag for own in examples for tag in own.tags} - {OUTSIDE}
    if tags and all(_SPAN_TAG.fullmatch(tag) for tag in tags):
        raise ElmoxError(
            f"{path}: the tags spell spans, {min(tags)!r} among them, expected parts of speech in "
            "the last column: put them there, or use chunk or ner"
        )


@dataclass(frozen=True)
class TaggerSettings:
    """What a recipe may say under `[head]`.

    Attributes:
        hidden: cells of each direction, layer by layer.
        dropout: on what each layer gives.
    """

    hidden: tuple[int, ...] = (200, 200)
    dropout: float = 0.5

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a protocol name, not a field)

    def __post_init__(self) -> None:
        at_least(1, "the number of layers in head.hidden", len(self.hidden))
        for cells in self.hidden:
            at_least(1, "head.hidden", cells)
        share("head.dropout", self.dropout)


@dataclass(frozen=True)
class TaggerDescription:
    """A tagger, but for its weights."""

    settings: TaggerSettings
    tags: tuple[str, ...]
    scheme: Scheme | None  # in which the tags spell spans, if they do

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


class Tagging:
    """A task that gives each word a tag; a `Task`.

    Args:
        name: of the task.
        spans: whether tags spell spans, which then are what counts.
    """

    def __init__(self, name: str, spans: bool) -> None:
        self.name = name
        self.metric = "f1" if spans else "accuracy"
        self.asks: Questions = Sentences()
        self.tokenizer: str | None = None
        self._spans = spans

    def read(self, path: Path) -> list[TaggedSentence]:
        """CoNLL columns (the word first, the tag last), or the universal tags of CoNLL-U."""
        if ".conllu" not in path.name:
            examples = list(read_columns(path))
        elif self._spans:
            raise ElmoxError(f"{path} is a treebank: {self.name} reads CoNLL columns")
        else:
            examples = [TaggedSentence(own.words, own.upos) for own in read_conllu(path)]
            if all(tag == UNSPECIFIED for own in examples for tag in own.tags):
                raise ElmoxError(f"{path} has no tags, all are {UNSPECIFIED}: expected UPOS")
        if self._spans:
            _check_spans(path, examples)
        else:
            _refuse_spans(path, examples)
        return examples

    def unlabeled(self, values: Mapping[str, Any]) -> TaggedSentence:
        """A sentence without tags."""
        return TaggedSentence(tuple(values["tokens"]), ())

    def without_words(self) -> list[str]:
        """No tags."""
        return []

    def sentences(self, example: TaggedSentence) -> Sequence[Sentence]:
        """The sentence itself."""
        return (example.words,)

    def describe(
        self, train: Sequence[TaggedSentence], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The tags of the training data; spans are spelled in BIOUL, which says most."""
        own = validated(TaggerSettings, settings, "the recipe's [head]")
        if not self._spans:
            tags = sorted({tag for example in train for tag in example.tags})
            return asdict(TaggerDescription(own, tuple(tags), None))
        labels = {span.label for example in train for span in spans_of(example.tags, ANY_SCHEME)}
        tags = [OUTSIDE, *(tag_of(prefix, label) for label in sorted(labels) for prefix in "BIUL")]
        return asdict(TaggerDescription(own, tuple(tags), "BIOUL"))

    def head(self, description: Mapping[str, Any], widths: Widths) -> nn.Module:
        """A tagger with fresh weights."""
        return Tagger(validated(TaggerDescription, description, "the tagger"), widths)

    def score(
        self, examples: Sequence[TaggedSentence], answers: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        """Accuracy of tags; precision, recall and F1 of spans as conlleval reckons them."""
        gold = [example.tags for example in examples]
        if not self._spans:
            return {"accuracy": score_tags(gold, answers).percent}
        found = score_spans(gold, answers)
        return {"f1": found.f1, "precision": found.precision, "recall": found.recall}

    def show(self, example: TaggedSentence, answer: Sequence[str]) -> dict[str, Any]:
        """Words, tags and, where tags spell spans, those."""
        shown: dict[str, Any] = {"tokens": list(example.words), "tags": list(answer)}
        if self._spans:
            shown["spans"] = [
                {"start": span.start, "end": span.end_exclusive, "label": span.label}
                for span in spans_of(answer, "BIO")
            ]
        return shown


class Tagger(nn.Module):
    """Bidirectional LSTMs and a CRF; a `Head`. Spans are answered in BIO, the plainest scheme."""

    def __init__(self, description: TaggerDescription, widths: Widths) -> None:
        super().__init__()
        settings, self._tags = description.settings, description.tags
        self._scheme = description.scheme
        self._ids = {tag: number for number, tag in enumerate(self._tags)}
        self._known: dict[tuple[str, ...], list[int]] = {}
        self.encoder = Encoder(widths, settings.hidden, nn.Dropout(settings.dropout))
        self.scores = nn.Linear(self.encoder.width, len(self._tags))
        self.crf = Crf(len(self._tags), *allowed_transitions(self._tags, self._scheme))

    def forward(self, texts: Embedded) -> Tensor:
        """A score for every word and tag, (N, T, C)."""
        scores: Tensor = self.scores(self.encoder(texts))
        return scores

    def loss(self, texts: Embedded, examples: Sequence[TaggedSentence]) -> Tensor:
        """The mean negative log-likelihood of a sentence's tags."""
        rows = (self._numbers(example.tags) for example in examples)
        tags = padded_labels(rows, texts.mask.shape, fill=0)
        loss: Tensor = self.crf(self(texts), to_device(tags, texts.mask.device), texts.mask)
        return loss

    def answers(self, texts: Embedded, examples: Sequence[TaggedSentence]) -> list[list[str]]:
        """The likeliest tags of each sentence."""
        found = [[self._tags[i] for i in path] for path in self.crf.decode(self(texts), texts.mask)]
        return found if self._scheme is None else [converted(t, self._scheme, "BIO") for t in found]

    def _numbers(self, tags: tuple[str, ...]) -> list[int]:
        """Those of a sentence's tags, in the model's scheme. Kept: there are many epochs."""
        if tags not in self._known:
            own = tags if self._scheme is None else converted(tags, ANY_SCHEME, self._scheme)
            self._known[tags] = [self._ids[tag] for tag in own]
        return self._known[tags]
