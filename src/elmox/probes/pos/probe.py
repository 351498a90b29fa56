"""What each layer knows of syntax: part-of-speech tags by a linear probe (the paper's Table 6).

The tags of a treebank are read off every layer by a linear classifier, and off the layers of a
biLM of the same shape with random weights: what is beyond those was learned from text. Whether
layer 1 is better than layer 2 is a difference of a point or less, so differences come with paired
intervals.
"""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.io.conllu import UNSPECIFIED, TreebankSentence
from elmox.model.init import random_bilm
from elmox.probes.bootstrap import Interval, accuracy_interval
from elmox.probes.linear import UNSEEN, Examples, ProbeOptions, fit_probe

Tags = Literal["xpos", "upos"]
PARTS = ("train", "dev", "test")
RANDOM_SEED = 0

_TOKENS_AT_ONCE = 2**15


@dataclass(frozen=True)
class PosOptions:
    """How the probe is made.

    Attributes:
        tags: "xpos", the treebank's own fine tags, or "upos", the universal ones.
        num_seeds: probes for each layer.
        seed: of the first of them, and of the bootstrap; the others count on from it.
        samples: of the bootstrap.
        probe: how each is trained.
    """

    tags: Tags = "xpos"
    num_seeds: int = 5
    seed: int = 0
    samples: int = 10_000
    probe: ProbeOptions = field(default_factory=ProbeOptions)

    def __post_init__(self) -> None:
        if self.tags not in ("xpos", "upos") or self.num_seeds < 1 or self.seed < 0:
            raise ElmoxError(
                f"tags={self.tags!r}, num_seeds={self.num_seeds}, seed={self.seed}: expected xpos "
                "or upos, at least 1 and at least 0"
            )

    @property
    def seeds(self) -> range:
        """The seeds of the probes."""
        return range(self.seed, self.seed + self.num_seeds)


@dataclass(frozen=True)
class PartCounts:
    """What a part of the treebank holds; `unseen` counts the tags that train does not have."""

    num_sentences: int
    num_words: int
    unseen: Mapping[str, int]


@dataclass(frozen=True)
class LayerScore:
    """How well tags can be read off a layer, in percent.

    Attributes:
        weights: "trained" or "random".
        layer: its number.
        penalty: chosen on dev.
        dev: accuracy for each seed.
        test: accuracy for each seed.
        interval: of test, averaged over seeds.
    """

    weights: str
    layer: int
    penalty: float
    dev: tuple[float, ...]
    test: tuple[float, ...]
    interval: Interval

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{'random ' if self.weights == 'random' else ''}layer {self.layer}"


@dataclass(frozen=True)
class PosDifference:
    """How much better one layer is than another on test, in points, on the same sentences."""

    layer: str
    other: str
    points: Interval


@dataclass(frozen=True)
class PosScores:
    """What was found.

    Attributes:
        num_tags: different tags in train.
        parts: what train, dev and test hold.
        layers: of the model, then of the random biLM.
        differences: every layer against layer 0, those above it among themselves, and each against
            the random one.
    """

    num_tags: int
    parts: Mapping[str, PartCounts]
    layers: tuple[LayerScore, ...]
    differences: tuple[PosDifference, ...]


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Over seeds; the deviation of a single one is 0."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def probe_pos(
    elmo: Elmo,
    treebank: Mapping[str, Sequence[TreebankSentence]],
    options: PosOptions | None = None,
    show_progress_bar: bool = False,
) -> PosScores:
    """Probe every layer of a model, and of random weights, for part-of-speech tags.

    Args:
        elmo: the model; the probes run on its device too.
        treebank: sentences of "train", "dev" and "test".
        options: how the probe is made.
        show_progress_bar: on stderr.
    """
    options = options or PosOptions()
    tags = {part: _tags(treebank[part], options.tags, part) for part in PARTS}
    numbers = {tag: number for number, tag in enumerate(sorted(set(tags["train"])))}
    labels = {
        part: np.array([numbers.get(tag, UNSEEN) for tag in own], dtype=np.int64)
        for part, own in tags.items()
    }
    lengths = [len(sentence) for sentence in treebank["test"]]
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    scores: list[LayerScore] = []
    right: dict[str, NDArray[np.float64]] = {}
    for weights, model in (("trained", elmo), ("random", random_control(elmo))):
        for score, hits in _probe_layers(
            weights, model, treebank, labels, sentences, options, show_progress_bar
        ):
            scores.append(score)
            right[score.name] = hits
    return PosScores(
        len(numbers),
        {
            part: PartCounts(
                len(treebank[part]),
                len(own),
                dict(Counter(tag for tag in own if tag not in numbers).most_common()),
            )
            for part, own in tags.items()
        },
        tuple(scores),
        tuple(
            PosDifference(one, other, _interval(right[one], sentences, options, right[other]))
            for one, other in _pairs(elmo.num_layers)
        ),
    )


def random_control(elmo: Elmo, seed: int = RANDOM_SEED) -> Elmo:
    """A model of the same shape that reads the same characters or words, with random weights."""
    random = replace(
        elmo.checkpoint(),
        tensors=random_bilm(elmo.config, seed).state_dict(),
        description="random weights",
        mixes={},
        warm_state=None,
        softmax=None,
    )
    return Elmo(random).to(elmo.device, elmo.dtype)


def layer_vectors(
    elmo: Elmo, sentences: Sequence[Sequence[str]], show_progress_bar: bool = False
) -> Tensor:
    """The vectors of all words in all layers, (layers, words, D), in float16 in main memory."""
    total = sum(map(len, sentences))
    vectors = torch.empty(elmo.num_layers, total, elmo.dim, dtype=torch.float16)
    begin = 0
    with tqdm(total=total, unit="word", disable=not show_progress_bar) as progress:
        for some in _some_sentences(sentences):
            for own in elmo.encode_tokens(some, layers="all"):  # (layers, T, D)
                end = begin + own.shape[1]
                vectors[:, begin:end] = torch.from_numpy(own)
                progress.update(end - begin)
                begin = end
    if not torch.isfinite(vectors).all():
        raise ElmoxError(f"{elmo.description}: some vectors are beyond the range of float16")
    return vectors


def _probe_layers(
    weights: str,
    elmo: Elmo,
    treebank: Mapping[str, Sequence[TreebankSentence]],
    labels: Mapping[str, NDArray[np.int64]],
    sentences: NDArray[np.int64],
    options: PosOptions,
    show_progress_bar: bool,
) -> Iterator[tuple[LayerScore, NDArray[np.float64]]]:
    """Each layer's score, and how often each word of test was right over seeds."""
    vectors = {
        part: layer_vectors(elmo, [own.words for own in treebank[part]], show_progress_bar)
        for part in PARTS
    }
    for layer in range(elmo.num_layers):
        train, dev, test = (Examples(vectors[part][layer], labels[part]) for part in PARTS)
        found = fit_probe(train, dev, test, options.seeds, elmo.device, options.probe)
        right = found.test.mean(0)
        score = LayerScore(
            weights,
            layer,
            found.penalty,
            dev=tuple((100 * found.dev.mean(1)).tolist()),
            test=tuple((100 * found.test.mean(1)).tolist()),
            interval=_interval(right, sentences, options),
        )
        yield score, right


def _interval(
    right: NDArray[np.float64],
    sentences: NDArray[np.int64],
    options: PosOptions,
    other: NDArray[np.float64] | None = None,
) -> Interval:
    return accuracy_interval(
        right, sentences, other=other, samples=options.samples, seed=options.seed
    )


def _pairs(num_layers: int) -> Iterator[tuple[str, str]]:
    """Which layers are compared."""
    for layer in range(1, num_layers):
        yield f"layer {layer}", "layer 0"
    for lower, upper in combinations(range(1, num_layers), 2):
        yield f"layer {lower}", f"layer {upper}"
    for layer in range(num_layers):
        yield f"layer {layer}", f"random layer {layer}"


def _tags(sentences: Sequence[TreebankSentence], kind: Tags, part: str) -> list[str]:
    tags = [tag for own in sentences for tag in (own.xpos if kind == "xpos" else own.upos)]
    if all(tag == UNSPECIFIED for tag in tags):
        other = "upos" if kind == "xpos" else "xpos"
        raise ElmoxError(f"{part} has no {kind} tags: give a tagged treebank, or ask for {other}")
    return tags


def _some_sentences(sentences: Sequence[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    """Cut into lists of about `_TOKENS_AT_ONCE` words, whose float32 vectors fit anywhere."""
    some: list[Sequence[str]] = []
    num_words = 0
    for sentence in sentences:
        some.append(sentence)
        num_words += len(sentence)
        if num_words >= _TOKENS_AT_ONCE:
            yield some
            some, num_words = [], 0
    if some:
        yield some
