"""Log-uniform candidates against exact probabilities and against drawing one after the other."""

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch

from elmox.errors import ElmoxError
from elmox.training.log_uniform import Candidates, LogUniformSampler

Floats = npt.NDArray[np.float64]

FAR = 5.0  # standard deviations that random results do not reach


def word_probabilities(num_words: int) -> Floats:
    edges = np.log(np.arange(1.0, num_words + 2.0))
    probabilities: Floats = np.diff(edges) / edges[-1]
    return probabilities


def draws(sampler: LogUniformSampler, number: int, seed: int = 3) -> list[Candidates]:
    return [sampler.draw(seed, step, 0, "cpu") for step in range(number)]


def draw_one_by_one(
    probabilities: Floats, num_samples: int, rng: np.random.Generator
) -> tuple[set[int], int]:
    """Draw as in the definition, word by word."""
    drawn: set[int] = set()
    for tries, word in enumerate(rng.choice(len(probabilities), 20_000, p=probabilities), 1):
        drawn.add(int(word))
        if len(drawn) == num_samples:
            return drawn, tries
    raise AssertionError("20,000 draws were too few")


def assert_fits(counts: Floats, expected: Floats) -> None:
    """Chi-square test at about one in three million (Wilson and Hilferty's approximation)."""
    assert expected.min() > 5
    freedom = len(counts) - 1
    spread = 2 / (9 * freedom)
    limit = freedom * (1 - spread + FAR * math.sqrt(spread)) ** 3
    assert ((counts - expected) ** 2 / expected).sum() < limit


def test_the_probabilities() -> None:
    sampler = LogUniformSampler(1000, 10)
    probabilities = sampler.probability(torch.arange(1000)).numpy()
    np.testing.assert_allclose(probabilities, word_probabilities(1000), rtol=1e-12)
    assert abs(probabilities.sum() - 1) < 1e-12


def test_the_first_draw_follows_the_probabilities() -> None:
    singles = draws(LogUniformSampler(40, 1), 10_000)
    assert all(drawn.tries == 1 for drawn in singles)
    counts = np.bincount([int(drawn.ids) for drawn in singles], minlength=40)
    assert_fits(counts.astype(float), 10_000 * word_probabilities(40))


def test_two_candidates_and_reference_tries_follow_the_exact_joint_distribution() -> None:
    """Words i and j after k tries: k - 1 times i and then j, or the other way round."""
    num_words, number, longest = 5, 20_000, 6
    p = word_probabilities(num_words)
    pairs = [(i, j) for i in range(num_words) for j in range(i)]
    expected = {
        (i, j, k): p[i] ** (k - 1) * p[j] + p[j] ** (k - 1) * p[i]
        for i, j in pairs
        for k in range(2, longest)
    }
    for i, j in pairs:  # the rest of the geometric series
        tails = (p[a] ** (longest - 1) / (1 - p[a]) * p[b] for a, b in ((i, j), (j, i)))
        expected[i, j, longest] = sum(tails)
    assert abs(sum(expected.values()) - 1) < 1e-12
    counts = dict.fromkeys(expected, 0)
    for drawn in draws(LogUniformSampler(num_words, 2), number):
        j, i = drawn.ids.tolist()
        counts[i, j, min(int(drawn.tries), longest)] += 1
    # Cells too rare for a chi-square test are counted as one.
    frequent = [cell for cell in expected if number * expected[cell] > 10]
    cells = np.array([[counts[cell], number * expected[cell]] for cell in frequent])
    rest = np.array([number, number]) - cells.sum(0)
    assert len(frequent) > 20
    assert_fits(*np.vstack([cells, rest]).T)


def test_many_candidates_are_those_of_drawing_one_by_one() -> None:
    num_words, num_samples, number = 200, 50, 3000
    rng = np.random.default_rng(0)
    p = word_probabilities(num_words)
    reference = [draw_one_by_one(p, num_samples, rng) for _ in range(number)]
    ours = draws(LogUniformSampler(num_words, num_samples), number)

    reference_tries = np.array([tries for _, tries in reference], dtype=float)
    our_tries = np.array([float(drawn.tries) for drawn in ours])
    error = math.sqrt((reference_tries.var() + our_tries.var()) / number)
    assert abs(reference_tries.mean() - our_tries.mean()) < FAR * error
    # The error of a normal variable's log standard deviation is 1 / sqrt(2 n).
    assert abs(math.log(reference_tries.std() / our_tries.std())) < FAR / math.sqrt(number)

    reference_share = (
        np.bincount([w for ids, _ in reference for w in ids], minlength=num_words) / number
    )
    our_share = np.bincount(torch.cat([d.ids for d in ours]), minlength=num_words) / number
    share = (reference_share + our_share) / 2
    error_of_each = np.sqrt(2 * share * (1 - share) / number)
    assert (np.abs(reference_share - our_share) <= FAR * error_of_each).all()


@pytest.mark.parametrize(("num_words", "num_samples"), [(2, 1), (1000, 999), (793_471, 8192)])
def test_candidates_are_distinct_words(num_words: int, num_samples: int) -> None:
    sampler = LogUniformSampler(num_words, num_samples)
    ids, tries = sampler.draw(1, 2, 0, "cpu")
    assert ids.shape == (num_samples,)
    assert ids.dtype == torch.int64
    assert (ids.diff() > 0).all()
    assert 0 <= ids.min() <= ids.max() < num_words
    assert tries.dtype == torch.float64
    assert tries.shape == ()
    assert tries == tries.round() >= num_samples
    # As many words as candidates are expected of so many tries.
    every = sampler.log_expected(torch.arange(num_words), tries).double().exp()
    assert abs(every.sum() - num_samples) < 1 + FAR * math.sqrt((every * (1 - every)).sum())


def test_expected_counts() -> None:
    sampler = LogUniformSampler(50, 10)
    expected = 1 - (1 - word_probabilities(50)) ** 17
    logs = sampler.log_expected(torch.arange(50), torch.tensor(17.0, dtype=torch.float64))
    assert logs.dtype == torch.float32
    np.testing.assert_allclose(logs, np.log(expected), rtol=1e-6)


def test_expected_counts_of_rare_words_are_exact() -> None:
    """The last of 800,000 words is drawn once in ten million times: 1 - (1 - P) would lose it."""
    sampler = LogUniformSampler(800_000, 8192)
    last = torch.tensor([799_999])
    expected = math.log(math.log1p(1 / 800_000) / math.log(800_001))
    assert abs(float(sampler.log_expected(last, torch.tensor(1.0).double())) - expected) < 1e-6


@pytest.mark.parametrize("num_words", [1, 2, 77])
def test_with_as_many_samples_as_words_all_are_returned(num_words: int) -> None:
    sampler = LogUniformSampler(num_words, num_words)
    ids, tries = sampler.draw(1, 2, 0, "cpu")
    assert ids.tolist() == list(range(num_words))
    assert sampler.log_expected(ids, tries).tolist() == [0.0] * num_words


def test_a_draw_depends_on_its_key_alone() -> None:
    sampler = LogUniformSampler(5000, 100)
    first = sampler.draw(1, 2, 0, "cpu")
    torch.manual_seed(5)
    torch.rand(3)
    for again in (sampler.draw(1, 2, 0, "cpu"), LogUniformSampler(5000, 100).draw(1, 2, 0, "cpu")):
        assert torch.equal(again.ids, first.ids)
        assert again.tries == first.tries
    for other in ((2, 2, 0), (1, 3, 0), (1, 2, 1)):
        assert not torch.equal(sampler.draw(*other, "cpu").ids, first.ids)


def test_draws_at_once_are_those_of_each_step_and_direction() -> None:
    sampler = LogUniformSampler(5000, 100)
    ids, tries = sampler.draw_all(1, [3, 4, 9], [0, 1], "cpu")
    assert ids.shape == (3, 2, 100)
    for i, step in enumerate((3, 4, 9)):
        for direction in (0, 1):
            alone = sampler.draw(1, step, direction, "cpu")
            assert torch.equal(ids[i, direction], alone.ids)
            assert tries[i, direction] == alone.tries


def test_a_draw_does_not_use_the_global_generator() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    LogUniformSampler(50, 10).draw(1, 2, 0, "cpu")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("num_samples", [0, -1, 11])
def test_impossible_numbers_of_samples(num_samples: int) -> None:
    with pytest.raises(ElmoxError, match=rf"{num_samples} samples.* 10 words"):
        LogUniformSampler(10, num_samples)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_without_waiting_for_it() -> None:
    sampler = LogUniformSampler(40, 3)
    sampler.draw(0, 0, 0, "cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        on_gpu = [sampler.draw(3, step, 0, "cuda") for step in range(5000)]
        for drawn in on_gpu[:10]:
            sampler.log_expected(drawn.ids, drawn.tries)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    on_cpu = draws(sampler, 5000)
    shares = [
        torch.cat([d.ids for d in side]).bincount(minlength=40).double().cpu() / 5000
        for side in (on_gpu, on_cpu)
    ]
    share = (shares[0] + shares[1]) / 2
    assert ((shares[0] - shares[1]).abs() <= FAR * (2 * share * (1 - share) / 5000).sqrt()).all()
    tries = [torch.stack([d.tries for d in side]).cpu() for side in (on_gpu, on_cpu)]
    error = math.sqrt(float(tries[0].var() + tries[1].var()) / 5000)
    assert abs(tries[0].mean() - tries[1].mean()) < FAR * error
