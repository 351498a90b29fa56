"""Coreference: which spans of a document are mentions of the same entity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmox.errors import ElmoxError, NothingToLearn
from elmox.io.progress import Log
from elmox.tasks.base import Offsets, Task, TaskOutput, characters
from elmox.tasks.coref.documents import Clusters, Document, labeled_document, unlabeled_document
from elmox.tasks.coref.metrics import score_coreference
from elmox.tasks.coref.network import CoreferenceConfig, CoreferenceSettings, SpanRanker
from elmox.tasks.data.conll2012 import Mention, read_conll2012
from elmox.tasks.data.input_formats import DocumentInput
from elmox.tasks.data.texts import Sentence


@dataclass(frozen=True)
class EntityMention:
    """A mention of an entity.

    Attributes:
        sentence: index of its sentence among those of the output.
        start, end: its first token in the sentence, and the one after its last.
        words: its tokens.
        start_char, end_char: the same in characters of the text; None if only tokens are known.
    """

    sentence: int
    start: int
    end: int
    words: tuple[str, ...]
    start_char: int | None = None
    end_char: int | None = None


@dataclass(frozen=True)
class CoreferenceOutput(TaskOutput):
    """A document with its entities.

    Attributes:
        sentences: their words; empty sentences are left out.
        clusters: the entities, each with all its mentions.
        offsets: for each sentence, the first character of each token and the one after its last;
            None if the input was tokens.
    """

    sentences: tuple[tuple[str, ...], ...]
    clusters: tuple[tuple[EntityMention, ...], ...]
    offsets: Sequence[Offsets] | None = None


class Coreference(Task[Document, Clusters]):
    """The entities of documents, trained on parts of long ones."""

    input_format = DocumentInput()
    settings_type = CoreferenceSettings
    config_type = CoreferenceConfig
    head_type = SpanRanker

    def read(self, path: Path, settings: Any = None) -> list[Document]:
        """Read CoNLL-2012: a file, or a folder's files with conll in their names, by name."""
        files = [path]
        if path.is_dir():
            names = sorted(path.rglob("*conll*"))
            files = [file for file in names if file.is_file() and not file.name.startswith(".")]
            if not files:
                raise ElmoxError(f"{path} has no files with conll in their names: give CoNLL-2012")
        read = (labeled_document(document) for file in files for document in read_conll2012(file))
        documents = [document for document in read if document.sentences]
        if not any(document.clusters for document in documents):
            raise ElmoxError(f"{path} has no entities: expected CoNLL-2012 with coreference")
        return documents

    def example_from_input(self, values: Mapping[str, Any], settings: Any = None) -> Document:
        """Return a document; `speakers` may have a name for each sentence or for each word."""
        return unlabeled_document(values["sentences"], values.get("speakers"))

    def empty_prediction(self) -> Clusters:
        """Return no entities."""
        return ()

    def sentences(self, example: Document) -> Sequence[Sentence]:
        """Return the sentences of the document."""
        return example.sentences

    def configure(
        self, train: Sequence[Document], settings: CoreferenceSettings
    ) -> CoreferenceConfig:
        """Use speakers as a feature if a training document has more than one."""
        if not any(len(cluster) > 1 for document in train for cluster in document.clusters):
            raise NothingToLearn(
                "nothing to learn from, no entity is mentioned twice: give other data, or more"
            )
        speakers = any(len(set(document.speakers)) > 1 for document in train)
        return CoreferenceConfig(settings, speakers)

    def training_examples(
        self, examples: Sequence[Document], settings: CoreferenceSettings, log: Log
    ) -> list[Document]:
        """Return the documents in parts; `log` gets the numbers of lost mentions and links."""
        clusters = [c for document in examples for c in document.clusters if len(c) > 1]
        widths = [mention.stop - mention.start for cluster in clusters for mention in cluster]
        if too_wide := sum(width > settings.max_width for width in widths):
            log(
                f"{too_wide:,} of {len(widths):,} linked mentions are not trained on: they are "
                f"longer than head.max_width, {settings.max_width} words"
            )
        parts = [part for document in examples for part in document.parts(settings.sentences)]
        num_links = sum(document.num_links for document in examples)
        num_left = sum(part.num_links for part in parts)
        if num_links and not num_left:
            raise NothingToLearn(
                f"head.sentences is {settings.sentences}: no part of that many sentences has any "
                f"of the {num_links:,} links between mentions: raise head.sentences"
            )
        if num_left < num_links:
            log(
                f"{num_links - num_left:,} of {num_links:,} links between mentions are not trained "
                "on: they lead from one part of a document to another (head.sentences is "
                f"{settings.sentences})"
            )
        return parts

    def score(
        self, examples: Sequence[Document], predictions: Sequence[Clusters]
    ) -> dict[str, float]:
        """Return F1 of MUC, B-cubed and CEAF-phi4, and their mean, as CoNLL-2012 counts them.

        First without entities of one mention on either side, as in OntoNotes, then with them.
        """
        both = [(e.clusters, clusters) for e, clusters in zip(examples, predictions, strict=True)]
        by_name: dict[str, float] = {}
        for suffix, keep_singletons in (("", False), ("_singletons", True)):
            scores = score_coreference(both, keep_singletons=keep_singletons)
            by_name |= {
                f"f1{suffix}": scores.mean,
                f"muc{suffix}": scores.muc.f1,
                f"b3{suffix}": scores.b_cubed.f1,
                f"ceaf{suffix}": scores.ceaf.f1,
            }
        return by_name

    def format_prediction(
        self, example: Document, prediction: Clusters, offsets: Mapping[str, Any]
    ) -> CoreferenceOutput:
        """Return the sentences, and the mentions of each entity by sentence and tokens."""
        starts = np.cumsum([0, *map(len, example.sentences)])
        by_sentence = offsets.get("sentences")
        if by_sentence is not None:  # as in the document, without the empty ones
            by_sentence = tuple(sentence for sentence in by_sentence if sentence)

        def located(mention: Mention) -> EntityMention:
            index = int(np.searchsorted(starts, mention.start, side="right")) - 1
            start, end = (int(position - starts[index]) for position in mention)
            words = example.sentences[index][start:end]
            tokens = None if by_sentence is None else by_sentence[index]
            return EntityMention(index, start, end, words, *characters(start, end, tokens))

        clusters = tuple(tuple(map(located, cluster)) for cluster in prediction)
        return CoreferenceOutput(example.sentences, clusters, by_sentence)
