"""`/v1/embeddings`: a vector per text, in the shape of OpenAI's API."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from elmox.serve.body import read_object
from elmox.serve.formats import encoded
from elmox.serve.operations import Encode
from elmox.serve.refusals import invalid, json_response
from elmox.serve.routes.describe import Endpoints
from elmox.serve.schemas import Embeddings, EmbeddingsBody, checked
from elmox.serve.service import Service, check_pooling, layer_key, usage, vector_shape

EXAMPLES: dict[str, dict[str, Any]] = {
    "one text": {"model": "english-small", "input": "I will buy you a present."},
    "tokens, top layer, base64": {
        "input": [["Live", "in", "the", "present"]],
        "layers": "top",
        "encoding_format": "base64",
    },
}


def add_endpoints(endpoints: Endpoints, service: Service) -> None:
    """Add the endpoint."""

    async def embeddings(request: Request) -> Response:
        """Return a vector per text, pooled from the vectors of its tokens."""
        body = checked(EmbeddingsBody, await read_object(request, service.limits))
        model = service.model(request, body.model)
        if body.dimensions not in (None, model.elmo.dim):
            raise invalid("dimensions", f"{model.name} has {model.elmo.dim}; nothing is cut")
        layers = layer_key(body.layers, model.elmo)
        check_pooling(body.pooling, model.elmo)
        sentences = await service.tokenize(model.elmo, body.input)
        operation = Encode(model.elmo, layers, body.pooling, body.normalize_embeddings)
        vectors = await service.admit_and_compute(request, operation, sentences)
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": encoded(vector, body.encoding_format),
            }
            for index, vector in enumerate(vectors)
        ]
        return json_response(
            {
                "object": "list",
                "model": model.name,
                "data": data,
                "shape": vector_shape(model.elmo, layers),
                "usage": usage(sum(map(len, sentences))),
            }
        )

    endpoints.add_post(
        "/v1/embeddings",
        embeddings,
        EmbeddingsBody,
        Embeddings,
        "A vector per text",
        EXAMPLES,
    )
