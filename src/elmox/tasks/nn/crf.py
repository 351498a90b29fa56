"""The linear-chain conditional random field on top of the paper's taggers (Lafferty et al. 2001).

A sequence of tags scores the sum of its words' scores and of its transitions' (start, from tag to
tag, end); its probability is the softmax of that over all sequences. The sum over them all goes
word by word (the forward algorithm), and so does the search for the best (Viterbi's): both are in
`elmox.kernels.crf`.

Shapes: B sentences, T words, C tags.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmox.kernels.crf.dispatch import best_paths, losses
from elmox.kernels.crf.plain import DISALLOWED, last_tags


class Crf(nn.Module):
    """Transition scores, learned from zero, and which transitions there are.

    Whatever the precision of the scores, it computes in float32 at least, inside autocast too.
    What is allowed follows from the tags, and is not part of the state dict.
    """

    may_start: Tensor
    may_end: Tensor
    may_follow: Tensor

    def __init__(
        self,
        num_tags: int,
        starts: NDArray[Any] | Tensor | None = None,
        ends: NDArray[Any] | Tensor | None = None,
        pairs: NDArray[Any] | Tensor | None = None,
    ) -> None:
        """All is allowed by default.

        Args:
            num_tags: C.
            starts: (C,) whether a sentence may start with a tag.
            ends: (C,) whether it may end with it.
            pairs: (C, C) whether the second tag may follow the first.
        """
        super().__init__()
        self.start_scores = nn.Parameter(torch.zeros(num_tags))
        self.end_scores = nn.Parameter(torch.zeros(num_tags))
        self.pair_scores = nn.Parameter(torch.zeros(num_tags, num_tags))  # from, to
        for name, given, shape in (
            ("may_start", starts, (num_tags,)),
            ("may_end", ends, (num_tags,)),
            ("may_follow", pairs, (num_tags, num_tags)),
        ):
            self.register_buffer(name, _allowed(given, shape), persistent=False)

    def forward(self, scores: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The mean over sentences of the negative log-likelihood of their tags: ().

        Args:
            scores: (B, T, C) of each tag for each word; anything at padding.
            tags: (B, T) the right ones, in an allowed order; anything at padding.
            mask: (B, T) True for words, False for the padding after them.
        """
        _check_shapes(scores, mask)
        assert tags.shape == mask.shape, f"tags {tuple(tags.shape)}, mask {tuple(mask.shape)}"
        tags = tags.where(mask, 0)
        if scores.device.type == "cpu":  # elsewhere the host would have to wait for the answer
            _check_padding(mask)
            assert self._are_allowed(tags, mask), "tags in an order that is not allowed"
        with torch.autocast(scores.device.type, enabled=False):
            scores = _precise(scores)
            return losses(scores, tags, mask, *self._transitions(scores.dtype)).mean()

    @torch.no_grad()
    def decode(self, scores: Tensor, mask: Tensor) -> list[list[int]]:
        """The best tags of each sentence, as many as it has words.

        Of equally good sequences it is the one whose last tag has the lowest number, then the last
        but one, and so on.

        Args:
            scores: (B, T, C) of each tag for each word; anything at padding.
            mask: (B, T) True for words, False for the padding after them.
        """
        _check_shapes(scores, mask)
        _check_padding(mask)
        with torch.autocast(scores.device.type, enabled=False):
            scores = _precise(scores)
            best, paths = best_paths(scores, mask, *self._transitions(scores.dtype))
        assert bool((best > DISALLOWED / 2).all()), (
            "no allowed sequence of tags is as long as the sentence, or its scores are not finite"
        )
        lengths = mask.sum(1).tolist()
        return [path[:length] for path, length in zip(paths.tolist(), lengths, strict=True)]

    def _transitions(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of starts (C,), ends (C,) and pairs (C, C), in which the disallowed are never."""
        return (
            torch.where(self.may_start, self.start_scores.to(dtype), DISALLOWED),
            torch.where(self.may_end, self.end_scores.to(dtype), DISALLOWED),
            torch.where(self.may_follow, self.pair_scores.to(dtype), DISALLOWED),
        )

    def _are_allowed(self, tags: Tensor, mask: Tensor) -> bool:
        pairs = self.may_follow[tags[:, :-1], tags[:, 1:]] | ~mask[:, 1:]
        ends = self.may_end[last_tags(tags, mask)]
        return bool(pairs.all() & ends.all() & self.may_start[tags[:, 0]].all())


def _allowed(given: NDArray[Any] | Tensor | None, shape: tuple[int, ...]) -> Tensor:
    if given is None:
        return torch.ones(shape, dtype=torch.bool)
    allowed = torch.as_tensor(given, dtype=torch.bool).clone()
    assert allowed.shape == shape, f"constraints {tuple(allowed.shape)}, expected {shape}"
    return allowed


def _check_shapes(scores: Tensor, mask: Tensor) -> None:
    assert scores.dim() == 3, f"scores {tuple(scores.shape)}, expected (B, T, C)"
    assert mask.shape == scores.shape[:2], f"mask {tuple(mask.shape)} of {tuple(scores.shape)}"
    assert mask.dtype == torch.bool, f"a mask of {mask.dtype}, expected bool"
    assert mask.numel(), f"no words in scores {tuple(scores.shape)}"


def _check_padding(mask: Tensor) -> None:
    assert bool(mask[:, 0].all()), "a sentence without words: the mask has no True in its row"
    assert bool((mask[:, 1:] <= mask[:, :-1]).all()), "padding before words: expected it after them"


def _precise(scores: Tensor) -> Tensor:
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
