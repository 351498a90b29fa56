"""`/livez`, `/readyz` and `/metrics`: for whatever watches the server."""

from starlette.requests import Request
from starlette.responses import Response

from elmox.serve.metrics import CONTENT_TYPE
from elmox.serve.refusals import Refusal, json_response
from elmox.serve.routes.describe import Endpoints
from elmox.serve.service import Service


def add_endpoints(endpoints: Endpoints, service: Service) -> None:
    """Add the endpoints."""

    async def livez(request: Request) -> Response:
        """Return 200 as long as the process serves requests at all."""
        return json_response({"status": "alive"})

    async def readyz(request: Request) -> Response:
        """Return 200 if the models are loaded and warm, otherwise 503."""
        if service.is_draining:
            return Refusal(503, "draining", "the server is stopping").response()
        if not service.is_ready:
            return Refusal(503, "not_ready", "the models are still being loaded").response()
        return json_response({"status": "ready"})

    async def metrics(request: Request) -> Response:
        """Return the metrics of all workers in Prometheus' text format."""
        return Response(service.metrics.render(), media_type=CONTENT_TYPE)

    endpoints.add_get("/livez", livez, "The process is alive")
    endpoints.add_get("/readyz", readyz, "The models are ready")
    endpoints.add_get("/metrics", metrics, "Metrics for Prometheus")
