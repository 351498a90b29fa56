"""The limits of a server."""

from dataclasses import dataclass, fields

from elmox.errors import require_at_least


@dataclass(frozen=True)
class Limits:
    """Limits, each with one meaning on every endpoint. A request beyond one is refused whole.

    Attributes:
        max_body_bytes: bytes of a request's body.
        max_inputs: texts per request.
        max_tokens_per_text: tokens of each text.
        max_tokens_per_request: tokens of all texts of a request.
        max_queue_tokens: tokens of the requests that were accepted and are not yet sent back, at
            which further requests are refused with 429.
        batch_tokens: tokens that are computed at a time, unless a single request has more.
        max_connections: open connections per worker, above which requests are refused with 429.
        request_seconds: time from a request's first line to the end of its response.
        receive_seconds: time in which a request's headers must arrive, and then its body.
        keep_alive_seconds: time after which an idle connection is closed.
        refusal_seconds: delay of a refusal with 429, so that impatient clients do not take the
            processor from the model.
        linger_seconds: time for which a stopping server still accepts connections, until load
            balancers have noticed.
        drain_seconds: time that a stopping server has to finish accepted requests.
    """

    max_body_bytes: int = 2 * 2**20
    max_inputs: int = 1024
    max_tokens_per_text: int = 4096
    max_tokens_per_request: int = 16384
    max_queue_tokens: int = 16384
    batch_tokens: int = 4096
    max_connections: int = 4096
    request_seconds: float = 30.0
    receive_seconds: float = 10.0
    keep_alive_seconds: float = 30.0
    refusal_seconds: float = 0.2
    linger_seconds: float = 0.5
    drain_seconds: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name.endswith("_seconds") else 1
            require_at_least(least, field.name, getattr(self, field.name))
