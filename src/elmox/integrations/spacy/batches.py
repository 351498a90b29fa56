"""Components that annotate several documents at a time."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from spacy.tokens import Doc

from elmox.text.batches import in_chunks

BATCH_TOKENS = 2**14  # that are computed together, sorted by length


class BatchComponent(ABC):
    """A component of a pipeline, which computes the words of several documents together.

    Attributes:
        batch_tokens: tokens per batch in `nlp.pipe`; None for the default.
    """

    batch_tokens: int | None

    @abstractmethod
    def annotate(self, docs: Sequence[Doc]) -> None:
        """Annotate several documents."""

    def __call__(self, doc: Doc) -> Doc:
        """Annotate one document."""
        self.annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 1000) -> Iterator[Doc]:
        """Annotate documents in batches of up to `batch_size` documents and `batch_tokens` tokens.

        The model computes them sorted by length.
        """
        for docs in doc_batches(stream, batch_size, self.batch_tokens):
            self.annotate(docs)
            yield from docs


def doc_batches(
    stream: Iterable[Doc], batch_size: int, batch_tokens: int | None
) -> Iterator[list[Doc]]:
    """Yield batches of up to `batch_size` documents and `batch_tokens` tokens."""
    budget = batch_tokens or BATCH_TOKENS
    least = -(-budget // batch_size)  # so that `batch_size` documents fill a batch
    return in_chunks(stream, lambda doc: max(len(doc), least), budget)
