"""The Python clients against a real server, and against none."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from http_server import PATIENCE, metric, running
from shell import environment

from elmox.client import AsyncClient, Client, ServerError
from elmox.elmo import Elmo
from elmox.tasks.predictor import TaskPredictor

TEXTS: list[str | list[str]] = ["The cat sat.", ["A", "dog", "."], ""]


def test_the_client_returns_what_the_library_returns(url: str, elmo: Elmo, tagger: Path) -> None:
    """Every method."""
    with Client(url, timeout=PATIENCE) as client:
        client.wait_until_ready()
        np.testing.assert_array_equal(client.encode(TEXTS), elmo.encode(TEXTS))
        np.testing.assert_array_equal(client.encode("The cat."), elmo.encode("The cat."))
        actual = client.encode(TEXTS, layers=(0, 2), pooling="max", model="other")
        np.testing.assert_array_equal(actual, elmo.encode(TEXTS, layers=(0, 2), pooling="max"))
        assert client.encode([], layers="all").shape == (0, 3, 12)
        for actual, expected in zip(
            client.encode_tokens(TEXTS, layers="all"),
            elmo.encode_tokens(TEXTS, layers="all"),
            strict=True,
        ):
            np.testing.assert_array_equal(actual, expected)
        first = client.tokens(["The cat sat."])[0]
        assert first.tokens == ["The", "cat", "sat", "."]
        assert first.offsets == [(0, 3), (4, 7), (8, 11), (11, 12)]
        together = elmo.encode(["The cat.", "A dog.", "Now"])
        cosines = client.similarity("The cat.", ["A dog.", "Now"])
        np.testing.assert_array_equal(cosines, elmo.similarity(together[:1], together[1:]))
        assert client.score(["The cat"])[0]["log_prob"] == elmo.score(["The cat"])[0].log_prob
        assert client.predict("The ___ .", k=2) == elmo.predict("The ___ .", k=2)
        local = TaskPredictor.from_pretrained(tagger, device="cpu")
        sentence = ["Ada", "met", "Grace"]
        assert client.tag("ner", [sentence]) == [local.predict_json({"tokens": sentence})]
        assert client.models() == ["english-small", "other"]
        assert client.info()["models"]["other"]["dim"] == 12
        with pytest.raises(ServerError) as refused:
            client.encode("a", model="nonesuch")
        assert (refused.value.status, refused.value.code) == (404, "model_not_found")


def test_the_asynchronous_client(url: str, elmo: Elmo) -> None:
    """The same calls, many at a time."""

    async def run() -> None:
        async with AsyncClient(url, timeout=PATIENCE) as client:
            await client.wait_until_ready()
            texts = [["The", "cat"], ["A", "dog"]]
            results = await asyncio.gather(*(client.encode(texts) for _ in range(20)))
            for vectors in results:
                np.testing.assert_allclose(vectors, elmo.encode(texts), rtol=0, atol=1e-6)
            tokens = await client.encode_tokens(["The cat sat."])
            np.testing.assert_array_equal(tokens[0], elmo.encode_tokens(["The cat sat."])[0])
            assert (await client.similarity("The cat.", "Now")).shape == (1, 1)
            assert len(await client.score(["The cat"])) == 1
            assert len(await client.predict("The ___ .", k=3)) == 3
            assert len(await client.tag("ner", ["Ada met Grace."])) == 1
            assert await client.models() == ["english-small", "other"]
            assert "limits" in await client.info()
            with pytest.raises(ServerError, match="max_inputs"):
                await client.encode(["a"] * 51)

    asyncio.run(run())


def test_retries_respect_the_time_that_the_server_names(model: Path) -> None:
    """A queue that is full for most: every client is served in the end, none before Retry-After."""
    options = ["--max-tokens-per-request", 1600, "--max-tokens-per-text", 1600]
    with running(model, *options, "--max-queue-tokens", 1000, "--no-access-log") as server:
        with Client(server.url, timeout=PATIENCE, max_retries=0) as hasty:
            shapes: list[tuple[int, ...]] = []
            codes: list[str | None] = []
            text = [["cat"] * 1500]

            def send_once() -> None:
                try:
                    hasty.encode_tokens(text, layers="all")
                except ServerError as error:
                    codes.append(error.code)

            def send_patiently() -> None:
                with Client(server.url, timeout=PATIENCE, max_retries=100) as client:
                    shapes.append(client.encode_tokens(text, layers="all")[0].shape)

            threads = [threading.Thread(target=send_patiently) for _ in range(2)]
            threads += [threading.Thread(target=send_once) for _ in range(3)]
            started = time.monotonic()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert shapes == [(3, 1500, 12)] * 2
        assert set(codes) <= {"max_queue_tokens"}
        refusals = metric(server.url, "elmox_refusals_total") - len(codes)
        assert time.monotonic() - started > (1 if refusals else 0)  # the least Retry-After


def test_a_server_that_is_not_there() -> None:
    """One error after the retries, with what went wrong."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with Client(url, max_retries=1) as client:
        with pytest.raises(ServerError, match="could not be reached") as error:
            client.models()
        assert error.value.status is None
        with pytest.raises(ServerError, match="not ready after 0"):
            client.wait_until_ready(0.2)


def test_the_client_needs_no_torch() -> None:
    """It can be used where no model runs."""
    code = "import sys, elmox.client; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())
