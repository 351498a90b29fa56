"""Servers that several tests share: started once, because each has to import torch."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from http_server import PATIENCE, HttpServer, running
from language_models import tiny_lm
from shell import run_elmox
from tagged_files import NAMES, write_columns

from elmox.elmo import Elmo
from elmox.serve.models import WARM_UP

TINY_TAGGER = ("words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=[8]")
# Every word that is compared to the bit. How many unseen words are encoded at once can change the
# last bit of their vectors, so both sides see all of these at once, before anything else.
VOCABULARY = (
    "The cat sat on the naïve cat . A dog bird Now one Don't 😀 go — 天 天氣 ! "
    "Ada lived in London Charles met Grace ___ I will buy you a present , ?"
)
ONE_EPOCH = ("fit.epochs=1", "fit.least_updates=1")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model with a softmax and a mix."""
    folder = tmp_path_factory.mktemp("model")
    elmo = tiny_lm(folder).elmo()
    elmo.set_mix([0.5, -0.5, 0.1], 1.5)
    elmo.save_pretrained(folder / "tiny")
    return folder / "tiny"


@pytest.fixture(scope="session")
def elmo(model: Path) -> Elmo:
    """The same model in this process, after the same calls as in the server."""
    elmo = Elmo.from_pretrained(model, device="cpu")
    for sentences in WARM_UP:
        elmo.encode_tokens(sentences)
    elmo.encode([VOCABULARY])
    return elmo


@pytest.fixture(scope="session")
def tagger(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of named entities."""
    folder = tmp_path_factory.mktemp("tagger")
    write_columns(folder / "names.txt", NAMES)
    files = ["--train", folder / "names.txt", "--dev", folder / "names.txt"]
    changes = [part for change in (*TINY_TAGGER, *ONE_EPOCH) for part in ("--set", change)]
    out = ["--out", folder / "run", "--elmo", model, "--cache", folder / "cache"]
    done = run_elmox("fit", "ner", *files, *out, *changes)
    assert done.returncode == 0, done.stderr
    return folder / "run" / "seed-0" / "model"


@pytest.fixture(scope="session")
def server(model: Path, tagger: Path) -> Iterator[HttpServer]:
    """A server with two models, a tagger, and limits that tests can reach."""
    with running(
        *(f"english-small={model}", f"other={model}", "--tagger", f"ner={tagger}"),
        *("--max-inputs", 50, "--max-tokens-per-text", 60, "--max-tokens-per-request", 500),
        *("--max-body-bytes", 20_000, "--max-queue-tokens", 2000),
    ) as running_server:
        url = f"{running_server.url}/v1/embeddings"
        for name in ("english-small", "other"):
            body = {"input": [VOCABULARY], "model": name}
            httpx.post(url, json=body, timeout=PATIENCE).raise_for_status()
        yield running_server


@pytest.fixture(scope="session")
def url(server: HttpServer) -> str:
    """The address of the shared server."""
    return server.url
