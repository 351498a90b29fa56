"""The script that makes the table of tasks, run on next to nothing: fits, studies, commands."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from shell import environment
from tagged_files import NAMES, write_columns

if TYPE_CHECKING:
    from tasks.records import Setup

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ROOT = BENCHMARKS.parent
SMALL = ("words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=[8]")
SHORT = ("fit.epochs=2", "fit.least_updates=1", "fit.lr=0.05")


def small_setup(elmo: Path, parent: Path) -> "Setup":
    """Names for training, choosing and testing, in a new folder of `parent`."""
    from tasks.records import Setup

    folder = Path(mkdtemp(dir=parent))
    data = folder / "data" / "ner_wnut17"
    data.mkdir(parents=True)
    for name, some in (
        ("wnut17train.conll", NAMES),
        ("emerging.dev.conll", NAMES[:6]),
        ("emerging.test.annotated", NAMES[4:]),
    ):
        write_columns(data / name, some)
    return Setup(
        work=folder / "work",
        data=folder / "data",
        elmo=str(elmo),
        device="cpu",
        changes=(*SMALL, *SHORT),
    )


def do_all(setup: "Setup", columns: list[str], num_trials: int, num_seeds: int) -> list[str]:
    """All fits one after the other, in this process; their names."""
    from tasks.fits import do_fit
    from tasks.records import pending

    done: list[str] = []
    while fits := pending(setup, ["ner"], columns, num_trials=num_trials, num_seeds=num_seeds):
        do_fit(fits[0], setup)
        done.append(fits[0].name)
    return done


def call(folder: Path, *arguments: object) -> str:
    """Run `run.py ARGUMENTS` in an empty folder and return its output."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "tasks" / "run.py"), *map(str, arguments)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_layers_study(work: Path, picture: str = "<svg/>") -> None:
    """A study of parts of speech as if it had been made, in a user's folders."""
    from elmox.tasks.fit.ablation import Ablation, LearnedMix, Row, Variant
    from elmox.tasks.fit.results import Results, SeedResult

    seed = SeedResult(0, 1, {"accuracy": 90.0}, None, 60.0, "/home/me/runs/model")
    results = Results("pos", "accuracy", [seed], {"dev": 90.0}, {"dev": 0.0})
    row = Row(Variant("mix"), results, {"input": LearnedMix((0.2, 0.5, 0.3), 1.5)})
    recipe = ROOT / "src" / "elmox" / "recipes" / "tasks" / "pos.toml"
    command = f"`elmox ablate pos layers --out /home/me/out --recipe {recipe}`"
    about = {"ELMo": "/home/me/models/x", "command": command}
    study = Ablation("layers", "pos", "accuracy", 1, about, [row])
    folder = work / "ablations" / "pos"
    folder.mkdir(parents=True)
    (folder / "layers.json").write_text(json.dumps(study.to_dict()))
    (folder / "layers.svg").write_text(picture)
