"""Processes forked from a server that has imported torch: they start at once.

They are processes like any other: they can be killed, and they share no memory.
"""

import multiprocessing
import os
import random
import socket
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

# The last one is what `DistributedDataParallel` imports when it is made, which takes a second.
IMPORTED = ["elmox.bulk.embed", "elmox.embedding", "elmox.train.loop", "torch._dynamo"]


def start(function: Callable[..., None], *arguments: object) -> BaseProcess:
    """Start a process that calls a function, which must be one that can be imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def run_ranks(num: int, function: Callable[..., None], *arguments: object) -> None:
    """Call a function in processes that work together, as torchrun would start them.

    All must end well. A restart, or an end of torchrun itself, needs the real one.
    """
    port = _free_port()
    ranks = [start(_be_rank, rank, num, port, function, arguments) for rank in range(num)]
    for process in ranks:
        process.join(timeout=120)
    codes = [process.exitcode for process in ranks]
    assert codes == [0] * num, f"exit codes {codes} of ranks that meet at port {port}"


def _free_port() -> int:
    """A port that nobody takes before the ranks do.

    The system gives out those from 32768 on, to every connection that is made meanwhile.
    """
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as free:
            if free.connect_ex(("127.0.0.1", port)):  # nobody listens there
                return port
    raise RuntimeError("no free port among 100 between 20000 and 32000")


def _be_rank(
    rank: int, num: int, port: int, function: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(num),
        LOCAL_WORLD_SIZE=str(num),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        CUDA_VISIBLE_DEVICES="",
    )
    function(*arguments)


def train_on_cpu(recipe: Path, settings: list[str], out: Path, resume: bool = False) -> None:
    """What `elmox train` does."""
    from elmox.train.loop import train
    from elmox.train.recipe import read_recipe

    train(read_recipe(recipe, settings), out, resume=resume, device="cpu")
