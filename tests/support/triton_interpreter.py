"""Triton's interpreter, which runs kernels where there is no GPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def interpreted() -> Iterator[None]:
    """Import or run kernels inside: on the GPU, or in the interpreter if there is none.

    The test module is skipped if Triton is not installed.
    """
    pytest.importorskip("triton")
    with pytest.MonkeyPatch.context() as patch:
        if DEVICE == "cpu":
            patch.setenv("TRITON_INTERPRET", "1")
            _accept_arrays_as_numbers(patch)
        yield


def _accept_arrays_as_numbers(patch: pytest.MonkeyPatch) -> None:
    """The interpreter's scalars are arrays of one number, which NumPy >= 2.4 rejects as an int."""
    from triton.runtime import interpreter

    patch_tensor = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    patch.setattr(interpreter, "_patch_lang_tensor", patched)
