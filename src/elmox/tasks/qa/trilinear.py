"""Attention between a text and a question, and of a text to itself, by trilinear scores.

How well a word h of the one goes with a word p of the other is a learned linear form of three
vectors, `w_h . h + w_p . p + w_b . (h * p)` (Seo et al. 2017; Clark and Gardner 2017, section 3.1).

Shapes: B texts, T words of a text, Q of a question, D wide. Masks are true where there is a word;
every text and every question has one. What stands at padding never counts.
"""

import torch
from torch import Tensor, nn

PAIRS_AT_ONCE = 2**24  # of words, whose scores are held: a text of thousands has millions


class BiAttention(nn.Module):
    """What the words of a text find in a question, and what a question finds in the text.

    Attributes:
        width: of what comes out for a word.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_text = nn.Linear(width, 1, bias=False)  # a softmax takes no note of a bias
        self.of_question = nn.Linear(width, 1, bias=False)
        self.of_both = _form(width)
        self.width = 4 * width

    def forward(
        self, text: Tensor, text_mask: Tensor, question: Tensor, question_mask: Tensor
    ) -> Tensor:
        """(B, T, D) and (B, Q, D) to (B, T, 4D)."""
        scores = (text * self.of_both) @ question.mT + self.of_text(text)
        scores = scores + self.of_question(question).mT  # (B, T, Q)
        scores = scores.masked_fill(~question_mask[:, None], -torch.inf)
        found = scores.softmax(-1) @ question  # for every word, (B, T, D)
        best = scores.amax(-1).masked_fill(~text_mask, -torch.inf)
        asked = best.softmax(-1)[:, None] @ text  # one vector for all, (B, 1, D)
        return torch.cat([text, found, text * found, asked * found], dim=-1)


class SelfAttention(nn.Module):
    """What the words of a text find in its other words.

    Attributes:
        width: of what comes out for a word.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        # The word that looks has no form of its own here: its part would be the same for all the
        # words that it looks at, and a softmax takes no note of that.
        self.of_other = _form(width)
        self.of_both = _form(width)
        self.width = 3 * width

    def forward(self, text: Tensor, mask: Tensor) -> Tensor:
        """(B, T, D) to (B, T, 3D)."""
        queries = text * self.of_both + self.of_other
        lone = mask.sum(1) == 1  # has no other to look at than itself
        places = torch.arange(text.shape[1], device=text.device)
        step = max(1, PAIRS_AT_ONCE // mask.numel())
        parts = []
        for start in range(0, len(places), step):
            others = places[start : start + step, None] != places  # (step, T)
            there = (others | lone[:, None, None]) & mask[:, None]
            scores = queries[:, start : start + step] @ text.mT
            parts.append(scores.masked_fill(~there, -torch.inf).softmax(-1) @ text)
        found = torch.cat(parts, dim=1)
        return torch.cat([text, found, text * found], dim=-1)


def _form(width: int) -> nn.Parameter:
    """A linear form, as small as `nn.Linear` would make it: (D,)."""
    bound = width**-0.5
    return nn.Parameter(torch.empty(width).uniform_(-bound, bound))
