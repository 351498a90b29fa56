"""The processes that train together: what torchrun started, or this one alone.

Every process reads its own rows; sums over all of them make each step the step that one process
would take with all rows.
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from elmox.errors import ElmoxError
from elmox.inference.device import resolve_device

T = TypeVar("T")

# The first process measures perplexity and writes files while the others wait.
LONGEST_WAIT = timedelta(hours=1)


@dataclass(frozen=True)
class Processes:
    """Which process this is, of how many, and where it computes."""

    rank: int
    num: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Replace values by their sum over all processes."""
        if self.num > 1:
            dist.all_reduce(values)
        return values

    def mean(self, values: Tensor) -> Tensor:
        """Replace values by their mean over all processes."""
        return self.sum(values).div_(self.num) if self.num > 1 else values

    def any(self, flags: Tensor) -> Tensor:
        """Replace flags (uint8) by whether any process has them."""
        if self.num > 1:
            dist.all_reduce(flags, op=dist.ReduceOp.MAX)
        return flags

    def agreed(self, decide: Callable[[], T]) -> T:
        """What the first process finds, for all. Its error is everyone's, so that none waits."""
        if self.num == 1:
            return decide()
        told: list[Any] = [None, None]
        if self.is_first:
            try:
                told[0] = decide()
            except ElmoxError as error:
                told[1] = str(error)
        dist.broadcast_object_list(told, src=0, device=self.device)
        if told[1] is not None:
            raise ElmoxError(told[1])
        found: T = told[0]
        return found

    def wait(self) -> None:
        """Until all processes are here."""
        if self.num > 1:
            dist.barrier()


@contextmanager
def processes(device: str | None = None) -> Iterator[Processes]:
    """Join the processes that torchrun started; alone where it started none.

    Args:
        device: cpu or cuda; a GPU if there is one by default. With several processes each takes the
            GPU of its local number.
    """
    number = int(os.environ.get("WORLD_SIZE", "1"))
    where = resolve_device(device)
    if number == 1:
        if where.type == "cuda" and where.index is not None:
            torch.cuda.set_device(where)  # where kernels are launched
        yield Processes(0, 1, where)
        return
    if where.type == "cuda":
        where = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if where.index >= torch.cuda.device_count():
            raise ElmoxError(
                f"{os.environ['LOCAL_WORLD_SIZE']} processes on a machine with "
                f"{torch.cuda.device_count()} GPUs: give torchrun a smaller --nproc-per-node"
            )
        torch.cuda.set_device(where)
    # torchrun keeps its store of addresses over a restart; without a name of its own for each
    # attempt, a restarted process would wait for processes that are gone.
    store, rank, _ = next(rendezvous("env://"))
    dist.init_process_group(
        "nccl" if where.type == "cuda" else "gloo",
        store=PrefixStore(f"attempt {_num_restarts()}", store),
        rank=rank,
        world_size=number,
        timeout=LONGEST_WAIT,
    )
    try:
        yield Processes(rank, number, where)
    except RuntimeError as error:
        if "gloo" not in str(error) and not isinstance(error, dist.DistBackendError):
            raise
        # The traceback of whoever waited for a dead process says nothing of why it died.
        raise ElmoxError(
            f"process {rank} lost another process of {number}: see what that one said, then go on "
            "with --resume"
        ) from error
    finally:
        # Models that hold the group go first, those in cycles too. The last holder waits for the
        # group's threads; one that is not torch's own way to leave does so with Python's lock, and
        # a thread that needs it to let go of a tensor waits in turn, both for ever.
        gc.collect()
        dist.destroy_process_group()


def was_restarted() -> bool:
    """Whether torchrun started this process again after another one died."""
    return _num_restarts() > 0


def launch_id() -> str:
    """The same for a process and those that torchrun starts in its place, and for no other."""
    return f"{os.environ.get('TORCHELASTIC_RUN_ID', '')} {os.uname().nodename} {os.getppid()}"


def _num_restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
