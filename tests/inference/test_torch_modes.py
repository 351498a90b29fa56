"""elmox inside torch's global modes: inference mode, autocast, torch.compile."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from language_models import tiny_lm
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from elmox import Elmo, ElmoEmbedding
from elmox.integrations.allennlp_module import Elmo as AllennlpElmo

SENTENCES = [["Live", "in", "the", "present"], ["I", "will"]]
OTHERS = [["new", "words", "come"], ["present"]]
DTYPES = ["float32", "int8", "bfloat16"]


def encode(elmo: Elmo, sentences: list[list[str]]) -> Any:
    return elmo.encode(sentences)


def score(elmo: Elmo, sentences: list[list[str]]) -> Any:
    return [sentence.log_prob for sentence in elmo.score(sentences)]


def predict(elmo: Elmo, sentences: list[list[str]]) -> Any:
    return [elmo.predict(sentence, 1)[0].probability for sentence in sentences]


def embed(elmo: Elmo, sentences: list[list[str]]) -> Any:
    return ElmoEmbedding(elmo)(sentences).mixes.detach().float().numpy()


def carry(elmo: Elmo, sentences: list[list[str]]) -> Any:
    stateful = elmo.stateful()
    return [vectors.sum() for _ in range(2) for vectors in stateful.encode_tokens(sentences)]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Elmo]:
    """Load a language model in some precision."""
    lm = tiny_lm(tmp_path_factory.mktemp("lm"))

    def load(dtype: str) -> Elmo:
        return Elmo.from_pretrained(
            lm.weights, softmax=lm.softmax, softmax_vocab=lm.vocab, dtype=dtype
        )

    return load


@pytest.mark.parametrize("use", [encode, score, predict, embed, carry])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("loaded_inside", [False, True])
def test_inference_mode_leaves_no_trace(
    use: Callable[..., Any], dtype: str, loaded_inside: bool, load: Callable[[str], Elmo]
) -> None:
    plain = load(dtype)
    expected = [use(plain, sentences) for sentences in (SENTENCES, OTHERS)]
    with torch.inference_mode(loaded_inside):
        elmo = load(dtype)
    with torch.inference_mode():
        inside = use(elmo, SENTENCES)
    np.testing.assert_array_equal(inside, expected[0])
    np.testing.assert_array_equal(use(elmo, OTHERS), expected[1])
    np.testing.assert_array_equal(use(elmo, SENTENCES), expected[0])
    assert not any(parameter.is_inference() for parameter in elmo.reader.bilm.parameters())


def test_models_made_in_inference_mode_can_learn(tiny: Path) -> None:
    with torch.inference_mode():
        made = ElmoEmbedding.from_pretrained(tiny, trainable=True)
        made(SENTENCES)
    made(SENTENCES).mixes.sum().backward()
    assert all(parameter.grad is not None for parameter in made.parameters())


def test_allennlp_state_of_inference_mode_can_be_continued(tiny: Path) -> None:
    from elmox.integrations.allennlp import batch_to_ids

    elmo = AllennlpElmo(None, tiny, 1, requires_grad=True, dropout=0.0)
    with torch.inference_mode():
        elmo(batch_to_ids(SENTENCES))
    elmo(batch_to_ids(SENTENCES))["elmo_representations"][0].sum().backward()


@pytest.mark.parametrize("use", [encode, score, predict, carry])
@pytest.mark.parametrize("dtype", DTYPES)
def test_autocast_changes_no_vector(
    use: Callable[..., Any], dtype: str, load: Callable[[str], Elmo]
) -> None:
    plain, elmo = load(dtype), load(dtype)
    expected = use(plain, SENTENCES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = use(elmo, SENTENCES)
    np.testing.assert_array_equal(inside, expected)
    np.testing.assert_array_equal(use(elmo, SENTENCES), expected)


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("backward_inside", [False, True])
def test_an_embedding_learns_inside_autocast(
    trainable: bool, backward_inside: bool, tiny: Path
) -> None:
    made = ElmoEmbedding.from_pretrained(tiny, trainable=trainable)
    plain = copy.deepcopy(made)
    plain(SENTENCES).mixes.square().sum().backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = made(SENTENCES).mixes
        loss = out.float().square().sum()
        if backward_inside:
            loss.backward()
    if not backward_inside:
        loss.backward()
    assert out.dtype == torch.bfloat16
    for (name, ours), theirs in zip(made.named_parameters(), plain.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None), name
        if ours.grad is not None and theirs.grad is not None:
            size = theirs.grad.abs().max().item()
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=0.05, atol=0.05 * size)
    with torch.no_grad():
        torch.testing.assert_close(made(SENTENCES).mixes, plain(SENTENCES).mixes)


class Tagger(nn.Module):
    """A user's module."""

    def __init__(self, embed: ElmoEmbedding) -> None:
        super().__init__()
        self.embed = embed
        self.linear = nn.Linear(embed.dim, 3)

    def forward(self, sentences: list[list[str]]) -> Tensor:
        out = self.embed(sentences)
        scores: Tensor = self.linear(torch.tanh(out.mixes[0]))
        masked: Tensor = scores * out.mask[..., None]
        return masked


@pytest.mark.parametrize("trainable", [False, True])
def test_a_compiled_module(trainable: bool, tiny: Path) -> None:
    plain = Tagger(ElmoEmbedding.from_pretrained(tiny, trainable=trainable))
    model, counter = copy.deepcopy(plain), CompileCounter()
    compiled = torch.compile(model, backend=counter)
    for sentences in (SENTENCES, OTHERS, SENTENCES):
        torch.testing.assert_close(compiled(sentences), plain(sentences), rtol=0, atol=1e-6)
        compiled(sentences).square().sum().backward()
        plain(sentences).square().sum().backward()
    assert counter.frame_count > 0  # the rest is compiled
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)


def test_a_compiled_function_that_encodes(tiny: Path) -> None:
    elmo = Elmo.from_pretrained(tiny)

    def norm(sentences: list[list[str]]) -> Tensor:
        vectors: Tensor = elmo.encode(sentences, convert_to_tensor=True)
        return vectors.square().sum()

    compiled = torch.compile(norm, backend="eager")
    torch.testing.assert_close(compiled(SENTENCES), norm(SENTENCES), rtol=0, atol=0)
