"""Attention between a text and a question, and of a text to itself, by trilinear scores.

The score of a word h of the one and a word p of the other is a learned linear form of three
vectors, `w_h . h + w_p . p + w_b . (h * p)` (Seo et al. 2017; Clark and Gardner 2017, section 3.1).

Shapes: B texts, T words of a text, Q of a question, D wide. Masks are true where there is a word;
every text and every question has one. Values at padding are ignored.
"""

import torch
from torch import Tensor, nn

PAIRS_AT_ONCE = 2**24  # of words, whose scores are held: a text of thousands has millions


class BiAttention(nn.Module):
    """Attention of a text to a question, and of the question to the text.

    Attributes:
        width: of the output per word.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_text = nn.Linear(width, 1, bias=False)  # a softmax is unaffected by a bias
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
        attended = scores.softmax(-1) @ question  # for every word, (B, T, D)
        best = scores.amax(-1).masked_fill(~text_mask, -torch.inf)
        summary = best.softmax(-1)[:, None] @ text  # one vector for all, (B, 1, D)
        return torch.cat([text, attended, text * attended, summary * attended], dim=-1)


class SelfAttention(nn.Module):
    """Attention of the words of a text to its other words.

    Attributes:
        width: of the output per word.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        # The attending word needs no linear form: its term would be the same for all attended
        # words, and a softmax is unaffected by a constant.
        self.of_other = _form(width)
        self.of_both = _form(width)
        self.width = 3 * width

    def forward(self, text: Tensor, mask: Tensor) -> Tensor:
        """(B, T, D) to (B, T, 3D)."""
        queries = text * self.of_both + self.of_other
        lone = mask.sum(1) == 1  # a single word can only attend to itself
        places = torch.arange(text.shape[1], device=text.device)
        step = max(1, PAIRS_AT_ONCE // mask.numel())
        parts = []
        for start in range(0, len(places), step):
            others = places[start : start + step, None] != places  # (step, T)
            there = (others | lone[:, None, None]) & mask[:, None]
            scores = queries[:, start : start + step] @ text.mT
            parts.append(scores.masked_fill(~there, -torch.inf).softmax(-1) @ text)
        attended = torch.cat(parts, dim=1)
        return torch.cat([text, attended, text * attended], dim=-1)


def _form(width: int) -> nn.Parameter:
    """A linear form, as small as `nn.Linear` would make it: (D,)."""
    bound = width**-0.5
    return nn.Parameter(torch.empty(width).uniform_(-bound, bound))
