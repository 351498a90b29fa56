"""One process of a distributed training run of a model with an `ElmoEmbedding`."""

import gc
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from elmox import ElmoEmbedding

SENTENCES = [[["Live", "in"], ["the"]], [["present", "a", "b"], ["x", "y"]]]  # of each process


def learn(weights: Path, folder: Path, trainable: bool) -> None:
    """Take three steps; the weights are written to `folder/<rank>.pt`."""
    dist.init_process_group("gloo")
    _take_steps(weights, folder, trainable)
    gc.collect()  # a model that outlives its group may wait for it forever
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
    """The mean of a score of each word."""

    def __init__(self, weights: Path, trainable: bool) -> None:
        super().__init__()
        self.embed = ElmoEmbedding.from_pretrained(weights, num_mixes=2, trainable=trainable)
        self.head = torch.nn.Linear(self.embed.dim, 1)

    def forward(self, sentences: list[list[str]]) -> Tensor:
        """Return the mean score of sentences."""
        scores: Tensor = self.head(self.embed(sentences).mixes.sum(0))
        return scores.mean()
