"""Fitted models and ready taggers as components: `elmox_ner`, `elmox_pos` and `elmox_parser`.

    nlp.add_pipe("elmox_ner", config={"model": "runs/ner/seed-0/model"})

Each reads spaCy's own tokens, white space left out, and fills what spaCy has for its kind of label:

    elmox_ner      doc.ents
    elmox_pos      token.tag_, and token.pos_ if all of the model's tags are universal ones
    elmox_parser   token.head, token.dep_, and with them the sentences
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from spacy.attrs import DEP, HEAD
from spacy.language import Language
from spacy.parts_of_speech import IDS as UNIVERSAL_TAGS
from spacy.tokens import Doc, Span

from elmox.errors import Argument, ArgumentError, require_at_least
from elmox.integrations.spacy.batches import BatchComponent
from elmox.integrations.spacy.requirement import add_requirement
from elmox.integrations.spacy.sentences import (
    Sentence,
    SentenceMode,
    check_mode,
    sentences_of,
)
from elmox.integrations.spacy.workers import ThreadLimit

if TYPE_CHECKING:
    from elmox.tasks.predictor import TaskPredictor

WHITE_SPACE_TAG, WHITE_SPACE_RELATION = "_SP", "dep"  # spaCy's own

# Writes the predictions for a document's sentences into it.
Annotate: TypeAlias = Callable[[Doc, Sequence[Sentence], Sequence[Any], "TaskPredictor"], None]


class PredictorComponent(BatchComponent):
    """A fitted model as a component. The model is loaded with the first document.

    Attributes:
        name: of this component in its pipeline.
        task: the task that the model must have been fitted for.
        model: a path or a name, as `TaskPredictor.from_pretrained` takes it.
        elmo: path to the model's biLM, if it has moved.
        sentences: the sentences that the model reads.
        batch_tokens: tokens per batch in `nlp.pipe`.
        device: device of the model.
    """

    def __init__(
        self,
        name: str,
        task: str,
        annotate: Annotate,
        model: str,
        elmo: str | None,
        sentences: SentenceMode,
        batch_tokens: int | None,
        device: str | None,
    ) -> None:
        """Check nothing yet: a pipeline can be made where its model is not."""
        self.name, self.task, self.model, self.elmo = name, task, model, elmo
        self.sentences, self.batch_tokens, self.device = sentences, batch_tokens, device
        self._annotate = annotate
        self._predictor: TaskPredictor | None = None
        self._threads = ThreadLimit()

    @property
    def predictor(self) -> "TaskPredictor":
        """The fitted model, ready to compute in this process."""
        from elmox.integrations.spacy.bilm import spacy_device
        from elmox.tasks.predictor import TaskPredictor

        self._threads.apply()
        if self._predictor is None:
            device = self.device or spacy_device()
            predictor = TaskPredictor.from_pretrained(self.model, elmo=self.elmo, device=device)
            if predictor.task.name != self.task:
                raise ArgumentError(
                    "{} is a model for {}, the component {!r} expects one for {}",
                    Argument("model", self.model),
                    predictor.task.name,
                    self.name,
                    self.task,
                )
            self._predictor = predictor
        return self._predictor

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the model, if it is loaded."""
        if self._predictor is None:
            return ()
        return tuple(self._predictor.task.labels(self._predictor.model.description.head))

    def annotate(self, docs: Sequence[Doc]) -> None:
        """Predict for several documents and write the predictions into them."""
        predictor = self.predictor
        sentences = [sentences_of(doc, self.sentences) for doc in docs]
        words = [sentence.words for of_doc in sentences for sentence in of_doc]
        outputs = iter(predictor.predict(words))
        for doc, of_doc in zip(docs, sentences, strict=True):
            self._annotate(doc, of_doc, [next(outputs) for _ in of_doc], predictor)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the weights out: a worker process loads its own."""
        return self.__dict__ | {"_predictor": None}


def set_entities(
    doc: Doc, sentences: Sequence[Sentence], outputs: Sequence[Any], predictor: "TaskPredictor"
) -> None:
    """Add entities; those that the document has already win where they overlap."""
    taken = {token.i for entity in doc.ents for token in entity}
    entities = list(doc.ents)
    for sentence, output in zip(sentences, outputs, strict=True):
        for span in output.spans:
            start = sentence.positions[span.start]
            end = sentence.positions[span.end - 1] + 1
            if taken.isdisjoint(range(start, end)):
                entities.append(Span(doc, start, end, label=span.label))
    doc.set_ents(entities, default="outside")


def set_tags(
    doc: Doc, sentences: Sequence[Sentence], outputs: Sequence[Any], predictor: "TaskPredictor"
) -> None:
    """Set the tags of all tokens, and universal tags as parts of speech."""
    labels = predictor.task.labels(predictor.model.description.head)
    is_universal = all(label in UNIVERSAL_TAGS for label in labels)
    for token in doc:
        if token.is_space:
            token.tag_, token.pos_ = WHITE_SPACE_TAG, "SPACE"
    for sentence, output in zip(sentences, outputs, strict=True):
        for position, tag in zip(sentence.positions, output.tags, strict=True):
            doc[position].tag_ = tag
            if is_universal:
                doc[position].pos_ = tag


def set_trees(
    doc: Doc, sentences: Sequence[Sentence], outputs: Sequence[Any], predictor: "TaskPredictor"
) -> None:
    """Set heads and relations. White space hangs on the word before it, or else on the next."""
    heads, relations = list(range(len(doc))), [WHITE_SPACE_RELATION] * len(doc)
    for sentence, output in zip(sentences, outputs, strict=True):
        positions = sentence.positions
        for position, head, relation in zip(positions, output.heads, output.deprels, strict=True):
            heads[position] = positions[head - 1] if head else position
            relations[position] = relation if head else "ROOT"
    words = {position for sentence in sentences for position in sentence.positions}
    before = min(words, default=0)
    for token in doc:
        if token.i in words:
            before = token.i
        else:
            heads[token.i] = before
    _write_trees(doc, heads, relations)


def _write_trees(doc: Doc, heads: Sequence[int], relations: Sequence[str]) -> None:
    if not len(doc):
        return
    offsets = np.array(heads, np.int64) - np.arange(len(doc))
    labels = [doc.vocab.strings.add(relation) for relation in relations]
    rows = [offsets.astype(np.uint64), np.array(labels, np.uint64)]
    array: Any = np.stack(rows, axis=1)
    doc.from_array([HEAD, DEP], array)


def _register(
    component: str, task: str, annotate: Annotate, assigns: Sequence[str]
) -> Callable[..., PredictorComponent]:
    """Register a component; the result is what an entry point names."""

    @Language.factory(
        component,
        assigns=assigns,
        default_config={
            "model": task,  # the ready tagger of the bundled model
            "elmo": None,
            "sentences": "auto",
            "batch_tokens": None,
            "device": None,
        },
    )
    def make(
        nlp: Language,
        name: str,
        model: str,
        elmo: str | None,
        sentences: str,
        batch_tokens: int | None,
        device: str | None,
    ) -> PredictorComponent:
        require_at_least(1, "batch_tokens", batch_tokens)
        add_requirement(nlp)
        mode = check_mode(sentences)
        return PredictorComponent(name, task, annotate, model, elmo, mode, batch_tokens, device)

    factory: Callable[..., PredictorComponent] = make
    return factory


make_ner = _register("elmox_ner", "ner", set_entities, ["doc.ents"])
make_pos = _register("elmox_pos", "pos", set_tags, ["token.tag", "token.pos"])
make_parser = _register(
    "elmox_parser", "parse", set_trees, ["token.dep", "token.head", "doc.sents"]
)
