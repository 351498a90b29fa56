"""Questions whose answers are passages of a text: what the readers of such corpora share."""

from dataclasses import dataclass
from typing import NamedTuple


class Answer(NamedTuple):
    """A passage of the context and the place of its first character."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question about a text.

    Attributes:
        id: as the corpus names it; no two questions of a file have the same.
        context: the text, with all its characters: places of answers count from its start.
        question: what is asked.
        answers: what annotators chose, one after the other; the same one may be there twice.
        is_impossible: the text does not answer the question; there are no answers then.
    """

    id: str
    context: str
    question: str
    answers: tuple[Answer, ...]
    is_impossible: bool = False
