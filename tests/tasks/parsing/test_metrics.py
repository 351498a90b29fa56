"""UAS and LAS: words and parts of relations that count."""

import pytest

from elmox.errors import ElmoxError
from elmox.io.conllu import TreebankSentence
from elmox.tasks.parsing.metrics import ParseScore, score_parse, score_parses


def sentence(*words: tuple[str, int, str]) -> TreebankSentence:
    upos, heads, deprels = zip(*words, strict=True) if words else ((), (), ())
    same = tuple("_" for _ in words)
    return TreebankSentence(same, same, upos, same, same, heads, deprels, (), line=1)


# "He was seen ."
GOLD = sentence(
    ("PRON", 3, "nsubj:pass"), ("AUX", 3, "aux:pass"), ("VERB", 0, "root"), ("PUNCT", 3, "punct")
)


def test_correct_arcs() -> None:
    # Word 1 is right except for the subtype, word 2 has a wrong relation, word 3 a wrong head (then
    # its relation does not matter), word 4 is right: heads 3 of 4, with relations 2 of 4.
    heads, deprels = (3, 3, 1, 3), ("nsubj", "cop", "root", "punct")
    score = score_parse(GOLD, heads, deprels)
    assert score == ParseScore(num_words=4, correct_heads=3, correct_relations=2)
    assert (score.uas, score.las) == (75.0, 50.0)
    whole = score_parse(GOLD, heads, deprels, whole_relations=True)
    assert (whole.uas, whole.las) == (75.0, 25.0)
    skipping = score_parse(GOLD, heads, deprels, skip_punctuation=True)
    assert skipping == ParseScore(3, 2, 1)
    both = score_parse(GOLD, heads, deprels, whole_relations=True, skip_punctuation=True)
    assert both == ParseScore(3, 2, 0)


@pytest.mark.parametrize("deprel", ["nsubj", "nsubj:pass", "nsubj:outer"])
def test_subtypes_are_cut_off_on_both_sides(deprel: str) -> None:
    one = sentence(("NOUN", 0, "nsubj:pass"))
    assert score_parse(one, [0], [deprel]).las == 100.0
    assert score_parse(one, [0], [deprel], whole_relations=True).las == 100.0 * (
        deprel == "nsubj:pass"
    )
    assert score_parse(one, [0], ["nsub"]).las == 0.0


def test_sentences_count_by_their_words() -> None:
    short = sentence(("VERB", 0, "root"))
    gold = [GOLD, short, sentence()]
    parses = [(GOLD.heads, GOLD.deprels), ((0,), ("dep",)), ((), ())]
    score = score_parses(gold, parses)
    assert score == ParseScore(5, 5, 4)
    assert (score.uas, score.las) == (100.0, 80.0)
    assert score_parses(gold, parses, skip_punctuation=True) == ParseScore(4, 4, 3)
    assert score_parses(gold, parses, whole_relations=True) == ParseScore(5, 5, 4)


def test_nothing_to_score() -> None:
    only_punctuation = sentence(("PUNCT", 0, "root"))
    for score in (
        score_parses([], []),
        score_parse(sentence(), [], []),
        score_parse(only_punctuation, [0], ["root"], skip_punctuation=True),
    ):
        assert (score.num_words, score.uas, score.las) == (0, 0.0, 0.0)


def test_all_wrong() -> None:
    score = score_parse(GOLD, (0, 0, 1, 0), GOLD.deprels)
    assert (score.num_words, score.uas, score.las) == (4, 0.0, 0.0)


def test_mismatched_inputs_are_refused() -> None:
    with pytest.raises(ElmoxError, match="3 heads and 4 relations, expected 4: one per word"):
        score_parse(GOLD, (3, 3, 0), GOLD.deprels)
    with pytest.raises(ElmoxError, match="0 sentences predicted, expected 1 as in gold"):
        score_parses([GOLD], [])
