"""The application: endpoints, and the shape of their refusals."""

import logging

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from elmox.serve.gate import Gate
from elmox.serve.logs import NAME
from elmox.serve.record import record_of
from elmox.serve.refusals import Refusal
from elmox.serve.routes import (
    embeddings,
    explore,
    health,
    info,
    language_model,
    pages,
    similarity,
    tag,
    tokens,
)
from elmox.serve.routes.describe import Endpoints
from elmox.serve.service import Service

ROUTES = (embeddings, tokens, similarity, language_model, tag, info, health, pages, explore)
CODES = {404: "not_found", 405: "method_not_allowed"}


def create_app(service: Service) -> ASGIApp:
    """Return the ASGI application of a service."""
    endpoints = Endpoints()
    for module in ROUTES:
        module.add_endpoints(endpoints, service)

    async def refuse(request: Request, error: Exception) -> Response:
        refusal = _refusal(error)
        record_of(request).code = refusal.code
        await refusal.delay(service.limits)
        return refusal.response()

    handlers = {Refusal: refuse, HTTPException: refuse, MemoryError: refuse}
    gate: ASGIApp = Gate(Starlette(routes=endpoints.routes, exception_handlers=handlers), service)
    origins = service.config.cors_origins
    if origins:
        gate = CORSMiddleware(
            gate, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return gate


def _refusal(error: Exception) -> Refusal:
    """Return the refusal that an exception of a handler amounts to."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):
        code = CODES.get(error.status_code, "http_error")
        return Refusal(error.status_code, code, error.detail)
    logging.getLogger(NAME).error("out of memory", exc_info=error)
    message = "the server has no memory left for this request"
    return Refusal(503, "out_of_memory", message, retry_after=5)
