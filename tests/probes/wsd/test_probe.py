"""Word senses by nearest neighbor, and their scores."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from sense_data import (
    ANIMAL,
    BIG,
    COMPETE,
    FAMOUS,
    FIRM,
    HAPPEN,
    PERFORM,
    SHORE,
    write_sense_data,
)
from shared_data import SHARED

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.probes.wsd import probe as wsd
from elmox.probes.wsd.probe import (
    SenseAverages,
    SensePrediction,
    TagCounter,
    TrainingCounts,
    predict_senses,
    tag_vectors,
)
from elmox.probes.wsd.raganato import TEST_SETS, find_test_sets, read_raganato
from elmox.probes.wsd.report import ALL, FIRST, PAPER, SenseReport, score_predictions
from elmox.probes.wsd.semcor import read_semcor
from elmox.probes.wsd.senses import LemmaPos, SenseSentence, SenseTag
from elmox.probes.wsd.wordnet import SenseIndex, read_sense_index

BANK, PLAY = LemmaPos("bank", "n"), LemmaPos("play", "v")
INDEX = SenseIndex({BANK: (FIRM, SHORE), PLAY: (COMPETE, PERFORM)})
DATA = SHARED / "tasks" / "wsd"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no test sets and SemCor at {DATA}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("senses")
    write_sense_data(path)
    return path


@pytest.fixture(scope="module")
def index(folder: Path) -> SenseIndex:
    return read_sense_index(folder / "index.sense")


@pytest.fixture(scope="module")
def train(folder: Path) -> list[SenseSentence]:
    return list(read_semcor(folder / "semcor.jsonl"))


@pytest.fixture(scope="module")
def tests(folder: Path) -> dict[str, list[SenseSentence]]:
    sets = find_test_sets(folder / "Evaluation_Datasets")
    return {name: list(read_raganato(path)) for name, path in sets.items()}


@pytest.fixture(scope="module")
def elmo(tiny: Path) -> Elmo:
    return Elmo.from_pretrained(tiny)


@pytest.fixture(scope="module")
def real_index() -> SenseIndex:
    return read_sense_index(DATA / "wordnet30-index.sense.xz")


def tag(entry: LemmaPos, *keys: str) -> SenseTag:
    return SenseTag(0, 1, entry, keys)


def play_tag(sentence: tuple[str, ...], key: str) -> SenseTag:
    position = sentence.index("play")
    return SenseTag(position, position + 1, PLAY, (key,))


def vectors(*layers: tuple[float, float]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.array(layers, dtype=np.float32)


def test_the_nearest_average_wins_in_each_layer() -> None:
    averages = SenseAverages((2, 2), INDEX, [BANK])
    averages.add(tag(BANK, FIRM), vectors((1, 0), (0, 1)))
    averages.add(tag(BANK, FIRM), vectors((0, 3), (0, 1)))  # average (0.5, 1.5) in layer 0
    averages.add(tag(BANK, SHORE), vectors((9, 0), (1, 0)))
    seen = averages.seen(BANK)
    assert seen == [FIRM, SHORE]
    assert averages.nearest(seen, vectors((1, 2), (5, 1))) == (FIRM, SHORE)
    assert averages.nearest(seen, vectors((5, 1), (1, 5))) == (SHORE, FIRM)


def test_among_equals_the_lower_number_wins() -> None:
    averages = SenseAverages((1, 2), INDEX, [BANK, PLAY])
    averages.add(tag(BANK, SHORE), vectors((0.1, 0.7)))
    for _ in range(7):  # seven times a tenth is not seven tenths
        averages.add(tag(BANK, FIRM), vectors((0.1, 0.7)))
    averages.add(tag(PLAY, PERFORM, COMPETE), vectors((1, 2)))  # both senses, undecided
    assert averages.nearest(averages.seen(BANK), vectors((0.3, 0.2))) == (FIRM,)
    assert averages.nearest(averages.seen(PLAY), vectors((0.3, 0.2))) == (COMPETE,)
    assert averages.nearest([SHORE, FIRM], vectors((0, 0))) == (SHORE,)  # no direction at all


def test_only_senses_of_the_entries_are_averaged() -> None:
    averages = SenseAverages((1, 2), INDEX, [BANK])
    averages.add(tag(PLAY, PERFORM), vectors((1, 2)))
    averages.add(tag(BANK, SHORE, "bank%1:14:09::"), vectors((1, 2)))
    assert averages.seen(BANK) == [SHORE]
    assert not averages.has_sense(SenseSentence(("play",), (tag(PLAY, PERFORM),)))
    assert averages.has_sense(SenseSentence(("bank",), (tag(BANK, FIRM),)))


def test_vectors_that_are_not_finite_are_refused() -> None:
    averages = SenseAverages((1, 2), INDEX, [BANK])
    averages.add(tag(BANK, SHORE), vectors((1, np.inf)))
    averages.add(tag(BANK, FIRM), vectors((1, 1)))
    with pytest.raises(ElmoxError, match="not finite"):
        averages.nearest([FIRM, SHORE], vectors((1, 1)))


def test_a_unit_of_several_words_is_their_mean_and_chunks_change_nothing(
    elmo: Elmo, train: list[SenseSentence], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = list(tag_vectors(elmo, train))
    assert [number for number, _, _ in whole] == [0, 1, 2, 2, 3, 4, 5, 6]
    _, place, layers = whole[4]
    alone = elmo.encode_tokens([["It", "took", "place", "in", "Rome"]], layers="all")[0]
    assert place.keys == (HAPPEN,)
    assert layers.shape == (elmo.num_layers, elmo.dim)
    np.testing.assert_allclose(layers, (alone[:, 1] + alone[:, 2]) / 2, atol=1e-6)
    monkeypatch.setitem(wsd.CHUNK_BYTES, "cpu", 4 * elmo.num_layers * elmo.dim * 11)
    for (_, one, before), (_, other, after) in zip(whole, tag_vectors(elmo, train), strict=True):
        assert one == other
        np.testing.assert_allclose(before, after, atol=1e-5)


def test_predictions(
    elmo: Elmo,
    train: list[SenseSentence],
    tests: dict[str, list[SenseSentence]],
    index: SenseIndex,
) -> None:
    predictions, counts = predict_senses(elmo, iter(train), tests, index)
    assert counts == TrainingCounts(7, 30, 7, 6, 1)
    assert [(item.test_set, item.sentence) for item in predictions] == [
        ("senseval2", 0), ("senseval2", 1), ("semeval2015", 2), ("semeval2015", 3),
        ("semeval2015", 3), ("semeval2015", 4),
    ]  # fmt: skip
    bank, zebra, shore, great, happen, play = predictions
    # The same sentence is in the corpus. Layer 0 depends on the word alone: "bank" of a firm agrees
    # exactly, the average of "bank" and "banks" of a shore does not.
    assert bank == SensePrediction("senseval2", 0, "d000.s000.t001", (FIRM,), FIRM, (FIRM,) * 3, 2)
    assert shore.layers == (FIRM, SHORE, SHORE)
    assert zebra.layers == (ANIMAL,) * 3  # never seen: the first sense
    assert zebra.num_seen == 0
    assert (great.first, great.layers, great.num_seen) == (BIG, (BIG,) * 3, 1)
    assert (great.gold, happen.layers) == ((FAMOUS, BIG), (HAPPEN,) * 3)
    assert (play.layers[0], play.num_seen) == (COMPETE, 2)


def test_the_context_decides_and_not_the_number_of_a_sense(elmo: Elmo, index: SenseIndex) -> None:
    """Against the definition: every sentence alone, cosine by cosine."""
    lines = [
        ("old men play it", PERFORM),
        ("they play on grass", COMPETE),
        ("to play Lear", PERFORM),
    ]
    words = [tuple(line.split()) for line, _ in lines]
    train = [
        SenseSentence(tokens, (play_tag(tokens, key),))
        for tokens, (_, key) in zip(words, lines, strict=True)
    ]
    queries = ["boys play on the grass", "play", "let us play Hamlet", "a play , they say"]
    test_words = [tuple(query.split()) for query in queries]
    test = [SenseSentence(tokens, (play_tag(tokens, COMPETE),)) for tokens in test_words]
    predictions, _ = predict_senses(elmo, train, {"mine": test}, index)

    def vector(
        sentence: tuple[str, ...], layer: int
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        tokens = elmo.encode_tokens([sentence], layers=layer)[0]
        return np.asarray(tokens[sentence.index("play")], dtype=np.float64)

    for prediction, sentence in zip(predictions, test_words, strict=True):
        assert prediction.layers[0] == COMPETE  # the same word: a tie
        for layer in (1, 2):
            query = vector(sentence, layer)
            one, two = (
                (vector(words[0], layer) + vector(words[2], layer)) / 2,
                vector(words[1], layer),
            )
            cosines = [
                average @ query / np.linalg.norm(average) / np.linalg.norm(query)
                for average in (one, two)
            ]
            assert abs(cosines[0] - cosines[1]) > 1e-5
            assert prediction.layers[layer] == (PERFORM, COMPETE)[int(np.argmax(cosines))]


def test_data_that_do_not_belong_together_are_refused(
    elmo: Elmo,
    train: list[SenseSentence],
    tests: dict[str, list[SenseSentence]],
    index: SenseIndex,
) -> None:
    with pytest.raises(
        ElmoxError, match=r"^senseval2, .*s001\.t001: zebra \(n\) is not in the ind"
    ):
        predict_senses(elmo, train, tests, INDEX)
    other = SenseIndex({**index.senses, BANK: (SHORE,)})
    with pytest.raises(ElmoxError, match=f"^senseval2, .*: {FIRM} is not in the index"):
        predict_senses(elmo, train, tests, other)
    with pytest.raises(ElmoxError, match="none of the 1 tags of the training text"):
        predict_senses(elmo, train[-1:], tests, index)
    with pytest.raises(ElmoxError, match="test set mine has no tagged words"):
        predict_senses(elmo, train, {"mine": [SenseSentence(("so",), ())]}, index)


def made_up(name: str, sentence: int, *layers: str, seen: int = 2) -> SensePrediction:
    return SensePrediction(name, sentence, "", (FIRM,), SHORE, layers, seen)


def test_scores() -> None:
    predictions = [
        made_up("one", 0, SHORE, FIRM),
        made_up("one", 0, FIRM, FIRM, seen=0),
        made_up("one", 1, SHORE, SHORE, seen=1),
        made_up("two", 2, FIRM, FIRM),
    ]
    scores = score_predictions(predictions, samples=200)
    assert scores.num_instances == {"one": 3, "two": 1, ALL: 4}
    assert scores.num_unseen == {"one": 1, "two": 0, ALL: 1}
    assert scores.f1[FIRST] == {"one": 0, "two": 0, ALL: 0}
    assert scores.f1["layer 0"] == {"one": pytest.approx(100 / 3), "two": 100, ALL: 50}
    assert scores.f1["layer 1"][ALL] == 75
    assert [(one.system, one.other, one.points.estimate) for one in scores.differences] == [
        ("layer 0", FIRST, 50), ("layer 1", FIRST, 75), ("layer 1", "layer 0", 25),
    ]  # fmt: skip
    difference = scores.differences[-1].points
    assert (difference.low, difference.high) == (0, 50)  # sentence 0 drawn never, or only it
    assert scores.all_intervals["layer 1"].high == 100
    assert score_predictions(predictions, samples=200) == scores


def test_the_papers_figures_are_shown_only_for_the_same_sets_and_layers() -> None:
    predictions = [made_up(name, n, SHORE, FIRM, FIRM) for n, name in enumerate(TEST_SETS)]
    facts, counts = {"model": "m"}, TrainingCounts(1, 2, 1234, 4, 5)
    report = SenseReport(facts, counts, score_predictions(predictions, samples=10))
    lines = report.to_markdown().splitlines()
    assert "| layer 2 | 100.0 | 100.0 | 100.0 | 100.0 | 100.0 | 100.0 | 69.0 |" in lines
    assert "| layer 0 | 0.0 | 0.0 | 0.0 | 0.0 | 0.0 | 0.0 | - |" in lines
    assert "| layer 2 - layer 1 | +0.00 | +0.00 to +0.00 |" in lines
    assert "- model: m" in lines
    assert "1,234 tags of 4 senses" in report.to_markdown()
    values = json.loads(json.dumps(report.to_dict()))
    assert values["paper"] == PAPER
    assert values["f1"]["layer 2"][ALL] == 100
    assert {line.count("|") for line in lines if line.startswith("| layer 2 |")} == {9}
    for fewer in (predictions[:-1], [made_up(name, 0, SHORE, FIRM) for name in TEST_SETS]):
        other = SenseReport(facts, counts, score_predictions(fewer, samples=10))
        assert "paper" not in other.to_dict()
        assert "paper" not in other.to_markdown()


def test_no_predictions_have_no_score() -> None:
    with pytest.raises(ElmoxError, match="no predictions"):
        score_predictions([])


@needs_data
def test_the_first_sense_of_the_real_test_sets(tmp_path: Path, real_index: SenseIndex) -> None:
    """The well-known 65.2 on ALL: readers, order of senses and scoring are the framework's."""
    with tarfile.open(DATA / "raganato-eval.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    predictions = []
    for name, path in find_test_sets(tmp_path / "Evaluation_Datasets").items():
        for number, sentence in enumerate(read_raganato(path)):
            for tag in sentence.tags:
                first = real_index.senses[tag.entry][0]
                predictions.append(
                    SensePrediction(name, number, tag.id, tag.keys, first, (first,), 0)
                )
    scores = score_predictions(predictions, samples=1)
    assert scores.num_instances == {
        "senseval2": 2282, "senseval3": 1850, "semeval2007": 455, "semeval2013": 1644,
        "semeval2015": 1022, ALL: 7253,
    }  # fmt: skip
    assert {name: round(f1, 1) for name, f1 in scores.f1[FIRST].items()} == {
        "senseval2": 66.8, "senseval3": 66.2, "semeval2007": 55.2, "semeval2013": 63.0,
        "semeval2015": 67.8, ALL: 65.2,
    }  # fmt: skip


@needs_data
def test_the_real_semcor_has_the_published_number_of_senses(real_index: SenseIndex) -> None:
    """Raganato et al. count 226,036 tags of 33,362 senses."""
    counter = TagCounter(real_index)
    for sentence in read_semcor(DATA / "semcor.jsonl.xz"):
        counter.count(sentence)
    counts = counter.counts()
    assert (counts.num_tags, counts.num_senses) == (226_036, 33_362)
