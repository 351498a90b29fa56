"""The gate that every request passes: keys, readiness, time limit, ids, metrics, log.

A plain ASGI application around the routes. It notes how a request ends, and gives back its place in
the queue however it ends.
"""

import asyncio
import logging
import time
from contextlib import nullcontext
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmox.serve.logs import log
from elmox.serve.record import CROWDED_KEY, RequestRecord, new_record
from elmox.serve.refusals import ClientLeft, Refusal, over_limit
from elmox.serve.routes.explore import PUBLIC_PATHS
from elmox.serve.service import Service

HEALTH = {"/livez", "/readyz"}
WITHOUT_KEY = {"/", "/docs", "/openapi.json"} | PUBLIC_PATHS | HEALTH  # static pages, no data
WITHOUT_MODELS = {"/metrics"} | WITHOUT_KEY
CLIENT_LEFT = 499  # nginx's number; it is logged and counted, never sent


class Gate:
    """The application that a worker serves."""

    def __init__(self, routes: ASGIApp, service: Service) -> None:
        self._routes, self._service = routes, service
        config = service.config
        self._open = WITHOUT_KEY | ({"/metrics"} if config.public_metrics else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            return
        record = new_record(scope)
        tracer = self._service.tracer
        try:
            with tracer.span(record, scope["headers"]) if tracer else nullcontext():
                await self._serve(scope, receive, send, record)
        finally:
            self._finish(record, scope)

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, record: RequestRecord
    ) -> None:
        service = self._service

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message["headers"] = _headers(message, record, service.is_draining)
            await send(message)

        try:
            async with asyncio.timeout(service.limits.request_seconds):
                self._check(scope)
                await self._routes(scope, receive, note)
        except Refusal as refusal:
            await refusal.delay(service.limits)
            await _refuse(refusal, record, scope, receive, note)
        except ClientLeft:
            record.status = CLIENT_LEFT
        except TimeoutError:
            if record.status:  # a response that was begun is cut off, which the client notices
                record.code = "request_seconds"
                raise ConnectionAbortedError from None
            seconds = service.limits.request_seconds
            too_slow = over_limit(503, "request_seconds", seconds, "the request took longer than")
            await _refuse(too_slow, record, scope, receive, note)

    def _check(self, scope: Scope) -> None:
        """Refuse a request without a key, or before the models are loaded."""
        service, path = self._service, scope["path"]
        if path not in self._open and not service.keys.accepts(scope["headers"]):
            raise Refusal(
                401,
                "invalid_api_key",
                "a valid API key is missing: send it as `Authorization: Bearer KEY`",
            )
        if not service.is_ready and path not in WITHOUT_MODELS:
            raise Refusal(503, "not_ready", "the models are still being loaded", retry_after=1)
        if scope["method"] == "POST":  # before anything is read or parsed
            if scope.get(CROWDED_KEY):
                maximum = service.limits.max_connections
                raise over_limit(429, "max_connections", maximum, "more connections are open than")
            service.admission.check(service.metrics.tokens_per_second)

    def _finish(self, record: RequestRecord, scope: Scope) -> None:
        service, seconds = self._service, time.perf_counter() - record.started
        if record.admitted_tokens:
            service.admission.release(record.admitted_tokens)
            service.metrics.queue_tokens.set(service.admission.num_tokens)
        metrics = service.metrics
        metrics.requests.labels(record.route, record.status).inc()
        metrics.seconds.labels(record.route).observe(seconds)
        if record.status == CLIENT_LEFT:
            metrics.abandoned.inc()
        elif record.code is not None:
            metrics.refusals.labels(record.code).inc()
        elif record.model is not None:
            metrics.tokens.labels(record.model).inc(record.num_tokens)
            metrics.inputs.labels(record.model).inc(record.num_inputs)
        if service.config.access_log and scope["path"] not in HEALTH:
            _log_request(record, scope, seconds)


def _headers(message: Message, record: RequestRecord, close: bool) -> list[tuple[bytes, bytes]]:
    headers = [*message.get("headers", []), (b"x-request-id", record.id.encode("ascii"))]
    if close:
        headers.append((b"connection", b"close"))
    return headers


async def _refuse(
    refusal: Refusal, record: RequestRecord, scope: Scope, receive: Receive, send: Send
) -> None:
    record.code = refusal.code
    await refusal.response()(scope, receive, send)


def _log_request(record: RequestRecord, scope: Scope, seconds: float) -> None:
    client = scope.get("client")
    fields: dict[str, Any] = {
        "id": record.id,
        "client": client[0] if client else None,
        "method": record.method,
        "route": record.route,
        "status": record.status,
        "ms": round(1000 * seconds, 2),
        "inputs": record.num_inputs,
        "tokens": record.num_tokens,
        "model": record.model,
    }
    if record.code is not None:
        fields["code"] = record.code
    log("request", logging.INFO, **fields)
