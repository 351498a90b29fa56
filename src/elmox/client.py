"""Python clients of `elmox serve`, blocking and asynchronous.

    from elmox.client import Client

    with Client("http://127.0.0.1:8000") as client:
        client.encode(["I will buy you a present."])            # (1, D), as Elmo.encode returns it
        client.encode_tokens(["Live in the present."])          # [(5, D)]

Vectors travel as base64 and arrive with every bit. A request that finds the server overloaded,
restarting or unreachable is sent again, after the time that the server names or a growing pause.
All requests only read, so that sending one twice is harmless. Needs neither torch nor a model.
"""

import asyncio
import base64
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError, install_hint

if TYPE_CHECKING:
    import httpx

FloatArray: TypeAlias = NDArray[np.float32]
Text: TypeAlias = str | Sequence[str]
Layers: TypeAlias = str | int | Sequence[int]
Result = TypeVar("Result")

RETRIED = frozenset({408, 429, 502, 503, 504})
FIRST_PAUSE = 0.25  # seconds; doubled at every retry
MAX_PAUSE = 30.0


class ServerError(ElmoxError):
    """The server refused a request, or could not be reached.

    Attributes:
        status: HTTP status; None if there was no response.
        code: what went wrong, for programs: a limit's name, `model_not_found`, ...
        body: the response's error object.
    """

    def __init__(self, message: str, status: int | None, body: Mapping[str, Any]) -> None:
        """Keep what the server sent."""
        super().__init__(message)
        self.status, self.body = status, body
        self.code: str | None = body.get("code")


class VectorOptions(TypedDict, total=False):
    """Options of calls that return vectors; each means what it means for `Elmo.encode`."""

    model: str | None
    layers: Layers
    normalize_embeddings: bool


class PooledOptions(VectorOptions, total=False):
    """The same, with the pooling of a text's tokens."""

    pooling: Literal["mean", "max", "weighted"]


@dataclass(frozen=True)
class TokenVectors:
    """A text's tokens and their vectors.

    Attributes:
        input: index of the text.
        tokens: T tokens.
        offsets: start and end of each token in the text, in characters; None for given tokens.
        vectors: (T, D), or (K, T, D) if several layers were chosen.
    """

    input: int
    tokens: list[str]
    offsets: list[tuple[int, int]] | None
    vectors: FloatArray


@dataclass(frozen=True)
class _Call(Generic[Result]):
    """A request, and how to read its response."""

    method: str
    path: str
    body: dict[str, Any] | None
    parse: Callable[[Any], Result]


class _Base(ABC):
    """Arguments that both clients share."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        *,
        api_key: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 5,
    ) -> None:
        """Prepare a client; nothing is sent yet.

        Args:
            base_url: address of the server.
            api_key: key, if the server requires one.
            timeout: seconds to wait for a response.
            max_retries: times that a failed request is sent again.
        """
        self._max_retries = max_retries
        headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        self._open({"base_url": base_url, "headers": headers, "timeout": timeout})

    @abstractmethod
    def _open(self, settings: dict[str, Any]) -> None:
        """Create the HTTP client, blocking or asynchronous."""


class Client(_Base):
    """A client that waits for its results. Use it in a `with` statement, or call `close`."""

    def _open(self, settings: dict[str, Any]) -> None:
        self._http: httpx.Client = _httpx().Client(**settings)

    def encode(
        self, sentences: str | Iterable[Text], **options: Unpack[PooledOptions]
    ) -> FloatArray:
        """Return a vector per sentence, (N, D), as `Elmo.encode` does; (D,) for a string."""
        return self._send(_encode(sentences, options))

    def encode_tokens(
        self, sentences: Iterable[Text], **options: Unpack[VectorOptions]
    ) -> list[FloatArray]:
        """Return a vector per token, (T, D) for each sentence, as `Elmo.encode_tokens` does."""
        return [text.vectors for text in self.tokens(sentences, **options)]

    def tokens(
        self,
        sentences: str | Iterable[Text],
        *,
        split: bool = False,
        **options: Unpack[VectorOptions],
    ) -> list[TokenVectors]:
        """Return the tokens of each sentence with their offsets and vectors.

        Args:
            sentences: strings or lists of tokens.
            split: strings are running text; each of their sentences is an item of its own.
            **options: as in `encode_tokens`.
        """
        return self._send(_tokens(sentences, split, options))

    def similarity(
        self,
        a: str | Iterable[Text],
        b: str | Iterable[Text],
        **options: Unpack[PooledOptions],
    ) -> FloatArray:
        """Return the cosine of each text of `a` with each text of `b`, (N, M)."""
        return self._send(_similarity(a, b, options))

    def score(self, sentences: Iterable[Text], *, model: str | None = None) -> list[dict[str, Any]]:
        """Return log-probabilities of each sentence and of its tokens."""
        return self._send(_score(sentences, model))

    def predict(
        self,
        sentence: Text,
        position: int | None = None,
        k: int = 10,
        direction: Literal["both", "left", "right"] = "both",
        *,
        model: str | None = None,
    ) -> list[tuple[str, float]]:
        """Return the likeliest words at a position, or where the token `___` is."""
        return self._send(_predict(sentence, position, k, direction, model))

    def tag(self, task: str, inputs: Iterable[Any]) -> list[list[dict[str, Any]]]:
        """Return what a task model predicts for each text, list of tokens or object."""
        return self._send(_tag(task, inputs))

    def models(self) -> list[str]:
        """Return the names of the loaded models."""
        return self._send(_MODELS)

    def info(self) -> dict[str, Any]:
        """Return the loaded models, task models and limits."""
        return self._send(_INFO)

    def wait_until_ready(self, timeout: float = 60.0) -> None:
        """Wait until the server has loaded its models.

        Raises:
            ServerError: if it has not after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                _parsed(self._http.get("/readyz"))
                return
            except (_httpx().TransportError, ServerError) as error:
                _check_deadline(deadline, timeout, error)
            time.sleep(0.1)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _send(self, call: _Call[Result]) -> Result:
        for attempt in range(self._max_retries + 1):
            response, error = None, None
            try:
                response = self._http.request(call.method, call.path, json=call.body)
            except _httpx().TransportError as failure:
                error = failure
            pause = _pause(response, attempt, self._max_retries)
            if pause is None:
                break
            time.sleep(pause)
        return call.parse(_outcome(response, error))


class AsyncClient(_Base):
    """The same client for asyncio. Use it in an `async with` statement, or call `close`."""

    def _open(self, settings: dict[str, Any]) -> None:
        self._http: httpx.AsyncClient = _httpx().AsyncClient(**settings)

    async def encode(
        self, sentences: str | Iterable[Text], **options: Unpack[PooledOptions]
    ) -> FloatArray:
        """Return a vector per sentence; see `Client.encode`."""
        return await self._send(_encode(sentences, options))

    async def encode_tokens(
        self, sentences: Iterable[Text], **options: Unpack[VectorOptions]
    ) -> list[FloatArray]:
        """Return a vector per token; see `Client.encode_tokens`."""
        return [text.vectors for text in await self.tokens(sentences, **options)]

    async def tokens(
        self,
        sentences: str | Iterable[Text],
        *,
        split: bool = False,
        **options: Unpack[VectorOptions],
    ) -> list[TokenVectors]:
        """Return tokens, offsets and vectors; see `Client.tokens`."""
        return await self._send(_tokens(sentences, split, options))

    async def similarity(
        self,
        a: str | Iterable[Text],
        b: str | Iterable[Text],
        **options: Unpack[PooledOptions],
    ) -> FloatArray:
        """Return cosines; see `Client.similarity`."""
        return await self._send(_similarity(a, b, options))

    async def score(
        self, sentences: Iterable[Text], *, model: str | None = None
    ) -> list[dict[str, Any]]:
        """Return log-probabilities; see `Client.score`."""
        return await self._send(_score(sentences, model))

    async def predict(
        self,
        sentence: Text,
        position: int | None = None,
        k: int = 10,
        direction: Literal["both", "left", "right"] = "both",
        *,
        model: str | None = None,
    ) -> list[tuple[str, float]]:
        """Return likely words; see `Client.predict`."""
        return await self._send(_predict(sentence, position, k, direction, model))

    async def tag(self, task: str, inputs: Iterable[Any]) -> list[list[dict[str, Any]]]:
        """Return predictions of a task model; see `Client.tag`."""
        return await self._send(_tag(task, inputs))

    async def models(self) -> list[str]:
        """Return the names of the loaded models."""
        return await self._send(_MODELS)

    async def info(self) -> dict[str, Any]:
        """Return the loaded models, task models and limits."""
        return await self._send(_INFO)

    async def wait_until_ready(self, timeout: float = 60.0) -> None:
        """Wait until the server has loaded its models; see `Client.wait_until_ready`."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                _parsed(await self._http.get("/readyz"))
                return
            except (_httpx().TransportError, ServerError) as error:
                _check_deadline(deadline, timeout, error)
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _send(self, call: _Call[Result]) -> Result:
        for attempt in range(self._max_retries + 1):
            response, error = None, None
            try:
                response = await self._http.request(call.method, call.path, json=call.body)
            except _httpx().TransportError as failure:
                error = failure
            pause = _pause(response, attempt, self._max_retries)
            if pause is None:
                break
            await asyncio.sleep(pause)
        return call.parse(_outcome(response, error))


def _encode(sentences: str | Iterable[Text], options: PooledOptions) -> _Call[FloatArray]:
    is_single = isinstance(sentences, str)
    body = {"input": _texts(sentences), "encoding_format": "base64", **_body(options)}

    def parse(response: Any) -> FloatArray:
        shape = tuple(response["shape"])
        rows = [_array(item["embedding"], shape) for item in response["data"]]
        if is_single:
            return rows[0]
        return np.stack(rows) if rows else np.zeros((0, *shape), np.float32)

    return _Call("POST", "/v1/embeddings", body, parse)


def _tokens(
    sentences: str | Iterable[Text], split: bool, options: VectorOptions
) -> _Call[list[TokenVectors]]:
    body = {"input": _texts(sentences), "encoding_format": "base64", **_body(options)}
    body["split"] = split
    return _Call("POST", "/v1/tokens", body, lambda response: [*map(_item, response["data"])])


def _item(item: Mapping[str, Any]) -> TokenVectors:
    offsets = item["offsets"]
    return TokenVectors(
        item["input"],
        item["tokens"],
        None if offsets is None else [(start, end) for start, end in offsets],
        _array(item["embedding"], tuple(item["shape"])),
    )


def _similarity(
    a: str | Iterable[Text], b: str | Iterable[Text], options: PooledOptions
) -> _Call[FloatArray]:
    rows, columns = _texts(a), _texts(b)
    shape = (
        1 if isinstance(rows, str) else len(rows),
        1 if isinstance(columns, str) else len(columns),
    )
    return _Call(
        "POST",
        "/v1/similarity",
        {"a": rows, "b": columns, **_body(options)},
        lambda response: np.array(response["data"], np.float32).reshape(shape),
    )


def _score(sentences: Iterable[Text], model: str | None) -> _Call[list[dict[str, Any]]]:
    body = {"input": _texts(sentences), "model": model}
    return _Call("POST", "/v1/score", body, lambda response: list(response["data"]))


def _predict(
    sentence: Text, position: int | None, k: int, direction: str, model: str | None
) -> _Call[list[tuple[str, float]]]:
    text = sentence if isinstance(sentence, str) else list(sentence)
    body = {"input": text, "position": position, "k": k, "direction": direction, "model": model}
    return _Call(
        "POST",
        "/v1/predict",
        body,
        lambda response: [(item["word"], item["probability"]) for item in response["data"]],
    )


def _tag(task: str, inputs: Iterable[Any]) -> _Call[list[list[dict[str, Any]]]]:
    from urllib.parse import quote

    return _Call(
        "POST",
        f"/v1/tag/{quote(task, safe='')}",
        {"input": inputs if isinstance(inputs, str) else list(inputs)},
        lambda response: [item["predictions"] for item in response["data"]],
    )


_MODELS: _Call[list[str]] = _Call(
    "GET", "/v1/models", None, lambda response: [item["id"] for item in response["data"]]
)
_INFO: _Call[dict[str, Any]] = _Call("GET", "/v1/info", None, dict)


def _texts(sentences: str | Iterable[Text]) -> str | list[str | list[str]]:
    if isinstance(sentences, str):
        return sentences
    return [text if isinstance(text, str) else list(text) for text in sentences]


def _body(options: VectorOptions) -> dict[str, Any]:
    body: dict[str, Any] = dict(options)
    layers = body.get("layers")
    if layers is not None and not isinstance(layers, str | int):
        body["layers"] = list(layers)
    return body


def _array(content: str, shape: tuple[int, ...]) -> FloatArray:
    values = np.frombuffer(base64.b64decode(content), "<f4").astype(np.float32)
    return values.reshape(shape)


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise ElmoxError(f"the client needs httpx: {install_hint('client')}") from error
    return httpx


def _pause(response: "httpx.Response | None", attempt: int, max_retries: int) -> float | None:
    """Return the seconds to wait before the next attempt; None if there is none.

    Pauses double, and are drawn at random from their upper half: clients that were refused together
    do not return together. The server's Retry-After is never undercut.
    """
    if attempt >= max_retries or (response is not None and response.status_code not in RETRIED):
        return None
    pause = min(FIRST_PAUSE * 2.0**attempt, MAX_PAUSE) * random.uniform(0.5, 1.0)
    header = "" if response is None else str(response.headers.get("retry-after", ""))
    named: float = int(header) if header.isdecimal() else 0
    return max(pause, named * random.uniform(1.0, 1.25))


def _outcome(response: "httpx.Response | None", error: Exception | None) -> Any:
    if response is None:
        raise ServerError(f"the server could not be reached: {error}", None, {}) from error
    return _parsed(response)


def _parsed(response: "httpx.Response") -> Any:
    """Return a response's JSON; raise a `ServerError` unless it is a success."""
    if response.is_success:
        return response.json()
    try:
        body = response.json()["error"]
        message = body["message"]
    except (ValueError, KeyError, TypeError):  # not from elmox: a proxy's page
        body, message = {}, response.reason_phrase
    raise ServerError(f"{response.status_code}: {message}", response.status_code, body)


def _check_deadline(deadline: float, timeout: float, error: Exception) -> None:
    if time.monotonic() > deadline:
        raise ServerError(f"not ready after {timeout:g} s: {error}", None, {}) from error
