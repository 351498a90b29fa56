"""What is refused, and how: one shape of body, the limit by its name, nothing truncated."""

import json
import socket
from typing import Any

import httpx
import pytest
from http_server import PATIENCE, HttpServer, metric, wait_for
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmox.errors import ElmoxError
from elmox.serve.admission import Admission
from elmox.serve.keys import KeyRing, read_keys
from elmox.serve.limits import Limits
from elmox.serve.refusals import Refusal

LONG = "cat " * 61
POSTS = ["embeddings", "tokens", "score", "similarity", "predict", "tag/ner"]


def send(url: str, content: bytes | str, path: str = "/v1/embeddings", **headers: str) -> Any:
    """Send any bytes as JSON; return status and error."""
    headers = {"content-type": "application/json", **headers}
    response = httpx.post(f"{url}{path}", content=content, headers=headers, timeout=PATIENCE)
    return response.status_code, response.json().get("error", {})


@pytest.mark.parametrize(
    ("body", "limit", "given"),
    [
        ({"input": LONG}, "max_tokens_per_text", 61),
        ({"input": ["cat " * 50] * 11}, "max_tokens_per_request", 550),
        ({"input": ["a"] * 51}, "max_inputs", 51),
        ({"input": "a" * 20_000}, "max_body_bytes", 20_012),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_limits_are_named(url: str, body: dict[str, Any], limit: str, given: int) -> None:
    """413 with the limit, its maximum and the value of the request."""
    status, error = send(url, json.dumps(body, separators=(",", ":")))
    assert status == 413
    assert error["code"] == error["limit"]["name"] == limit
    assert error["limit"]["given"] == given
    assert error["limit"]["maximum"] < given
    assert str(error["limit"]["maximum"]) in error["message"]


@pytest.mark.parametrize("path", ["tokens", "score", "predict", "similarity", "tag/ner"])
def test_limits_mean_the_same_everywhere(url: str, path: str) -> None:
    """Every endpoint counts tokens alike."""
    body = {"a": LONG, "b": "cat"} if path == "similarity" else {"input": LONG}
    status, error = send(url, json.dumps(body), f"/v1/{path}")
    assert (status, error["code"]) == (413, "max_tokens_per_text")


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"", 400, "invalid_json"),
        (b'{"input": "\xff\xfe"}', 400, "invalid_json"),
        (b'{"input": "\\ud800"}', 400, "invalid_json"),
        (b'{"input": NaN}', 400, "invalid_json"),
        (b"[" * 10_000, 400, "invalid_json"),
        (b'{"input": ' + b"[" * 500 + b"]" * 500 + b"}", 422, "invalid_value"),
        (b"[1, 2]", 422, "invalid_value"),
        (b"null", 422, "invalid_value"),
        (b"{}", 422, "missing_field"),
        (b'{"input": null}', 422, "invalid_value"),
        (b'{"input": 7}', 422, "invalid_value"),
        (b'{"input": ["a", 7]}', 422, "invalid_value"),
        (b'{"input": ["a", ["b", 7]]}', 422, "invalid_value"),
        (b'{"input": {"a": 1}}', 422, "invalid_value"),
        (b'{"input": "a", "inputs": "b"}', 422, "unknown_field"),
        (b'{"input": "a", "layers": "best"}', 422, "invalid_value"),
        (b'{"input": "a", "layers": 99}', 422, "invalid_value"),
        (b'{"input": "a", "layers": [0, 1, 2, 0]}', 422, "invalid_value"),
        (b'{"input": "a", "layers": []}', 422, "invalid_value"),
        (b'{"input": "a", "layers": true}', 422, "invalid_value"),
        (b'{"input": "a", "layers": 1e400}', 422, "invalid_value"),
        (b'{"input": "a", "pooling": "sum"}', 422, "invalid_value"),
        (b'{"input": "a", "pooling": "weighted"}', 422, "invalid_value"),  # the model has none
        (b'{"input": "a", "encoding_format": "hex"}', 422, "invalid_value"),
        (b'{"input": "a", "normalize_embeddings": "yes"}', 422, "invalid_value"),
        (b'{"input": "a", "model": "../../etc/passwd"}', 404, "model_not_found"),
        (b'{"input": "a", "model": 7}', 422, "invalid_value"),
    ],
)
def test_bad_bodies(url: str, content: bytes, status: int, code: str) -> None:
    """Malformed and hostile bodies: a reason, never a 500."""
    returned, error = send(url, content)
    if returned == 400 and b"1e400" in content:  # too large a number is invalid JSON for some
        return
    assert (returned, error["code"]) == (status, code), error
    assert error["message"]


def test_other_refusals(url: str) -> None:
    """Paths, methods, media types."""
    assert httpx.get(f"{url}/nope").json()["error"]["code"] == "not_found"
    assert httpx.get(f"{url}/v1/embeddings").json()["error"]["code"] == "method_not_allowed"
    status, error = send(url, b"{}", **{"content-type": "text/plain"})
    assert (status, error["code"]) == (415, "unsupported_media_type")
    status, error = send(url, b'{"input": "a"}', "/v1/tokens", accept="image/png")
    assert (status, error["code"]) == (406, "not_acceptable")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)
FIELDS = ["input", "model", "layers", "pooling", "a", "b", "k", "position", "direction", "user"]
fields = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=5)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(POSTS), content=st.binary(max_size=64) | fields.map(json.dumps))
def test_fuzzed_bodies(url: str, path: str, content: bytes | str) -> None:
    """Whatever is sent is served or refused; the server stays up."""
    status, error = send(url, content, f"/v1/{path}")
    assert status in (200, 400, 404, 413, 422), error


def raw(url: str, content: bytes, *, seconds: float = 20.0) -> bytes:
    """Send bytes over a connection of their own; return all that comes back."""
    address = httpx.URL(url)
    with socket.create_connection((address.host, address.port or 80), seconds) as connection:
        parts = []
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                parts.append(part)
        except OSError as error:  # closed before all was sent
            assert not isinstance(error, TimeoutError)  # noqa: PT017
    return b"".join(parts)


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/embeddings HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/embeddings HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST /v1/embeddings HTTP/1.1\r\ncontent-type: application/json\r\n"
        b"content-length: 100\r\n\r\n{",  # half a body
        b"GET /livez HTTP/1.1\r\nx: " + b"a" * 300_000,
    ],
)
def test_broken_http(url: str, content: bytes) -> None:
    """A 4xx or a closed connection, and the next request is served."""
    response = raw(url, content)
    assert response == b"" or response.startswith(b"HTTP/1.1 4"), response[:100]
    assert httpx.get(f"{url}/livez", timeout=PATIENCE).status_code == 200


def test_work_of_a_client_that_left_is_dropped(server: HttpServer) -> None:
    """Jobs whose connection is gone before they are taken are counted, not computed."""
    body = json.dumps({"input": [["cat"] * 60] * 8, "layers": "all"}).encode()
    address = httpx.URL(server.url)
    head = (
        f"POST /v1/tokens HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode()
    before = metric(server.url, "elmox_abandoned_total")

    def leave_some() -> bool:
        for _ in range(4):
            with socket.create_connection((address.host, address.port or 80)) as connection:
                connection.sendall(head + body)
        return metric(server.url, "elmox_abandoned_total") > before

    wait_for(leave_some, "a request to be abandoned")
    wait_for(lambda: metric(server.url, "elmox_queue_tokens") == 0, "the queue to be empty")


def test_the_queue_is_bounded() -> None:
    """From the maximum on, requests are refused, with a time to wait."""
    admission = Admission(Limits(max_queue_tokens=100))
    admission.admit(60, tokens_per_second=0)
    admission.admit(60, tokens_per_second=0)
    with pytest.raises(Refusal) as refused:
        admission.admit(1, tokens_per_second=40)
    assert (refused.value.status, refused.value.code) == (429, "max_queue_tokens")
    assert refused.value.response().headers["retry-after"] == "3"
    admission.release(60)
    admission.admit(1000, tokens_per_second=0)


def test_limits_below_one() -> None:
    """Errors name the argument."""
    with pytest.raises(ElmoxError, match="max_inputs"):
        Limits(max_inputs=0)


def test_keys(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a file and the environment; short ones are refused without being shown."""
    monkeypatch.setenv("ELMOX_API_KEYS", "from-the-environment, another-of-them-here")
    file = tmp_path / "keys"
    file.write_text("# for the team\n\nkey-number-one-of-the-file\n")
    keys = read_keys(str(file))
    assert keys == [
        "from-the-environment",
        "another-of-them-here",
        "key-number-one-of-the-file",
    ]
    ring = KeyRing(keys)
    for key in keys:
        assert ring.accepts([(b"authorization", f"Bearer {key}".encode())])
        assert ring.accepts([(b"x-api-key", key.encode())])
    for headers in ([], [(b"authorization", b"Bearer ")], [(b"x-api-key", b"from-the")]):
        assert not ring.accepts(headers)
    assert not KeyRing([])
    assert KeyRing([]).accepts([])
    file.write_text("secret\n")
    with pytest.raises(ElmoxError, match="API key 3 is not usable") as error:
        read_keys(str(file))
    assert "secret" not in str(error.value)
    file.write_text("# none\n")
    with pytest.raises(ElmoxError, match="holds no API key"):
        read_keys(str(file))
