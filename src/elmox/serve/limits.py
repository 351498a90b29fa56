"""The limits of a server, and the bounded amount of work that it accepts."""

from dataclasses import dataclass, fields

from elmox.errors import Argument, ArgumentError, require_at_least
from elmox.serve.refusals import Refusal, too_large

MAX_RETRY_AFTER = 10.0  # seconds


@dataclass(frozen=True)
class Limits:
    """Limits, each with one meaning on every endpoint. A request beyond one is refused whole.

    Attributes:
        max_body_bytes: bytes of a request's body.
        max_inputs: texts per request.
        max_tokens_per_text: tokens of each text.
        max_tokens_per_request: tokens of all texts of a request.
        max_queue_tokens: tokens of all requests that were accepted and are not yet sent back.
        batch_tokens: tokens that are computed at a time, unless a single request has more.
        max_connections: open connections per worker.
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
    max_queue_tokens: int = 32768
    batch_tokens: int = 4096
    max_connections: int = 2048
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
        if self.max_queue_tokens < self.max_tokens_per_request:
            raise ArgumentError(
                "{} is less than {}: the largest request must fit into the queue",
                Argument("max_queue_tokens", self.max_queue_tokens),
                Argument("max_tokens_per_request", self.max_tokens_per_request),
            )

    def check_inputs(self, num_inputs: int) -> None:
        """Refuse more texts than a request may have."""
        if num_inputs > self.max_inputs:
            raise too_large("max_inputs", num_inputs, self.max_inputs, "inputs", "input")

    def check_tokens(self, lengths: list[int]) -> int:
        """Refuse texts that are too long, one by one or together; return their tokens."""
        longest = max(lengths, default=0)
        if longest > self.max_tokens_per_text:
            maximum = self.max_tokens_per_text
            raise too_large("max_tokens_per_text", longest, maximum, "tokens in a text", "input")
        total = sum(lengths)
        if total > self.max_tokens_per_request:
            maximum = self.max_tokens_per_request
            raise too_large("max_tokens_per_request", total, maximum, "tokens", "input")
        return total


class Admission:
    """The tokens of accepted requests, which may not exceed a maximum."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.num_tokens = 0

    def admit(self, num_tokens: int, tokens_per_second: float) -> None:
        """Count a request's tokens, or refuse it with 429 if they do not fit.

        Args:
            num_tokens: tokens of the request; whoever admits them releases them.
            tokens_per_second: recent speed, for the time after which a retry is sensible.
        """
        maximum = self._limits.max_queue_tokens
        if self.num_tokens and self.num_tokens + num_tokens > maximum:
            raise Refusal(
                429,
                "max_queue_tokens",
                f"{self.num_tokens} of {maximum} tokens are waiting already: retry later",
                limit={"name": "max_queue_tokens", "maximum": maximum, "given": num_tokens},
                retry_after=min(self.num_tokens / max(tokens_per_second, 1.0), MAX_RETRY_AFTER),
            )
        self.num_tokens += num_tokens

    def release(self, num_tokens: int) -> None:
        """Forget the tokens of a request that is finished."""
        self.num_tokens -= num_tokens
