"""Triton's interpreter, which runs kernels where there is no GPU, with today's NumPy."""

from typing import Any

import pytest


def count_with_arrays(patch: pytest.MonkeyPatch) -> None:
    """The interpreter's scalars are arrays of one number, which numpy >= 2.4 takes for no int."""
    from triton.runtime import interpreter

    patch_tensor = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    patch.setattr(interpreter, "_patch_lang_tensor", patched)
