"""The application: routes, refusals and the OpenAPI schema."""

import asyncio
import logging

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from elmox import __version__
from elmox.serve.gate import Gate
from elmox.serve.logs import NAME
from elmox.serve.refusals import Refusal
from elmox.serve.routes import (
    embeddings,
    health,
    info,
    language_model,
    pages,
    similarity,
    tag,
    tokens,
)
from elmox.serve.service import Service, record_of

CODES = {404: "not_found", 405: "method_not_allowed"}


def create_app(service: Service) -> ASGIApp:
    """Return the ASGI application of a service."""
    app = FastAPI(
        title="elmox",
        version=__version__,
        description="Contextual word vectors from ELMo, over HTTP.",
        docs_url=None,  # FastAPI's own pages load scripts from other servers
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    for module in (
        embeddings,
        tokens,
        similarity,
        language_model,
        tag,
        info,
        health,
        pages,
    ):
        module.add_routes(app, service)

    @app.exception_handler(Refusal)
    async def refuse(request: Request, refusal: Refusal) -> Response:
        record_of(request).code = refusal.code
        if refusal.status == 429:  # at once, it would only bring the next attempt sooner
            await asyncio.sleep(service.limits.refusal_seconds)
        return refusal.response()

    @app.exception_handler(HTTPException)
    async def refuse_route(request: Request, error: HTTPException) -> Response:
        code = CODES.get(error.status_code, "http_error")
        record_of(request).code = code
        return Refusal(error.status_code, code, error.detail).response()

    @app.exception_handler(MemoryError)
    async def out_of_memory(request: Request, error: MemoryError) -> Response:
        logging.getLogger(NAME).error("out of memory", exc_info=error)
        record_of(request).code = "out_of_memory"
        return Refusal(
            503, "out_of_memory", "the server has no memory for this", retry_after=5
        ).response()

    gate: ASGIApp = Gate(app, service)
    origins = service.config.cors_origins
    if origins:
        gate = CORSMiddleware(
            gate, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return gate
