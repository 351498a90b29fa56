"""All tasks, by name: the one list that the command line, the docs and error messages derive from.

A task's code is imported when the task is first used, so that `elmox fit --help` does not have to
import torch. A new task is a folder with its code, an entry here, a recipe and a page of docs.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.tasks.base import Task


@dataclass(frozen=True)
class TaskInfo:
    """A task, as far as it can be described without its code.

    Attributes:
        name: the name that `elmox fit` takes.
        summary: what the task predicts, in a few words.
        formats: the labeled files that it reads.
        metric: the score that selects the best epoch, one of those that `Task.score` returns.
        score: what that score measures, and the official scorer it follows.
        factory: `package.module:name` of a function or class that takes this `TaskInfo` and returns
            the `Task`.
    """

    name: str
    summary: str
    formats: str
    metric: str
    score: str
    factory: str


_COLUMNS = "CoNLL columns in BIO, IOB1, BIOUL or BIOES"
_SPAN_SCORE = "F1 of spans, as conlleval computes it"

TASKS: dict[str, TaskInfo] = {}


def register_task(info: TaskInfo) -> None:
    """Add a task, so that `find_task`, `TaskSession` and `TaskPredictor` know it by its name.

    Raises:
        ElmoxError: another task has this name.
    """
    if TASKS.get(info.name, info) != info:
        raise ElmoxError(f"there is already a task {info.name!r}: choose another name")
    TASKS[info.name] = info


def find_task(name: str) -> "Task[Any, Any]":
    """Import and return the task of that name."""
    if name not in TASKS:
        raise ElmoxError(f"there is no task {name!r}: choose one of {', '.join(TASKS)}")
    return _made(TASKS[name])


@cache
def _made(info: TaskInfo) -> "Task[Any, Any]":
    module, _, name = info.factory.partition(":")
    task: Task[Any, Any] = getattr(import_module(module), name)(info)
    return task


for _info in (
    TaskInfo(
        "classify",
        summary="text classification with your own labels",
        formats="CSV, TSV or JSON lines with columns for text and label",
        metric="accuracy",
        score="accuracy over texts (and macro F1)",
        factory="elmox.tasks.classify.task:Classify",
    ),
    TaskInfo(
        "pos",
        summary="parts of speech",
        formats="CoNLL columns, or the universal tags of CoNLL-U",
        metric="accuracy",
        score="accuracy over words",
        factory="elmox.tasks.tagging.task:word_tagging",
    ),
    TaskInfo(
        "ner",
        summary="named entities",
        formats=_COLUMNS,
        metric="f1",
        score=_SPAN_SCORE,
        factory="elmox.tasks.tagging.task:span_tagging",
    ),
    TaskInfo(
        "chunk",
        summary="chunks",
        formats=_COLUMNS,
        metric="f1",
        score=_SPAN_SCORE,
        factory="elmox.tasks.tagging.task:span_tagging",
    ),
    TaskInfo(
        "srl",
        summary="semantic roles",
        formats="PropBank's roles as JSON lines, or CoNLL-2012",
        metric="f1",
        score="F1 of arguments, as srl-eval computes it",
        factory="elmox.tasks.srl.task:SemanticRoles",
    ),
    TaskInfo(
        "parse",
        summary="dependency trees",
        formats="CoNLL-U",
        metric="las",
        score="labeled attachment score (LAS), as the CoNLL 2018 shared task computes it",
        factory="elmox.tasks.parsing.task:Parsing",
    ),
    TaskInfo(
        "nli",
        summary="textual entailment",
        formats="SICK's columns, or the JSON lines of SNLI and MultiNLI",
        metric="accuracy",
        score="accuracy over pairs",
        factory="elmox.tasks.entailment.task:Entailment",
    ),
    TaskInfo(
        "sst",
        summary="sentiment",
        formats="trees of the Stanford Sentiment Treebank",
        metric="accuracy",
        score="accuracy over sentences",
        factory="elmox.tasks.sentiment.task:Sentiment",
    ),
    TaskInfo(
        "qa",
        summary="question answering",
        formats="SQuAD's JSON, 1.1 or 2.0, or SubjQA's CSV",
        metric="f1",
        score="F1 of the answers' words, as SQuAD's scripts compute it",
        factory="elmox.tasks.qa.task:QuestionAnswering",
    ),
    TaskInfo(
        "coref",
        summary="coreference",
        formats="CoNLL-2012, a file or a folder (OntoNotes, LitBank)",
        metric="f1",
        score="mean F1 of MUC, B-cubed and CEAF-phi4, as CoNLL-2012 computes it",
        factory="elmox.tasks.coref.task:Coreference",
    ),
):
    register_task(_info)
