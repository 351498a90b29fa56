"""Where packed words lie."""

import numpy as np
import torch

from elmox.kernels.recurrence.packing import Packing

CPU = torch.device("cpu")


def test_words_lie_step_after_step() -> None:
    packing = Packing.of(np.array([3, 2, 2]))
    assert packing.sizes == (3, 3, 1)
    assert packing.steps.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert packing.rows.tolist() == [0, 1, 2, 0, 1, 2, 0]
    rows = packing.on(CPU)
    assert rows.sizes == packing.sizes
    assert rows.starts.tolist() == [0, 3, 6, 7]
    assert rows.earlier.tolist() == [0, 1, 2, 3]


def test_rows_of_no_words() -> None:
    packing = Packing.of(np.array([2, 0]))
    assert packing.sizes == (1, 1)
    assert packing.rows.tolist() == [0, 0]
    nothing = Packing.of(np.array([0, 0])).on(CPU)
    assert (nothing.sizes, nothing.starts.tolist(), nothing.earlier.tolist()) == ((), [0], [])
