"""The processes of a training run: those that torchrun started, or this one alone.

Every process reads its own rows. Sums over all processes make each step the step that one process
would take with all rows.
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.inference.device import default_device, resolve_device

T = TypeVar("T")

# The first process measures perplexity and writes files while the others wait.
LONGEST_WAIT = timedelta(hours=1)


@dataclass(frozen=True)
class Processes:
    """This process and the number of all that train together.

    Attributes:
        rank: the number of this process, from 0.
        num: the number of processes.
        device: the device of this process.
    """

    rank: int
    num: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and logs."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Replace values with their sum over all processes."""
        if self.num > 1:
            dist.all_reduce(values)
        return values

    def mean(self, values: Tensor) -> Tensor:
        """Replace values with their mean over all processes."""
        return self.sum(values).div_(self.num) if self.num > 1 else values

    def any(self, flags: Tensor) -> Tensor:
        """Set each flag (uint8) that any process has set."""
        if self.num > 1:
            dist.all_reduce(flags, op=dist.ReduceOp.MAX)
        return flags

    def agreed(self, compute: Callable[[], T]) -> T:
        """Return in every process what `compute` returns in the first.

        An `ElmoxError` of the first process is raised in all of them, so that none waits for it.
        """
        if self.num == 1:
            return compute()
        result: list[Any] = [None]
        if self.is_first:
            try:
                result = [compute()]
            except ElmoxError as error:
                result = [error]
        dist.broadcast_object_list(result, src=0, device=self.device)
        if isinstance(result[0], ElmoxError):
            raise result[0]
        return cast(T, result[0])

    def wait(self) -> None:
        """Wait until all processes have called this."""
        if self.num > 1:
            dist.barrier()


@contextmanager
def processes(device: str | None = None) -> Iterator[Processes]:
    """Join the processes that torchrun started; without torchrun, this process is the only one.

    Args:
        device: cpu or cuda; by default a GPU if there is one. Each of several processes takes the
            GPU of its local rank.
    """
    number = num_processes()
    name = device or default_device()
    if number > 1 and name.startswith("cuda"):
        name = f"cuda:{_local_gpu()}"
    where = resolve_device(name)
    if where.type == "cuda":
        torch.cuda.set_device(where)  # where kernels are launched
    if number == 1:
        yield Processes(0, 1, where)
        return
    # torchrun keeps its store of addresses over a restart. Without a prefix for each attempt, a
    # restarted process would wait for processes that are gone.
    if _from_torchrun("RANK", 0) >= number:
        raise ElmoxError(
            f"the environment has RANK={os.environ['RANK']} and WORLD_SIZE={number}, expected a "
            "smaller rank: start the processes with torchrun"
        )
    try:
        store, rank, _ = next(rendezvous("env://"))
    except ValueError as error:
        raise ElmoxError(
            f"the environment has WORLD_SIZE={number}, but not the rest of what torchrun sets "
            f"({error}): unset it, or start the processes with torchrun"
        ) from error
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
        # gloo has no exception class: its name in torch's message is all that marks its errors.
        if "gloo" not in str(error) and not isinstance(error, dist.DistBackendError):
            raise
        # The traceback of a process that waited for a dead one does not show why that one died.
        raise ArgumentError(
            "process {} lost another of the {} processes: see the error of that one, then continue "
            "with {}",
            rank,
            number,
            Argument("resume", True),
        ) from error
    finally:
        # Models that hold the group go first, those in cycles too. The last holder of the group
        # waits for the group's threads. If that is a model, it waits with Python's lock held, and a
        # thread that needs the lock to release a tensor waits in turn: a deadlock.
        gc.collect()
        dist.destroy_process_group()


def num_processes() -> int:
    """Return the number of processes that torchrun started; 1 without it."""
    return _from_torchrun("WORLD_SIZE", 1)


def was_restarted() -> bool:
    """Return whether torchrun started this process again after a process died."""
    return _num_restarts() > 0


def launch_id() -> str:
    """Return an id that a process shares only with those that torchrun starts in its place."""
    return f"{os.environ.get('TORCHELASTIC_RUN_ID', '')} {os.uname().nodename} {os.getppid()}"


def _local_gpu() -> int:
    """Return the index of this process's GPU on its machine."""
    index = _from_torchrun("LOCAL_RANK", 0)
    if index >= torch.cuda.device_count():
        raise ElmoxError(
            f"{os.environ['LOCAL_WORLD_SIZE']} processes on a machine with "
            f"{torch.cuda.device_count()} GPUs: give torchrun a smaller --nproc-per-node"
        )
    return index


def _num_restarts() -> int:
    return _from_torchrun("TORCHELASTIC_RESTART_COUNT", 0)


def _from_torchrun(name: str, default: int) -> int:
    """Return a number that torchrun sets for each process."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or int(text) < default:
        raise ElmoxError(
            f"the environment has {name}={text}, expected a number from torchrun: unset it, or "
            "start the processes with torchrun"
        )
    return int(text)
