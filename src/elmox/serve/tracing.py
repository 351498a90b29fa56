"""OpenTelemetry spans, one per request, if the server is started with tracing.

Where the spans go is configured as everywhere in OpenTelemetry, by environment variables:
`OTEL_TRACES_EXPORTER` (`otlp`, the default, or `console`), `OTEL_EXPORTER_OTLP_ENDPOINT`, ...
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from elmox import __version__
from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.serve.record import RequestRecord

INSTALL = "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"


class Tracer:
    """Creates the spans of a worker."""

    def __init__(self) -> None:
        """Set up the exporter.

        Raises:
            ElmoxError: if a package is missing, or the exporter is not a known one.
        """
        try:
            from opentelemetry import propagate
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise ElmoxError(f"tracing=True needs OpenTelemetry: {INSTALL}") from error
        name = os.environ.get("OTEL_SERVICE_NAME", "elmox")
        resource = Resource.create({"service.name": name, "service.version": __version__})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(_exporter()))
        self._tracer = self._provider.get_tracer("elmox.serve", __version__)
        self._extract = propagate.extract

    @contextmanager
    def span(
        self, record: "RequestRecord", headers: Sequence[tuple[bytes, bytes]]
    ) -> Iterator[None]:
        """Trace a request as a part of the caller's trace, if its headers name one."""
        from opentelemetry.trace import SpanKind

        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        context = self._extract(carrier)
        with self._tracer.start_as_current_span(
            record.method, context, kind=SpanKind.SERVER, record_exception=False
        ) as span:
            try:
                yield
            finally:
                span.update_name(f"{record.method} {record.route}")
                span.set_attributes(
                    {
                        "http.request.method": record.method,
                        "http.route": record.route,
                        "http.response.status_code": record.status,
                        "elmox.request_id": record.id,
                        "elmox.model": record.model or "",
                        "elmox.inputs": record.num_inputs,
                        "elmox.tokens": record.num_tokens,
                    }
                )

    def close(self) -> None:
        """Export what is left."""
        self._provider.shutdown()


def _exporter() -> Any:
    name = os.environ.get("OTEL_TRACES_EXPORTER", "otlp")
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    if name != "otlp":
        raise ElmoxError(f"OTEL_TRACES_EXPORTER={name!r}: expected 'otlp' or 'console'")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ElmoxError(f"OTEL_TRACES_EXPORTER=otlp needs an exporter: {INSTALL}") from error
    return OTLPSpanExporter()
