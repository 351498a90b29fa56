"""The device that a caller names."""

import pytest

from elmox.errors import ArgumentError
from elmox.inference.device import resolve_device


def test_meta_is_named_as_a_device_without_numbers() -> None:
    with pytest.raises(ArgumentError, match="device='meta' holds shapes without numbers"):
        resolve_device("meta")
