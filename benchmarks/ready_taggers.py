"""Fit the ready taggers of a biLM: pos, parse, ner, chunk, srl and sst.

Each task is fitted by a process of its own, several at a time. A finished fit is not repeated and
an interrupted one goes on when the same command is run again. The best seed by the dev data is
stored in 8 bits if its dev score stays the same to 0.05, otherwise in float16; only then is it
tested.

    python benchmarks/ready_taggers.py runs/taggers --elmo english-original --jobs 6 --minutes 9
    elmox package english-original --tagger pos=runs/taggers/ready/pos ...
    cp -r runs/taggers/ready src/elmox/models/english-small/taggers     # those of english-small

OUT/ready/TASK is a tagger as a model's directory has it, OUT/ready_taggers.json has all scores. The
biLM must be the directory that is shipped: taggers are bound to the digest of its weights.
`--data` is a folder with the published corpora, laid out as in `tasks/corpora.py`; the entities are
those of `entities.py`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entities import write_entities
from machine import ROOT
from tasks.corpora import DATA, PARTS, Files, corpus_files

from elmox.config import BUNDLED
from elmox.errors import ElmoxError
from elmox.io.files import atomic_write, to_json

SAME = 0.05  # points of the dev score
TICK = 0.5  # seconds


@dataclass(frozen=True)
class Tagger:
    """A ready tagger.

    Attributes:
        corpus: as `tasks/corpora.py` has it, or `entities`.
        data, license: for the card.
        cost: relative duration; longer ones begin first.
        settings: changes to the task's recipe. The number of epochs is fixed and the learning rate
            falls to 0, which is as good as patience and takes a known time.
    """

    corpus: str
    data: str
    license: str
    cost: int
    settings: tuple[str, ...]


# Words of three occurrences and smaller networks than those of the results page: a few MB each.
_SMALL = ("words.min_count=3",)
_DECAY = (*_SMALL, "fit.decay=true")
_PARSER = "head.hidden=[300,300]", "head.arc_dim=300"
_SENTIMENT = "head.hidden=200", "head.maxout=[400,200]"
TAGGERS = {
    "pos": Tagger("ewt", "UD English-EWT", "CC BY-SA 4.0", 3, (*_DECAY, "fit.epochs=20")),
    "parse": Tagger(
        "ewt", "UD English-EWT", "CC BY-SA 4.0", 4, (*_DECAY, *_PARSER, "fit.epochs=20")
    ),
    "ner": Tagger(
        "entities",
        "Broad Twitter Corpus, Groningen Meaning Bank, WNUT-17: PER, ORG, LOC",
        "CC BY 4.0 (Broad Twitter Corpus, WNUT-17), public-domain text (Groningen Meaning Bank)",
        6,
        (*_DECAY, "fit.epochs=10", "fit.batch_size=64", "fit.lr=0.002"),
    ),
    "chunk": Tagger("conll2000", "CoNLL-2000", "not stated", 2, (*_DECAY, "fit.epochs=20")),
    "srl": Tagger("propbank", "PropBank on EWT", "CC BY-SA 4.0", 8, (*_SMALL, "head.hidden=250")),
    "sst": Tagger(
        "sst",
        "Stanford Sentiment Treebank",
        "not stated",
        5,
        (*_DECAY, *_SENTIMENT, "fit.epochs=12"),
    ),
}

ENTITIES = {
    "train": ("ner_btc/train.conll", "ner_gmb/train.conll.xz", "ner_wnut17/wnut17train.conll"),
    "dev": ("ner_btc/dev.conll", "ner_gmb/dev.conll.xz", "ner_wnut17/emerging.dev.conll"),
    "test": ("ner_btc/test.conll", "ner_gmb/test.conll.xz", "ner_wnut17/emerging.test.annotated"),
}


def files_of(task: str, data: Path, work: Path) -> Files:
    """Return the three files of a task, made of the published ones on the first call."""
    corpus = TAGGERS[task].corpus
    if corpus != "entities":
        return corpus_files(corpus, data, work / "corpora")
    folder = work / "corpora" / corpus
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        parts = ([data / name for name in ENTITIES[part]] for part in PARTS)
        print("\n".join(write_entities(folder, *parts)), flush=True)
    return Files(*(folder / f"{part}.txt" for part in PARTS))


def fit_one(task: str, arguments: argparse.Namespace) -> None:
    """Fit a task and store its tagger."""
    from elmox.tasks.fit.api import fit
    from elmox.tasks.ready import SCORES_FILE, store_tagger

    tagger, files = TAGGERS[task], files_of(task, arguments.data, arguments.out)
    began = time.monotonic()
    results = fit(
        task,
        files.train,
        files.dev,
        out=arguments.out / "fits" / task,
        elmo=arguments.elmo,
        recipe=task,
        settings=[*tagger.settings, *arguments.set],
        seeds=arguments.seeds,
        device=arguments.device,
        cache=arguments.out / "cache",
        log=lambda line: print(line, flush=True),
    )
    model, metric = Path(results.model), results.metric
    stored = arguments.out / "stored"
    dev: dict[str, dict[str, float]] = {"float32": score(model, files.dev, arguments)}
    for dtype in ("int8", "float16"):
        store_tagger(model, stored / task, model=arguments.name, dtype=dtype, force=True)
        dev[dtype] = score(stored / task, files.dev, arguments)
        if abs(dev[dtype][metric] - dev["float32"][metric]) <= SAME:
            break
    test = score(stored / task, files.test, arguments)
    facts: dict[str, Any] = {
        "task": task,
        "metric": metric,
        "data": tagger.data,
        "license": tagger.license,
        "dtype": dtype,
        "dev": dev[dtype],
        "dev_float32": dev["float32"],
        "test": test,
        "seeds": len(results.seeds),
        "settings": [*tagger.settings, *arguments.set],
        "seconds": round(results.best.seconds),
    }
    (stored / task / SCORES_FILE).write_bytes(to_json(facts))
    ready = arguments.out / "ready" / task
    ready.parent.mkdir(exist_ok=True)
    if ready.exists():
        shutil.rmtree(ready)
    (stored / task).rename(ready)
    size = sum(path.stat().st_size for path in ready.iterdir()) / 1e6
    print(
        f"{task}: {dtype}, dev {metric} {dev[dtype][metric]:.2f} (float32 "
        f"{dev['float32'][metric]:.2f}), test {test[metric]:.2f}, {size:.1f} MB, "
        f"{time.monotonic() - began:.0f} s",
        flush=True,
    )


def score(model: Path, data: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """Return the official scores of a stored model."""
    from elmox.tasks.predictor import TaskPredictor

    predictor = TaskPredictor.from_pretrained(model, elmo=arguments.elmo, device=arguments.device)
    return predictor.score(data)


def run_all(arguments: argparse.Namespace) -> bool:
    """Fit the tasks, several processes at a time; return whether all are done."""
    out: Path = arguments.out
    (out / "logs").mkdir(parents=True, exist_ok=True)
    tasks = sorted(arguments.tasks, key=lambda task: -TAGGERS[task].cost)
    for task in tasks:
        files_of(task, arguments.data, out)  # here, not by several processes at once
    waiting = [task for task in tasks if not (out / "ready" / task).exists()]
    ends = time.monotonic() + 60 * arguments.minutes
    running: dict[str, subprocess.Popen[bytes]] = {}
    failed = []
    try:
        while (waiting or running) and time.monotonic() < ends:
            while waiting and len(running) < arguments.jobs:
                task = waiting.pop(0)
                running[task] = _start(task, arguments)
            time.sleep(TICK)
            for task in [task for task, process in running.items() if process.poll() is not None]:
                code = running.pop(task).returncode
                failed += [task] if code else []
                print(f"{'failed: ' if code else ''}{_last_line(out, task)}", flush=True)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    for task in running:
        print(f"{task} is not done; its last line: {_last_line(out, task)}")
    _write_summary(arguments)
    if running or waiting:
        print(f"run the same again to go on with {', '.join([*running, *waiting])}")
    return not (failed or running or waiting)


def _start(task: str, arguments: argparse.Namespace) -> "subprocess.Popen[bytes]":
    """Start the fit of a task; its output goes to a file."""
    options = {
        "--elmo": arguments.elmo, "--name": arguments.name, "--data": arguments.data,
        "--device": arguments.device, "--seeds": arguments.seeds, "--one": task,
    }  # fmt: skip
    command = [sys.executable, str(Path(__file__).resolve()), str(arguments.out)]
    command += [f"{name}={value}" for name, value in options.items() if value is not None]
    command += [f"--set={change}" for change in arguments.set]
    threads = max(1, (os.cpu_count() or 1) // arguments.jobs)
    source = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment = {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": source}
    with (arguments.out / "logs" / f"{task}.log").open("ab") as log:
        return subprocess.Popen(
            command, env=os.environ | environment, stdout=log, stderr=subprocess.STDOUT
        )


def _last_line(out: Path, task: str) -> str:
    lines = (out / "logs" / f"{task}.log").read_text("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "nothing printed"


def _write_summary(arguments: argparse.Namespace) -> None:
    """Write the scores of all taggers that are done."""
    taggers: dict[str, Any] = {}
    for path in sorted((arguments.out / "ready").glob("*/scores.json")):
        size = sum(file.stat().st_size for file in path.parent.iterdir())
        taggers[path.parent.name] = json.loads(path.read_text("utf-8")) | {"bytes": size}
    with atomic_write(arguments.out / "ready_taggers.json") as temporary:
        temporary.write_bytes(to_json({"model": arguments.name, "taggers": taggers}))


def main() -> None:
    """Fit all tasks, or the one of a process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, help="directory of fits, caches and ready taggers")
    parser.add_argument("--elmo", default=BUNDLED, help="the biLM, as it is shipped")
    parser.add_argument("--name", help="its name; by default that of its directory")
    parser.add_argument("--data", type=Path, default=DATA, help="the published corpora")
    parser.add_argument("--tasks", nargs="+", choices=TAGGERS, default=list(TAGGERS))
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seeds", type=int, default=1, help="fits per task; the best is stored")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end after so long")
    parser.add_argument("--device", help="cpu, cuda; a GPU by default")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="change a setting of all recipes")  # fmt: skip
    parser.add_argument("--one", choices=TAGGERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.name = arguments.name or Path(arguments.elmo).resolve().name
    if Path(arguments.elmo).exists():
        arguments.elmo = str(Path(arguments.elmo).resolve())
    arguments.out = arguments.out.resolve()
    try:
        if arguments.one:
            fit_one(arguments.one, arguments)
        elif not run_all(arguments):
            sys.exit(1)
    except ElmoxError as error:
        sys.exit(f"ready_taggers.py: {error}")


if __name__ == "__main__":
    main()
