"""A run that has lost what it had learned is detected; an ordinary one is not."""

import json
from dataclasses import asdict
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from corpora import small_corpus
from training_runs import losses, tiny_recipe

from elmox.config import validated
from elmox.errors import ElmoxError
from elmox.training.divergence import LossCourse
from elmox.training.loop import train

LEARNING = (6.21, 5.23, 4.82, 4.62, 4.47, 4.35, 4.28, 4.20, 4.16, 4.13, 4.11, 4.09)


def course(*losses: float) -> LossCourse:
    return reduce(LossCourse.after, losses, LossCourse())


@pytest.mark.parametrize(
    "losses",
    [
        (),
        (9.0, 3.0, 9.0, 9.0),
        (*LEARNING, *[3.0] * 5),
        (*LEARNING, *[3.0] * 5, *[4.5] * 9),  # worse, but some of the gain is kept
        (*LEARNING, *[3.0] * 5, 7.0, 7.8, 3.1, 3.0, 3.0, 7.8, 3.0),  # it recovers
        (*[5.0] * 5, *[4.1] * 5, *[9.0] * 9),  # a short run that has learned little
    ],
)
def test_an_ordinary_course(losses: tuple[float, ...]) -> None:
    assert not course(*losses).has_diverged


@pytest.mark.parametrize("gain", [0.0, 0.3, 1.0, 2.0])
def test_noise_is_not_divergence(gain: float) -> None:
    """Reports of a single small step, as in fine-tuning, differ by 0.3 nats at random."""
    chance = np.random.default_rng(0)
    falling = 6.0 - gain * (1 - np.exp(-np.arange(300) / 40))
    for _ in range(100):
        state = LossCourse()
        for loss in falling + 0.3 * chance.standard_normal(300):
            state = state.after(float(loss))
            assert not state.has_diverged


def test_a_course_that_diverges() -> None:
    """A run of the small size at a rate of 0.01, by its reports; it had been at 4.09."""
    lost = (6.74, 7.85, 7.52, 7.38, 7.34)
    learned = (*LEARNING, *[4.0] * 5)
    assert not course(*learned, *lost[:2]).has_diverged
    assert course(*learned, *lost).has_diverged


def test_it_continues_after_a_checkpoint() -> None:
    state = course(*LEARNING)
    stored = json.loads(json.dumps(asdict(state)))
    assert validated(LossCourse, stored, "a checkpoint") == state


def test_a_run_that_diverges(tmp_path: Path) -> None:
    """The learning rate rises far too high, so the loss falls and then rises again."""
    recipe = tiny_recipe(
        small_corpus(tmp_path),
        train={"max_steps": 300, "epochs": 1000, "rows": 8},
        optim={"name": "adamw", "lr": 3.0, "warmup": 300, "clip_norm": 1.0},
        report={"log_every": 2, "eval_every": 0, "save_every": 10},
    )
    with pytest.raises(ElmoxError, match=r"diverged.*lower optim\.lr.*step-0000") as caught:
        train(recipe, tmp_path / "run", device="cpu")
    assert len(str(caught.value).splitlines()) == 1
    course = losses(tmp_path / "run")
    assert min(course) < course[0] - 1 < course[-1]
    assert len(course) < 150  # it did not continue to the end
