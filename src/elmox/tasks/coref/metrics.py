"""Coreference scores of the CoNLL-2012 shared task: MUC, B-cubed, CEAF-phi4 and their mean.

Key (gold) and response (predicted) are sets of entities, and entities are sets of mentions, which
are the same if their spans are exactly the same. Mentions need not agree: a mention only in the
response lowers precision, one only in the key lowers recall, and nothing is added to either side
(Pradhan et al. 2014, the reference scorer since version 7).

- MUC (Vilain et al. 1995) counts links: an entity of n mentions has n - 1, and a response entity
  that shares n mentions with a key entity has n - 1 correct ones.
- B-cubed (Bagga and Baldwin 1998) averages over mentions the share of their entity that is right.
- CEAF-phi4 (Luo 2005) aligns entities one to one. Entities of sizes k and r that share n mentions
  have a similarity of 2n / (k + r); the alignment has the largest total similarity.

Over several documents, numerators and denominators are summed before the division. A mention in two
entities counts in the first only, as in the reference scorer's response.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from elmox.tasks.coref.alignment import best_alignment
from elmox.tasks.metrics.tally import Tally

Entities: TypeAlias = Iterable[Collection[Hashable]]


@dataclass(frozen=True)
class CoreferenceScore:
    """The three measures, and a tally of mentions; scores of documents add up."""

    muc: Tally = field(default_factory=Tally)
    b_cubed: Tally = field(default_factory=Tally)
    ceaf: Tally = field(default_factory=Tally)
    mentions: Tally = field(default_factory=Tally)

    def __add__(self, other: "CoreferenceScore") -> "CoreferenceScore":
        muc, b_cubed = self.muc + other.muc, self.b_cubed + other.b_cubed
        ceaf, mentions = self.ceaf + other.ceaf, self.mentions + other.mentions
        return CoreferenceScore(muc, b_cubed, ceaf, mentions)

    @property
    def mean(self) -> float:
        """Mean of the three F1: the score that ranked systems at CoNLL-2012."""
        return (self.muc.f1 + self.b_cubed.f1 + self.ceaf.f1) / 3


def score_coreference(
    documents: Iterable[tuple[Entities, Entities]], *, keep_singletons: bool = False
) -> CoreferenceScore:
    """Score documents, each given as its key and its response; see `score_document`."""
    scores = (
        score_document(key, response, keep_singletons=keep_singletons)
        for key, response in documents
    )
    return sum(scores, start=CoreferenceScore())


def score_document(
    key: Entities, response: Entities, *, keep_singletons: bool = False
) -> CoreferenceScore:
    """Score one document.

    Args:
        key: the gold entities, each the mentions of it: any hashable values.
        response: the predicted ones.
        keep_singletons: False leaves out entities of one mention from both sides. OntoNotes has no
            such entities; LitBank has.
    """
    key_of, key_sizes = _index(key, keep_singletons)
    response_of, response_sizes = _index(response, keep_singletons)
    shared = Counter(
        (key_of[mention], entity) for mention, entity in response_of.items() if mention in key_of
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
            correct=sum(count**2 / response_sizes[entity] for (_, entity), count in shared.items()),
            predicted=sum(response_sizes),
            recalled=sum(count**2 / key_sizes[entity] for (entity, _), count in shared.items()),
            gold=sum(key_sizes),
        ),
        ceaf=Tally.of(aligned, predicted=len(response_sizes), gold=len(key_sizes)),
        mentions=Tally.of(sum(shared.values()), sum(response_sizes), sum(key_sizes)),
    )


def _index(entities: Entities, keep_singletons: bool) -> tuple[dict[Hashable, int], list[int]]:
    """Return the number of each mention's entity, and the sizes of the entities."""
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
    """Return the similarity of the best alignment; entities that share nothing are left out."""
    rows = {key: row for row, key in enumerate(sorted({key for key, _ in shared}))}
    columns = {entity: column for column, entity in enumerate(sorted({e for _, e in shared}))}
    similarity = np.zeros((len(rows), len(columns)))
    for (key, entity), count in shared.items():
        similarity[rows[key], columns[entity]] = (
            2 * count / (key_sizes[key] + response_sizes[entity])
        )
    return float(similarity[best_alignment(similarity)].sum())
