"""Adding an endpoint together with its description in the OpenAPI schema."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.responses import Response

from elmox.serve.schemas import ErrorBody

Handler = Callable[..., Awaitable[Response]]

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "The body is not valid JSON."},
    401: {"model": ErrorBody, "description": "The API key is missing or wrong."},
    404: {"model": ErrorBody, "description": "No such model or task is loaded."},
    413: {"model": ErrorBody, "description": "The request exceeds a limit, which is named."},
    422: {"model": ErrorBody, "description": "A field has the wrong type or value."},
    429: {"model": ErrorBody, "description": "The queue is full: retry after Retry-After."},
    503: {"model": ErrorBody, "description": "Not ready, or not done in time."},
}


def add_post(
    app: FastAPI,
    path: str,
    handler: Callable[[Request], Awaitable[Response]],
    body: type[BaseModel],
    response: type[BaseModel],
    summary: str,
    examples: dict[str, dict[str, Any]],
    content: dict[str, Any] | None = None,
) -> None:
    """Add an endpoint that reads a JSON object.

    FastAPI only routes and describes it: the handler reads the body itself, which bounds it.

    Args:
        app: the application.
        path: of the endpoint.
        handler: the function that serves it; its docstring is the description.
        body: schema of the request.
        response: schema of the response.
        summary: a few words.
        examples: requests by name.
        content: other media types of the response.
    """
    named = {name: {"value": value} for name, value in examples.items()}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in app.router.route_class(path, handler).param_convertors
    ]
    app.add_api_route(
        path,
        handler,
        methods=["POST"],
        summary=summary,
        response_class=Response,
        responses={
            200: {"model": response, "description": summary, "content": content or {}},
            **REFUSALS,
        },
        openapi_extra={
            "parameters": parameters,
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {"schema": body.model_json_schema(), "examples": named}
                },
            },
        },
    )


def add_get(
    app: FastAPI, path: str, handler: Handler, summary: str, *, described: bool = True
) -> None:
    """Add an endpoint without a body."""
    app.add_api_route(
        path,
        handler,
        methods=["GET"],
        summary=summary,
        response_class=Response,
        include_in_schema=described,
    )
