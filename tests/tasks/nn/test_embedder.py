"""What a task reads of a word: ELMo's layers, mixed as they are or brought to one scale before."""

import torch
from torch import Tensor

from elmox.tasks.data.texts import TextBatch
from elmox.tasks.nn.embedder import ElmoShape, Embedder
from elmox.tasks.recipe import ElmoRecipe, WordsRecipe

SIZES = torch.tensor([1.0, 0.5, 30.0])[:, None, None, None]  # of the layers' numbers
PLAIN = ElmoRecipe(dropout=0.0)
NORMED = ElmoRecipe(dropout=0.0, layer_norm=True)


def embedded(layers: Tensor, recipe: ElmoRecipe) -> Tensor:
    """A mix that has learned nothing yet, of a sentence of two words and one of one."""
    embedder = Embedder(WordsRecipe(dim=0, filters=0), recipe, ElmoShape(3, 8), 0, None)
    mask = torch.tensor([[True, True], [True, False]])
    nothing = torch.zeros(0, dtype=torch.long)
    texts = TextBatch(
        sentences=[["a", "b"], ["c"]],
        mask=mask,
        lengths=torch.tensor([2, 1]),
        words=nothing,
        learned=nothing,
        static=nothing,
        spelling=nothing,
        layers=layers * mask[..., None],
    )
    vectors: Tensor = embedder(texts).input
    return vectors


def test_a_layer_of_large_numbers_is_not_all_of_a_normed_mix() -> None:
    layers = torch.randn(3, 2, 2, 8, generator=torch.Generator().manual_seed(0))
    normed = embedded(SIZES * layers, NORMED)
    torch.testing.assert_close(normed, embedded(layers, NORMED), atol=1e-3, rtol=1e-3)
    assert not normed[1, 1].any()  # padding
    plain = embedded(SIZES * layers, PLAIN)
    torch.testing.assert_close(plain[0], (SIZES * layers).mean(0)[0])


def test_one_layer_is_normed_word_by_word() -> None:
    layers = 5 + 3 * torch.randn(3, 2, 2, 8, generator=torch.Generator().manual_seed(1))
    vectors = embedded(layers, ElmoRecipe(layers=1, dropout=0.0, layer_norm=True))[0]
    torch.testing.assert_close(vectors.mean(-1), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(vectors.var(-1, correction=0), torch.ones(2), atol=1e-3, rtol=0)
