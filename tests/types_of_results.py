"""Types of the public API, as mypy infers them: checked by `make lint`, never run."""

from typing import Any, TypeAlias, assert_type

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmox import Elmo, ElmoEmbedding
from elmox.inference.language_model import SentenceScore

Array: TypeAlias = NDArray[np.float32]


def check_vectors(elmo: Elmo, texts: list[str], tokens: list[list[str]], flag: bool) -> None:
    """The type follows from the kind of input and from the literal options."""
    assert_type(elmo.encode("a"), Array)
    assert_type(elmo.encode(texts), Array)
    assert_type(elmo.encode(np.array(texts)), Array)
    assert_type(elmo.encode((text for text in texts), pooling="max", layers=[0, 1]), Array)
    assert_type(elmo.encode(texts, convert_to_tensor=True), Tensor)
    assert_type(elmo.encode(texts, convert_to_numpy=False, batch_size=8), Tensor)
    assert_type(elmo.encode(texts, convert_to_tensor=flag), Array | Tensor)
    assert_type(elmo.encode_tokens("a"), Array)
    assert_type(elmo.encode_tokens("a", convert_to_tensor=True), Tensor)
    assert_type(elmo.encode_tokens("a", convert_to_numpy=False), Tensor)
    assert_type(elmo.encode_tokens("a", convert_to_tensor=flag), Array | Tensor)
    assert_type(elmo.encode_tokens(texts), list[Array])
    assert_type(elmo.encode_tokens(tokens, layers="all"), list[Array])
    assert_type(elmo.encode_tokens(tokens, convert_to_tensor=True), list[Tensor])
    assert_type(elmo.encode_tokens(tokens, convert_to_numpy=False), list[Tensor])
    assert_type(elmo.encode_tokens(tokens, convert_to_numpy=flag), list[Array] | list[Tensor])
    assert_type(elmo.stateful().encode_tokens(tokens), list[Array])
    assert_type(elmo.stateful().encode_tokens(tokens, convert_to_tensor=True), list[Tensor])
    assert_type(elmo.similarity(elmo.encode(texts), elmo.encode(texts)), NDArray[np.floating[Any]])


def check_the_rest(elmo: Elmo, texts: list[str]) -> None:
    assert_type(Elmo.from_pretrained(), Elmo)
    assert_type(elmo.to("cpu"), Elmo)
    assert_type(elmo.score(texts), list[SentenceScore])
    assert_type(elmo.predict("a ___ b")[0].word, str)
    assert_type(elmo.evaluate(texts).perplexity, float)
    assert_type(ElmoEmbedding.from_pretrained(num_mixes=2, device="cpu"), ElmoEmbedding)


def check_wrong_arguments(elmo: Elmo) -> None:
    """mypy reports a comment that ignores no error, so each of these must be one."""
    elmo.encode(3)  # type: ignore[call-overload]
    elmo.encode("a", pooling="median")  # type: ignore[call-overload]
    elmo.encode_tokens("a", bach_size=3)  # type: ignore[call-overload]
    elmo.stateful().encode_tokens([["a"]], layer="top")  # type: ignore[call-overload]
    ElmoEmbedding.from_pretrained(num_mixs=2)  # type: ignore[call-arg]
