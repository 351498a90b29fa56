"""Coreference as the CoNLL-2012 shared task scores it: MUC, B-cubed, CEAF-phi4 and their mean.

Key (gold) and response (predicted) are sets of entities, and entities are sets of mentions, which
are the same if their spans are exactly the same. Mentions need not agree: what is only in the
response costs precision, what is only in the key costs recall, and nothing is added to either side
(Pradhan et al. 2014, the reference scorer since version 7).

- MUC (Vilain et al. 1995) counts links: an entity of n mentions has n - 1, and a response entity
  that shares n mentions with a key entity has n - 1 of them right.
- B-cubed (Bagga and Baldwin 1998) asks of each mention what share of its entity is right.
- CEAF-phi4 (Luo 2005) aligns entities one to one. Those of sizes k and r that share n mentions are
  worth 2n / (k + r); the alignment is the one worth the most.

Over several documents, numerators and denominators are summed before anything is divided. A mention
in two entities counts in the first alone, as in the reference scorer's response.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

from elmox.tasks.coref.alignment import best_alignment
from elmox.tasks.metrics.tally import Tally

Entities = Iterable[Collection[Hashable]]


@dataclass(frozen=True)
class CoreferenceScore:
    """The three measures, and how many mentions were found; scores of documents add up."""

    muc: Tally = field(default_factory=Tally)
    b_cubed: Tally = field(default_factory=Tally)
    ceaf: Tally = field(default_factory=Tally)
    mentions: Tally = field(default_factory=Tally)

    def __add__(self, other: "CoreferenceScore") -> "CoreferenceScore":
        return CoreferenceScore(
            self.muc + other.muc,
            self.b_cubed + other.b_cubed,
            self.ceaf + other.ceaf,
            self.mentions + other.mentions,
        )

    @property
    def mean(self) -> float:
        """Of the three F1: the score that CoNLL-2012 ranked by."""
        return (self.muc.f1 + self.b_cubed.f1 + self.ceaf.f1) / 3


def score_coreference(
    documents: Iterable[tuple[Entities, Entities]], *, keep_singletons: bool = False
) -> CoreferenceScore:
    """The score over documents, each given as its key and its response; see `score_document`."""
    scores = (
        score_document(key, response, keep_singletons=keep_singletons)
        for key, response in documents
    )
    return sum(scores, start=CoreferenceScore())


def score_document(
    key: Entities, response: Entities, *, keep_singletons: bool = False
) -> CoreferenceScore:
    """The score of one document.

    Args:
        key: the gold entities, each the mentions of it: any hashable values.
        response: the predicted ones.
        keep_singletons: False leaves out entities of one mention from both sides. OntoNotes has no
            such entities; LitBank has.
    """
    key_of, key_sizes = _index(key, keep_singletons)
    response_of, response_sizes = _index(response, keep_singletons)
    shared = Counter(
        (key_of[mention], place) for mention, place in response_of.items() if mention in key_of
    )
    links = sum(count - 1 for count in shared.values())
    aligned = _phi4(shared, key_sizes, response_sizes)
    return CoreferenceScore(
        muc=Tally.of(
            links,
            predicted=sum(response_sizes) - len(response_sizes),
            gold=sum(key_sizes) - len(key_sizes),
        ),
        b_cubed=Tally(
            right=sum(count**2 / response_sizes[place] for (_, place), count in shared.items()),
            predicted=sum(response_sizes),
            found=sum(count**2 / key_sizes[place] for (place, _), count in shared.items()),
            gold=sum(key_sizes),
        ),
        ceaf=Tally.of(aligned, predicted=len(response_sizes), gold=len(key_sizes)),
        mentions=Tally.of(sum(shared.values()), sum(response_sizes), sum(key_sizes)),
    )


def _index(entities: Entities, keep_singletons: bool) -> tuple[dict[Hashable, int], list[int]]:
    """The number of each mention's entity, and the sizes of the entities."""
    number_of: dict[Hashable, int] = {}
    sizes: list[int] = []
    seen: set[Hashable] = set()
    for entity in entities:
        mentions = [mention for mention in dict.fromkeys(entity) if mention not in seen]
        seen.update(mentions)
        if len(mentions) > (0 if keep_singletons else 1):
            number_of.update(dict.fromkeys(mentions, len(sizes)))
            sizes.append(len(mentions))
    return number_of, sizes


def _phi4(
    shared: Counter[tuple[int, int]], key_sizes: list[int], response_sizes: list[int]
) -> float:
    """What the best alignment is worth; entities that share nothing need not be aligned."""
    rows = {place: row for row, place in enumerate(sorted({key for key, _ in shared}))}
    columns = {place: column for column, place in enumerate(sorted({own for _, own in shared}))}
    worth = np.zeros((len(rows), len(columns)))
    for (key, own), count in shared.items():
        worth[rows[key], columns[own]] = 2 * count / (key_sizes[key] + response_sizes[own])
    return float(worth[best_alignment(worth)].sum())
