"""A model with an `ElmoEmbedding`, trained by processes together: what each of them does."""

import gc
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from elmox import ElmoEmbedding

SENTENCES = [[["Live", "in"], ["the"]], [["present", "a", "b"], ["x", "y"]]]  # of each process


def learn(weights: Path, folder: Path, trainable: bool) -> None:
    """Take three steps; what was learned goes to `folder/<rank>.pt`."""
    dist.init_process_group("gloo")
    _take_steps(weights, folder, trainable)
    gc.collect()  # a model that outlives its group may wait for it for ever
    dist.destroy_process_group()


def _take_steps(weights: Path, folder: Path, trainable: bool) -> None:
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Task(weights, trainable))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        model(SENTENCES[rank]).backward()
        optimizer.step()
    torch.save(model.module.state_dict(), folder / f"{rank}.pt")


class Task(torch.nn.Module):
    """The mean of a number for each word."""

    def __init__(self, weights: Path, trainable: bool) -> None:
        super().__init__()
        self.embed = ElmoEmbedding.from_pretrained(weights, num_mixes=2, trainable=trainable)
        self.head = torch.nn.Linear(self.embed.dim, 1)

    def forward(self, sentences: list[list[str]]) -> Tensor:
        """Sentences to one number."""
        found: Tensor = self.head(self.embed(sentences).mixes.sum(0))
        return found.mean()
