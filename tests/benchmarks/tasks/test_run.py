"""The script that makes the table of tasks: fits, interruptions, choices, the report."""

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from checkpoints import random_options, write_ai2
from shared_data import SHARED
from shell import environment
from tagged_files import NAMES
from task_runs import BENCHMARKS, SHORT, SMALL, do_all

from elmox.errors import ElmoxError
from elmox.probes.bootstrap import Interval

if TYPE_CHECKING:
    from tasks.records import Setup

CORPORA = SHARED / "tasks"


def test_trials_then_seeds_then_the_report(setup: "Setup", tmp_path: Path) -> None:
    from tasks.records import Fit, read_record
    from tasks.report import write_report

    done = do_all(setup, ["none", "mix"], num_trials=2, num_seeds=2)
    assert done == [
        f"ner-{column}-{what}"
        for column in ("none", "mix")
        for what in ("trial-0", "trial-1", "seed-0", "seed-1")
    ]
    trials = [read_record(setup, Fit("ner", "mix", k)) or {} for k in range(2)]
    scores = [trial["dev"]["f1"] for trial in trials]
    chosen = scores.index(max(scores))
    seed = read_record(setup, Fit("ner", "mix", chosen, 0, True)) or {}
    assert seed["dev"] == trials[chosen]["dev"]  # the same fit, tested now
    assert "test" not in trials[chosen]
    assert len(seed["counts"]) == len(NAMES[4:])
    assert seed["recipe"]["elmo"]["layers"] == "mix"
    assert seed["encoder"]["shape"]["num_layers"] == 3
    assert seed["host_mb"] > 50

    document, results = tmp_path / "docs" / "results.md", tmp_path / "tasks.json"
    write_report(setup.work, document, results)
    text = document.read_text("utf-8")
    stored = json.loads(results.read_text("utf-8"))["tasks"]["ner"]
    means = [stored["columns"][name]["mean"] for name in ("none", "mix")]
    start = "| named entities | WNUT 2017 | F1"
    (row,) = [line for line in text.splitlines() if line.startswith(start)]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert [cells[place].split()[0] for place in (3, 5)] == [f"{mean:.2f}" for mean in means]
    assert [cells[place] for place in (4, 8)] == ["not yet run"] * 2  # layer 0
    gain = stored["mix_minus"]["none"]
    assert gain["estimate"] == pytest.approx(means[1] - means[0])
    assert gain["low"] <= gain["estimate"] <= gain["high"]
    assert cells[7] == "{estimate:+.2f} [{low:+.2f}, {high:+.2f}]".format(**gain)
    assert "over 1 of 9 tasks (ner)" in text
    assert "(2 of 3 seeds)" in text
    assert str(setup.work) not in text


def test_only_what_is_missing_is_done(setup: "Setup") -> None:
    assert len(do_all(setup, ["none"], num_trials=1, num_seeds=1)) == 2
    assert do_all(setup, ["none"], num_trials=1, num_seeds=1) == []
    assert do_all(setup, ["none"], num_trials=1, num_seeds=2) == ["ner-none-seed-1"]
    other = replace(setup, changes=(*setup.changes, "fit.epochs=3"))
    with pytest.raises(ElmoxError, match=r"trial-0\.json is of another recipe"):
        do_all(other, ["none"], num_trials=1, num_seeds=1)


def test_a_repeated_fit_is_measured_again(setup: "Setup") -> None:
    """The chosen trial is seed 0, with what it took; of a record alone it is another fit."""
    from tasks.fits import do_fit
    from tasks.records import Fit

    trial, seed = Fit("ner", "none", 0), Fit("ner", "none", 0, tested=True)
    do_fit(trial, replace(setup, parallel_fits=7))
    assert do_fit(seed, setup)["parallel_fits"] == 7
    shutil.rmtree(trial.folder(setup.work))
    assert do_fit(seed, setup)["parallel_fits"] == 1


def test_seeds_ahead_of_the_choice(setup: "Setup") -> None:
    """Those of the best setting so far stay if it is chosen, and are done again if not."""
    from tasks.plan import TASKS
    from tasks.records import Fit, pending, recipe_values

    def names(num_trials: int | None = 2) -> list[str]:
        fits = pending(setup, ["ner"], ["none"], num_trials=num_trials, num_seeds=3, ahead=True)
        return [f"{fit.name}, trial {fit.trial}" for fit in fits]

    def note(fit: Fit, score: float) -> None:
        path = fit.path(setup.work)
        path.parent.mkdir(parents=True, exist_ok=True)
        recipe = recipe_values(setup.recipe(fit))
        record = {"trial": fit.trial, "metric": "f1", "dev": {"f1": score}, "recipe": recipe}
        path.write_text(json.dumps({**record, "encoder": None}))

    ahead = ["ner-none-seed-1, trial 0", "ner-none-seed-2, trial 0"]
    assert names() == ["ner-none-trial-0, trial 0", "ner-none-trial-1, trial 1", *ahead]
    note(Fit("ner", "none", 0, 1, tested=True), 50.0)
    note(Fit("ner", "none", 0), 50.0)
    assert names() == ["ner-none-trial-1, trial 1", ahead[1]]
    note(Fit("ner", "none", 1), 49.0)
    assert names() == ["ner-none-seed-0, trial 0", ahead[1]]
    note(Fit("ner", "none", 1), 51.0)
    assert names() == [f"ner-none-seed-{seed}, trial 1" for seed in range(3)]
    note(Fit("ner", "none", 1, 1, tested=True), 50.5)
    assert TASKS["ner"].tried == 3
    # Nothing of the first setting again: the second is better, and seed 1 of it is there.
    assert names(None) == ["ner-none-trial-2, trial 2", "ner-none-seed-2, trial 1"]


def test_results_of_different_models_are_not_mixed(
    setup: "Setup", tiny: Path, tmp_path: Path
) -> None:
    from tasks.records import Fit
    from tasks.report import write_report

    do_all(setup, ["none", "mix"], num_trials=1, num_seeds=2)
    same = shutil.copytree(tiny.parent, tmp_path / "same") / tiny.name
    assert do_all(replace(setup, elmo=str(same)), ["none", "mix"], 1, 2) == []
    other = write_ai2(tmp_path / "other", random_options(), np.random.default_rng(1))
    changed = replace(setup, elmo=str(other))
    assert do_all(changed, ["none"], 1, 2) == []  # it has no part in this column
    with pytest.raises(ElmoxError, match=r"mix/trial-0\.json is of another biLM.*--elmo"):
        do_all(changed, ["none", "mix"], 1, 2)

    path = Fit("ner", "mix", 0, 1, True).path(setup.work)
    record = json.loads(path.read_text("utf-8"))
    record["encoder"]["digest"] = changed.digest("elmo")
    path.write_text(json.dumps(record), encoding="utf-8")
    expected = r"ner/mix/trial-0\.json and .*/ner/mix/seed-1\.json are of different models"
    with pytest.raises(ElmoxError, match=expected):
        write_report(setup.work, tmp_path / "results.md", tmp_path / "tasks.json")


def test_a_column_of_the_original_size(setup: "Setup", tmp_path: Path) -> None:
    from tasks.report import write_report

    document = tmp_path / "results.md"
    other = write_ai2(tmp_path / "other", random_options(), np.random.default_rng(1))
    with pytest.raises(ElmoxError, match="needs its biLM: --original"):
        do_all(setup, ["original"], num_trials=1, num_seeds=1)
    do_all(setup, ["none", "mix"], num_trials=1, num_seeds=1)
    write_report(setup.work, document, tmp_path / "tasks.json")
    assert "original size" not in document.read_text("utf-8")

    both = replace(setup, original=str(other))
    assert both.digest("original") != both.digest("elmo")
    do_all(both, ["none", "mix", "original"], num_trials=1, num_seeds=1)
    write_report(setup.work, document, tmp_path / "tasks.json")
    stored = json.loads((tmp_path / "tasks.json").read_text("utf-8"))["tasks"]["ner"]["columns"]
    text = document.read_text("utf-8").split("## With the original size")[1].split("\n## ")[0]
    (row,) = [line for line in text.splitlines() if line.startswith("| named entities, F1 |")]
    shown = [cell.split()[0] for cell in row.strip("|").split("|")[1:4]]
    assert shown == [f"{stored[name]['mean']:.2f}" for name in ("none", "mix", "original")]


def test_one_rule_for_the_chosen_trial() -> None:
    from tasks.records import chosen_trial

    def records(*scores: float) -> list[dict[str, Any]]:
        return [{"trial": k, "metric": "f1", "dev": {"f1": s}} for k, s in enumerate(scores)]

    tried = records(50, 60, 60, 70)
    assert chosen_trial(tried) == 3
    assert chosen_trial(tried[:3]) == chosen_trial(tried[2::-1]) == 1  # the first of equal ones
    assert chosen_trial(tried, [{"trial": 1}, {"trial": 1}]) == 1  # of a run with fewer trials
    assert chosen_trial(tried, [{"trial": 1}, {"trial": 3}]) == 3  # seeds are being made again


def test_the_report_shows_what_the_seeds_are_of(setup: "Setup", tmp_path: Path) -> None:
    """A trial of another run, however good, takes no seeds from the table."""
    from tasks.plan import TASKS
    from tasks.records import Fit
    from tasks.report import write_report

    do_all(setup, ["none"], num_trials=1, num_seeds=1)
    record = json.loads(Fit("ner", "none", 0).path(setup.work).read_text("utf-8"))
    record |= {"trial": 1, "dev": {**record["dev"], record["metric"]: 100.0}}
    files, other = (tmp_path / "results.md", tmp_path / "tasks.json"), Fit("ner", "none", 1)
    other.path(setup.work).write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ElmoxError, match="trial 1 of ner had other settings"):
        write_report(setup.work, *files)
    record["settings"] = TASKS["ner"].trials[1]
    other.path(setup.work).write_text(json.dumps(record), encoding="utf-8")
    write_report(setup.work, *files)
    stored = json.loads((tmp_path / "tasks.json").read_text("utf-8"))["tasks"]["ner"]["columns"]
    assert [record["trial"] for record in stored["none"]["seeds"]] == [0]
    assert stored["none"]["mean"] is not None
    text = (tmp_path / "results.md").read_text("utf-8")
    assert "| 100.00 |" in text
    assert "**100.00**" not in text


@pytest.mark.parametrize(
    ("gains", "held"),
    [([1.0, 2.0], "yes"), ([1.0, None], "not yet run"), ([None, -1.0], "**no**")],
)
def test_a_task_that_is_not_better_settles_it(gains: list[float | None], held: str) -> None:
    from tasks.report import _all_better

    def compared(gain: float | None) -> Any:
        interval = None if gain is None else Interval(gain, gain - 0.5, gain + 0.5)
        return SimpleNamespace(differences={} if interval is None else {"none": interval})

    assert _all_better([compared(gain) for gain in gains], "none", "ELMo is better")[-1] == held


def test_nothing_has_been_run(tmp_path: Path) -> None:
    from tasks.report import write_report

    write_report(tmp_path, tmp_path / "results.md", tmp_path / "tasks.json")
    text = (tmp_path / "results.md").read_text("utf-8")
    assert "Nothing has been run yet." in text
    assert text.count("| not yet run |") > 9


@pytest.mark.parametrize(
    ("columns", "message"),
    [(["mix"], "nowhere does not exist"), (["none", "original"], "needs its biLM: --original")],
)
def test_a_model_that_is_not_there(columns: list[str], message: str, setup: "Setup") -> None:
    script = [
        sys.executable,
        str(BENCHMARKS / "tasks" / "run.py"),
        "run",
        "--tasks",
        "ner",
        "--columns",
    ]
    script += [*columns, f"--work={setup.work}", f"--data={setup.data}", "--elmo=nowhere"]
    done = subprocess.run(script, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert not setup.work.exists()  # nothing has been begun


def test_a_killed_run_leaves_no_process_and_continues(
    setup: "Setup", capsys: pytest.CaptureFixture[str]
) -> None:
    from tasks.fits import do_fit
    from tasks.records import Fit

    long = replace(setup, changes=(*SMALL, *SHORT, "fit.epochs=40", "fit.patience=40"))
    options = {"--work": long.work, "--data": long.data, "--elmo": long.elmo, "--device": "cpu"}
    arguments = ["run", "--tasks", "ner", "--columns", "none", "--jobs", "2", "--trials", "1"]
    arguments += [str(part) for option in options.items() for part in option]
    arguments += [part for change in long.changes for part in ("--set", change)]
    script = [sys.executable, str(BENCHMARKS / "tasks" / "run.py"), *arguments]
    run = subprocess.Popen(script, env=environment(), stdout=subprocess.DEVNULL)
    progress = long.work / "fits/ner/none/trial-0/seed-0/progress/progress.json"
    ends = time.monotonic() + 60
    while not progress.exists() and time.monotonic() < ends:
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=30) == 128 + signal.SIGTERM
    assert not (long.work / "results").exists()
    do_fit(Fit("ner", "none", 0), long)  # would be refused while another process is at it
    assert "continuing after epoch" in capsys.readouterr().out
    assert (long.work / "results" / "ner" / "none" / "trial-0.json").exists()


@dataclass(frozen=True)
class Sleep:
    """A job that notes its name, waits, and ends with a given code."""

    name: str
    notes: Path
    seconds: float = 0
    code: int = 0

    def command(self, setup: "Setup") -> list[str]:
        text = f"""
import sys, time
with open({str(self.notes)!r}, "a") as file:
    file.write({self.name!r} + "\\n")
time.sleep({self.seconds})
sys.exit({self.code})
"""
        return [sys.executable, "-c", text]


def run_sleeps(jobs: list[Sleep], setup: "Setup", most: int = 1, seconds: float = 60) -> bool:
    from tasks.jobs import run_jobs

    def find() -> list[Sleep]:
        seen = notes.read_text().split() if notes.exists() else []
        return [job for job in jobs if job.name not in seen]

    notes = jobs[0].notes
    return run_jobs(find, setup, most=most, seconds=seconds, threads=1)


def test_jobs_begin_in_their_order(setup: "Setup", tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    jobs = [Sleep(name, notes) for name in "bca"]
    assert run_sleeps(jobs, setup)
    assert notes.read_text().split() == ["b", "c", "a"]


def test_the_longest_job_comes_first(tmp_path: Path) -> None:
    from tasks.jobs import FitJob, StudyJob, in_order
    from tasks.records import Fit, Setup

    fits = [FitJob(Fit(task, "mix", 0)) for task in ("ner", "srl", "pos")]
    fits.append(FitJob(Fit("nli", "mix", 0, 0, tested=True)))
    fits.append(FitJob(Fit("srl", "layer0", 0, 1, tested=True)))
    studies = [StudyJob("pos", "layers", 3, 0), StudyJob("srl", "layers", 3, 0)]
    expected = ["srl-study-layers-0", "srl-mix-trial-0", "pos-study-layers-0"]
    expected += ["srl-layer0-seed-1", "pos-mix-trial-0", "ner-mix-trial-0"]

    def names() -> list[str]:
        return [job.name for job in in_order(fits, studies, Setup(tmp_path))]

    assert names() == [*expected, "nli-mix-seed-0"]  # its trial was fitted elsewhere
    (fits[3].fit.folder(tmp_path) / "seed-0").mkdir(parents=True)
    assert names() == ["nli-mix-seed-0", *expected]  # only the test is left


def test_studies_wait_for_what_the_table_fits_too(tmp_path: Path) -> None:
    from tasks.jobs import FitJob, StudyJob, in_order
    from tasks.records import Fit, Setup

    setup = Setup(tmp_path)
    fits = [FitJob(Fit("srl", "none", 1)), FitJob(Fit("pos", "mix", 0))]
    studies = StudyJob("srl", "layers", 3).pending(setup)
    names = {job.name for job in in_order(fits, studies, setup)}
    assert (len(studies), len(names)) == (5, 2 + 4)
    assert "srl-study-layers-0" not in names  # without ELMo
    assert {job.name for job in in_order(fits[1:], studies, setup)} >= {"srl-study-layers-0"}


def test_a_fit_shared_by_two_studies_is_made_once(tmp_path: Path) -> None:
    from tasks.jobs import StudyJob, in_order
    from tasks.records import Setup

    setup = Setup(tmp_path)
    studies = [
        job
        for study in ("layers", "place", "samples")
        for job in StudyJob("pos", study, 1).pending(setup)
    ]
    assert len(studies) == 16
    # The recipe as it is: a mix with lambda 0.001, at the input, of all data.
    same = ["pos-study-place-0", "pos-study-samples-7", "pos-study-samples-6"]
    kept = [job.name for job in studies if job.name not in same]
    assert sorted(job.name for job in in_order([], studies, setup)) == sorted(kept)
    first, second = StudyJob("pos", "layers", 1), StudyJob("pos", "place", 1)
    other = StudyJob("srl", "place", 1)
    assert in_order([], [first, second, other], setup) == [first, other]  # the second waits


def test_a_failure_does_not_end_the_others(
    setup: "Setup", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes"
    jobs = [Sleep("bad", notes, code=3), Sleep("good", notes)]
    assert not run_sleeps(jobs, setup)
    assert notes.read_text().split() == ["bad", "good"]
    assert "bad failed (3)" in capsys.readouterr().out


def test_when_the_time_is_over(setup: "Setup", tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    jobs = [Sleep(name, notes, 60) for name in "abc"]
    began = time.monotonic()
    assert run_sleeps(jobs, setup, most=2, seconds=1)
    assert time.monotonic() - began < 30  # the jobs take a minute and are ended


def test_recipes_are_among_what_is_tried() -> None:
    from tasks.plan import COLUMNS, RECIPES, TASKS, recipe_for

    from elmox.tasks.recipe import task_recipe

    shipped = {path.stem for path in RECIPES.glob("*.toml")}
    assert shipped == {*TASKS, "classify"}  # which has no corpus of its own
    for task in TASKS.values():
        recipe = task_recipe(RECIPES / f"{task.name}.toml")
        mix, none = (
            [recipe_for(task, COLUMNS[name], t, 0, elmo=recipe.elmo.model) for t in task.trials]
            for name in ("mix", "none")
        )
        assert recipe in mix
        settings = {(r.fit.lr, r.words.dropout, r.head["dropout"]) for r in none}
        assert len(settings) == len(mix)  # as many different trials without ELMo
        assert 2 <= task.tried <= len(task.trials)


def test_missing_data(setup: "Setup", tmp_path: Path) -> None:
    from tasks.fits import do_fit
    from tasks.records import Fit

    with pytest.raises(ElmoxError, match="is not a folder: give the folder of"):
        do_fit(Fit("ner", "none", 0), replace(setup, data=tmp_path / "nowhere"))
    with pytest.raises(ElmoxError, match=r"train\.txt\.xz does not exist"):
        do_fit(Fit("chunk", "none", 0), setup)
    assert not (setup.work / "data" / "conll2000").exists()


@pytest.mark.skipif(not CORPORA.is_dir(), reason=f"no corpora at {CORPORA} (set ELMOX_SHARED)")
def test_the_corpora_are_read(tmp_path: Path) -> None:
    from tasks.corpora import corpus_files

    from elmox.tasks.registry import find_task

    sizes = {
        ("ner", "wnut17"): (3394, 1009, 1287),
        ("chunk", "conll2000"): (8043, 893, 2012),
        ("nli", "sick"): (4500, 500, 4927),
    }
    for (task, corpus), expected in sizes.items():
        files = corpus_files(corpus, CORPORA, tmp_path)
        assert tuple(len(find_task(task).read(path)) for path in files) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--jobs", "0"], "--jobs: '0': expected a number from 1 on"),
        (["run", "--trials", "none"], "--trials: 'none': expected a number from 1 on"),
        (["fit", "sst", "none", "--trial", "99"], "invalid choice: 99"),
        (["report", "--work", "nowhere"], "nowhere does not exist: give the --work of"),
    ],
)
def test_wrong_arguments(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from tasks.run import main

    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code not in (0, None)
    assert message in f"{capsys.readouterr().err}{ended.value.code}"
