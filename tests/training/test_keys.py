"""Seeds from keys: unrelated for different keys, always the same for one key."""

import itertools

import numpy as np
import torch

from elmox.training.keys import mixed_seed


def test_different_keys_give_different_seeds() -> None:
    keys = list(itertools.product(("candidates", "dropout"), range(8), range(200), range(2)))
    assert len({mixed_seed(*key) for key in keys}) == len(keys)
    assert mixed_seed(1, 2) != mixed_seed(2, 1)
    assert mixed_seed(1, 23) != mixed_seed(12, 3)
    assert mixed_seed(1) != mixed_seed(-1)


def test_seeds_are_uniform_and_fit_a_generator() -> None:
    seeds = [mixed_seed(7, step) for step in range(2000)]
    assert 0 <= min(seeds) < 2**53
    assert 2**62 < max(seeds) < 2**63
    low_bits = sum(seed % 2 for seed in seeds)
    assert abs(low_bits - 1000) < 5 * 500**0.5
    torch.Generator().manual_seed(max(seeds))
    np.random.default_rng(max(seeds))


def test_seeds_never_change() -> None:
    """A run resumed by a later version must draw the same numbers."""
    assert mixed_seed("candidates", 1, 2, 3) == 4728869981540274714
    assert mixed_seed(*np.arange(5, 7)) == mixed_seed(5, 6)
