"""Traces, log lines and CORS, on the application itself: no model is needed to see them."""

import asyncio
import json
import logging

import httpx
import pytest

from elmox.errors import ElmoxError
from elmox.serve.app import create_app
from elmox.serve.config import ServeConfig
from elmox.serve.logs import JsonFormatter
from elmox.serve.record import Connection, RequestRecord
from elmox.serve.service import Service
from elmox.serve.tracing import Tracer


def test_spans_hold_the_route_and_the_callers_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A span per request, as a part of the trace that the headers name."""
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    tracer = Tracer()
    record = RequestRecord("my-id", "POST", Connection())
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with tracer.span(record, [(b"traceparent", parent.encode())]):
        record.route, record.status, record.num_tokens = "/v1/score", 200, 7
    tracer.close()
    span = json.loads(capsys.readouterr().out)
    assert span["name"] == "POST /v1/score"
    assert span["context"]["trace_id"] == "0x0af7651916cd43dd8448eb211c80319c"
    assert span["parent_id"] == "0xb7ad6b7169203331"
    assert span["attributes"]["http.response.status_code"] == 200
    assert span["attributes"]["elmox.tokens"] == 7
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(ElmoxError, match="'otlp' or 'console'"):
        Tracer()


def test_log_lines_hold_no_messages_of_exceptions() -> None:
    """Which may quote what a user has sent."""
    try:
        raise ValueError("secret")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("elmox.serve", logging.ERROR, "", 0, "failed", (), info)
    line = JsonFormatter().format(record)
    values = json.loads(line)
    assert (values["event"], values["exception"]) == ("failed", "ValueError")
    assert "test_observability" in values["traceback"]
    assert values["traceback"].count("secret") == line.count("secret") <= 1  # the line of code


@pytest.mark.parametrize("origins", [(), ("https://example.org",)])
def test_only_named_origins_may_call(origins: tuple[str, ...]) -> None:
    """No CORS headers by default."""

    async def run() -> None:
        app = create_app(Service(ServeConfig(cors_origins=origins)))
        transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type, unused-ignore]
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            for origin in ("https://example.org", "https://evil.example"):
                response = await client.get("/livez", headers={"origin": origin})
                assert response.status_code == 200
                allowed = response.headers.get("access-control-allow-origin")
                assert allowed == (origin if origin in origins else None)
            refused = await client.post("/v1/embeddings", json={"input": "a"})
            assert refused.status_code == 503  # no model is loaded
            assert refused.json()["error"]["code"] == "not_ready"

    asyncio.run(run())
