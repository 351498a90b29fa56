"""Metrics for Prometheus.

The workers of a server write into files of one directory, which the supervisor names in
`PROMETHEUS_MULTIPROC_DIR`; whichever worker is scraped returns the sum over all of them.
"""

import os

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from elmox.serve.batcher import Batch

CONTENT_TYPE = CONTENT_TYPE_LATEST
DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
TOKENS = (16, 64, 256, 1024, 4096, 16384)


class Metrics:
    """All metrics of a worker. Labels are routes, statuses and loaded names, never users' text."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "elmox_requests", "Finished requests.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "elmox_request_seconds",
            "Time from a request's headers to the end of its response.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.refusals = Counter("elmox_refusals", "Refused requests.", ["code"], registry=registry)
        self.abandoned = Counter(
            "elmox_abandoned", "Requests dropped because the client had left.", registry=registry
        )
        self.tokens = Counter(
            "elmox_tokens", "Tokens of served requests.", ["model"], registry=registry
        )
        self.inputs = Counter(
            "elmox_inputs", "Texts of served requests.", ["model"], registry=registry
        )
        self.queue_tokens = Gauge(
            "elmox_queue_tokens",
            "Tokens of requests that were accepted and are not yet sent back.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self.ready = Gauge(
            "elmox_ready_workers",
            "Workers whose models are loaded.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._wait = Histogram(
            "elmox_queue_seconds",
            "Time that requests wait before they are computed.",
            buckets=SECONDS,
            registry=registry,
        )
        self._batch_seconds = Histogram(
            "elmox_batch_seconds", "Time to compute a batch.", buckets=SECONDS, registry=registry
        )
        self._batch_inputs = Histogram(
            "elmox_batch_inputs", "Texts per batch.", buckets=SIZES, registry=registry
        )
        self._batch_tokens = Histogram(
            "elmox_batch_tokens", "Tokens per batch.", buckets=TOKENS, registry=registry
        )
        self.tokens_per_second = 0.0  # recent speed, for Retry-After

    def observe_batch(self, batch: Batch) -> None:
        """Count a computed batch."""
        for seconds in batch.waited:
            self._wait.observe(seconds)
        self._batch_seconds.observe(batch.seconds)
        self._batch_inputs.observe(batch.num_inputs)
        self._batch_tokens.observe(batch.num_tokens)
        speed = batch.num_tokens / max(batch.seconds, 1e-6)
        weight = 0.2 if self.tokens_per_second else 1.0
        self.tokens_per_second += weight * (speed - self.tokens_per_second)

    def render(self) -> bytes:
        """Return the metrics of all workers as text."""
        if not os.environ.get(DIRECTORY):
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
