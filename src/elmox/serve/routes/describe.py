"""Endpoints and their description.

Starlette routes the requests. FastAPI only writes the OpenAPI schema: on the way of a request it
would cost more than everything else that happens to it around the model.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from elmox import __version__
from elmox.serve.record import record_of
from elmox.serve.schemas import ErrorBody

Handler = Callable[[Request], Awaitable[Response]]

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "The body is not valid JSON."},
    401: {"model": ErrorBody, "description": "The API key is missing or wrong."},
    404: {"model": ErrorBody, "description": "No such model or task is loaded."},
    413: {"model": ErrorBody, "description": "The request exceeds a limit, which is named."},
    422: {"model": ErrorBody, "description": "A field has the wrong type or value."},
    429: {"model": ErrorBody, "description": "The queue is full: retry after Retry-After."},
    503: {"model": ErrorBody, "description": "Not ready, or not done in time."},
}


class Endpoints:
    """The endpoints of a server.

    Attributes:
        routes: for Starlette.
    """

    def __init__(self) -> None:
        self.routes: list[Route] = []
        self._described = FastAPI(
            title="elmox",
            version=__version__,
            description="Contextual word vectors from ELMo, over HTTP.",
        )

    def schema(self) -> dict[str, Any]:
        """Return the OpenAPI schema."""
        return self._described.openapi()

    def add_get(self, path: str, handler: Handler, summary: str, *, described: bool = True) -> None:
        """Add an endpoint without a body."""
        self._add(path, handler, "GET")
        if described:
            self._describe(path, handler, "GET", summary, {}, {})

    def add_post(
        self,
        path: str,
        handler: Handler,
        body: type[BaseModel],
        response: type[BaseModel],
        summary: str,
        examples: dict[str, dict[str, Any]],
        content: dict[str, Any] | None = None,
    ) -> None:
        """Add an endpoint that reads a JSON object.

        Args:
            path: of the endpoint.
            handler: the function that serves it; its docstring is the description.
            body: schema of the request.
            response: schema of the response.
            summary: a few words.
            examples: requests by name.
            content: other media types of the response.
        """
        named = {name: {"value": value} for name, value in examples.items()}
        schema = {"schema": body.model_json_schema(), "examples": named}
        self._add(path, handler, "POST")
        self._describe(
            path,
            handler,
            "POST",
            summary,
            {
                200: {"model": response, "description": summary, "content": content or {}},
                **REFUSALS,
            },
            {"requestBody": {"required": True, "content": {"application/json": schema}}},
        )

    def _add(self, path: str, handler: Handler, method: str) -> None:
        async def endpoint(request: Request) -> Response:
            record_of(request).route = path
            return await handler(request)

        self.routes.append(Route(path, endpoint, methods=[method]))

    def _describe(
        self,
        path: str,
        handler: Handler,
        method: str,
        summary: str,
        responses: dict[int | str, dict[str, Any]],
        extra: dict[str, Any],
    ) -> None:
        names = self.routes[-1].param_convertors
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ]
        self._described.add_api_route(
            path,
            handler,
            methods=[method],
            summary=summary,
            response_class=Response,
            responses=responses,
            openapi_extra={"parameters": parameters, **extra} if parameters else extra,
        )
