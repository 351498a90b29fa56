"""Functions for the processes of a distributed run."""

from pathlib import Path
from typing import NoReturn

import torch.distributed as dist

from elmox.errors import RunExists
from elmox.training.distributed import processes


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
