"""The life of a server: readiness, keys, draining, workers that die, models that are swapped."""

import json
import os
import shutil
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from http_server import PATIENCE, is_running, metric, running, wait_for
from language_models import tiny_lm
from shell import assert_one_line, run_elmox, run_here

KEY = "0123456789abcdef-first"
OTHER_KEY = "0123456789abcdef-second"
SECRET = "Rumpelstiltskin"


class Load:
    """Threads that send requests until `stop`, or until the server refuses connections."""

    def __init__(self, url: str, num_threads: int = 8) -> None:
        self.url = url
        self.statuses: list[int] = []
        self.lost: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(num_threads)]
        for thread in self._threads:
            thread.start()
        wait_for(lambda: len(self.statuses) > 2 * num_threads, "the load to begin")

    def _run(self) -> None:
        body = {"input": ["The cat sat ."] * 4, "layers": "all"}
        with httpx.Client(timeout=PATIENCE) as client:
            while not self._stop.is_set():
                try:
                    response = client.post(f"{self.url}/v1/tokens", json=body)
                    assert len(response.json()["data"]) == 4 or response.status_code != 200
                    self.statuses.append(response.status_code)
                except httpx.ConnectError:  # nothing was accepted
                    if not self._stop.wait(0.05):
                        continue
                except httpx.TransportError as error:  # accepted, and lost
                    self.lost.append(repr(error))

    def stop(self) -> None:
        """Let every thread finish its request."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)


def test_readiness_keys_logs_and_draining(model: Path, tmp_path: Path) -> None:
    """One server from its first moment to its last."""
    keys = tmp_path / "keys"
    keys.write_text(KEY)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    options = ["--api-key-file", keys, "--tracing", "--port", port]
    variables = {"ELMOX_API_KEYS": OTHER_KEY, "OTEL_TRACES_EXPORTER": "console"}
    with running(model, *options, **variables) as server:
        seen = _statuses_until_ready(url)
        assert seen[-1] == 200
        assert set(seen) <= {503, 200}
        assert 503 in seen  # it listened before the model was warm
        assert server.url == url
        body = {"input": SECRET, "model": SECRET}
        for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": KEY[:-1]}):
            refused = httpx.post(f"{url}/v1/embeddings", json=body, headers=headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        assert httpx.get(f"{url}/metrics").status_code == 401
        for path in ("/explore/", "/livez", "/readyz", "/docs", "/openapi.json"):
            assert httpx.get(f"{url}{path}").status_code == 200
        assert httpx.get(f"{url}/explore/frequent_words.json").status_code == 401
        for key in (KEY, OTHER_KEY):
            headers = {"authorization": f"Bearer {key}", "x-request-id": "my-id.1"}
            served = httpx.post(f"{url}/v1/score", json={"input": SECRET}, headers=headers)
            assert served.status_code == 200
            assert served.headers["x-request-id"] == "my-id.1"
        httpx.post(f"{url}/v1/embeddings", json=body, headers={"x-api-key": KEY})
        httpx.get(f"{url}/{SECRET}", headers={"x-api-key": KEY, "x-request-id": f"<{SECRET}>"})
        assert "access-control-allow-origin" not in httpx.get(f"{url}/livez").headers
        assert metric(url, "elmox_tokens_total", **{"x-api-key": KEY}) == 2
        assert metric(url, "elmox_ready_workers", **{"x-api-key": KEY}) == 1
        assert server.terminate() == 0
        log = "".join(server.lines)
        assert SECRET not in log
        assert KEY not in log
        served_lines = [e for e in server.events("request") if e["route"] == "/v1/score"]
        noted = [(e["id"], e["status"], e["tokens"]) for e in served_lines]
        assert noted == [("my-id.1", 200, 1)] * 2
        unmatched = [e for e in server.events("request") if e["route"] == "unmatched"]
        assert 404 in [e["status"] for e in unmatched]


def _statuses_until_ready(url: str) -> list[int]:
    statuses: list[int] = []

    def is_ready() -> bool:
        try:
            statuses.append(httpx.get(f"{url}/readyz", timeout=PATIENCE).status_code)
        except httpx.ConnectError:
            return False
        return statuses[-1] == 200

    wait_for(is_ready, "readiness")
    return statuses


def test_sigterm_under_load_loses_nothing(model: Path) -> None:
    """Every request that was accepted is answered in full; then the port is closed."""
    with running(model, "--no-access-log") as server:
        load = Load(server.url)
        assert server.terminate() == 0
        load.stop()
    assert load.lost == []
    assert set(load.statuses) == {200}


def test_workers_die_and_models_are_swapped(model: Path, tmp_path: Path) -> None:
    """Two workers under load: kill -9 of one, then SIGHUP with another model in the same place."""
    folder = tmp_path / "served"
    shutil.copytree(model, folder)
    options = ["--workers", 2, "--no-access-log", "--linger-seconds", 0.2]
    with running(f"tiny={folder}", *options) as server:
        url = server.url
        first = server.worker_pids()
        assert len(first) == 2
        before = _vector(url)
        os.kill(first[0], signal.SIGKILL)
        wait_for(lambda: len(server.events("worker ready")) == 3, "a new worker")
        assert first[0] not in server.worker_pids()
        assert metric(url, "elmox_ready_workers") == 2
        np.testing.assert_array_equal(_vector(url), before)

        tiny_lm(tmp_path, seed=1).elmo().save_pretrained(folder, force=True)
        load = Load(url, num_threads=4)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: len(server.events("worker ended")) == 3, "the old workers to retire")
        load.stop()
        assert load.lost == []
        assert set(load.statuses) == {200}
        after = _vector(url)
        assert not np.array_equal(before, after)

        (folder / "model.safetensors").write_bytes(b"broken")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: bool(server.events("models were not swapped")), "the swap to fail")
        np.testing.assert_array_equal(_vector(url), after)
        pids = server.worker_pids()
        server.process.kill()  # workers must not outlive their supervisor
        wait_for(lambda: not any(map(is_running, pids)), "orphans to end")


def _vector(url: str) -> Any:
    body = {"input": "The cat sat ."}
    response = httpx.post(f"{url}/v1/embeddings", json=body, timeout=PATIENCE)
    return np.array(response.json()["data"][0]["embedding"], np.float32)


def test_slow_clients_neither_block_nor_stay(model: Path) -> None:
    """A hundred connections that send nothing, half a header or half a body."""
    with running(model, "--no-access-log", "--receive-seconds", 1) as server:
        address = httpx.URL(server.url)
        parts = [
            b"",
            b"POST /v1/embeddings HTTP/1.1\r\nhost",
            b"POST /v1/embeddings HTTP/1.1\r\ncontent-type: application/json\r\n"
            b"content-length: 20\r\n\r\n{",
        ]
        connections = [
            socket.create_connection((address.host, address.port or 80)) for _ in range(99)
        ]
        for number, connection in enumerate(connections):
            connection.sendall(parts[number % 3])
        started = time.monotonic()
        assert _vector(server.url).shape == (12,)
        assert time.monotonic() - started < 10  # they do not stand in the way
        for connection in connections:
            connection.settimeout(PATIENCE)
        ends = [connection.recv(100) for connection in connections]
        assert all(end[:12] in (b"", b"HTTP/1.1 408") for end in ends)
        assert {end[:12] for end in ends[2::3]} == {b"HTTP/1.1 408"}
        for connection in connections:
            connection.close()


def test_overload_is_refused_with_a_time_to_retry(model: Path) -> None:
    """A queue for one large request: others are refused after the delay, with Retry-After."""
    options = ["--max-tokens-per-request", 4000, "--max-tokens-per-text", 4000]
    with running(model, *options, "--max-queue-tokens", 1000, "--no-access-log") as server:
        url = f"{server.url}/v1/tokens"
        body = json.dumps({"input": [["cat"] * 3900], "layers": "all"})
        headers = {"content-type": "application/json"}
        responses: list[httpx.Response] = []

        def send() -> None:
            responses.append(httpx.post(url, content=body, headers=headers, timeout=PATIENCE))

        threads = [threading.Thread(target=send) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {response.status_code for response in responses} == {200, 429}
        for response in responses:
            if response.status_code == 429:
                assert int(response.headers["retry-after"]) >= 1
                assert response.json()["error"]["code"] == "max_queue_tokens"
                assert response.elapsed.total_seconds() >= 0.19
        wait_for(lambda: metric(server.url, "elmox_queue_tokens") == 0, "an empty queue")
        assert metric(server.url, "elmox_refusals_total") == sum(
            response.status_code == 429 for response in responses
        )


def test_addresses_and_models_that_are_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A public address needs a key or permission; a missing model ends the server."""
    public = ["serve", model, "--host", "0.0.0.0", "--port", "0"]
    code, out, err = run_here(public, capsys)
    assert_one_line(code, out, err, "--host 0.0.0.0", "--api-key-file", "--allow-public")
    done = run_elmox("serve", tmp_path / "missing", "--port", 0)
    assert done.returncode == 1
    assert "missing" in done.stderr.splitlines()[-1]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = run_here(["serve", model, "--port", port], capsys)
    assert code == 1
    assert f"--port {port}" in err.splitlines()[-1]
    code, out, err = run_here(["serve", f"a={model}", f"a={model}"], capsys)
    assert_one_line(code, out, err, "'a'", "NAME=PATH")
    code, out, err = run_here(["serve", "--check", f"tiny={model}", "--device", "cpu"], capsys)
    assert code == 0, err
    assert "tiny" in out
