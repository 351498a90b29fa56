"""`elmox.Tok2Vec.v1`: ELMo as the embedding layer of pipelines that `spacy train` makes.

The biLM is frozen. Learned are the mix of its layers (Peters et al. 2018, equation 1),

    gamma * sum_j s_j h_j        s = softmax(rate * w),  gamma = 1 + rate * g

and, if a width is given, a Maxout layer to that width, as spaCy has one after its own embeddings.

spaCy trains all of a pipeline with one learning rate, at which the mix hardly moves. The factor
`rate` is a learning rate of its own: Adam's steps do not depend on the scale of a gradient, so
steps of w of size lr are steps of the mix's weights of size rate * lr.

Shapes: J layers, T tokens of a document, N tokens of a batch, D the width of a vector.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Maxout, Model, chain, with_array

from elmox.errors import require_at_least
from elmox.integrations.spacy.bilm import Bilm
from elmox.integrations.spacy.layer_cache import LayerCache
from elmox.integrations.spacy.sentences import SentenceMode, check_mode, fill, sentences_of

MiB = 2**20


@registry.architectures("elmox.Tok2Vec.v1")  # type: ignore[untyped-decorator]
def build_tok2vec(
    model: str | None = None,
    width: int | None = None,
    sentences: str = "rules",
    dropout: float = 0.0,
    mix_learn_rate: float = 10.0,
    cache_mb: int = 1024,
    device: str | None = None,
) -> Model[list[Doc], list[Any]]:
    """Build a layer from documents to the mixed ELMo vectors of their tokens.

    Args:
        model: a path or name, as `Elmo.from_pretrained` takes it; None for the bundled model.
        width: number of features that a learned Maxout layer reduces the mix to; None for the
            mix as it is. `spacy.MaxoutWindowEncoder.v2` expects its own width.
        sentences: "rules", "auto" or "doc", see `sentences_of`. "rules" and "doc" depend only on
            the text, so that they are the same in training and in use.
        dropout: share of the mix's features that are dropped in training, apart from spaCy's.
        mix_learn_rate: learning rate of the mix as a multiple of the optimizer's.
        cache_mb: memory for encoded sentences, in MiB; 0 encodes every time.
        device: device of the biLM; None for the one that spaCy uses.
    """
    require_at_least(1, "width", width)
    mode = check_mode(sentences)
    mix = _mix_layer(Bilm(model, device), mode, dropout, mix_learn_rate, cache_mb * MiB)
    if width is None:
        return mix
    reduce = Maxout(nO=width, nI=mix.get_dim("nO"), nP=3, dropout=0.0, normalize=True)
    tok2vec: Model[list[Doc], list[Any]] = chain(mix, with_array(reduce))
    tok2vec.set_dim("nO", width)
    return tok2vec


def _mix_layer(
    bilm: Bilm, sentences: SentenceMode, dropout: float, rate: float, cache_bytes: int
) -> Model[list[Doc], list[Any]]:
    return Model(
        "elmox_mix",
        _forward,
        init=_init,
        dims={"nO": bilm.elmo.dim, "nI": None},
        params={"w": None, "g": None},
        attrs={
            "bilm": bilm,
            "cache": LayerCache(cache_bytes),
            "sentences": sentences,
            "mix_dropout": dropout,  # spaCy overwrites what is called "dropout_rate"
            "mix_learn_rate": rate,
            "digest": "",  # of the biLM that the layer was trained with
        },
    )


def _init(model: Model[list[Doc], list[Any]], X: Any = None, Y: Any = None) -> None:
    """Start from the average of the layers."""
    model.attrs["digest"] = model.attrs["bilm"].digest()
    model.set_param("w", model.ops.alloc1f(model.attrs["bilm"].elmo.num_layers))
    model.set_param("g", model.ops.alloc1f(1))


def mix_coefficients(model: Model[list[Doc], list[Any]]) -> tuple[NDArray[np.float32], float]:
    """Return s (J,) and gamma of the mix that a pipeline has learned.

    Args:
        model: any model that contains an `elmox.Tok2Vec.v1`.
    """
    mix = next(node for node in model.walk() if node.name == "elmox_mix")
    s, gamma = _coefficients(mix)
    ops: Any = mix.ops
    return ops.to_numpy(s), float(gamma)


def _coefficients(model: Model[list[Doc], list[Any]]) -> tuple[Any, Any]:
    rate = model.attrs["mix_learn_rate"]
    weights: Any = model.get_param("w")
    s = model.ops.softmax(rate * weights.reshape(1, -1))[0]
    return s, 1.0 + rate * model.get_param("g")[0]


def _forward(
    model: Model[list[Doc], list[Any]], docs: Sequence[Doc], is_train: bool
) -> tuple[list[Any], Callable[[list[Any]], list[Doc]]]:
    ops: Any = model.ops  # NumPy's or CuPy's
    lengths = [len(doc) for doc in docs]
    layers = ops.asarray(_layers_of(model, docs))  # (J, N, D)
    s, gamma = _coefficients(model)
    mixed = ops.xp.tensordot(s, layers, 1)  # (N, D)
    out = gamma * mixed
    mask = None
    if is_train and model.attrs["mix_dropout"]:
        mask = ops.get_dropout_mask(out.shape, model.attrs["mix_dropout"])
        out = out * mask

    def backprop(d_docs: list[Any]) -> list[Doc]:
        d_out = ops.xp.concatenate(d_docs) if d_docs else ops.xp.zeros_like(mixed)
        if mask is not None:
            d_out = d_out * mask
        rate = model.attrs["mix_learn_rate"]
        d_s = gamma * ops.xp.tensordot(layers, d_out, 2)  # (J,)
        model.inc_grad("w", (rate * s * (d_s - (s * d_s).sum())).astype("float32"))
        model.inc_grad("g", (rate * (d_out * mixed).sum()).reshape(1).astype("float32"))
        return []

    return ops.unflatten(out, ops.asarray1i(lengths)), backprop


def _layers_of(model: Model[list[Doc], list[Any]], docs: Sequence[Doc]) -> NDArray[np.float32]:
    """Return all layers of all tokens, (J, N, D); each distinct sentence is encoded once."""
    model.attrs["bilm"].require(model.attrs["digest"])
    elmo, cache = model.attrs["bilm"].elmo, model.attrs["cache"]
    shape = (elmo.num_layers, elmo.dim)
    sentences = [sentences_of(doc, model.attrs["sentences"]) for doc in docs]
    keys = [[tuple(sentence.words) for sentence in of_doc] for of_doc in sentences]
    layers = {key: cache.get(key) for of_doc in keys for key in of_doc}
    new = [key for key, value in layers.items() if value is None]
    encoded = elmo.encode_tokens(new, layers="all", show_progress_bar=False) if new else []
    for key, value in zip(new, encoded, strict=True):
        layers[key] = value
        cache.put(key, value)
    parts = [
        fill(len(doc), of_doc, [layers[key] for key in of_keys], shape)
        for doc, of_doc, of_keys in zip(docs, sentences, keys, strict=True)
    ]
    empty = np.zeros((elmo.num_layers, 0, elmo.dim), np.float32)
    return np.concatenate([empty, *parts], axis=1)
