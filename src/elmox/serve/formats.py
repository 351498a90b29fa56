"""Vectors as bytes: JSON numbers, base64, raw bytes, .npy and lines of JSON."""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from elmox.inference.outputs import FloatArray
from elmox.serve.refusals import Refusal
from elmox.serve.schemas import Encoding

BINARY_TYPES = ("application/octet-stream", "application/x-npy")
MEDIA_TYPES = ("application/json", "application/x-ndjson", *BINARY_TYPES)


def encoded(vectors: FloatArray, encoding: Encoding) -> Any:
    """Return vectors for a JSON body: the array itself, or its little-endian bytes in base64."""
    if encoding == "float":
        return np.ascontiguousarray(vectors)
    return base64.b64encode(raw_bytes(vectors)).decode("ascii")


def raw_bytes(vectors: FloatArray) -> bytes:
    """Return the values as little-endian float32, the last axis fastest."""
    return np.ascontiguousarray(vectors, dtype="<f4").tobytes()


def npy_bytes(vectors: FloatArray) -> bytes:
    """Return the content of a .npy file."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(vectors, dtype="<f4"), allow_pickle=False)
    return file.getvalue()


def joined(vectors: Sequence[FloatArray], empty: FloatArray) -> tuple[FloatArray, dict[str, str]]:
    """Join the vectors of all texts along their tokens.

    Args:
        vectors: (T, D) or (K, T, D) per text.
        empty: the same for a text without tokens.

    Returns:
        (N, D) or (K, N, D), and headers with the shape and the number of tokens of each text.
    """
    together = np.concatenate([empty, *vectors], axis=-2)
    return together, {
        "elmox-shape": ",".join(map(str, together.shape)),
        "elmox-lengths": ",".join(str(array.shape[-2]) for array in vectors),
    }


def media_type(accept: str) -> str:
    """Return the first media type of an Accept header that can be sent; JSON by default.

    Raises:
        Refusal: 406 if there is none.
    """
    for part in accept.split(","):
        name = part.partition(";")[0].strip().lower()
        if name in ("", "*/*", "application/*"):
            return "application/json"
        if name in MEDIA_TYPES:
            return name
    raise Refusal(406, "not_acceptable", f"this endpoint sends {', '.join(MEDIA_TYPES)}")
