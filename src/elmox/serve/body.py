"""A request's body: bounded in bytes and time, JSON in UTF-8, a flat object."""

import asyncio
from typing import Any

import orjson
from starlette.requests import Request

from elmox.serve.limits import Limits
from elmox.serve.refusals import ClientLeft, Refusal, over_limit, too_large

DISCARD_SECONDS = 2.0
DISCARD_FACTOR = 4  # times the limit


async def read_object(request: Request, limits: Limits) -> dict[str, Any]:
    """Read the JSON object that a request carries.

    Raises:
        Refusal: 415 for another content type, 413 for a long body, 408 for a slow one, 400 for
            invalid JSON, 422 for anything else than an object.
    """
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise Refusal(
            415, "unsupported_media_type", "the body must be sent as application/json", close=True
        )
    try:
        async with asyncio.timeout(limits.receive_seconds):
            body = await _read(request, limits.max_body_bytes)
    except TimeoutError:
        seconds = limits.receive_seconds
        message = "the body did not arrive within"
        raise over_limit(408, "receive_seconds", seconds, message) from None
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # orjson's message names the position and the fault, never the text.
        raise Refusal(400, "invalid_json", f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise Refusal(422, "invalid_value", f"the body is a JSON {kind}: expected an object")
    return value


async def _read(request: Request, max_bytes: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > max_bytes:
        await _discard(request, max_bytes)
        raise _too_long(int(declared), max_bytes)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > max_bytes:
            await _discard(request, max_bytes)
            raise _too_long(size, max_bytes)
        if not message.get("more_body", False):
            return b"".join(chunks)


async def _discard(request: Request, max_bytes: int) -> None:
    """Read on for a while: a client that is still sending would miss the response."""
    size, more = 0, True
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            while more and size < DISCARD_FACTOR * max_bytes:
                message = await request.receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        return


def _too_long(size: int, max_bytes: int) -> Refusal:
    refusal = too_large("max_body_bytes", size, max_bytes, "bytes of body")
    refusal.close = True
    return refusal
