"""Gain of `elmox.Tok2Vec.v1` over spaCy's default embeddings, in spaCy's own training.

spaCy's tagger and parser are trained on UD EWT and its named entity recognizer on the Broad Twitter
Corpus, with the configurations of examples/spacy and with the same ones in which spaCy's default
`MultiHashEmbed` replaces ELMo; nothing else differs. Every run is a process with one thread. The
best model by the dev set is scored on the test set. A run that is done is not repeated: the same
command continues an interrupted benchmark.

    python benchmarks/spacy_gain.py TASKS --jobs 12

TASKS is a folder with pos_parse_ud_ewt and ner_btc.
"""

import argparse
import json
import multiprocessing
import os
import shlex
import statistics
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, ROOT

from elmox.bench.machine import machine_facts, machine_line

CONFIGS = ROOT / "examples" / "spacy"
DEFAULT_EMBED = {  # of `spacy init config`
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": "${components.tok2vec.model.encode.width}",
    "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
    "rows": [5000, 1000, 2500, 2500],
    "include_static_vectors": False,
}
EMBEDDINGS = {"default": "spaCy's default", "elmox": "ELMo"}


@dataclass(frozen=True)
class Study:
    """A data set with its configuration and the scores to report."""

    config: str
    folder: str
    files: dict[str, str]
    scores: dict[str, str]  # titles by spaCy's names


STUDIES = {
    "ewt": Study(
        "tagger_parser.cfg",
        "pos_parse_ud_ewt",
        {part: f"en_ewt-ud-{part}.conllu.xz" for part in ("train", "dev", "test")},
        {"tag_acc": "EWT tags", "dep_uas": "EWT UAS", "dep_las": "EWT LAS"},
    ),
    "btc": Study(
        "ner.cfg",
        "ner_btc",
        {part: f"{part}.conll" for part in ("train", "dev", "test")},
        {"ents_f": "BTC entities F1"},
    ),
}


@dataclass(frozen=True)
class Run:
    """One training run and the limits that all runs share."""

    study: str
    embedding: str
    seed: int
    tasks: Path
    work: Path
    steps: int
    eval_frequency: int
    max_sentences: int | None
    model: str

    @property
    def name(self) -> str:
        return f"{self.study}-{self.embedding}-{self.seed}"

    @property
    def result(self) -> Path:
        return self.work / f"{self.name}.json"

    @property
    def log(self) -> Path:
        return self.work / f"{self.name}.log"

    def step(self) -> int:
        """Return the last step at which spaCy has evaluated the model."""
        lines = self.log.read_text("utf-8").splitlines() if self.log.exists() else []
        rows = [line.split() for line in lines if line[:3].strip().isdigit()]
        return int(rows[-1][1]) if rows else 0

    def is_done(self) -> bool:
        """Whether a run with these limits has left its result."""
        if not self.result.exists():
            return False
        settings = json.loads(self.result.read_text("utf-8"))["settings"]
        return bool(settings == self.settings())

    def settings(self) -> dict[str, Any]:
        return {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self).items()}


def read_docs(path: Path, vocab: Any, limit: int | None) -> Iterator[Any]:
    """Yield a spaCy document per sentence of a treebank or of a file in columns."""
    from spacy.tokens import Doc

    from elmox.io.conllu import read_conllu
    from elmox.tasks.tagging.columns import read_columns
    from elmox.tasks.tagging.spans import converted, scheme_of

    if ".conllu" in path.name:
        for tree in islice(read_conllu(path), limit):
            heads = [head - 1 if head else i for i, head in enumerate(tree.heads)]
            words, tags, deps = list(tree.words), list(tree.xpos), list(tree.deprels)
            yield Doc(vocab, words, tags=tags, heads=heads, deps=deps)
        return
    sentences = list(islice(read_columns(path), limit))
    scheme = scheme_of(sentence.tags for sentence in sentences)
    for sentence in sentences:
        bio = converted(sentence.tags, scheme, "BIO")
        yield Doc(vocab, list(sentence.words), ents=bio)


def write_corpora(run: Run) -> None:
    """Convert a study's files to spaCy's format."""
    import spacy
    from spacy.tokens import DocBin

    study, vocab = STUDIES[run.study], spacy.blank("en").vocab
    for part, name in study.files.items():
        docs = read_docs(run.tasks / study.folder / name, vocab, run.max_sentences)
        DocBin(docs=docs, store_user_data=False).to_disk(corpus_path(run, part))


def corpus_path(run: Run, part: str) -> Path:
    return run.work / f"{run.study}-{part}.spacy"


def configuration(run: Run) -> Any:
    """Return the configuration of a run, as `spacy train` would read it."""
    from spacy.util import load_config

    overrides: dict[str, Any] = {
        "paths.train": str(corpus_path(run, "train")),
        "paths.dev": str(corpus_path(run, "dev")),
        "system.seed": run.seed,
        "training.max_steps": run.steps,
        "training.patience": 0,
        "training.eval_frequency": run.eval_frequency,
    }
    config = load_config(CONFIGS / STUDIES[run.study].config, overrides, interpolate=False)
    tok2vec = config["components"]["tok2vec"]["model"]
    if run.embedding == "default":
        tok2vec["embed"] = dict(DEFAULT_EMBED)
    else:  # a document is a sentence here
        tok2vec["embed"] |= {"model": run.model, "sentences": "doc", "device": "cpu"}
    return config


def train(run: Run) -> dict[str, Any]:
    """Train and score in a worker; spaCy's exceptions cannot be sent from there as they are."""
    try:
        return train_and_score(run)
    except Exception:
        raise RuntimeError(f"{run.name}:\n{traceback.format_exc()}") from None


def train_and_score(run: Run) -> dict[str, Any]:
    """Train, score on the test set, and leave the result in a file."""
    import spacy
    from spacy.training import Corpus
    from spacy.training.initialize import init_nlp
    from spacy.training.loop import train as train_pipeline

    from elmox.integrations.spacy.tok2vec import mix_coefficients  # registers the architecture

    torch.set_num_threads(1)
    began = time.perf_counter()
    nlp = init_nlp(configuration(run))
    folder = run.work / run.name
    folder.mkdir(exist_ok=True)
    with run.log.open("w", encoding="utf-8", buffering=1) as log:
        train_pipeline(nlp, folder, use_gpu=-1, stdout=log, stderr=log)
    trained = time.perf_counter()
    best = spacy.load(folder / "model-best")
    examples = list(Corpus(corpus_path(run, "test"))(best))
    scores = best.evaluate(examples)
    evaluated = time.perf_counter()
    record = {
        "settings": run.settings(),
        "scores": {name: 100 * scores[name] for name in STUDIES[run.study].scores},
        "seconds": trained - began,
        "test_words_per_second": sum(len(e.predicted) for e in examples) / (evaluated - trained),
    }
    if run.embedding == "elmox":
        tok2vec: Any = best.get_pipe("tok2vec")
        weights, gamma = mix_coefficients(tok2vec.model)
        record |= {"mix": [round(float(w), 4) for w in weights], "gamma": round(gamma, 4)}
    run.result.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return record


def to_markdown(results: dict[str, Any]) -> str:
    """Return the table: mean and range over the seeds."""
    lines = [
        "# spaCy with ELMo",
        "",
        f"{machine_line(results['machine'])} per run, {results['jobs']} runs at a time. "
        f"spaCy {results['spacy']}. Made by `{results['command']}`.",
        "",
        f"Test scores: mean over {results['seeds']} seeds (lowest to highest). The same "
        f"configurations, {results['steps']:,} steps of about 1,000 words; only "
        "`components.tok2vec.model.embed` differs. Words and sentences are those of the "
        "treebank; spaCy's LAS and UAS leave out punctuation.",
        "",
        "| | " + " | ".join([*EMBEDDINGS.values(), "errors reduced by"]) + " |",
        "|" + " --- |" * (len(EMBEDDINGS) + 2),
    ]
    for study in STUDIES.values():
        for name, title in study.scores.items():
            cells, means = [], []
            for embedding in EMBEDDINGS:
                runs = [r for r in results["runs"] if r["settings"]["embedding"] == embedding]
                values = [r["scores"][name] for r in runs if name in r["scores"]]
                means.append(statistics.mean(values))
                cells.append(f"{means[-1]:.1f} ({min(values):.1f} to {max(values):.1f})")
            reduction = 100 * (means[1] - means[0]) / (100 - means[0])
            lines.append(f"| {title} | {' | '.join(cells)} | {reduction:.0f}% |")
    lines += ["", "| learned mix | layers | gamma |", "| --- | --- | --- |"]
    for record in results["runs"]:
        if "mix" in record:
            settings = record["settings"]
            weights = ", ".join(f"{w:.2f}" for w in record["mix"])
            lines.append(
                f"| {settings['study']}, seed {settings['seed']} | {weights} "
                f"| {record['gamma']:.2f} |"
            )
    return "\n".join(lines) + "\n"


def train_all(runs: list[Run], jobs: int) -> list[dict[str, Any]]:
    """Train what is not done yet, a process per run; the long ones first."""
    began = time.perf_counter()
    todo = sorted((run for run in runs if not run.is_done()), key=lambda r: r.embedding != "elmox")
    print(f"{len(runs) - len(todo)} of {len(runs)} runs are done already", flush=True)
    context = multiprocessing.get_context("spawn")  # so that every run sees the variables below
    os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "CUDA_VISIBLE_DEVICES": ""}
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        list(pool.map(write_corpora, {run.study: run for run in runs}.values()))
        pending = {pool.submit(train, run): run for run in todo}
        while pending:
            done, _ = wait(pending, timeout=60, return_when=FIRST_COMPLETED)
            minutes = (time.perf_counter() - began) / 60
            for future in done:
                scores = ", ".join(f"{k} {v:.2f}" for k, v in future.result()["scores"].items())
                print(f"[{minutes:.1f} min] {pending.pop(future).name}: {scores}", flush=True)
            if not done:
                steps = ", ".join(f"{run.name} {run.step()}" for run in pending.values())
                print(f"[{minutes:.1f} min] steps: {steps}", flush=True)
    return [json.loads(run.result.read_text("utf-8")) for run in runs]


def main() -> None:
    """Train, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tasks", type=Path, help="folder with pos_parse_ud_ewt and ner_btc")
    parser.add_argument("--model", default="english-small", help="the biLM")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--eval-frequency", type=int, default=250)
    parser.add_argument("--max-sentences", type=int, help="of each file, for a trial")
    parser.add_argument("--work", type=Path, default=Path("spacy-gain"), help="folder of the runs")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the results")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    first = Run(
        *("ewt", "elmox", 0),
        tasks=arguments.tasks,
        work=arguments.work,
        steps=arguments.steps,
        eval_frequency=arguments.eval_frequency,
        max_sentences=arguments.max_sentences,
        model=arguments.model,
    )
    runs = [
        replace(first, study=study, embedding=embedding, seed=seed)
        for study in STUDIES
        for embedding in EMBEDDINGS
        for seed in range(arguments.seeds)
    ]
    results = {
        "machine": machine_facts(torch.device("cpu")) | {"threads": 1},
        "jobs": arguments.jobs,
        "spacy": metadata.version("spacy"),
        "command": shlex.join(["python", "benchmarks/spacy_gain.py", *sys.argv[1:]]),
        "seeds": arguments.seeds,
        "steps": arguments.steps,
        "runs": train_all(runs, arguments.jobs),
    }
    markdown = to_markdown(results)
    print(markdown)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "spacy_gain.md").write_text(markdown, encoding="utf-8")
    contents = json.dumps(results, indent=2) + "\n"
    (arguments.out / "spacy_gain.json").write_text(contents, encoding="utf-8")


if __name__ == "__main__":
    main()
