"""Sequence tagging: part-of-speech tags, chunks, named entities."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.io.conllu import UNSPECIFIED, read_conllu
from elmox.tasks.base import LabeledSpan, Offsets, Task, TaskOutput
from elmox.tasks.data.texts import Sentence
from elmox.tasks.registry import TaskInfo
from elmox.tasks.tagging.columns import TaggedSentence, read_columns
from elmox.tasks.tagging.metrics import score_spans, score_tags
from elmox.tasks.tagging.network import ANY_SCHEME, Tagger, TaggerConfig, TaggerSettings
from elmox.tasks.tagging.spans import OUTSIDE, scheme_of, spans_of, tag_of

MAX_LABELS = 250  # of spans: the transitions between their tags grow with the square
LONGEST_SENTENCE = 1000  # tokens: the steps of one sentence cannot be batched
_SPAN_TAG = re.compile("[BIULES]-.+")


@dataclass(frozen=True)
class TaggingOutput(TaskOutput):
    """A tagged sentence.

    Attributes:
        tokens: its words.
        tags: a tag per word; spans are in BIO.
        spans: the spans that the tags mark; None for tasks whose tags mark none.
        offsets: first character of each token and the one after its last; None if the input was
            tokens.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    spans: tuple[LabeledSpan, ...] | None = None
    offsets: Offsets | None = None


def word_tagging(info: TaskInfo) -> "Tagging":
    """Return a task that gives each word a tag, such as its part of speech."""
    return Tagging(info, spans=False)


def span_tagging(info: TaskInfo) -> "Tagging":
    """Return a task that marks spans, such as names."""
    return Tagging(info, spans=True)


class Tagging(Task[TaggedSentence, Sequence[str]]):
    """A tag per word; the tags of some tasks mark spans, which are then scored."""

    settings_type = TaggerSettings
    config_type = TaggerConfig
    head_type = Tagger

    def __init__(self, info: TaskInfo, spans: bool) -> None:
        """Make the task; `spans` for tags that mark spans."""
        super().__init__(info)
        self._spans = spans

    def read(self, path: Path, settings: Any = None) -> list[TaggedSentence]:
        """Read CoNLL columns (the word first, the tag last), or the universal tags of CoNLL-U."""
        if ".conllu" not in path.name:
            examples = list(read_columns(path))
        elif self._spans:
            raise ElmoxError(f"{path} is a treebank: {self.name} reads CoNLL columns")
        else:
            examples = [TaggedSentence(tree.words, tree.upos) for tree in read_conllu(path)]
            if all(tag == UNSPECIFIED for example in examples for tag in example.tags):
                raise ElmoxError(f"{path} has no tags, all are {UNSPECIFIED}: expected UPOS")
        if self._spans:
            _require_spans(path, examples)
        else:
            _refuse_spans(path, examples)
        return examples

    def example_from_input(self, values: Mapping[str, Any], settings: Any = None) -> TaggedSentence:
        """Return a sentence without tags."""
        return TaggedSentence(tuple(values["tokens"]), ())

    def empty_prediction(self) -> list[str]:
        """Return no tags."""
        return []

    def pieces(self, example: TaggedSentence) -> Sequence[TaggedSentence]:
        """Cut a sentence that is no sentence, into the fewest equal parts of `LONGEST_SENTENCE`."""
        num = len(example)
        if num <= LONGEST_SENTENCE:
            return (example,)
        num_pieces = -(-num // LONGEST_SENTENCE)
        bounds = [num * i // num_pieces for i in range(num_pieces + 1)]
        return [
            TaggedSentence(example.words[start:stop], example.tags[start:stop])
            for start, stop in pairwise(bounds)
        ]

    def joined(self, predictions: Sequence[Sequence[str]]) -> list[str]:
        """Return the tags of all pieces; a span does not cross from one to the next."""
        return [tag for tags in predictions for tag in tags]

    def sentences(self, example: TaggedSentence) -> Sequence[Sentence]:
        """Return the sentence itself."""
        return (example.words,)

    def configure(self, train: Sequence[TaggedSentence], settings: TaggerSettings) -> TaggerConfig:
        """Collect the tags of the training data; spans are tagged in BIOUL, the richest scheme."""
        if not self._spans:
            tags = sorted({tag for example in train for tag in example.tags})
            return TaggerConfig(settings, tuple(tags), None)
        labels = {span.label for example in train for span in spans_of(example.tags, ANY_SCHEME)}
        if len(labels) > MAX_LABELS:
            raise ElmoxError(
                f"the last column of the training data has {len(labels):,} different labels of "
                f"spans, such as {min(labels)!r}, expected at most {MAX_LABELS}: is it the column "
                "of the tags?"
            )
        tags = [OUTSIDE, *(tag_of(prefix, label) for label in sorted(labels) for prefix in "BIUL")]
        return TaggerConfig(settings, tuple(tags), "BIOUL")

    def labels(self, config: Mapping[str, Any]) -> list[str]:
        """Return the labels of spans, or the tags of words."""
        tags = config["tags"]
        if not self._spans:
            return list(tags)
        return list(dict.fromkeys(tag.partition("-")[2] for tag in tags if tag != OUTSIDE))

    def score(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        """Return the accuracy of tags, or precision, recall and F1 of spans."""
        gold = [example.tags for example in examples]
        if not self._spans:
            return {"accuracy": score_tags(gold, predictions).percent}
        overall = score_spans(gold, predictions).overall
        return {"f1": overall.f1, "precision": overall.precision, "recall": overall.recall}

    def format_prediction(
        self, example: TaggedSentence, prediction: Sequence[str], offsets: Mapping[str, Any]
    ) -> TaggingOutput:
        """Return words, tags and, if the tags mark spans, those."""
        spans, token_offsets = None, offsets.get("tokens")
        if self._spans:
            tagged_spans = spans_of(prediction, "BIO")
            spans = tuple(LabeledSpan.at(*span, offsets=token_offsets) for span in tagged_spans)
        return TaggingOutput(example.words, tuple(prediction), spans, token_offsets)


def _require_spans(path: Path, examples: Sequence[TaggedSentence]) -> None:
    """Refuse tags that mark no spans."""
    for number, example in enumerate(examples, start=1):
        try:
            scheme_of([example.tags])
        except ElmoxError as error:
            raise ElmoxError(f"{path}, sentence {number}: {error}") from None


def _refuse_spans(path: Path, examples: Sequence[TaggedSentence]) -> None:
    """Refuse tags all of which mark spans: no inventory of parts of speech is like that."""
    tags = {tag for example in examples for tag in example.tags} - {OUTSIDE}
    if tags and all(_SPAN_TAG.fullmatch(tag) for tag in tags):
        raise ElmoxError(
            f"{path}: the tags mark spans, for example {min(tags)!r}, expected parts of speech in "
            "the last column: put them there, or use chunk or ner"
        )
