"""Functions for the processes of a distributed run."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

import torch.distributed as dist

from elmox.errors import RunExists
from elmox.training.distributed import processes
from elmox.training.plan import plan
from elmox.training.recipe import Recipe


def agree_on_an_error(folder: Path) -> None:
    """Let the first process raise an error, and store what each process gets."""

    def fail() -> NoReturn:
        raise RunExists(folder)

    with processes("cpu") as group:
        try:
            group.agreed(fail)
        except RunExists as error:
            (folder / f"{group.rank}").write_text(f"{error.path} {group.num} {error}")
        assert group.agreed(lambda: dist.get_rank()) == 0


def plan_together(recipe: Recipe, folder: Path, device: str) -> None:
    """Plan a recipe, and store what each process gets."""
    values = asdict(plan(recipe, device=device, seconds=0.1))
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(values))
