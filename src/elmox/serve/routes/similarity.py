"""`/v1/similarity`: cosines of texts with texts."""

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from elmox.serve.body import read_object
from elmox.serve.operations import Encode
from elmox.serve.refusals import invalid, json_response
from elmox.serve.routes.describe import Endpoints
from elmox.serve.schemas import Similarities, SimilarityBody, checked
from elmox.serve.service import Service, check_pooling, layer_key, usage

EXAMPLES = {
    "senses": {
        "a": "I will buy you a present.",
        "b": ["She wrapped the gift.", "Live in the present."],
    }
}


def add_endpoints(endpoints: Endpoints, service: Service) -> None:
    """Add the endpoint."""

    async def similarity(request: Request) -> Response:
        """Return the cosine of each text of `a` with each text of `b`, a row per text of `a`."""
        body = checked(SimilarityBody, await read_object(request, service.limits))
        model = service.model(request, body.model)
        layers = layer_key(body.layers, model.elmo)
        check_pooling(body.pooling, model.elmo)
        if layers == "all" or isinstance(layers, tuple):
            raise invalid("layers", "expected a choice with one vector per text")
        sentences = await service.tokenize(model.elmo, [*body.a, *body.b])
        operation = Encode(model.elmo, layers, body.pooling, body.normalize_embeddings)
        vectors = await service.admit_and_compute(request, operation, sentences)
        split = len(body.a)
        cosines = np.zeros((split, len(body.b)), np.float32)
        if cosines.size:
            cosines = model.elmo.similarity(np.stack(vectors[:split]), np.stack(vectors[split:]))
        num_tokens = sum(map(len, sentences))
        return json_response(
            {
                "object": "list",
                "model": model.name,
                "data": list(cosines),
                "usage": usage(num_tokens),
            }
        )

    endpoints.add_post(
        "/v1/similarity",
        similarity,
        SimilarityBody,
        Similarities,
        "Cosines of texts with texts",
        EXAMPLES,
    )
