"""The linear probe: it must find what is linear in vectors, and nothing else."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmox.errors import ElmoxError
from elmox.probes import linear
from elmox.probes.linear import UNSEEN, Examples, ProbeOptions, ProbeResult, fit_probe

CPU = torch.device("cpu")
QUICK = ProbeOptions(epochs=20, min_steps=100, batch_size=64, learning_rate=3e-2)
BRIEF = replace(QUICK, epochs=2, min_steps=1)


def vectors(number: int, dim: int, seed: int) -> Tensor:
    return torch.randn(number, dim, generator=torch.Generator().manual_seed(seed))


def noisy_linear(number: int, seed: int, noise: float = 1.0) -> Examples:
    """Return four labels that depend on five of eight dimensions, and on noise."""
    inputs = vectors(number, 8, seed)
    scores = inputs[:, :5] @ vectors(5, 4, seed=99) + noise * vectors(number, 4, seed + 1000)
    return Examples(inputs, scores.argmax(1).numpy())


def fit(
    parts: Sequence[Examples], seeds: Sequence[int] = (0, 1), options: ProbeOptions = QUICK
) -> ProbeResult:
    train, dev, test = parts
    return fit_probe(train, dev, test, seeds, CPU, options)


def test_a_linear_relation_is_learned() -> None:
    """A label for each of the six directions, and a random length."""

    def examples(number: int, seed: int) -> Examples:
        labels = np.random.default_rng(seed).integers(6, size=number)
        lengths = 1 + vectors(number, 1, seed).abs()
        return Examples(functional.one_hot(torch.from_numpy(labels)) * lengths, labels)

    result = fit([examples(500, 0), examples(100, 1), examples(200, 2)])
    assert result.dev.shape == (2, 100)
    assert result.test.shape == (2, 200)
    assert result.dev.all()
    assert result.test.all()


def test_a_nonlinear_relation_is_not_learned() -> None:
    """Whether two signs agree is not linear in the vector; in their product it is."""

    def examples(seed: int, product: bool) -> Examples:
        inputs = vectors(1000, 2, seed)
        labels = (inputs.prod(1) > 0).long().numpy()
        return Examples(inputs.prod(1, keepdim=True) if product else inputs, labels)

    hidden = fit([examples(seed, product=False) for seed in range(3)])
    shown = fit([examples(seed, product=True) for seed in range(3)])
    assert hidden.test.mean() < 0.6
    assert shown.test.mean() > 0.98


def test_linear_maps_of_the_vectors_change_nothing() -> None:
    """Not even scales that are 10,000 times apart, nearly collinear dimensions, or an offset."""
    parts = [noisy_linear(600, seed) for seed in range(3)]
    axes, _ = torch.linalg.qr(vectors(8, 8, seed=7))
    stretch = torch.logspace(-1, 1, 8)[:, None] * axes * torch.logspace(-2, 2, 8)
    mapped = [replace(part, vectors=part.vectors @ stretch + 3.0) for part in parts]
    plain, result = fit(parts), fit(mapped)
    assert plain.test.mean() > 0.75
    assert np.mean(plain.test == result.test) > 0.99


def test_doubled_and_constant_dimensions_do_no_harm() -> None:
    parts = [noisy_linear(600, seed) for seed in range(3)]
    constant = torch.full((600, 2), 5.0)
    more = [
        replace(part, vectors=torch.cat([part.vectors, part.vectors, constant], 1).half())
        for part in parts
    ]
    assert np.mean(fit(parts).test == fit(more).test) > 0.97


def test_it_ends_near_the_optimum() -> None:
    """Against a second-order method, run until convergence, on the same convex loss."""
    examples = noisy_linear(800, seed=0)
    white = linear._whitening(examples.vectors).apply(examples.vectors)
    torch.testing.assert_close(white.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(white.T @ white / 800, torch.eye(8), atol=1e-4, rtol=0)
    labels = torch.from_numpy(examples.labels)
    penalty = 1e-2
    matrix, bias = torch.zeros(8, 4, requires_grad=True), torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.LBFGS([matrix, bias], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimizer.zero_grad()
        value = functional.cross_entropy(white @ matrix + bias, labels)
        value = value + penalty * matrix.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value.item()

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    options = replace(QUICK, epochs=60)
    weights = linear._train(white, labels, [3, 4], [penalty, 1.0], options)
    for seed in range(2):
        torch.testing.assert_close(weights.matrix[seed, :, :4], matrix.detach(), atol=0.02, rtol=0)
    assert weights.matrix[:, :, 4:].abs().max() < matrix.abs().max() / 3  # a penalty of 1


def test_the_penalty_is_the_one_that_is_best_on_dev() -> None:
    """With few examples of many dimensions and no penalty, noise is memorized."""

    def examples(number: int, seed: int) -> Examples:
        inputs = vectors(number, 40, seed)
        noise = vectors(number, 1, seed + 50)[:, 0]
        return Examples(inputs, (inputs[:, 0] + noise > 0).long().numpy())

    train, dev, test = examples(60, 0), examples(400, 1), examples(400, 2)
    options = replace(QUICK, penalties=(1e-6, 1e-1, 1e-3))
    result = fit([train, dev, test], options=options)
    alone = {
        penalty: fit([train, dev, test], [0], replace(QUICK, penalties=(penalty,))).dev.mean()
        for penalty in options.penalties
    }
    assert result.penalty == max(alone, key=lambda penalty: alone[penalty]) == 1e-1
    reverse = replace(dev, labels=1 - dev.labels)  # dev decides, not test
    assert fit([train, reverse, test], options=options).penalty != 1e-1


def test_only_the_seed_decides() -> None:
    parts = [noisy_linear(600, seed) for seed in range(3)]
    first = fit(parts, [3, 4], BRIEF)
    np.testing.assert_array_equal(first.test, fit(parts, [3, 4], BRIEF).test)
    np.testing.assert_array_equal(first.test[:1], fit(parts, [3], BRIEF).test)
    assert (first.test[0] != first.test[1]).any()


def test_a_small_training_part_gets_as_many_steps() -> None:
    parts = [noisy_linear(50, seed, noise=0.0) for seed in range(3)]
    one_pass = replace(BRIEF, epochs=1, penalties=(1e-5,))
    barely = fit(parts, options=one_pass)
    enough = fit(parts, options=replace(one_pass, min_steps=300))
    assert enough.dev.mean() > barely.dev.mean() + 0.05


def test_unseen_labels_are_wrong() -> None:
    train, dev, test = (noisy_linear(300, seed, noise=0.0) for seed in range(3))
    labels: NDArray[np.int64] = test.labels.copy()
    labels[:100] = UNSEEN
    labels[100:200] = 7
    result = fit([train, dev, replace(test, labels=labels)])
    assert not result.test[:, :200].any()
    assert result.test[:, 200:].mean() > 0.8


def test_bad_arguments() -> None:
    good = noisy_linear(10, 0)
    with pytest.raises(ElmoxError, match=r"\(N, D\) and \(N,\)"):
        Examples(good.vectors, good.labels[:-1])
    with pytest.raises(ElmoxError, match="at least one seed"):
        fit([good] * 3, seeds=[])
    with pytest.raises(ElmoxError, match="each with a label"):
        fit([replace(good, labels=np.full(10, UNSEEN)), good, good])
    with pytest.raises(ElmoxError, match="at least one penalty"):
        ProbeOptions(penalties=())
