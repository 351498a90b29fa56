"""Spelled words to token vectors, for integrations whose input is character ids."""

import numpy as np
import torch
from torch import Tensor

from elmox.inference.runner import WORDS_ENCODED_AT_ONCE
from elmox.model.bilm import BiLm
from elmox.text.chars import Spelling, spell_bytes
from elmox.text.words import WordTable


def encode_spelling(bilm: BiLm, spelling: Spelling) -> Tensor:
    """Return token vectors of U spelled words, then of the two boundaries, (U + 2, P).

    Args:
        bilm: the biLM.
        spelling: words in as many slots as the biLM's character CNN has.
    """
    text = bilm.config.text
    edges = spell_bytes([text.begin, text.end], spelling.ids.shape[1])
    ids = np.concatenate([spelling.ids, edges.ids])
    used = np.concatenate([spelling.lengths, edges.lengths])
    parts = [
        Spelling(ids[i : i + WORDS_ENCODED_AT_ONCE], used[i : i + WORDS_ENCODED_AT_ONCE])
        for i in range(0, len(ids), WORDS_ENCODED_AT_ONCE)
    ]
    return torch.cat([bilm.token_encoder(WordTable(part, None)) for part in parts])
