"""Dependency scores as the CoNLL 2018 shared task on Universal Dependencies computes them.

UAS is the share of words with the right head, LAS the share with the right head and relation. Words
are given, so that nothing has to be aligned. As in the task's script, punctuation counts, and only
the universal part of a relation does: `nsubj:pass` is `nsubj`. Older results, on the Penn Treebank
above all, leave punctuation out and compare whole relations: both are options.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elmox.errors import ElmoxError
from elmox.io.conllu import TreebankSentence
from elmox.tasks.metrics.tally import percent

_PUNCTUATION = "PUNCT"


@dataclass(frozen=True)
class ParseScore:
    """Counts of scored and of correct words; scores of sentences add up.

    Attributes:
        num_words: words that were scored.
        correct_heads: those with the right head.
        correct_relations: those with the right head and relation.
    """

    num_words: int = 0
    correct_heads: int = 0
    correct_relations: int = 0

    def __add__(self, other: "ParseScore") -> "ParseScore":
        heads = self.correct_heads + other.correct_heads
        relations = self.correct_relations + other.correct_relations
        return ParseScore(self.num_words + other.num_words, heads, relations)

    @property
    def uas(self) -> float:
        """Unlabeled attachment score, in percent."""
        return percent(self.correct_heads, self.num_words)

    @property
    def las(self) -> float:
        """Labeled attachment score, in percent."""
        return percent(self.correct_relations, self.num_words)


def score_parses(
    gold: Iterable[TreebankSentence],
    predicted: Iterable[tuple[Sequence[int], Sequence[str]]],
    *,
    whole_relations: bool = False,
    skip_punctuation: bool = False,
) -> ParseScore:
    """Score sentences; see `score_parse`."""
    total = ParseScore()
    golds, parses = list(gold), list(predicted)
    if len(golds) != len(parses):
        raise ElmoxError(f"{len(parses)} sentences predicted, expected {len(golds)} as in gold")
    for sentence, (heads, deprels) in zip(golds, parses, strict=True):
        total += score_parse(
            sentence,
            heads,
            deprels,
            whole_relations=whole_relations,
            skip_punctuation=skip_punctuation,
        )
    return total


def score_parse(
    gold: TreebankSentence,
    heads: Sequence[int],
    deprels: Sequence[str],
    *,
    whole_relations: bool = False,
    skip_punctuation: bool = False,
) -> ParseScore:
    """Score one sentence.

    Args:
        gold: the sentence with its gold heads and relations.
        heads: the predicted head of each word, counted from 1; 0 for the root.
        deprels: the predicted relations.
        whole_relations: compare whole relations, such as `nsubj:pass`.
        skip_punctuation: do not score words whose gold universal part of speech is PUNCT. They may
            still be heads.
    """
    if not len(gold) == len(heads) == len(deprels):
        raise ElmoxError(
            f"{len(heads)} heads and {len(deprels)} relations, expected {len(gold)}: one per word"
        )
    num_words = correct_heads = correct_relations = 0
    for index, upos in enumerate(gold.upos):
        if skip_punctuation and upos == _PUNCTUATION:
            continue
        num_words += 1
        if heads[index] == gold.heads[index]:
            correct_heads += 1
            relation, guess = gold.deprels[index], deprels[index]
            if not whole_relations:
                relation, guess = relation.partition(":")[0], guess.partition(":")[0]
            correct_relations += relation == guess
    return ParseScore(num_words, correct_heads, correct_relations)
