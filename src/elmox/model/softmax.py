"""The output layer of the language model, which predicts the next word (section 3.1).

Both directions share it. A vocabulary is ordered by falling count, as bilm-tf's is. The adaptive
softmax (Grave et al. 2017) gives frequent words a full-width row and rare ones a narrow one.

Shapes: N positions, P projection, V words.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmox.errors import ElmoxError
from elmox.kernels.cross_entropy.plain import LOGITS_AT_ONCE

# Positions that share one pass over the weights, which do not fit into a cache.
POSITIONS_AT_ONCE = {"cpu": 512, "cuda": 4096}


class OutputLayer(Protocol):
    """Scores every word of the vocabulary."""

    @property
    def num_words(self) -> int:
        """V."""

    def log_probs(self, hidden: Tensor) -> Tensor:
        """(N, P) -> (N, V) log-probabilities, in float32 or better."""

    def target_log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return the log-probability of one word per position, (N,), by the full softmax.

        It is computed in float32 or better, without gradients, in memory that N and V do not
        change.

        Args:
            hidden: (N, P).
            targets: (N,) word ids.
        """


class FullSoftmax(nn.Module):
    """One row and one bias per word."""

    def __init__(self, num_words: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_words, dim))
        self.bias = nn.Parameter(torch.empty(num_words))

    @property
    def num_words(self) -> int:
        """V."""
        return len(self.bias)

    @torch.no_grad()
    def init(self, generator: torch.Generator) -> None:
        """Draw fresh weights as bilm-tf did: N(0, 1/sqrt(P)), no bias."""
        self.weight.normal_(0.0, 1.0 / math.sqrt(self.weight.shape[1]), generator=generator)
        self.bias.zero_()

    def log_probs(self, hidden: Tensor) -> Tensor:
        """See `OutputLayer`."""
        return self._logits(hidden, slice(None)).log_softmax(-1)

    @torch.no_grad()
    def target_log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """See `OutputLayer`. Words are read in blocks, so that many positions share a product."""
        parts = []
        for part in chunks(len(hidden), POSITIONS_AT_ONCE.get(hidden.device.type, 512)):
            rows, words = hidden[part].to(self.weight.dtype), targets[part]
            size = max(1, LOGITS_AT_ONCE.get(hidden.device.type, 2**22) // len(rows))
            sums = [
                self._logits(rows, block).logsumexp(-1) for block in chunks(self.num_words, size)
            ]
            logits = torch.linalg.vecdot(rows, self.weight[words]) + self.bias[words]
            parts.append(logits - torch.stack(sums).logsumexp(0))
        return torch.cat(parts)

    def _logits(self, hidden: Tensor, words: slice) -> Tensor:
        logits = F.linear(hidden.to(self.weight.dtype), self.weight[words], self.bias[words])
        return logits.to(torch.promote_types(logits.dtype, torch.float32))


class AdaptiveSoftmax(nn.Module):
    """Words in clusters of falling frequency; each further cluster is a quarter as wide."""

    def __init__(self, num_words: int, dim: int, cutoffs: tuple[int, ...]) -> None:
        super().__init__()
        if list(cutoffs) != sorted(set(cutoffs)) or not cutoffs or not 0 < cutoffs[-1] < num_words:
            raise ElmoxError(
                f"softmax cutoffs {list(cutoffs)}: expected rising numbers below the vocabulary's "
                f"{num_words} words"
            )
        if cutoffs[0] <= 0:
            raise ElmoxError(f"softmax cutoffs {list(cutoffs)}: the first must be at least 1")
        if dim < 4 ** len(cutoffs):
            raise ElmoxError(
                f"softmax cutoffs {list(cutoffs)}: each cluster is a quarter as wide as the one "
                f"before, so a projection of {dim} has room for fewer"
            )
        self.layer = nn.AdaptiveLogSoftmaxWithLoss(
            dim, num_words, list(cutoffs), div_value=4.0, head_bias=True
        )

    @property
    def num_words(self) -> int:
        """V."""
        return int(self.layer.n_classes)

    @torch.no_grad()
    def init(self, generator: torch.Generator) -> None:
        """Draw fresh weights: N(0, 1/sqrt(fan in)), no bias."""
        for parameter in self.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0.0, 1.0 / math.sqrt(parameter.shape[1]), generator=generator)
            else:
                parameter.zero_()

    def log_probs(self, hidden: Tensor) -> Tensor:
        """See `OutputLayer`."""
        log_probs = self.layer.log_prob(hidden.to(self.layer.head.weight.dtype))
        return log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))

    @torch.no_grad()
    def target_log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """See `OutputLayer`. Only the clusters that targets fall into are computed."""
        clusters = zip([0, *self.layer.cutoffs], self.layer.cutoffs, strict=False)
        widest = max(stop - start for start, stop in clusters) + self.layer.n_clusters
        size = max(1, LOGITS_AT_ONCE.get(hidden.device.type, 2**22) // widest)
        parts = []
        for part in chunks(len(hidden), size):
            rows = hidden[part].to(self.layer.head.weight.dtype)
            parts.append(cast(Tensor, self.layer(rows, targets[part]).output))
        log_probs = torch.cat(parts)
        return log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))


def softmax_from_tensors(
    tensors: Mapping[str, Tensor], num_words: int, dim: int, source: str
) -> FullSoftmax | AdaptiveSoftmax:
    """Make the output layer that these arrays belong to; their names tell its kind.

    Args:
        tensors: its state dict.
        num_words: V, the size of its vocabulary.
        dim: P.
        source: the file, for error messages.
    """
    with torch.device("meta"):
        layer: FullSoftmax | AdaptiveSoftmax
        if "layer.head.weight" in tensors:
            layer = AdaptiveSoftmax(num_words, dim, _cutoffs(tensors, num_words))
        else:
            layer = FullSoftmax(num_words, dim)
    expected = layer.state_dict()
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors or name not in expected:
            state = "lacks" if name not in tensors else "has an unknown array"
            raise ElmoxError(f"{source} {state} {name}")
        if tensors[name].shape != expected[name].shape:
            raise ElmoxError(
                f"{source}: {name} has shape {tuple(tensors[name].shape)}, but {num_words} words "
                f"and a projection of {dim} require {tuple(expected[name].shape)}"
            )
        # Both ends are NaN if any value is. (`isfinite` would copy a gigabyte.)
        if not all(end.isfinite() for end in tensors[name].aminmax()):
            raise ElmoxError(f"{source}: {name} contains NaN or infinite values")
    layer.load_state_dict(dict(tensors), assign=True)
    return layer.requires_grad_(False)


def _cutoffs(tensors: Mapping[str, Tensor], num_words: int) -> tuple[int, ...]:
    """Return the first word of each cluster: the last matrix of a tail has a row per word."""
    sizes: list[int] = []
    while (name := f"layer.tail.{len(sizes)}.1.weight") in tensors:
        sizes.append(len(tensors[name]))
    cutoffs = [num_words - sum(sizes[i:]) for i in range(len(sizes))]
    return tuple(cutoffs)


def chunks(total: int, size: int) -> Iterator[slice]:
    """Cut a range into pieces of at most `size`."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))
