"""A start state that is typical of running text.

The state after one text carries that text's topic into every sentence. The mean of the states after
many sentences of many texts does not: what is left is what all sentences have in common, such as
that a sentence begins.
"""

from collections.abc import Sequence

from elmox.errors import ElmoxError
from elmox.inference.layer_choice import choose_layers
from elmox.inference.runner import Reader
from elmox.model.state import LstmState

MAX_ROWS = 256
SENTENCES_PER_ROW = 16  # a text shorter than this is read as one row
FIRST_SENTENCES = 4  # read from zero state, so not typical yet


def mean_state(reader: Reader, sentences: Sequence[Sequence[str]]) -> LstmState:
    """Return the mean state after the sentences of a text, as one row.

    The text is cut into rows, which are read in parallel with carried state. The first sentences of
    each row do not count, unless there are no others.
    """
    if not sentences:
        raise ElmoxError("warm_up: no sentence given, expected at least one sentence")
    num_rows = min(MAX_ROWS, max(1, len(sentences) // SENTENCES_PER_ROW))
    num_steps = len(sentences) // num_rows
    choice = choose_layers("top", reader.bilm.config.lstm.num_layers + 1, {})
    state = reader.zero_state(num_rows)
    sums, count = None, 0
    for step in range(num_steps):
        batch = [sentences[row * num_steps + step] for row in range(num_rows)]
        _, state = reader.read(batch, state, choice)
        if step < min(FIRST_SENTENCES, num_steps - 1):
            continue
        parts = (state.hidden, state.cell)
        means = [part.float().mean(dim=2, keepdim=True).cpu().double() for part in parts]
        sums = means if sums is None else [a + b for a, b in zip(sums, means, strict=True)]
        count += 1
    assert sums is not None
    hidden, cell = (total.div(count).float() for total in sums)
    return LstmState(hidden, cell)
