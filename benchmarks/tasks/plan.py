"""The comparison: tasks, columns, the settings that are tried, and the paper's figures.

For every task and column the same settings are tried, each with one seed; the one with the best
score on the dev data is fitted with further seeds, and those are tested.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from machine import ROOT

from elmox.tasks.recipe import NO_ELMO, TaskRecipe, task_recipe

RECIPES = ROOT / "src" / "elmox" / "recipes" / "tasks"

MINILM = "minilm"  # the name in recipes; `minilm.py` finds the folder

Trial: TypeAlias = tuple[str, ...]  # changes of the recipe, as for `--set`


@dataclass(frozen=True)
class Column:
    """A way to represent words.

    Attributes:
        name: as the command line has it.
        label: as tables have it.
        encoder: "none", "elmo", "original" (a biLM of that size) or "minilm".
        layers: of the encoder: "mix", "top" or a number.
    """

    name: str
    label: str
    encoder: str
    layers: str = "mix"


COLUMNS = {
    column.name: column
    for column in (
        Column("none", "no ELMo", "none"),
        Column("layer0", "layer 0", "elmo", "0"),
        Column("mix", "mix", "elmo"),
        Column("original", "mix, original size", "original"),
        Column("minilm-mix", "MiniLM, mix of all layers", "minilm"),
        Column("minilm-top", "MiniLM, last layer", "minilm", "top"),
    )
}


@dataclass(frozen=True)
class Paper:
    """Figures of Peters et al.: the same model without and with ELMo.

    Attributes:
        data: its corpus.
        without, with_elmo: scores on its test data.
        source: where from, if not Table 1 of Peters et al. (2018).
    """

    data: str
    without: float
    with_elmo: float
    source: str = ""


@dataclass(frozen=True)
class TaskPlan:
    """A task of the table.

    Attributes:
        name: as `elmox fit` has it.
        title, metric: as tables have them.
        corpus: as `corpora.SOURCES` has it.
        data: the corpus, as tables have it.
        differs: what is not as in the paper.
        trials: settings to try.
        cost: of a fit, roughly, in minutes; larger ones are begun first.
        tried: number of settings tried by default. Three on small data sets, where the mix learns
            little in few updates.
        paper: its figures, if it has any.
        floor: minimum score of a credible baseline.
        with_minilm: whether it is also fitted on MiniLM's layers.
    """

    name: str
    title: str
    metric: str
    corpus: str
    data: str
    differs: str
    trials: tuple[Trial, ...]
    cost: float
    tried: int = 2
    paper: Paper | None = None
    floor: float | None = None
    with_minilm: bool = False

    @property
    def columns(self) -> list[Column]:
        """Those that the task is fitted in."""
        return [
            column for column in COLUMNS.values() if self.with_minilm or column.encoder != "minilm"
        ]


Dropouts: TypeAlias = tuple[float, float, float]  # of words, ELMo and head


def _grid(rates: tuple[float, float], first: Dropouts, second: Dropouts) -> tuple[Trial, ...]:
    """Both rates with both dropouts, the recipe's values first, and a mix that learns fast.

    There words have the second dropout, that it is a trial without ELMo too.
    """
    (rate, other), (_, elmo, head) = rates, first
    fast = "elmo.layer_norm=true", "elmo.mix_rate=30"
    return (
        _trial(rate, first),
        _trial(other, first),
        (*_trial(rate, (second[0], elmo, head)), *fast),
        _trial(rate, second),
        _trial(other, second),
    )


def _trial(rate: float, dropouts: Dropouts) -> Trial:
    parts = zip(("words", "elmo", "head"), dropouts, strict=True)
    return (f"fit.lr={rate}", *(f"{name}.dropout={value}" for name, value in parts))


TASKS = {
    task.name: task
    for task in (
        TaskPlan(
            "pos",
            "parts of speech",
            "accuracy",
            "ewt",
            "UD English-EWT",
            "The paper has a linear probe of parts of speech (Table 6), not a tagger, so "
            "there is no figure to compare.",
            _grid((0.001, 0.002), (0.5, 0.5, 0.5), (0.3, 0.3, 0.3)),
            cost=3,
            floor=93.5,
            with_minilm=True,
        ),
        TaskPlan(
            "ner",
            "named entities",
            "F1",
            "wnut17",
            "WNUT 2017",
            "Emerging entities in posts, 3,394 for training, instead of Reuters' news, 14,041 "
            "sentences: most names of the test data are not in the training data.",
            _grid((0.001, 0.002), (0.5, 0.5, 0.5), (0.3, 0.3, 0.3)),
            cost=1,
            tried=3,
            paper=Paper("CoNLL-2003", 90.15, 92.22),
            with_minilm=True,
        ),
        TaskPlan(
            "chunk",
            "chunks",
            "F1",
            "conll2000",
            "CoNLL-2000",
            "The paper's predecessor TagLM (Peters et al. 2017) with a larger language model; the "
            "same data.",
            _grid((0.001, 0.002), (0.5, 0.5, 0.5), (0.3, 0.3, 0.3)),
            cost=2,
            paper=Paper("CoNLL-2000", 95.00, 96.37, "Peters et al. 2017"),
            floor=93.0,
        ),
        TaskPlan(
            "srl",
            "semantic roles",
            "F1",
            "propbank",
            "PropBank on EWT",
            "Web text, 10,524 training sentences with 40,384 predicates, nouns among them, instead "
            "of OntoNotes, which is several times as large; 16 epochs of AdamW instead of 500 of "
            "Adadelta.",
            _grid((0.001, 0.0005), (0.3, 0.1, 0.1), (0.5, 0.3, 0.2)),
            cost=8,
            paper=Paper("OntoNotes 5 (CoNLL-2012)", 81.4, 84.6),
            with_minilm=True,
        ),
        TaskPlan(
            "parse",
            "dependencies",
            "LAS",
            "ewt",
            "UD English-EWT",
            "Not a task of the paper.",
            _grid((0.002, 0.001), (0.33, 0.33, 0.33), (0.5, 0.5, 0.5)),
            cost=7,
            floor=80.0,
        ),
        TaskPlan(
            "nli",
            "entailment",
            "accuracy",
            "sick",
            "SICK",
            "4,500 training pairs instead of SNLI's 550,000.",
            _grid((0.0004, 0.001), (0.5, 0.5, 0.5), (0.3, 0.3, 0.3)),
            cost=1,
            tried=3,
            paper=Paper("SNLI", 88.0, 88.7),
            floor=74.0,
        ),
        TaskPlan(
            "sst",
            "sentiment",
            "accuracy",
            "sst",
            "SST-5",
            "The same data; no GloVe vectors in the baseline.",
            _grid((0.001, 0.0005), (0.5, 0.5, 0.2), (0.3, 0.3, 0.3)),
            cost=5,
            paper=Paper("SST-5", 51.4, 54.7),
            floor=42.0,
        ),
        TaskPlan(
            "qa",
            "question answering",
            "F1",
            "subjqa",
            "SubjQA, answerable",
            "3,071 questions about reviews of four kinds of things instead of SQuAD's 87,599 about "
            "Wikipedia. As published, 276 of the 465 texts of the dev data are training texts too, "
            "of the 1,103 of the test data 82: what learns texts by heart looks better on dev.",
            _grid((0.001, 0.0005), (0.5, 0.5, 0.2), (0.3, 0.3, 0.3)),
            cost=3,
            tried=3,
            paper=Paper("SQuAD 1.1", 81.1, 85.8),
        ),
        TaskPlan(
            "coref",
            "coreference",
            "CoNLL F1",
            "litbank",
            "LitBank",
            "80 beginnings of novels for training, about 2,000 words each, instead of OntoNotes' "
            "2,802 documents; singletons are left out, as there are none in OntoNotes.",
            _grid((0.001, 0.0005), (0.5, 0.5, 0.2), (0.3, 0.3, 0.3)),
            cost=7,
            tried=3,
            paper=Paper("OntoNotes 5 (CoNLL-2012)", 67.2, 70.4),
        ),
    )
}

STUDIED = ("pos", "srl")  # tasks with ablations and curves
STUDIES = ("layers", "place", "samples")


def recipe_for(
    task: TaskPlan,
    column: Column,
    trial: Trial,
    seed: int,
    *,
    elmo: str,
    recipes: Path = RECIPES,
    changes: Sequence[str] = (),
) -> TaskRecipe:
    """The recipe of one fit.

    Args:
        task: what is fitted.
        column: on which vectors.
        trial: with which settings.
        seed: of everything that is drawn.
        elmo: the biLM, where the column has one.
        recipes: the folder of the tasks' recipes.
        changes: of all recipes, over everything else.
    """
    model = {"none": NO_ELMO, "minilm": MINILM}.get(column.encoder, elmo)
    settings = [
        f"elmo.model={json.dumps(model)}",
        f"elmo.layers={column.layers}",
        f"fit.seed={seed}",
    ]
    return task_recipe(recipes / f"{task.name}.toml", [*trial, *changes, *settings])
