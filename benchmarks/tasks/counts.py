"""Counts of correct predictions per example, and intervals of differences between models.

A score of many examples is a function of counts that add up: right and all words for an accuracy;
right, predicted and gold spans for an F1. Kept for each example (a sentence, a pair, a question, a
document), they are all that a bootstrap needs.

The bootstrap draws examples with replacement; both models are scored on the same draws (paired),
by the mean over their seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from elmox.probes.bootstrap import Interval
from elmox.tasks.base import Task
from elmox.tasks.coref.metrics import score_document
from elmox.tasks.metrics.tally import Tally
from elmox.tasks.parsing.metrics import score_parse
from elmox.tasks.srl.metrics import score_sentence
from elmox.tasks.tagging.metrics import score_spans, score_tags

Counts: TypeAlias = list[list[float]]  # K numbers for each example
Scorer: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # (..., K) -> (...)

SAMPLES = 10_000
_DRAWS_AT_ONCE = 2**23  # numbers of a block of draws


def counts_of(task: Task[Any, Any], examples: Sequence[Any], answers: Sequence[Any]) -> Counts:
    """The counts of each example.

    The score of their sum must equal the task's score, which is checked.
    """
    count, scorer = _KINDS[task.name]
    counts = [count(task, *both) for both in zip(examples, answers, strict=True)]
    score = float(scorer(np.array(counts, np.float64).sum(0)))
    official = task.score(examples, answers)[task.metric]
    if abs(score - official) > 1e-6:
        raise AssertionError(f"{task.name}: counts give {score}, the task's score is {official}")
    return counts


def intervals(
    task: str,
    systems: Mapping[str, Sequence[Counts]],
    pairs: Sequence[tuple[str, str]],
    *,
    samples: int = SAMPLES,
    level: float = 0.95,
) -> dict[tuple[str, str], Interval]:
    """Differences of scores, in points, with their paired bootstrap intervals.

    Args:
        task: its name.
        systems: of each system the counts of each seed, on the same examples.
        pairs: of systems: the first one's score less the second one's.
        samples: of the bootstrap; the same ones for all systems.
        level: share of the samples inside an interval.
    """
    scorer = _KINDS[task][1]
    counts = {name: np.array(seeds, np.float64) for name, seeds in systems.items()}  # (S, N, K)
    number = next(iter(counts.values())).shape[1]
    generator = np.random.default_rng(0)
    drawn: dict[str, list[NDArray[np.float64]]] = {name: [] for name in counts}
    step = max(1, _DRAWS_AT_ONCE // number)
    for start in range(0, samples, step):
        size = min(step, samples - start)
        times = generator.multinomial(number, np.full(number, 1 / number), size=size)
        for name, seeds in counts.items():
            sums = np.einsum("dn,snk->dsk", times.astype(np.float64), seeds, optimize=True)
            drawn[name].append(scorer(sums).mean(-1))
    scores = {name: np.concatenate(blocks) for name, blocks in drawn.items()}
    whole = {name: float(scorer(seeds.sum(1)).mean()) for name, seeds in counts.items()}
    bounds = [(1 - level) / 2, (1 + level) / 2]
    differences = {}
    for first, second in pairs:
        low, high = np.quantile(scores[first] - scores[second], bounds)
        differences[first, second] = Interval(whole[first] - whole[second], float(low), float(high))
    return differences


def _share(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Accuracy from (right, all), in percent."""
    return 100 * _divided(counts[..., 0], counts[..., 1])


def _f1(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """F1 from (right, predicted, gold), in percent."""
    return 100 * _divided(2 * counts[..., 0], counts[..., 1] + counts[..., 2])


def _mean_f1(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean F1 from three tallies (right, predicted, recalled, gold), in percent."""
    right, predicted, recalled, gold = np.moveaxis(counts.reshape(*counts.shape[:-1], 3, 4), -1, 0)
    precision, recall = _divided(right, predicted), _divided(recalled, gold)
    f1 = _divided(2 * precision * recall, precision + recall)
    return 100 * np.asarray(f1.mean(-1))


def _divided(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide; 0/0 is 0, as in the official scorers."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)


def _words(task: Task[Any, Any], example: Any, answer: Any) -> list[float]:
    score = score_tags([example.tags], [answer])
    return [score.num_correct, score.num_all]


def _spans(task: Task[Any, Any], example: Any, answer: Any) -> list[float]:
    return _tally(score_spans([example.tags], [answer]).overall)


def _roles(task: Task[Any, Any], example: Any, answer: Any) -> list[float]:
    both = zip(example.propositions, answer, strict=True)
    predicted = [replace(proposition, args=tuple(roles)) for proposition, roles in both]
    return _tally(score_sentence(example.propositions, predicted).overall)


def _arcs(task: Task[Any, Any], example: Any, answer: Any) -> list[float]:
    score = score_parse(example, answer.heads, answer.deprels)
    return [score.correct_relations, score.num_words]


def _alone(task: Task[Any, Any], example: Any, answer: Any) -> list[float]:
    """Contribution of one example to a score that is a mean over all examples."""
    return [task.score([example], [answer])[task.metric] / 100, 1]


def _entities(task: Task[Any, Any], example: Any, answer: Any) -> list[float]:
    score = score_document(example.clusters, answer)
    tallies = (score.muc, score.b_cubed, score.ceaf)
    return [value for t in tallies for value in (t.correct, t.predicted, t.recalled, t.gold)]


def _tally(tally: Tally) -> list[float]:
    return [tally.correct, tally.predicted, tally.gold]


_KINDS: dict[str, tuple[Callable[[Task[Any, Any], Any, Any], list[float]], Scorer]] = {
    "pos": (_words, _share),
    "ner": (_spans, _f1),
    "chunk": (_spans, _f1),
    "srl": (_roles, _f1),
    "parse": (_arcs, _share),
    "nli": (_alone, _share),
    "sst": (_alone, _share),
    "qa": (_alone, _share),
    "coref": (_entities, _mean_f1),
}
