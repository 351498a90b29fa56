"""A sentence encoder trained on SICK's pairs, next to plain pooling of ELMo's vectors.

A pair's score is the cosine of its two vectors; the result is its correlation with how related
people found the sentences, on SICK's test part. Everything is chosen by the trial part: layers and
pooling of the plain vectors; learning rate, head and epoch of the trained ones.

    python benchmarks/sentence_encoder.py SICK             # a directory with SICK_train.txt, ...
    python benchmarks/sentence_encoder.py SICK --trainable # trains the biLM too: takes longer
"""

import argparse
import json
import shlex
import statistics
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset
from machine import RESULTS
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
from sentence_transformers.sentence_transformer.modules import Dense, Pooling
from sick import Pairs, Scores, correlations, read_pairs
from transformers import TrainerCallback

from elmox import Elmo
from elmox.bench.machine import machine_facts, machine_line
from elmox.inference.device import device_for
from elmox.inference.layer_choice import Layers
from elmox.integrations.sentence_transformers import Elmo as ElmoModule

LAYERS: tuple[Layers, ...] = ("average", "top", 0, 1)
RATES = (1e-3, 3e-3)
RATES_TRAINABLE = (1e-4, 3e-4)
HEADS = ("linear", "tanh")
HEAD_DIM = 512


@dataclass(frozen=True)
class Plan:
    """Settings of a fit that the trial part chooses."""

    rate: float
    head: str


def plain(model: str | None, trial: Pairs, test: Pairs) -> dict[str, Any]:
    """Score pooled vectors, with the layers and the pooling that are best on the trial part."""
    elmo = Elmo.from_pretrained(model)
    tried = []
    for layers, pooling in product(LAYERS, ("mean", "max")):
        scores = []
        for pairs in (trial, test):
            first, second = (
                elmo.encode(part, layers=layers, pooling=pooling)  # type: ignore[call-overload]
                for part in (pairs.first, pairs.second)
            )
            scores.append(correlations(first, second, pairs))
        tried.append({"layers": layers, "pooling": pooling, "trial": scores[0], "test": scores[1]})
    return max(tried, key=lambda row: row["trial"].pearson)


class KeepBest(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """Keep the weights of the epoch that is best on the trial part."""

    def __init__(self, model: SentenceTransformer, trial: Pairs) -> None:
        self.model = model
        self.trial = trial
        self.best: tuple[float, int, dict[str, torch.Tensor]] = (-100.0, 0, {})

    def on_epoch_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        """Score the model as it is now."""
        pearson = score(self.model, self.trial).pearson
        if pearson > self.best[0]:
            weights = {name: t.clone() for name, t in self.model.state_dict().items()}
            self.best = pearson, round(state.epoch), weights


def score(model: SentenceTransformer, pairs: Pairs) -> Scores:
    """Score an encoder."""
    was_training = model.training
    first, second = (model.encode(part, batch_size=64) for part in (pairs.first, pairs.second))
    model.train(was_training)
    return correlations(first, second, pairs)


def fit(
    arguments: argparse.Namespace, plan: Plan, seed: int, parts: tuple[Pairs, Pairs, Pairs]
) -> dict[str, Any]:
    """Train an encoder and return its scores at its best epoch."""
    train, trial, test = parts
    torch.manual_seed(seed)
    elmo = ElmoModule(arguments.model, dropout=0.2, trainable=arguments.trainable)
    pooling = Pooling(elmo.get_embedding_dimension(), ("mean", "max"))
    activation = torch.nn.Tanh() if plan.head == "tanh" else torch.nn.Identity()
    width = pooling.get_embedding_dimension()
    dense = Dense(width, HEAD_DIM, activation_function=activation)
    model = SentenceTransformer(modules=[elmo, pooling, dense])
    data = Dataset.from_dict(
        {"first": train.first, "second": train.second, "score": train.relatedness}
    )
    keeper = KeepBest(model, trial)
    began = time.perf_counter()
    with TemporaryDirectory() as folder:
        settings = SentenceTransformerTrainingArguments(
            folder, num_train_epochs=arguments.epochs, per_device_train_batch_size=32,
            learning_rate=plan.rate, warmup_steps=20, seed=seed, save_strategy="no",
            report_to="none", disable_tqdm=True, logging_strategy="no",
        )  # fmt: skip
        SentenceTransformerTrainer(
            model, settings, train_dataset=data, loss=CosineSimilarityLoss(model),
            callbacks=[keeper],
        ).train()  # fmt: skip
    seconds = time.perf_counter() - began
    pearson, epoch, weights = keeper.best
    model.load_state_dict(weights)
    facts = {"seed": seed, "rate": plan.rate, "head": plan.head, "epoch": epoch, "trial": pearson}
    return facts | {"test": score(model, test), "seconds": seconds}


def trained(
    arguments: argparse.Namespace, parts: tuple[Pairs, Pairs, Pairs]
) -> list[dict[str, Any]]:
    """Choose the settings with the first seed, then fit with the other seeds."""
    rates = arguments.rates or (RATES_TRAINABLE if arguments.trainable else RATES)
    tried = [fit(arguments, Plan(*plan), 0, parts) for plan in product(rates, HEADS)]
    best = max(tried, key=lambda run: run["trial"])
    plan = Plan(best["rate"], best["head"])
    return [best, *(fit(arguments, plan, seed, parts) for seed in range(1, arguments.seeds))]


def to_markdown(result: dict[str, Any]) -> str:
    """Return the table."""
    base, runs = result["plain"], result["trained"]

    def cell(which: str) -> str:
        numbers = [getattr(run["test"], which) for run in runs]
        spread = f" ± {statistics.stdev(numbers):.1f}" if len(numbers) > 1 else ""
        return f"{statistics.mean(numbers):.1f}{spread}"

    first = runs[0]
    kind = "everything" if result["trainable"] else "mix and head"
    return "\n".join(
        [
            "# A sentence encoder trained on SICK",
            "",
            "Correlation of the cosine of two sentences with how related people found them, in "
            f"percent, on {result['pairs']['test']:,} test pairs. Layers, pooling, learning rate, "
            "head and epoch are chosen by the trial part.",
            "",
            "| | Pearson | Spearman |",
            "| --- | --- | --- |",
            f"| plain pooling (layers {base['layers']}, {base['pooling']}) "
            f"| {base['test'].pearson:.1f} | {base['test'].spearman:.1f} |",
            f"| trained: {kind}, {len(runs)} seeds | {cell('pearson')} | {cell('spearman')} |",
            "",
            f"Trained on {result['pairs']['train']:,} pairs: learning rate {first['rate']:g}, "
            f"{first['head']} head, epochs {', '.join(str(run['epoch']) for run in runs)} of "
            f"{result['epochs']}; {statistics.mean(run['seconds'] for run in runs):.0f} s per "
            f"fit. {machine_line(result['machine'])}. Made by `{result['command']}`.",
            "",
        ]
    )


def command(arguments: argparse.Namespace) -> str:
    """Return the command of this run, without the directories of this machine."""
    words = ["python", "benchmarks/sentence_encoder.py", arguments.data.resolve().name]
    for name in ("model", "epochs", "seeds", "limit"):
        value = getattr(arguments, name)
        words += [] if value is None else [f"--{name}", str(value)]
    words += ["--rates", *map(str, arguments.rates)] if arguments.rates else []
    return shlex.join(words + ["--trainable"] * arguments.trainable)


def main() -> None:
    """Measure, write the JSON and the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "data", type=Path, help="directory of SICK_train.txt, _trial, _test_annotated"
    )
    parser.add_argument("--model", help="anything that Elmo.from_pretrained loads")
    parser.add_argument("--trainable", action="store_true", help="train the biLM as well")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rates", type=float, nargs="+", help="learning rates to choose from")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, help="read only so many pairs of each part")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    names = {"train": "train", "trial": "trial", "test": "test_annotated"}
    train, trial, test = (
        read_pairs(arguments.data / f"SICK_{name}.txt", arguments.limit) for name in names.values()
    )
    result = {
        "machine": machine_facts(device_for("float32", None)),
        "command": command(arguments),
        "pairs": {"train": len(train.first), "trial": len(trial.first), "test": len(test.first)},
        "epochs": arguments.epochs,
        "trainable": arguments.trainable,
        "plain": plain(arguments.model, trial, test),
        "trained": trained(arguments, (train, trial, test)),
    }
    name = "sentence_encoder_trainable" if arguments.trainable else "sentence_encoder"
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{name}.json").write_text(json.dumps(result, indent=2, default=str) + "\n")
    text = to_markdown(result)
    (arguments.out / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
