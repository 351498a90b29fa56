"""What is let in: requests within the limits, as long as the queue has room."""

from elmox.serve.limits import Limits
from elmox.serve.refusals import Refusal, too_large

MAX_RETRY_AFTER = 10.0  # seconds


def check_inputs(limits: Limits, num_inputs: int) -> None:
    """Refuse more texts than a request may have."""
    if num_inputs > limits.max_inputs:
        raise too_large("max_inputs", num_inputs, limits.max_inputs, "inputs", "input")


def check_tokens(limits: Limits, lengths: list[int]) -> int:
    """Refuse texts that are too long, one by one or together; return their tokens."""
    longest = max(lengths, default=0)
    if longest > limits.max_tokens_per_text:
        maximum = limits.max_tokens_per_text
        raise too_large("max_tokens_per_text", longest, maximum, "tokens in a text", "input")
    total = sum(lengths)
    if total > limits.max_tokens_per_request:
        maximum = limits.max_tokens_per_request
        raise too_large("max_tokens_per_request", total, maximum, "tokens", "input")
    return total


class Admission:
    """The tokens of accepted requests: from a maximum on, further requests are refused."""

    def __init__(self, limits: Limits) -> None:
        self._maximum = limits.max_queue_tokens
        self.num_tokens = 0

    def check(self, tokens_per_second: float) -> None:
        """Refuse a request with 429 if the queue is full.

        The size of the request does not matter, so that it need not be read to be refused.

        Args:
            tokens_per_second: recent speed, for the time after which a retry is sensible; 0 if
                nothing has been computed yet.
        """
        if self.num_tokens < self._maximum:
            return
        seconds = self.num_tokens / tokens_per_second if tokens_per_second else 1.0
        raise Refusal(
            429,
            "max_queue_tokens",
            f"{self.num_tokens} tokens are waiting, at max_queue_tokens={self._maximum} requests "
            "are refused: retry later",
            limit={
                "name": "max_queue_tokens",
                "maximum": self._maximum,
                "given": self.num_tokens,
            },
            retry_after=min(seconds, MAX_RETRY_AFTER),
        )

    def admit(self, num_tokens: int, tokens_per_second: float) -> None:
        """Count the tokens of a request, which is refused if the queue is full."""
        self.check(tokens_per_second)
        self.num_tokens += num_tokens

    def release(self, num_tokens: int) -> None:
        """Forget the tokens of a request that is finished."""
        self.num_tokens -= num_tokens
