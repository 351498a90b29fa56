"""Poolings of sentence vectors that need no labels, next to TF-IDF; and the fit of a pooling.

    python benchmarks/sentence_pooling.py fit MODEL TEXT... --out DIR
    python benchmarks/sentence_pooling.py sick SICK [--model MODEL]
    python benchmarks/sentence_pooling.py sst SST [--model MODEL]

`fit` takes sentences evenly from the texts and writes the model with its pooling. The others
compare the poolings of a model, and one that is fitted to the training part's sentences:

- SICK: Spearman correlation of a pair's cosine with how related people found the sentences;
- SST-2: accuracy of logistic regression.

Layers, and C, are chosen by the trial or dev part. TF-IDF is fitted to the same sentences.
"""

import argparse
import itertools
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from machine import RESULTS
from numpy.typing import NDArray
from sick import correlations, read_pairs
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from elmox import Elmo
from elmox.inference.fit_pooling import NUM_DIRECTIONS, SMOOTHING
from elmox.io.text_files import open_text
from elmox.model.weighted_pooling import WeightedPooling, fit_directions, word_weights
from elmox.tasks.sentiment.trees import read_sentiment

TITLES = {
    "sick": "Spearman correlation of cosines with relatedness (SICK)",
    "sst": "accuracy of logistic regression (SST-2)",
}
CHOSEN_BY = {"sick": "trial", "sst": "dev"}
SICK_PARTS = ("train", "trial", "test_annotated")
SST_PARTS = ("train", "dev", "test")
MAX_LINES = 20_000  # read of each text
MAX_TOKENS = 60
REGULARIZATION = (0.01, 0.1, 1.0)
REGULARIZATION_TFIDF = (1.0, 3.0, 10.0)

Tokens: TypeAlias = Sequence[str]
Vectors: TypeAlias = NDArray[np.float32]  # (B, J, D) of sentences
Pool: TypeAlias = Callable[[Sequence[Tokens]], Vectors]


@dataclass(frozen=True)
class Labeled:
    """Tokenized sentences and whether they are positive."""

    sentences: list[Tokens]
    positive: list[bool]


@dataclass(frozen=True)
class Row:
    """Percent on the part that chooses, and on test, with the layers chosen."""

    layers: str
    chosen_by: float
    test: float


def sentences_of(elmo: Elmo, path: Path, number: int) -> Iterator[list[str]]:
    """Yield the first sentence of lines taken evenly from the beginning of a text."""
    with open_text(path) as lines:
        some = list(itertools.islice(lines, MAX_LINES))
    left = number
    for line in some[:: max(1, len(some) // (2 * number))]:
        for sentence in elmo.split(line)[:1]:
            if left and 3 <= len(sentence.tokens) <= MAX_TOKENS:
                left -= 1
                yield list(sentence.tokens)


def fit(arguments: argparse.Namespace) -> None:
    """Fit a pooling and write the model with it."""
    elmo = Elmo.from_pretrained(arguments.model)
    text = [
        tokens
        for path in arguments.texts
        for tokens in sentences_of(elmo, path, arguments.sentences)
    ]
    elmo.fit_pooling(text)
    elmo.save_pretrained(arguments.out, dtype="float16")
    print(f"{len(text):,} sentences, {sum(map(len, text)):,} tokens")


def read_sst(path: Path, limit: int | None) -> Labeled:
    """Read the sentences of a part of SST that are not neutral."""
    trees = [tree for tree in read_sentiment(path) if tree.label != 2][:limit]
    return Labeled([tree.words for tree in trees], [tree.label > 2 for tree in trees])


class Encoded:
    """Token vectors of sentences, each encoded once, and their poolings."""

    def __init__(self, elmo: Elmo, sentences: Sequence[Tokens]) -> None:
        self._elmo = elmo
        distinct = sorted({tuple(tokens) for tokens in sentences})
        vectors = elmo.encode_tokens(distinct, layers="all", show_progress_bar=False)
        self._vectors = dict(zip(distinct, vectors, strict=True))

    def mean(self, sentences: Sequence[Tokens]) -> Vectors:
        """Pool as `encode` does by default."""
        return np.stack([self._vectors[tuple(tokens)].mean(1) for tokens in sentences])

    def max(self, sentences: Sequence[Tokens]) -> Vectors:
        """Pool by the maximum."""
        return np.stack([self._vectors[tuple(tokens)].max(1) for tokens in sentences])

    def weighted(self, sentences: Sequence[Tokens], pooling: WeightedPooling) -> Vectors:
        """Pool as `encode(pooling="weighted")` does."""
        values = np.concatenate([self._vectors[tuple(tokens)] for tokens in sentences], axis=1)
        pooled: Vectors = pooling.pool(torch.from_numpy(values), sentences).transpose(0, 1).numpy()
        return pooled

    def fitted(self, sentences: Sequence[Tokens]) -> WeightedPooling:
        """Fit as `Elmo.fit_pooling` does."""
        weights = word_weights(sentences, SMOOTHING)
        plain = WeightedPooling.of_weights(weights, self._elmo.num_layers, self._elmo.dim)
        vectors = torch.from_numpy(self.weighted(sentences, plain))
        return fit_directions(weights, vectors, NUM_DIRECTIONS)


def poolings(elmo: Elmo, encoded: Encoded, train: Sequence[Tokens]) -> dict[str, Pool]:
    """Return the poolings to compare, by name."""
    result: dict[str, Pool] = {"mean": encoded.mean, "max": encoded.max}
    if elmo.pooling is not None:
        result["weighted, as stored"] = partial(encoded.weighted, pooling=elmo.pooling)
    fitted = encoded.fitted(train)
    return result | {"weighted, fitted": partial(encoded.weighted, pooling=fitted)}


def choices(elmo: Elmo) -> dict[str, list[int]]:
    """Return the layers of each choice that is compared."""
    numbers = list(range(elmo.num_layers))
    return {"average": numbers, **{str(number): [number] for number in numbers}}


def best(rows: Sequence[Row]) -> Row:
    """Return the row that the trial or dev part chooses."""
    return max(rows, key=lambda row: row.chosen_by)


def measure_sick(elmo: Elmo, folder: Path, limit: int | None) -> dict[str, Row]:
    """Score all poolings by SICK."""
    parts = [read_pairs(folder / f"SICK_{name}.txt", limit) for name in SICK_PARTS]
    pairs = [tuple(map(elmo.tokens_of, (part.first, part.second))) for part in parts]
    train = sorted({tuple(tokens) for side in pairs[0] for tokens in side})
    encoded = Encoded(elmo, [tokens for both in pairs for side in both for tokens in side])

    def scores(vectors: Callable[[Sequence[Tokens]], Any]) -> list[float]:
        return [
            correlations(vectors(first), vectors(second), part).spearman
            for (first, second), part in zip(pairs[1:], parts[1:], strict=True)
        ]

    words = _tfidf(train)
    rows = {"TF-IDF": Row("", *scores(lambda sentences: words.transform(sentences).toarray()))}
    for name, pool in poolings(elmo, encoded, train).items():
        cache = [pool(side) for both in pairs[1:] for side in both]
        tried = []
        for layers, numbers in choices(elmo).items():
            a, b, c, d = (vectors[:, numbers].mean(1) for vectors in cache)
            trial, test = correlations(a, b, parts[1]), correlations(c, d, parts[2])
            tried.append(Row(layers, trial.spearman, test.spearman))
        rows[name] = best(tried)
    return rows


def measure_sst(elmo: Elmo, folder: Path, limit: int | None) -> dict[str, Row]:
    """Score all poolings by SST-2."""
    (ending,) = {"".join(path.suffixes) for path in folder.glob("train.txt*")}
    parts = [read_sst(folder / f"{name}{ending}", limit) for name in SST_PARTS]
    encoded = Encoded(elmo, [tokens for part in parts for tokens in part.sentences])
    words = _tfidf(parts[0].sentences)
    sparse = [words.transform(part.sentences) for part in parts]
    rows = {"TF-IDF": accuracy("", sparse, parts, REGULARIZATION_TFIDF)}
    for name, pool in poolings(elmo, encoded, parts[0].sentences).items():
        vectors = [pool(part.sentences) for part in parts]
        tried = []
        for layers, numbers in choices(elmo).items():
            features = [part[:, numbers].mean(1) for part in vectors]
            scaler = StandardScaler().fit(features[0])
            scaled = [scaler.transform(part) for part in features]
            tried.append(accuracy(layers, scaled, parts, REGULARIZATION))
        rows[name] = best(tried)
    return rows


def accuracy(
    layers: str, features: Sequence[Any], parts: Sequence[Labeled], regularization: Sequence[float]
) -> Row:
    """Return the accuracy of a linear classifier, with the C that is best on dev."""
    tried = []
    for c in regularization:
        classifier = LogisticRegression(C=c, max_iter=300).fit(features[0], parts[0].positive)
        dev, test = (
            100 * float(classifier.score(values, part.positive))
            for values, part in zip(features[1:], parts[1:], strict=True)
        )
        tried.append(Row(layers, dev, test))
    return best(tried)


def _tfidf(train: Sequence[Tokens]) -> TfidfVectorizer:
    vectorizer = TfidfVectorizer(analyzer=lambda tokens: [token.lower() for token in tokens])
    return vectorizer.fit(train)


def measure(arguments: argparse.Namespace) -> None:
    """Compare poolings; write the JSON and the table."""
    task, folder = arguments.task, arguments.data
    elmo = Elmo.from_pretrained(arguments.model, device=arguments.device)
    score = measure_sick if task == "sick" else measure_sst
    rows = score(elmo, folder, arguments.limit)
    words = ["python", "benchmarks/sentence_pooling.py", task, folder.resolve().name]
    words += ["--model", arguments.model] if arguments.model else []
    words += ["--limit", str(arguments.limit)] if arguments.limit else []
    lines = [f"# Sentence vectors without labels: {TITLES[task]}", ""]
    lines += [f"| pooling | layers | {CHOSEN_BY[task]} | test |", "| --- | --- | --- | --- |"]
    for name, row in rows.items():
        lines.append(f"| {name} | {row.layers} | {row.chosen_by:.1f} | {row.test:.1f} |")
    lines += ["", f"Percent. {CHOSEN_BY[task].capitalize()} chooses the layers, and C."]
    lines += [f"Made by `{shlex.join(words)}`.", ""]
    stem = arguments.out / f"sentence_pooling_{task}"
    stem.parent.mkdir(parents=True, exist_ok=True)
    stored = {name: asdict(row) for name, row in rows.items()}
    stem.with_suffix(".json").write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


def main() -> None:
    """Fit or measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    verbs = parser.add_subparsers(required=True, dest="task")
    fits = verbs.add_parser("fit")
    fits.add_argument("model")
    fits.add_argument("texts", type=Path, nargs="+")
    fits.add_argument("--sentences", type=int, default=300, help="of each text")
    fits.add_argument("--out", type=Path, required=True, help="the model to write")
    fits.set_defaults(run=fit)
    for task in TITLES:
        measures = verbs.add_parser(task)
        measures.add_argument("data", type=Path, help="directory of the task's files")
        measures.add_argument("--model", help="anything that Elmo.from_pretrained loads")
        measures.add_argument("--device")
        measures.add_argument("--limit", type=int, help="read only so many rows of each part")
        measures.add_argument("--out", type=Path, default=RESULTS)
        measures.set_defaults(run=measure)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
