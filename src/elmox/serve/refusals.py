"""Requests that are refused: one exception, one shape of body.

The body is the one that OpenAI's clients expect, `{"error": {...}}`, with the broken limit in it if
there is one.
"""

import asyncio
from typing import Any

import orjson
from starlette.responses import Response

from elmox.errors import shortened
from elmox.serve.limits import Limits


class Refusal(Exception):
    """A request that is not served, and the response that explains why.

    Args:
        status: HTTP status.
        code: what went wrong, for programs; the name of the limit if one was exceeded.
        message: the same for people.
        param: the field of the request that is wrong.
        limit: the exceeded limit: its name, maximum and the value of this request.
        retry_after: seconds after which the same request may succeed.
        close: close the connection after the response.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        limit: dict[str, Any] | None = None,
        retry_after: float | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.param = status, code, message, param
        self.limit, self.retry_after, self.close = limit, retry_after, close

    async def delay(self, limits: Limits) -> None:
        """Hold back a 429: sent at once, it would only bring the next attempt sooner."""
        if self.status == 429:
            await asyncio.sleep(limits.refusal_seconds)

    def response(self) -> Response:
        """Return the response to send."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error: dict[str, Any] = {
            "message": self.message,
            "type": {401: "authentication_error", 429: "overloaded"}.get(self.status, kind),
            "param": self.param,
            "code": self.code,
        }
        if self.limit is not None:
            error["limit"] = self.limit
        headers = {}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, round(self.retry_after)))
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.close:
            headers["connection"] = "close"
        return json_response({"error": error}, self.status, headers)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response; arrays are written with as many digits as keep every bit."""
    content = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(content, status, headers, "application/json")


def invalid(param: str, message: str) -> Refusal:
    """Return the refusal of a field that has the wrong type or value."""
    return Refusal(422, "invalid_value", f"{param}: {message}", param=param)


def too_large(name: str, given: int, maximum: int, unit: str, param: str | None = None) -> Refusal:
    """Return the refusal of a request that exceeds the limit `name`."""
    return Refusal(
        413,
        name,
        f"{given} {unit} exceed this server's {name} of {maximum}: send less at a time; nothing "
        "is truncated",
        param=param,
        limit={"name": name, "maximum": maximum, "given": given},
    )


def over_limit(status: int, name: str, maximum: float, message: str) -> Refusal:
    """Return a refusal for a limit that says nothing about the request itself: time, crowds."""
    return Refusal(
        status,
        name,
        f"{message} {name}={maximum:g}: retry later",
        limit={"name": name, "maximum": maximum, "given": None},
        retry_after=1,
        close=True,
    )


def not_loaded(param: str, name: object, names: list[str]) -> Refusal:
    """Return the refusal of a model's or tagger's name that is not in the table."""
    available = ", ".join(names) or "none"
    return Refusal(
        404,
        "model_not_found",
        f"{param}={shortened(name)} is not loaded: available are {available}",
        param=param,
    )


class ClientLeft(Exception):
    """The client has closed the connection, so its work was dropped."""
