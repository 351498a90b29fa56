"""Whose layers a result is of: the digests of biLMs and MiniLM as they are now.

A name does not tell: another model may lie in the same place, or the same one in another. torch is
only imported where a digest is asked for.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from elmox.errors import ElmoxError


class Use(NamedTuple):
    """A result and whose layers it is of.

    Attributes:
        where: the result, for people.
        encoder: as `plan.Column` has it.
        digest: of the encoder; None without one.
    """

    where: str
    encoder: str
    digest: str | None


def check_same_encoders(uses: Iterable[Use]) -> None:
    """Refuse results of different biLMs or different MiniLMs: no mean is to be made of them."""
    first: dict[str, Use] = {}
    for use in uses:
        other = first.setdefault(use.encoder, use)
        if other.digest != use.digest:
            raise ElmoxError(
                f"{other.where} and {use.where} are of different models (--{use.encoder}): "
                "delete the results of one, or take a --work for each"
            )


@cache
def elmo_digest(name: str) -> str:
    """Of a biLM."""
    from elmox.elmo import Elmo

    return Elmo.from_pretrained(name, device="cpu").digest()


@cache
def minilm_digest(folder: Path | None) -> str:
    """Of MiniLM in a folder; None for that of the installed package."""
    import torch

    from tasks.minilm import MiniLm, minilm_folder

    return MiniLm(minilm_folder(folder), torch.device("cpu")).digest
