"""The tasks, by name."""

from typing import Any

from elmox.errors import ElmoxError
from elmox.tasks.base import Task
from elmox.tasks.coref.task import Coreference
from elmox.tasks.entailment.task import Entailment
from elmox.tasks.parsing.task import Parsing
from elmox.tasks.qa.task import QuestionAnswering
from elmox.tasks.sentiment.task import Sentiment
from elmox.tasks.srl.task import SemanticRoles
from elmox.tasks.tagging.task import Tagging

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
