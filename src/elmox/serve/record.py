"""What is known about a request while it is served: for logs, metrics, traces and admission."""

import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

SCOPE_KEY = "elmox.record"
CONNECTION_KEY = "elmox.connection"
UNMATCHED = "unmatched"

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


@dataclass(eq=False)
class Connection:
    """The client's side of a connection.

    Attributes:
        is_lost: whether the client has closed it.
    """

    is_lost: bool = False


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

    def is_abandoned(self) -> bool:
        """Return whether the client has left."""
        return self.connection.is_lost


def new_record(scope: Any) -> RequestRecord:
    """Return the record of a new request, with the client's request id if that is harmless."""
    request_id = None
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            request_id = value.decode("ascii")
    connection = scope.get(CONNECTION_KEY) or Connection()
    record = RequestRecord(request_id or secrets.token_hex(8), scope["method"], connection)
    scope[SCOPE_KEY] = record
    return record
