"""Processes forked from a server that has imported torch: they start at once.

They are processes like any other: they can be killed, and they share no memory.
"""

import faulthandler
import gc
import multiprocessing
import os
import random
import socket
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

LONGEST = 120.0  # seconds that ranks may take

# The last one is what `DistributedDataParallel` imports when it is made, which takes a second.
IMPORTED = [
    "elmox.vectors.embed",
    "elmox.cli.main",
    "elmox.embedding",
    "elmox.training.loop",
    "torch._dynamo",
]


def start(function: Callable[..., None], *arguments: object) -> BaseProcess:
    """Start a process that calls a function, which must be one that can be imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def run_ranks(
    num: int, function: Callable[..., None], *arguments: object, hide_gpus: bool = True
) -> None:
    """Call a function in processes that work together, as torchrun would start them.

    All must end well. A restart, or an end of torchrun itself, needs the real one.
    """
    port = free_port()
    environments = [rank_environment(rank, num, port, hide_gpus) for rank in range(num)]
    with TemporaryDirectory() as folder:
        stacks = [Path(folder, str(rank)) for rank in range(num)]
        ranks = [
            start(_be_rank, environment, stack, function, arguments)
            for environment, stack in zip(environments, stacks, strict=True)
        ]
        for process in ranks:
            process.join(timeout=LONGEST)
        codes = [process.exitcode for process in ranks]
        printed = [stack.read_text() for stack in stacks if stack.exists()]
    assert codes == [0] * num, f"exit codes {codes} at port {port}\n{''.join(printed)}"


def free_port() -> int:
    """A port that stays free until the ranks take it.

    The system gives out those from 32768 on, to every connection that is made meanwhile.
    """
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as free:
            if free.connect_ex(("127.0.0.1", port)):  # nothing listens there
                return port
    raise RuntimeError("no free port among 100 between 20000 and 32000")


def rank_environment(rank: int, num: int, port: int, hide_gpus: bool = True) -> dict[str, str]:
    """Environment that torchrun sets for a process."""
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if hide_gpus else {}
    return hidden | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(num),
        "LOCAL_WORLD_SIZE": str(num),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def _be_rank(
    environment: dict[str, str],
    stack: Path,
    function: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    # Prints the stack of a process that hangs.
    faulthandler.dump_traceback_later(0.9 * LONGEST, file=stack.open("w"))
    os.environ.update(environment)
    function(*arguments)


def train_run(
    recipe: Path, settings: list[str], out: Path, resume: bool = False, device: str = "cpu"
) -> None:
    """Train as `elmox train` does."""
    from elmox.training.loop import train
    from elmox.training.recipe import read_recipe

    train(read_recipe(recipe, settings), out, resume=resume, device=device)


def train_and_look_back(recipe: Path, settings: list[str], out: Path) -> None:
    """Train; a model that is still there when the processes part ends this with an error."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    leave = dist.destroy_process_group

    def checked() -> None:
        left = [item for item in gc.get_objects() if isinstance(item, DistributedDataParallel)]
        leave()
        assert not left, "the model holds the group of processes"

    with patch.object(dist, "destroy_process_group", checked):
        train_run(recipe, settings, out)
