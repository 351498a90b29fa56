"""`/v1/tokens`: a vector per token, with offsets, as JSON, lines of JSON, raw bytes or .npy."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from elmox.inference.outputs import FloatArray
from elmox.serve.body import read_object
from elmox.serve.formats import BINARY_TYPES, encoded, joined, media_type, npy_bytes, raw_bytes
from elmox.serve.operations import EncodeTokens, Sentence
from elmox.serve.refusals import json_response
from elmox.serve.routes.describe import Endpoints
from elmox.serve.schemas import TokensBody, TokensList, checked
from elmox.serve.service import Service, layer_key, usage
from elmox.serve.texts import TokenizedText

EXAMPLES: dict[str, dict[str, Any]] = {
    "all layers": {"input": ["I will buy you a present."], "layers": "all"},
    "sentences of running text": {"input": "Live now. Do not look back.", "split": True},
    "several texts in base64": {
        "input": ["Live in the present.", ["Now", "!"]],
        "encoding_format": "base64",
    },
}
LINES = "application/x-ndjson"
CHUNK_TOKENS = 256  # computed between two parts of a stream
SMALL_RESPONSE = 2**17  # numbers that are written as one piece of JSON


def add_endpoints(endpoints: Endpoints, service: Service) -> None:
    """Add the endpoint."""

    async def tokens(request: Request) -> Response:
        """Return a vector per token, in the format that the Accept header names.

        - `application/json`: tokens, offsets and vectors.
        - `application/x-ndjson`: the same, one line per text, sent as soon as it is computed.
        - `application/octet-stream`: the vectors of all texts, little-endian float32; the headers
          `elmox-shape` and `elmox-lengths` hold their shape and the tokens of each text.
        - `application/x-npy`: the same as a .npy file.
        """
        kind = media_type(request.headers.get("accept", ""))
        body = checked(TokensBody, await read_object(request, service.limits))
        model = service.model(request, body.model)
        operation = EncodeTokens(
            model.elmo, layer_key(body.layers, model.elmo), body.normalize_embeddings
        )
        items = await service.tokenize_with_offsets(model.elmo, body.input, body.split)
        sentences = [item.tokens for item in items]
        num_tokens = sum(map(len, sentences))
        service.admit(request, len(sentences), num_tokens)
        if kind == LINES:
            computed = _compute_chunks(service, request, operation, sentences)
            return StreamingResponse(_lines(body, items, computed), media_type=kind)
        vectors = await service.compute(request, operation, sentences, num_tokens)
        if kind == "application/json":
            data = _data(body, items, vectors, first=0)
            head = {"object": "list", "model": model.name, "usage": usage(num_tokens)}
            if sum(array.size for array in vectors) <= SMALL_RESPONSE:
                return json_response({**head, "data": list(data)})
            return StreamingResponse(_json(head, data), media_type=kind)
        together, headers = joined(vectors, empty=operation([[]])[0])
        content = raw_bytes(together) if kind == "application/octet-stream" else npy_bytes(together)
        return Response(content, headers=headers, media_type=kind)

    binary = {name: {"schema": {"type": "string", "format": "binary"}} for name in BINARY_TYPES}
    endpoints.add_post(
        "/v1/tokens",
        tokens,
        TokensBody,
        TokensList,
        "A vector per token",
        EXAMPLES,
        {LINES: {"schema": {"type": "string"}}, **binary},
    )


async def _compute_chunks(
    service: Service, request: Request, operation: EncodeTokens, sentences: Sequence[Sentence]
) -> AsyncIterator[list[FloatArray]]:
    """Compute an admitted request a part at a time, so that its first lines can be sent early."""
    start = num_tokens = 0
    for end, sentence in enumerate(sentences, start=1):
        num_tokens += len(sentence)
        if num_tokens >= CHUNK_TOKENS or end == len(sentences):
            yield await service.compute(request, operation, sentences[start:end], num_tokens)
            start, num_tokens = end, 0


async def _lines(
    body: TokensBody, items: Sequence[TokenizedText], computed: AsyncIterator[list[FloatArray]]
) -> AsyncIterator[bytes]:
    """Write a line per text."""
    first = 0
    async for vectors in computed:
        for line in _data(body, items, vectors, first):
            yield _dumps(line) + b"\n"
        first += len(vectors)


async def _json(head: dict[str, Any], data: Iterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Write a large response text by text: other requests are served in between."""
    yield _dumps(head)[:-1] + b',"data":['
    for number, item in enumerate(data):
        yield (b"," if number else b"") + _dumps(item)
    yield b"]}"


def _data(
    body: TokensBody, items: Sequence[TokenizedText], vectors: Sequence[FloatArray], first: int
) -> Iterator[dict[str, Any]]:
    """Return the entries of a response for some vectors, which are those of items from `first`."""
    for index, array in enumerate(vectors, start=first):
        item = items[index]
        yield {
            "index": index,
            "input": item.input,
            "tokens": item.tokens,
            "offsets": item.offsets,
            "shape": array.shape,
            "embedding": encoded(array, body.encoding_format),
        }


def _dumps(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
