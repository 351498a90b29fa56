"""The warm start state: a mean over rows and sentences of running text."""

import numpy as np
import pytest
from language_models import TinyLm, tiny_lm

from elmox.inference.layer_choice import choose_layers
from elmox.inference.warm_state import FIRST_SENTENCES, SENTENCES_PER_ROW, mean_state

TEXT = [["the", "cat", f"w{i}"][i % 3 :] for i in range(2 * SENTENCES_PER_ROW + 1)]


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> TinyLm:
    return tiny_lm(tmp_path_factory.mktemp("lm"))


def test_mean_over_rows_and_sentences(lm: TinyLm) -> None:
    """Two rows of 16 sentences: the states after sentences 5 to 16 of each, one by one."""
    elmo = lm.elmo()
    choice = choose_layers("top", elmo.num_layers, {})
    states = []
    for row in range(2):
        state = elmo.reader.zero_state(1)
        for step in range(SENTENCES_PER_ROW):
            sentence = TEXT[row * SENTENCES_PER_ROW + step]
            _, state = elmo.reader.read([sentence], state, choice)
            if step >= FIRST_SENTENCES:
                states.append(state)
    result = mean_state(elmo.reader, TEXT)
    for name in ("hidden", "cell"):
        expected = np.mean([getattr(state, name).numpy() for state in states], axis=0)
        np.testing.assert_allclose(getattr(result, name).numpy(), expected, rtol=0, atol=1e-6)


def test_a_short_text_gives_the_state_after_it(lm: TinyLm) -> None:
    elmo = lm.elmo()
    choice = choose_layers("top", elmo.num_layers, {})
    state = elmo.reader.zero_state(1)
    for sentence in TEXT[:3]:
        _, state = elmo.reader.read([sentence], state, choice)
    result = mean_state(elmo.reader, TEXT[:3])
    assert np.array_equal(result.hidden.numpy(), state.hidden.numpy())
    assert np.array_equal(result.cell.numpy(), state.cell.numpy())
