"""Training that has lost what it had learned is noticed; an ordinary course is not."""

import json
from dataclasses import asdict
from functools import reduce
from pathlib import Path

import pytest
from corpora import small_corpus
from training_runs import losses, tiny_recipe

from elmox.config import validated
from elmox.errors import ElmoxError
from elmox.train.divergence import LossCourse
from elmox.train.loop import train


def course(*losses: float) -> LossCourse:
    return reduce(LossCourse.after, losses, LossCourse())


@pytest.mark.parametrize(
    "losses",
    [
        (),
        (9.0,),
        (6.2, 5.2, 4.8, 4.6, 4.5, 4.1),
        (6.2, 4.1, 5.1, 5.1, 5.1),  # worse, but most was kept
        (6.2, 4.1, 6.7, 7.8, 4.2, 7.8, 7.8),  # it recovers
        (5.0, 4.6, 9.0, 9.0, 9.0),  # nothing much was learned: a fine-tuning, a short run
    ],
)
def test_an_ordinary_course(losses: tuple[float, ...]) -> None:
    assert not course(*losses).has_diverged


def test_everything_lost() -> None:
    """A run of the small size at a rate of 0.01, by its reports."""
    losses = (6.21, 5.23, 4.82, 4.28, 4.09, 6.74, 7.85)
    assert not course(*losses).has_diverged
    assert course(*losses, 7.52).has_diverged


def test_it_goes_on_after_a_checkpoint() -> None:
    found = course(6.2, 4.1, 7.0)
    stored = json.loads(json.dumps(asdict(found)))
    assert validated(LossCourse, stored, "a checkpoint") == found


def test_a_run_that_diverges(tmp_path: Path) -> None:
    """The rate rises far beyond what is good, so the loss falls and then comes back."""
    recipe = tiny_recipe(
        small_corpus(tmp_path),
        train={"max_steps": 200, "epochs": 1000, "rows": 8},
        optim={"name": "adamw", "lr": 3.0, "warmup": 200, "clip_norm": 1.0},
        report={"log_every": 5, "eval_every": 0, "save_every": 10},
    )
    with pytest.raises(ElmoxError, match=r"diverged.*lower optim\.lr.*step-0000") as caught:
        train(recipe, tmp_path / "run", device="cpu")
    assert len(str(caught.value).splitlines()) == 1
    course = losses(tmp_path / "run")
    assert min(course) < course[0] - 0.5 < course[-1]
    assert len(course) < 40  # it did not go on to the end
