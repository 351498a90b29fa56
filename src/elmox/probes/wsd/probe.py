"""Word senses by nearest neighbor (Peters et al. 2018, section 5.3, Table 5).

A layer's vectors of each sense are averaged over a tagged corpus. The prediction for a word is the
sense whose average is nearest, by cosine, among the senses of its lemma and part of speech that
were seen in the corpus; if none was, WordNet's first sense. Nothing is trained, so the score
measures the layer alone.

Each sentence is encoded on its own. The vector of an entry of several words ("took place") is the
mean of its words' vectors, because the corpora do not mark its head.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.probes.wsd.senses import LemmaPos, SenseSentence, SenseTag
from elmox.probes.wsd.wordnet import SenseIndex
from elmox.text.batches import in_chunks

CHUNK_BYTES = {"cpu": 2**27, "cuda": 2**29}  # of float32 vectors held at a time
# Layer 0 has no context: senses that were only seen in the same form have the same average there,
# except for rounding. Then the order of the senses decides, not the rounding.
TIE = 1e-6


@dataclass(frozen=True)
class SensePrediction:
    """The senses that are predicted for one tagged word.

    Attributes:
        test_set: name of its test set.
        sentence: number of its sentence, counted over all sets.
        id: its id in the set.
        gold: the correct senses.
        first: WordNet's first sense.
        layers: the prediction of each layer.
        num_seen: number of senses of its entry that were seen in the corpus; with 0, the prediction
            is the first sense.
    """

    test_set: str
    sentence: int
    id: str
    gold: tuple[str, ...]
    first: str
    layers: tuple[str, ...]
    num_seen: int


@dataclass(frozen=True)
class TrainingCounts:
    """Size of the tagged corpus.

    Attributes:
        num_sentences, num_words: of the corpus.
        num_tags: number of tags with at least one sense that is in the index.
        num_senses: number of distinct senses of those tags.
        num_unknown_tags: number of tags without such a sense, which are skipped.
    """

    num_sentences: int
    num_words: int
    num_tags: int
    num_senses: int
    num_unknown_tags: int


def predict_senses(
    elmo: Elmo,
    train: Iterable[SenseSentence],
    tests: Mapping[str, Sequence[SenseSentence]],
    index: SenseIndex,
    *,
    show_progress_bar: bool = False,
) -> tuple[list[SensePrediction], TrainingCounts]:
    """Disambiguate the tagged words of test sets.

    Args:
        elmo: the model.
        train: the tagged corpus, read once.
        tests: test sets by name.
        index: the inventory of senses.
        show_progress_bar: show a bar on stderr.

    Returns:
        A prediction for every tag, set by set, in the order of the text; and the corpus's size.
    """
    check_tests(tests, index)
    test = [(name, sentence) for name, sentences in tests.items() for sentence in sentences]
    entries = {tag.entry for _, sentence in test for tag in sentence.tags}
    averages = SenseAverages((elmo.num_layers, elmo.dim), index, entries)
    counter = TagCounter(index)
    quiet = not show_progress_bar
    with tqdm(train, "averaging", unit=" sentences", disable=quiet) as bar:
        # A sentence without a sense of the tested entries need not be encoded.
        useful = filter(averages.has_sense, map(counter.count, bar))
        for _, tag, vectors in tag_vectors(elmo, useful):
            averages.add(tag, vectors)
    counts = counter.counts()
    predictions: list[SensePrediction] = []
    with tqdm(test, "predicting", unit=" sentences", disable=quiet) as bar:
        for number, tag, vectors in tag_vectors(elmo, (sentence for _, sentence in bar)):
            first = index.senses[tag.entry][0]
            seen = averages.seen(tag.entry)
            layers = averages.nearest(seen, vectors) if seen else (first,) * elmo.num_layers
            name = test[number][0]
            predictions.append(
                SensePrediction(name, number, tag.id, tag.keys, first, layers, len(seen))
            )
    return predictions, counts


def check_tests(tests: Mapping[str, Sequence[SenseSentence]], index: SenseIndex) -> None:
    """Refuse test sets with senses that are not in the index; the error names the word."""
    for name, sentences in tests.items():
        tags = [tag for sentence in sentences for tag in sentence.tags]
        if not tags:
            raise ElmoxError(f"test set {name} has no tagged words: expected at least one")
        for tag in tags:
            missing = [key for key in tag.keys if key not in index.keys]
            if tag.entry not in index.senses:
                missing = [str(tag.entry)]
            if missing:
                raise ElmoxError(
                    f"{name}, {tag.id}: {missing[0]} is not in the index of senses: give that of "
                    "the WordNet that the test set is tagged with (3.0)"
                )


def tag_vectors(
    elmo: Elmo, sentences: Iterable[SenseSentence]
) -> Iterator[tuple[int, SenseTag, NDArray[np.float32]]]:
    """Yield for every tag its sentence's number, the tag, and its vectors (L + 1, D).

    Sentences are read in chunks, so there may be any number of them.
    """
    chunk_bytes = CHUNK_BYTES.get(elmo.device.type, CHUNK_BYTES["cpu"])
    max_words = max(1, chunk_bytes // (4 * elmo.num_layers * elmo.dim))
    first = 0
    for chunk in in_chunks(sentences, lambda sentence: len(sentence.words), max_words):
        encoded = elmo.encode_tokens([sentence.words for sentence in chunk], layers="all")
        for number, (sentence, layers) in enumerate(zip(chunk, encoded, strict=True), start=first):
            for tag in sentence.tags:
                yield number, tag, layers[:, tag.start : tag.stop].mean(axis=1)
        first += len(chunk)


class SenseAverages:
    """The average vectors of the senses of some entries, in every layer.

    Sums are stored instead of averages: they have the same direction, and the cosine depends on
    nothing else.
    """

    def __init__(
        self, shape: tuple[int, int], index: SenseIndex, entries: Iterable[LemmaPos]
    ) -> None:
        """Select the senses.

        Args:
            shape: that of a word's vectors, (L + 1, D).
            index: the inventory of senses.
            entries: entries whose senses are averaged.
        """
        self._shape = shape
        self._senses = {entry: index.senses[entry] for entry in entries}
        self._keys = {key for keys in self._senses.values() for key in keys}
        self._sums: dict[str, NDArray[np.float64]] = {}

    def has_sense(self, sentence: SenseSentence) -> bool:
        """Return whether any of the sentence's tags has one of the senses."""
        return any(key in self._keys for tag in sentence.tags for key in tag.keys)

    def add(self, tag: SenseTag, vectors: NDArray[np.float32]) -> None:
        """Add the vectors of a tagged word, (L + 1, D), to each of its senses."""
        for key in tag.keys:
            if key in self._keys:
                if key not in self._sums:
                    self._sums[key] = np.zeros(self._shape)
                self._sums[key] += vectors

    def seen(self, entry: LemmaPos) -> list[str]:
        """Return the senses of an entry that have vectors, in WordNet's order."""
        return [key for key in self._senses[entry] if key in self._sums]

    def nearest(self, keys: Sequence[str], vectors: NDArray[np.float32]) -> tuple[str, ...]:
        """Return the sense with the highest cosine in each layer; among ties, the first."""
        averages = _unit(np.stack([self._sums[key] for key in keys]))  # (C, L + 1, D)
        cosines = (averages * _unit(vectors)).sum(-1)  # (C, L + 1)
        best = np.argmax(cosines >= cosines.max(axis=0) - TIE, axis=0)
        return tuple(keys[i] for i in best)


class TagCounter:
    """Counts the sentences and tags of a corpus while it is read."""

    def __init__(self, index: SenseIndex) -> None:
        self._index = index
        self._num_sentences = self._num_words = self._num_tags = self._num_unknown = 0
        self._seen: set[str] = set()

    def count(self, sentence: SenseSentence) -> SenseSentence:
        """Count a sentence and return it."""
        self._num_sentences += 1
        self._num_words += len(sentence.words)
        for tag in sentence.tags:
            known = [key for key in tag.keys if key in self._index.keys]
            self._seen.update(known)
            self._num_tags += bool(known)
            self._num_unknown += not known
        return sentence

    def counts(self) -> TrainingCounts:
        """Return the counts; there must be at least one known tag."""
        if not self._num_tags:
            raise ElmoxError(
                f"none of the {self._num_unknown} tags of the training text is in the index of "
                "senses: give that of the WordNet that the text is tagged with (3.0)"
            )
        return TrainingCounts(
            self._num_sentences,
            self._num_words,
            self._num_tags,
            len(self._seen),
            self._num_unknown,
        )


def _unit(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Return vectors scaled to length 1; one of length 0 is unchanged."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    if not np.isfinite(lengths).all():  # no cosine would be the highest, as if all were ties
        raise ElmoxError("the model's vectors are not finite: use float32, or another model")
    unit: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1.0)
    return unit
