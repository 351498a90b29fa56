"""`/v1/models` and `/v1/info`: what is loaded, and the limits."""

import time
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from elmox import __version__
from elmox.serve.models import LoadedModel
from elmox.serve.refusals import json_response
from elmox.serve.routes.describe import Endpoints
from elmox.serve.service import Service


def add_endpoints(endpoints: Endpoints, service: Service) -> None:
    """Add the endpoints."""
    created = int(time.time())

    def entry(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": created, "owned_by": "elmox"}

    async def models(request: Request) -> Response:
        """Return the names of the loaded models, as OpenAI's API does."""
        data = [entry(name) for name in service.table.models]
        return json_response({"object": "list", "data": data})

    async def one_model(request: Request) -> Response:
        """Return one entry of /v1/models."""
        return json_response(entry(service.table.model(request.path_params["name"]).name))

    async def info(request: Request) -> Response:
        """Return the loaded models with their layers, the task models, and the limits."""
        return json_response(describe(service))

    endpoints.add_get("/v1/models", models, "Loaded models")
    endpoints.add_get("/v1/models/{name}", one_model, "A loaded model")
    endpoints.add_get("/v1/info", info, "Models, task models and limits")


def describe(service: Service) -> dict[str, Any]:
    """Return what a server has loaded, for programs."""
    table = service.table
    return {
        "version": __version__,
        "models": {name: _model(model) for name, model in table.models.items()},
        "taggers": {name: {"task": tagger.task.name} for name, tagger in table.taggers.items()},
        "limits": asdict(service.limits),
    }


def _model(model: LoadedModel) -> dict[str, Any]:
    elmo = model.elmo
    return {
        "description": elmo.description,
        "dim": elmo.dim,
        "num_layers": elmo.num_layers,
        "num_directions": elmo.config.lstm.num_directions,
        "mixes": list(elmo.mixes),
        "tokenizer": elmo.config.text.tokenizer,
        "has_softmax": model.has_softmax,
        "device": str(elmo.device),
        "dtype": str(elmo.dtype).removeprefix("torch."),
    }
