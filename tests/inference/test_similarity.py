"""Cosines of arrays and tensors."""

import re

import numpy as np
import pytest
import torch

from elmox.errors import ElmoxError
from elmox.inference.similarity import normalize, similarity

A = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]], dtype=np.float32)
B = np.array([[4.0, 3.0], [-3.0, -4.0]], dtype=np.float32)
EXPECTED = np.array([[0.96, -1.0], [0.0, 0.0], [0.8, -0.6]])


def test_all_pairs() -> None:
    np.testing.assert_allclose(similarity(A, B), EXPECTED, atol=1e-6)
    tensors = similarity(torch.from_numpy(A), torch.from_numpy(B))
    np.testing.assert_allclose(tensors.numpy(), EXPECTED, atol=1e-6)


def test_single_vectors() -> None:
    assert similarity(A[0], B[0]) == pytest.approx(0.96)
    assert similarity(A[0], B).shape == (1, 2)


def test_zeros_stay_zeros() -> None:
    np.testing.assert_allclose(np.linalg.norm(normalize(A), axis=-1), [1, 0, 1], atol=1e-6)


def test_wrong_shapes_and_kinds() -> None:
    with pytest.raises(ElmoxError, match=re.escape("shapes (3, 2) and (3, 3)")):
        similarity(A, np.ones((3, 3), dtype=np.float32))
    with pytest.raises(ElmoxError, match="ndarray and Tensor: expected two arrays or two tensors"):
        similarity(A, torch.from_numpy(B))  # type: ignore[type-var]
    with pytest.raises(ElmoxError, match="list and ndarray: expected two arrays or two tensors"):
        similarity(["a sentence"], A)  # type: ignore[type-var]
