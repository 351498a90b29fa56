"""The model of an index: a search must embed its query as the text was embedded."""

from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from elmox.config import validated
from elmox.elmo import Elmo
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.inference.layer_choice import Layers
from elmox.pretrained.load import ModelReference


def model_digest(elmo: Elmo, layers: Layers) -> str:
    """Return a digest of what the vectors of some layers depend on, except device and precision."""
    mixes = sorted(elmo.mixes.items()) if str(layers).startswith("mix") else []
    return blake2b(repr((elmo.digest(), mixes)).encode(), digest_size=16).hexdigest()


def check_model(elmo: Elmo, meta: dict[str, Any], path: Path) -> None:
    """Refuse a model other than the one in an index's description."""
    if model_digest(elmo, meta["layers"]) != meta["digest"]:
        raise ElmoxError(
            f"{path} was made with another model ({meta['description']}) than this one "
            f"({elmo.description}): use that model, or make the index again"
        )


def load_model(
    meta: dict[str, Any], path: Path, moved: str | Path | None, device: str | torch.device | None
) -> Elmo:
    """Load the model in an index's description.

    Args:
        meta: the description of the model.
        path: the index, for error messages.
        moved: path of the model now; None for where it was.
        device: as in `Elmo.from_pretrained`.
    """
    stored = meta["reference"]
    if moved is not None:
        elmo = Elmo.from_pretrained(moved, device=device, state=meta["state"])
    elif stored is None:
        raise ArgumentError(
            "{} does not name the files of its model ({}): give the model as {}",
            path,
            meta["description"],
            Argument("elmo"),
        )
    else:
        reference = validated(ModelReference, stored, str(path))
        try:
            elmo = Elmo.from_pretrained(**vars(reference), device=device, state=meta["state"])
        except ElmoxError as error:
            raise ArgumentError(
                "{}: its model cannot be loaded ({}): if it has moved, give its path as {}",
                path,
                error,
                Argument("elmo"),
            ) from error
    check_model(elmo, meta, path)
    return elmo
