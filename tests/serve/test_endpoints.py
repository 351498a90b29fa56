"""The endpoints: what they return is what the library returns, in every format."""

import base64
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from http_server import PATIENCE, HttpServer, metric

from elmox.elmo import Elmo
from elmox.inference.outputs import FloatArray
from elmox.tasks.predictor import TaskPredictor

TEXTS: list[str | list[str]] = [
    "The cat sat on the naïve cat.",
    ["The", "cat", "sat", "."],
    "",
    "Don't 😀 go — 天氣!",
    "one",
]
LAYERS = ["average", "top", "all", "mix", "mix:default", 1, -1, [0, 2]]


def post(url: str, path: str, accept: str = "*/*", **body: Any) -> httpx.Response:
    """Send a request."""
    headers = {"accept": accept}
    return httpx.post(f"{url}{path}", json=body, headers=headers, timeout=PATIENCE)


def answer(url: str, path: str, **body: Any) -> Any:
    """Send a request that must succeed."""
    response = post(url, path, **body)
    assert response.status_code == 200, response.text
    return response.json()


def from_base64(text: str, shape: Any) -> FloatArray:
    """The array in a response."""
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(shape)


@pytest.mark.parametrize("layers", LAYERS, ids=str)
def test_embeddings_equal_the_library_to_the_bit(url: str, elmo: Elmo, layers: Any) -> None:
    """In JSON numbers and in base64, for every choice of layers."""
    expected = elmo.encode(TEXTS, layers=layers)
    response = answer(url, "/v1/embeddings", input=TEXTS, layers=layers)
    assert [item["index"] for item in response["data"]] == list(range(len(TEXTS)))
    vectors = np.array([item["embedding"] for item in response["data"]], np.float32)
    np.testing.assert_array_equal(vectors, expected)
    assert response["shape"] == list(expected.shape[1:])
    packed = answer(url, "/v1/embeddings", input=TEXTS, layers=layers, encoding_format="base64")
    for item, vector in zip(packed["data"], expected, strict=True):
        np.testing.assert_array_equal(from_base64(item["embedding"], vector.shape), vector)


def test_a_single_text_and_the_other_options(url: str, elmo: Elmo) -> None:
    """A string is one text; pooling and normalization are the library's."""
    options: dict[str, Any] = {"pooling": "max", "normalize_embeddings": True}
    response = answer(url, "/v1/embeddings", input="The cat sat.", model="other", **options)
    [item] = response["data"]
    expected = elmo.encode(["The cat sat."], **options)[0]
    np.testing.assert_array_equal(np.array(item["embedding"], np.float32), expected)
    assert response["model"] == "other"
    assert response["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    assert answer(url, "/v1/embeddings", input=[])["data"] == []


def test_concurrent_requests_share_batches(server: HttpServer, elmo: Elmo) -> None:
    """Each receives its own vectors, whatever they are computed with.

    Products of more rows may round differently in the last bit, as in the library itself.
    """
    words = ["the", "cat", "sat", "naïve", "天", "dog", "bird", "."]
    pairs = [[" ".join(words[: i % 7 + 1]), " ".join(words[i % 5 :])] for i in range(48)]
    before = metric(server.url, "elmox_batch_inputs_count")
    with httpx.Client(timeout=PATIENCE) as client, ThreadPoolExecutor(16) as pool:

        def send(pair: list[str]) -> Any:
            return client.post(f"{server.url}/v1/embeddings", json={"input": pair}).json()["data"]

        results = list(pool.map(send, pairs))
    for pair, data in zip(pairs, results, strict=True):
        vectors = np.array([item["embedding"] for item in data], np.float32)
        np.testing.assert_allclose(vectors, elmo.encode(pair), rtol=0, atol=1e-6)
    assert metric(server.url, "elmox_batch_inputs_count") - before < len(pairs)


def test_the_openai_client(url: str, elmo: Elmo) -> None:
    """The official client, which requests base64 by default."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", timeout=PATIENCE)
    expected = elmo.encode(["The cat sat.", "A dog."])
    for encoding in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
        response = client.embeddings.create(
            model="english-small",
            input=["The cat sat.", "A dog."],
            **encoding,  # type: ignore[arg-type]
        )
        values = [item.embedding for item in response.data]
        if "base64" in encoding.values():
            rows = [from_base64(str(value), -1) for value in values]
        else:
            rows = [np.array(value, np.float32) for value in values]
        np.testing.assert_array_equal(np.stack(rows), expected)
        assert response.usage.prompt_tokens == 7
    assert [model.id for model in client.models.list()] == ["english-small", "other"]
    assert client.models.retrieve("other").id == "other"
    with pytest.raises(openai.NotFoundError, match="nonesuch"):
        client.embeddings.create(model="nonesuch", input="a")
    with pytest.raises(openai.UnprocessableEntityError, match="token"):
        client.embeddings.create(model="english-small", input=[1, 2, 3])
    with pytest.raises(openai.UnprocessableEntityError, match="dimensions"):
        client.embeddings.create(model="english-small", input="a", dimensions=3)


@pytest.mark.parametrize("layers", ["average", "all", [0, 2]], ids=str)
def test_tokens_in_every_format(url: str, elmo: Elmo, layers: Any) -> None:
    """JSON, base64, lines, raw bytes and .npy hold the same bits, which are the library's."""
    expected = elmo.encode_tokens(TEXTS, layers=layers)
    body = {"input": TEXTS, "layers": layers}
    items = answer(url, "/v1/tokens", **body)["data"]
    lines = post(url, "/v1/tokens", "application/x-ndjson", **body)
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in lines.text.splitlines()] == items
    packed = answer(url, "/v1/tokens", **body, encoding_format="base64")["data"]
    for item, same, vectors in zip(items, packed, expected, strict=True):
        assert item["shape"] == list(vectors.shape)
        numbers = np.array(item["embedding"], np.float32).reshape(vectors.shape)
        np.testing.assert_array_equal(numbers, vectors)
        np.testing.assert_array_equal(from_base64(same["embedding"], same["shape"]), vectors)
    together = np.concatenate(expected, axis=-2)
    raw = post(url, "/v1/tokens", "application/octet-stream", **body)
    shape = [int(number) for number in raw.headers["elmox-shape"].split(",")]
    np.testing.assert_array_equal(np.frombuffer(raw.content, "<f4").reshape(shape), together)
    lengths = [int(number) for number in raw.headers["elmox-lengths"].split(",")]
    assert lengths == [vectors.shape[-2] for vectors in expected]
    npy = post(url, "/v1/tokens", "application/x-npy", **body)
    np.testing.assert_array_equal(np.load(io.BytesIO(npy.content)), together)
    empty = post(url, "/v1/tokens", "application/x-npy", input=[], layers=layers)
    assert np.load(io.BytesIO(empty.content)).shape == (*together.shape[:-2], 0, elmo.dim)


def test_offsets_point_into_the_text(url: str) -> None:
    """Each token is the part of the text that its offsets name; given tokens have none."""
    for text, item in zip(TEXTS, answer(url, "/v1/tokens", input=TEXTS)["data"], strict=True):
        if isinstance(text, str):
            assert [text[start:end] for start, end in item["offsets"]] == item["tokens"]
        else:
            assert (item["tokens"], item["offsets"]) == (text, None)


def test_sentences_of_running_text(url: str, elmo: Elmo) -> None:
    """Split as the library splits a document; offsets count from the start of the text."""
    texts: list[str | list[str]] = ["The cat sat. A dog.\nNow one.", ["The", "cat"]]
    items = answer(url, "/v1/tokens", input=texts, split=True)["data"]
    sentences = elmo.split(str(texts[0]))
    assert [item["input"] for item in items] == [0, 0, 0, 1]
    assert [item["tokens"] for item in items] == [
        *(sentence.tokens for sentence in sentences),
        texts[1],
    ]
    for item, sentence in zip(items, sentences, strict=False):
        assert [tuple(pair) for pair in item["offsets"]] == sentence.offsets
    expected = elmo.encode_tokens([sentence.tokens for sentence in sentences] + [["The", "cat"]])
    for item, vectors in zip(items, expected, strict=True):
        np.testing.assert_array_equal(np.array(item["embedding"], np.float32), vectors)


def test_lines_are_streamed(server: HttpServer) -> None:
    """Each text is a line, in order, whatever parts they are computed in."""
    body = {"input": [["cat"] * (n % 19 + 1) for n in range(50)], "layers": "all"}
    headers = {"accept": "application/x-ndjson"}
    url = f"{server.url}/v1/tokens"
    with httpx.stream("POST", url, json=body, headers=headers, timeout=PATIENCE) as response:
        items = [json.loads(line) for line in response.iter_lines()]
    assert [item["index"] for item in items] == list(range(50))
    assert [item["shape"][1] for item in items] == [n % 19 + 1 for n in range(50)]


def test_large_responses_are_written_in_parts(url: str, elmo: Elmo) -> None:
    """Fifty texts of ten tokens and all layers: the parts are one JSON object."""
    texts = [["cat"] * 10] * 50
    response = answer(url, "/v1/tokens", input=texts, layers="all")
    assert response["usage"]["total_tokens"] == 500
    assert len(response["data"]) == 50
    expected = elmo.encode_tokens(texts, layers="all")[49]
    np.testing.assert_array_equal(np.array(response["data"][49]["embedding"], np.float32), expected)


def test_score_and_predict(url: str, elmo: Elmo) -> None:
    """The language model's numbers."""
    data = answer(url, "/v1/score", input=TEXTS)["data"]
    for item, score in zip(data, elmo.score(TEXTS), strict=True):
        assert item["tokens"] == list(score.tokens)
        assert (item["log_prob"], item["perplexity"]) == (score.log_prob, score.perplexity)
        np.testing.assert_array_equal(np.array(item["forward"], np.float32), score.forward)
        assert score.backward is not None
        np.testing.assert_array_equal(np.array(item["backward"], np.float32), score.backward)
        assert item["unknown"] == score.unknown.tolist()
    for body in (
        {"input": "The ___ sat .", "k": 3},
        {"input": ["The", "cat"], "position": 2, "direction": "left"},
    ):
        arguments: dict[str, Any] = dict(body)
        expected = elmo.predict(arguments.pop("input"), **arguments)
        predictions = answer(url, "/v1/predict", **body)["data"]
        assert [(item["word"], item["probability"]) for item in predictions] == expected
    assert post(url, "/v1/predict", input="no gap").status_code == 422
    assert post(url, "/v1/predict", input=["a"], position=7).status_code == 422


def test_similarity(url: str, elmo: Elmo) -> None:
    """Cosines, a row per text of `a`."""
    a, b = ["The cat sat.", "A dog."], ["The cat.", ["A", "bird"], "Now"]
    similarities = answer(url, "/v1/similarity", a=a, b=b)["data"]
    vectors = elmo.encode([*a, *b])  # one batch, as in the service: rounding depends on it
    expected = elmo.similarity(vectors[: len(a)], vectors[len(a) :])
    np.testing.assert_array_equal(np.array(similarities, np.float32), expected)
    assert answer(url, "/v1/similarity", a=[], b=b)["data"] == []
    assert post(url, "/v1/similarity", a=a, b=b, layers="all").status_code == 422


def test_tag(url: str, tagger: Path) -> None:
    """A task model's predictions; a text of two sentences has two."""
    local = TaskPredictor.from_pretrained(tagger, device="cpu")
    inputs: list[Any] = [
        "Ada lived in London. Charles met Grace.",
        ["Grace", "met", "Ada"],
        {"tokens": ["Ada"], "id": 7},
    ]
    data = answer(url, "/v1/tag/ner", input=inputs)["data"]
    objects = [{"text": inputs[0]}, {"tokens": inputs[1]}, inputs[2]]
    assert [item["predictions"] for item in data] == [local.predict_json(item) for item in objects]
    assert [len(item["predictions"]) for item in data] == [2, 1, 1]
    assert data[2]["predictions"][0]["id"] == 7
    assert post(url, "/v1/tag/srl", input="a").status_code == 404
    assert post(url, "/v1/tag/..%2f..%2fetc", input="a").status_code == 404
    assert post(url, "/v1/tag/ner", input=[{"tokens": 3}]).status_code == 422


def test_info_and_pages(url: str) -> None:
    """The loaded models; pages that load nothing from other servers."""
    info = httpx.get(f"{url}/v1/info").json()
    assert set(info["models"]) == {"english-small", "other"}
    assert info["models"]["other"]["num_layers"] == 3
    assert info["models"]["other"]["mixes"] == ["default"]
    assert info["taggers"] == {"ner": {"task": "ner"}}
    assert info["limits"]["max_inputs"] == 50
    for path in ("/", "/docs"):
        page = httpx.get(f"{url}{path}", follow_redirects=True)
        assert page.headers["content-type"].startswith("text/html")
        assert not re.search(r"(src|href)=['\"]?https?:", page.text)


def test_the_examples_of_the_schema_work(url: str) -> None:
    """Each request that the OpenAPI schema shows is served."""
    schema = httpx.get(f"{url}/openapi.json").json()
    count = 0
    for path, methods in schema["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {})
        for name, example in content.get("application/json", {}).get("examples", {}).items():
            if path == "/v1/tag/{task}" and name == "objects":
                continue  # of another task than the one that is loaded
            response = post(url, path.replace("{task}", "ner"), **example["value"])
            assert response.status_code == 200, (path, name, response.text)
            count += 1
    assert count >= 8
    assert {"/livez", "/readyz", "/metrics", "/v1/info", "/v1/models"} < set(schema["paths"])
