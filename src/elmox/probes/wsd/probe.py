"""Word senses by nearest neighbor (Peters et al. 2018, section 5.3, Table 5).

A layer's vectors of each sense are averaged over a tagged corpus. A word to be disambiguated gets
the sense whose average is nearest, by cosine, among the senses of its own lemma and part of speech
that were seen in training, and WordNet's first sense where none was. Nothing is trained: what comes
out is what the layer knows.

Each sentence is read by itself. The vector of an entry of several words ("took place") is the mean
of its words' vectors: which of them is its head differs from entry to entry, and a mean need not
know.
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
# Layer 0 knows no context: senses that were only seen in the same form have the same average there,
# but for rounding. Then the numbers of the senses decide, not the rounding.
TIE = 1e-6


@dataclass(frozen=True)
class SenseAnswer:
    """What was answered for one tagged word.

    Attributes:
        test_set: the name of its test set.
        sentence: the number of its sentence, through all sets.
        id: its name in the set.
        gold: the senses that are right.
        first: WordNet's first sense.
        layers: each layer's sense.
        num_seen: senses of its entry that were seen in training; 0: the first sense was taken.
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
    """What the tagged corpus has.

    Attributes:
        num_sentences: all of them.
        num_words: all of them.
        num_tags: tags with at least one sense that the index has.
        num_senses: distinct senses of those.
        num_unknown_tags: tags with none, which are left out.
    """

    num_sentences: int
    num_words: int
    num_tags: int
    num_senses: int
    num_unknown_tags: int


def answer_senses(
    elmo: Elmo,
    train: Iterable[SenseSentence],
    tests: Mapping[str, Sequence[SenseSentence]],
    index: SenseIndex,
    *,
    show_progress_bar: bool = False,
) -> tuple[list[SenseAnswer], TrainingCounts]:
    """Disambiguate the tagged words of test sets.

    Args:
        elmo: the model.
        train: the tagged corpus, read once.
        tests: test sets by name.
        index: the inventory of senses.
        show_progress_bar: on stderr.

    Returns:
        An answer for every tag, set by set, in the order of the text; and what the corpus had.
    """
    check_tests(tests, index)
    asked = [(name, sentence) for name, own in tests.items() for sentence in own]
    entries = {tag.entry for _, sentence in asked for tag in sentence.tags}
    averages = SenseAverages((elmo.num_layers, elmo.dim), index, entries)
    counter = TagCounter(index)
    quiet = not show_progress_bar
    with tqdm(train, "learning", unit=" sentences", disable=quiet) as sentences:
        # A sentence in which no word has a sense that is asked for need not be read.
        useful = filter(averages.wants, map(counter.count, sentences))
        for _, tag, vectors in tag_vectors(elmo, useful):
            averages.add(tag, vectors)
    counts = counter.counts()
    answers: list[SenseAnswer] = []
    with tqdm(asked, "answering", unit=" sentences", disable=quiet) as named:
        for number, tag, vectors in tag_vectors(elmo, (sentence for _, sentence in named)):
            first = index.senses[tag.entry][0]
            seen = averages.seen(tag.entry)
            layers = averages.nearest(seen, vectors) if seen else (first,) * elmo.num_layers
            answers.append(
                SenseAnswer(asked[number][0], number, tag.id, tag.keys, first, layers, len(seen))
            )
    return answers, counts


def check_tests(tests: Mapping[str, Sequence[SenseSentence]], index: SenseIndex) -> None:
    """Refuse test sets that cannot be answered by these senses; the error names the word."""
    for name, sentences in tests.items():
        tags = [tag for sentence in sentences for tag in sentence.tags]
        if not tags:
            raise ElmoxError(f"test set {name} has no tagged words")
        for tag in tags:
            missing = [key for key in tag.keys if key not in index.keys]
            if tag.entry not in index.senses:
                missing = [str(tag.entry)]
            if missing:
                raise ElmoxError(
                    f"{name}, {tag.id}: {missing[0]} is not in the index of senses, which must be "
                    "of the WordNet that the test set is tagged with (3.0)"
                )


def tag_vectors(
    elmo: Elmo, sentences: Iterable[SenseSentence]
) -> Iterator[tuple[int, SenseTag, NDArray[np.float32]]]:
    """For every tag: its sentence's number, the tag, and its vector in each layer, (L + 1, D).

    Sentences are read a chunk at a time, so there may be any number of them.
    """
    room = CHUNK_BYTES.get(elmo.device.type, CHUNK_BYTES["cpu"])
    most_words = max(1, room // (4 * elmo.num_layers * elmo.dim))
    first = 0
    for chunk in in_chunks(sentences, lambda own: len(own.words), most_words):
        encoded = elmo.encode_tokens([sentence.words for sentence in chunk], layers="all")
        for number, (sentence, layers) in enumerate(zip(chunk, encoded, strict=True), start=first):
            for tag in sentence.tags:
                yield number, tag, layers[:, tag.start : tag.stop].mean(axis=1)
        first += len(chunk)


class SenseAverages:
    """The average of every sense's vectors, in every layer, for the senses of some entries.

    Only a sum is kept of each: the average points in the same direction, and the cosine asks for no
    more.
    """

    def __init__(
        self, shape: tuple[int, int], index: SenseIndex, entries: Iterable[LemmaPos]
    ) -> None:
        """`shape` is that of a word's vectors, (L + 1, D)."""
        self._shape = shape
        self._senses = {entry: index.senses[entry] for entry in entries}
        self._wanted = {key for keys in self._senses.values() for key in keys}
        self._sums: dict[str, NDArray[np.float64]] = {}

    def wants(self, sentence: SenseSentence) -> bool:
        """Whether any of its tags would be added."""
        return any(key in self._wanted for tag in sentence.tags for key in tag.keys)

    def add(self, tag: SenseTag, vectors: NDArray[np.float32]) -> None:
        """Count a tagged word, (L + 1, D), towards each of its senses."""
        for key in tag.keys:
            if key in self._wanted:
                if key not in self._sums:
                    self._sums[key] = np.zeros(self._shape)
                self._sums[key] += vectors

    def seen(self, entry: LemmaPos) -> list[str]:
        """The senses of an entry that were added, by their numbers."""
        return [key for key in self._senses[entry] if key in self._sums]

    def nearest(self, keys: Sequence[str], vectors: NDArray[np.float32]) -> tuple[str, ...]:
        """In each layer, the sense with the greatest cosine; the first one of those that tie."""
        averages = _unit(np.stack([self._sums[key] for key in keys]))  # (C, L + 1, D)
        cosines = (averages * _unit(vectors)).sum(-1)  # (C, L + 1)
        best = np.argmax(cosines >= cosines.max(axis=0) - TIE, axis=0)
        return tuple(keys[place] for place in best)


class TagCounter:
    """Counts a tagged corpus as it passes by."""

    def __init__(self, index: SenseIndex) -> None:
        self._index = index
        self._num_sentences = self._num_words = self._num_tags = self._num_unknown = 0
        self._seen: set[str] = set()

    def count(self, sentence: SenseSentence) -> SenseSentence:
        """Take a sentence in and give it back."""
        self._num_sentences += 1
        self._num_words += len(sentence.words)
        for tag in sentence.tags:
            known = [key for key in tag.keys if key in self._index.keys]
            self._seen.update(known)
            self._num_tags += bool(known)
            self._num_unknown += not known
        return sentence

    def counts(self) -> TrainingCounts:
        """What has passed by, in which there must have been something to learn from."""
        if not self._num_tags:
            raise ElmoxError(
                f"none of the {self._num_unknown} tags to learn from is in the index of senses, "
                "which must be of the WordNet that the text is tagged with (3.0)"
            )
        return TrainingCounts(
            self._num_sentences,
            self._num_words,
            self._num_tags,
            len(self._seen),
            self._num_unknown,
        )


def _unit(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Vectors of length 1; one of length 0 stays what it is."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    if not np.isfinite(lengths).all():  # no cosine would be greatest, which would look like a tie
        raise ElmoxError("the model's vectors are not finite: try float32, or another model")
    unit: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1.0)
    return unit
