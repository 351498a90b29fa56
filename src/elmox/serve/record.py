"""What is known about a request while it is served: for logs, metrics, traces and admission."""

import asyncio
import random
import re
import time
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from elmox.serve.refusals import ClientLeft

SCOPE_KEY = "elmox.record"
CONNECTION_KEY = "elmox.connection"
CROWDED_KEY = "elmox.crowded"
UNMATCHED = "unmatched"

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


@dataclass(eq=False)
class Connection:
    """The client's side of a connection.

    Attributes:
        is_lost: whether the client has closed it.
        results: what the client waits for, while it waits.
    """

    is_lost: bool = False
    results: "asyncio.Future[Any] | None" = None

    def lose(self) -> None:
        """Note that the client has left: what it waits for need not be computed."""
        self.is_lost = True
        if self.results is not None and not self.results.done():
            self.results.set_exception(ClientLeft())


@dataclass(eq=False)
class RequestRecord:
    """A request, from its headers to the end of its response."""

    id: str
    method: str
    connection: Connection
    route: str = UNMATCHED
    status: int = 0
    code: str | None = None  # of the refusal, if it was refused
    model: str | None = None
    num_inputs: int = 0
    num_tokens: int = 0
    admitted_tokens: int = 0
    started: float = field(default_factory=time.perf_counter)


def new_record(scope: Any) -> RequestRecord:
    """Return the record of a new request, with the client's request id if that is harmless."""
    request_id = None
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            request_id = value.decode("ascii")
    connection = scope.get(CONNECTION_KEY) or Connection()
    record = RequestRecord(
        request_id or f"{random.getrandbits(64):016x}", scope["method"], connection
    )
    scope[SCOPE_KEY] = record
    return record


def record_of(request: Request) -> RequestRecord:
    """Return the record of a request."""
    record: RequestRecord = request.scope[SCOPE_KEY]
    return record
