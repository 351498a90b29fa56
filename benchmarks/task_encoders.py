"""Whose layers a result is of: the digests of biLM and MiniLM as they are now.

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
        encoder: "none", "elmo" or "minilm".
        digest: of the encoder; None without one.
    """

    where: str
    encoder: str
    digest: str | None


def encoder_digest(encoder: str, elmo: str, minilm: Path | None) -> str | None:
    """The digest that fits with this encoder note; None without one.

    Args:
        encoder: "none", "elmo" or "minilm".
        elmo: the biLM.
        minilm: MiniLM's folder; None for that of the installed package.
    """
    if encoder == "none":
        return None
    return _elmo_digest(elmo) if encoder == "elmo" else _minilm_digest(minilm)


def check_same_encoders(uses: Iterable[Use]) -> None:
    """Refuse results of different biLMs or different MiniLMs: no mean is to be made of them."""
    first: dict[str, Use] = {}
    for own in uses:
        other = first.setdefault(own.encoder, own)
        if other.digest != own.digest:
            raise ElmoxError(
                f"{other.where} and {own.where} are of different models (--elmo or --minilm): "
                "delete the results of one, or take a --work for each"
            )


@cache
def _elmo_digest(name: str) -> str:
    from elmox.bulk.embed import model_digest
    from elmox.elmo import Elmo

    return model_digest(Elmo.from_pretrained(name, device="cpu"))


@cache
def _minilm_digest(folder: Path | None) -> str:
    import torch
    from minilm import MiniLm, minilm_folder

    return MiniLm(minilm_folder(folder), torch.device("cpu")).digest
