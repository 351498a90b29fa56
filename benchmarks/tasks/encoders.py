"""Digests of biLMs and MiniLM, to check which encoder a result belongs to.

A path is not enough: another model may have the same path, or the same model another one. torch is
imported only when a digest is computed.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from elmox.errors import ElmoxError


class Use(NamedTuple):
    """A result and its encoder.

    Attributes:
        where: the result, for people.
        encoder: as `plan.Column` has it.
        digest: of the encoder; None without one.
    """

    where: str
    encoder: str
    digest: str | None


def check_same_encoders(uses: Iterable[Use]) -> None:
    """Refuse results of different biLMs or different MiniLMs: they must not be averaged."""
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
    """Return the digest of a biLM."""
    from elmox.elmo import Elmo

    return Elmo.from_pretrained(name, device="cpu").digest()


@cache
def minilm_digest(folder: Path | None) -> str:
    """Return the digest of MiniLM in a folder, by default that of the installed package."""
    import torch

    from tasks.minilm import MiniLm, minilm_folder

    return MiniLm(minilm_folder(folder), torch.device("cpu")).digest
