"""Vectors and similarity of documents, spans and tokens, read from `doc.tensor`.

Without hooks spaCy prefers the static vectors of a pipeline to the tensor, and regards tokens and
spans of the same spelling as equal. A document that was stored or that comes from a worker process
has its tensor but no hooks: `set_hooks` puts them back.
"""

from functools import partial
from typing import Any, Literal, TypeAlias, cast, get_args

from spacy.tokens import Doc, Span, Token

from elmox.errors import Argument, ArgumentError

Pooling: TypeAlias = Literal["mean", "max"]


def set_hooks(doc: Doc, pooling: Pooling = "mean") -> Doc:
    """Let vectors and similarities of a document come from its tensor.

    Args:
        doc: a document with a tensor (T, D).
        pooling: vectors of spans and documents are the mean or the maximum over their words.

    Returns:
        The same document.
    """
    doc.user_token_hooks |= {
        "vector": _token_vector,
        "has_vector": _is_word,
        "similarity": _similarity,
    }
    for hooks in (doc.user_span_hooks, doc.user_hooks):
        hooks |= {
            "vector": partial(_pooled_vector, pooling=pooling),
            "has_vector": _has_words,
            "similarity": _similarity,
        }
    return doc


def check_pooling(pooling: str) -> Pooling:
    """Return a pooling that exists."""
    if pooling not in get_args(Pooling):
        raise ArgumentError("{}: expected 'mean' or 'max'", Argument("pooling", pooling))
    return cast(Pooling, pooling)


def _token_vector(token: Token) -> Any:
    return token.doc.tensor[token.i]


def _is_word(token: Token) -> bool:
    return not token.is_space


def _has_words(tokens: Doc | Span) -> bool:
    return not all(token.is_space for token in tokens)


def _pooled_vector(tokens: Doc | Span, pooling: Pooling) -> Any:
    """Return the vector of several tokens; zeros if none of them is a word."""
    doc = tokens if isinstance(tokens, Doc) else tokens.doc
    vectors = doc.tensor[[token.i for token in tokens if not token.is_space]]
    if not len(vectors):
        return vectors.sum(axis=0)
    return vectors.mean(axis=0) if pooling == "mean" else vectors.max(axis=0)


def _similarity(one: Any, other: Any) -> float:
    """Return the cosine of two vectors; 0 if one of them is zero."""
    a, b = one.vector, other.vector
    norm = float((a * a).sum() * (b * b).sum()) ** 0.5
    return float((a * b).sum()) / norm if norm else 0.0
