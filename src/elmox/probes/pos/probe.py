"""Syntax in each layer: part-of-speech tags by a linear probe (Peters et al. 2018, Table 6).

A linear classifier predicts the tags of a treebank from every layer, and from the layers of a biLM
of the same shape with random weights, which have learned nothing from text. Layers differ by a
point or less, so differences come with paired intervals.
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
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.io.conllu import UNSPECIFIED, TreebankSentence
from elmox.model.init import random_bilm
from elmox.probes.bootstrap import Interval, accuracy_interval
from elmox.probes.linear import UNSEEN, Examples, ProbeOptions, fit_probe
from elmox.probes.report import Difference

Tags = Literal["xpos", "upos"]
PARTS = ("train", "dev", "test")
RANDOM_SEED = 0

_TOKENS_AT_ONCE = 2**15


@dataclass(frozen=True)
class PosOptions:
    """Options of the probe.

    Attributes:
        tags: "xpos", the treebank's fine-grained tags, or "upos", the universal ones.
        num_seeds: number of probes per layer.
        seed: of the first probe and of the bootstrap; those of the other probes follow.
        samples: number of bootstrap samples.
        probe: how each probe is trained.
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
    """Size of a part of the treebank.

    Attributes:
        num_sentences, num_words: of the part.
        unseen: count of each tag that train does not have.
    """

    num_sentences: int
    num_words: int
    unseen: Mapping[str, int]


@dataclass(frozen=True)
class LayerScore:
    """Accuracy of the probes of a layer, in percent.

    Attributes:
        weights: "trained" or "random".
        layer: its index.
        penalty: chosen on dev.
        dev: accuracy per seed.
        test: accuracy per seed.
        interval: of the test accuracy, averaged over seeds.
    """

    weights: str
    layer: int
    penalty: float
    dev: tuple[float, ...]
    test: tuple[float, ...]
    interval: Interval

    @property
    def name(self) -> str:
        """Name of the layer in tables."""
        return f"{'random ' if self.weights == 'random' else ''}layer {self.layer}"


@dataclass(frozen=True)
class PosScores:
    """Scores of all layers.

    Attributes:
        num_tags: number of different tags in train.
        parts: sizes of train, dev and test.
        layers: of the model, then of the random biLM.
        differences: on test: every layer against layer 0, the higher layers against each other, and
            each layer against the random one.
    """

    num_tags: int
    parts: Mapping[str, PartCounts]
    layers: tuple[LayerScore, ...]
    differences: tuple[Difference, ...]


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation; the deviation of a single value is 0."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def probe_pos(
    elmo: Elmo,
    treebank: Mapping[str, Sequence[TreebankSentence]],
    options: PosOptions | None = None,
    show_progress_bar: bool = False,
) -> PosScores:
    """Probe every layer of a model, and of random weights, for part-of-speech tags.

    Args:
        elmo: the model; the probes run on its device as well.
        treebank: sentences of "train", "dev" and "test".
        options: options of the probe.
        show_progress_bar: show a bar on stderr.
    """
    options = options or PosOptions()
    tags = {part: _tags(treebank[part], options.tags, part) for part in PARTS}
    ids = {tag: id for id, tag in enumerate(sorted(set(tags["train"])))}
    labels = {
        part: np.array([ids.get(tag, UNSEEN) for tag in tags[part]], dtype=np.int64)
        for part in PARTS
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
    unseen = {part: Counter(tag for tag in tags[part] if tag not in ids) for part in PARTS}
    return PosScores(
        len(ids),
        {
            part: PartCounts(len(treebank[part]), len(tags[part]), dict(unseen[part].most_common()))
            for part in PARTS
        },
        tuple(scores),
        tuple(
            Difference(one, other, _interval(right[one], sentences, options, right[other]))
            for one, other in _pairs(elmo.num_layers)
        ),
    )


def random_control(elmo: Elmo, seed: int = RANDOM_SEED) -> Elmo:
    """Return a model of the same shape and input, with random weights."""
    random = replace(
        elmo.checkpoint(),
        tensors=random_bilm(elmo.config, seed).state_dict(),
        description="random weights",
        mixes={},
        warm_state=None,
        pooling=None,
        softmax=None,
    )
    return Elmo(random).to(elmo.device, elmo.dtype)


def layer_vectors(
    elmo: Elmo, sentences: Sequence[Sequence[str]], show_progress_bar: bool = False
) -> Tensor:
    """Return the vectors of all words in all layers, (layers, words, D), float16, on the CPU."""
    total = sum(map(len, sentences))
    vectors = torch.empty(elmo.num_layers, total, elmo.dim, dtype=torch.float16)
    start = 0
    with tqdm(total=total, unit="word", disable=not show_progress_bar) as progress:
        for batch in _batches(sentences):
            for layers in elmo.encode_tokens(batch, layers="all"):  # (layers, T, D)
                end = start + layers.shape[1]
                vectors[:, start:end] = torch.from_numpy(layers)
                progress.update(end - start)
                start = end
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
    """Yield the score of each layer, and the share of seeds that are right on each test word."""
    words = {part: [sentence.words for sentence in treebank[part]] for part in PARTS}
    vectors = {part: layer_vectors(elmo, words[part], show_progress_bar) for part in PARTS}
    for layer in range(elmo.num_layers):
        train, dev, test = (Examples(vectors[part][layer], labels[part]) for part in PARTS)
        result = fit_probe(train, dev, test, options.seeds, elmo.device, options.probe)
        right = result.test.mean(0)
        score = LayerScore(
            weights,
            layer,
            result.penalty,
            dev=tuple((100 * result.dev.mean(1)).tolist()),
            test=tuple((100 * result.test.mean(1)).tolist()),
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
    """Yield the names of the layers that are compared."""
    for layer in range(1, num_layers):
        yield f"layer {layer}", "layer 0"
    for lower, upper in combinations(range(1, num_layers), 2):
        yield f"layer {lower}", f"layer {upper}"
    for layer in range(num_layers):
        yield f"layer {layer}", f"random layer {layer}"


def _tags(sentences: Sequence[TreebankSentence], kind: Tags, part: str) -> list[str]:
    tags = [tag for sentence in sentences for tag in getattr(sentence, kind)]
    if all(tag == UNSPECIFIED for tag in tags):
        other = Argument("tags", "upos" if kind == "xpos" else "xpos")
        raise ArgumentError(
            "{} has no {} tags: give a tagged treebank, or choose {}", part, kind, other
        )
    return tags


def _batches(sentences: Sequence[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    """Split into lists of about `_TOKENS_AT_ONCE` words, whose float32 vectors fit anywhere."""
    batch: list[Sequence[str]] = []
    num_words = 0
    for sentence in sentences:
        batch.append(sentence)
        num_words += len(sentence)
        if num_words >= _TOKENS_AT_ONCE:
            yield batch
            batch, num_words = [], 0
    if batch:
        yield batch
