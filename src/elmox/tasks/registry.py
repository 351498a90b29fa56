"""The tasks, by name."""

from typing import Any

from elmox.errors import ElmoxError
from elmox.tasks.coreference import Coreference
from elmox.tasks.entailment import Entailment
from elmox.tasks.parsing import Parsing
from elmox.tasks.question_answering import QuestionAnswering
from elmox.tasks.sentiment import Sentiment
from elmox.tasks.srl import SemanticRoles
from elmox.tasks.tagging import Tagging
from elmox.tasks.task import Task

_ALL: tuple[Task[Any, Any], ...] = (
    Tagging("pos", spans=False),
    Tagging("ner", spans=True),
    Tagging("chunk", spans=True),
    SemanticRoles(),
    Parsing(),
    Entailment(),
    Sentiment(),
    QuestionAnswering(),
    Coreference(),
)
TASKS = {task.name: task for task in _ALL}


def find_task(name: str) -> Task[Any, Any]:
    """The task of that name."""
    if name not in TASKS:
        raise ElmoxError(f"there is no task {name!r}: choose one of {', '.join(TASKS)}")
    return TASKS[name]
