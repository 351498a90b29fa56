"""Dependencies as the CoNLL 2018 shared task on Universal Dependencies scores them.

UAS is the share of words whose head is right, LAS of those whose relation to it is right too. Words
are given, so that nothing has to be aligned. As in the task's script all words count, punctuation
too, and only the universal part of a relation: `nsubj:pass` is `nsubj`. Older results, on the Penn
Treebank above all, leave punctuation out and take relations whole: both are options.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elmox.errors import ElmoxError
from elmox.io.conllu import TreebankSentence
from elmox.tasks.metrics.tally import percent

_PUNCTUATION = "PUNCT"


@dataclass(frozen=True)
class ParseScore:
    """How many words were scored and right; scores of sentences add up.

    Attributes:
        num_words: that count.
        right_heads: of them, those with the right head.
        right_relations: of those, the ones with the right relation.
    """

    num_words: int = 0
    right_heads: int = 0
    right_relations: int = 0

    def __add__(self, other: "ParseScore") -> "ParseScore":
        return ParseScore(
            self.num_words + other.num_words,
            self.right_heads + other.right_heads,
            self.right_relations + other.right_relations,
        )

    @property
    def uas(self) -> float:
        return percent(self.right_heads, self.num_words)

    @property
    def las(self) -> float:
        return percent(self.right_relations, self.num_words)


def score_parses(
    gold: Iterable[TreebankSentence],
    predicted: Iterable[tuple[Sequence[int], Sequence[str]]],
    *,
    whole_relations: bool = False,
    skip_punctuation: bool = False,
) -> ParseScore:
    """The score over sentences; see `score_parse`."""
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
    """The score of one sentence.

    Args:
        gold: the sentence with its right heads and relations.
        heads: the predicted head of each word, counted from 1; 0 for the root.
        deprels: the predicted relations.
        whole_relations: `nsubj:pass` has to be just that.
        skip_punctuation: leave out words whose gold universal part of speech is PUNCT. They may
            still be heads.
    """
    if not len(gold) == len(heads) == len(deprels):
        raise ElmoxError(
            f"{len(heads)} heads and {len(deprels)} relations, expected {len(gold)}: one for a word"
        )
    num_words = right_heads = right_relations = 0
    for place, upos in enumerate(gold.upos):
        if skip_punctuation and upos == _PUNCTUATION:
            continue
        num_words += 1
        if heads[place] == gold.heads[place]:
            right_heads += 1
            own, said = gold.deprels[place], deprels[place]
            if not whole_relations:
                own, said = own.partition(":")[0], said.partition(":")[0]
            right_relations += own == said
    return ParseScore(num_words, right_heads, right_relations)
