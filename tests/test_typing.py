"""Types of the public API, as mypy infers them in a user's script."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import elmox

pytest.importorskip("mypy")

RESULTS = """\
from typing import Any
import numpy as np
from elmox import Elmo, ElmoEmbedding

elmo = Elmo.from_pretrained()
flag: bool = bool(elmo.dim)
texts: list[str] = ["a", "b"]
tokens: list[list[str]] = [["a"]]

reveal_type(elmo.encode("a"))  # array
reveal_type(elmo.encode(texts))  # array
reveal_type(elmo.encode(np.array(texts)))  # array
reveal_type(elmo.encode((text for text in texts), pooling="max", layers=[0, 1]))  # array
reveal_type(elmo.encode(texts, convert_to_tensor=True))  # Tensor
reveal_type(elmo.encode(texts, convert_to_numpy=False, batch_size=8))  # Tensor
reveal_type(elmo.encode(texts, convert_to_tensor=flag))  # array | Tensor
reveal_type(elmo.encode_tokens("a"))  # array
reveal_type(elmo.encode_tokens("a", convert_to_tensor=True))  # Tensor
reveal_type(elmo.encode_tokens("a", convert_to_numpy=False))  # Tensor
reveal_type(elmo.encode_tokens("a", convert_to_tensor=flag))  # array | Tensor
reveal_type(elmo.encode_tokens(texts))  # list[array]
reveal_type(elmo.encode_tokens(tokens, layers="all"))  # list[array]
reveal_type(elmo.encode_tokens(tokens, convert_to_tensor=True))  # list[Tensor]
reveal_type(elmo.encode_tokens(tokens, convert_to_numpy=False))  # list[Tensor]
reveal_type(elmo.encode_tokens(tokens, convert_to_numpy=flag))  # list[array] | list[Tensor]
reveal_type(elmo.stateful().encode_tokens(tokens))  # list[array]
reveal_type(elmo.stateful().encode_tokens(tokens, convert_to_tensor=True))  # list[Tensor]
reveal_type(elmo.similarity(elmo.encode(texts), elmo.encode(texts)))  # array
reveal_type(elmo.to("cpu"))  # Elmo
reveal_type(elmo.score(texts))  # list[SentenceScore]
reveal_type(elmo.predict("a ___ b")[0].word)  # str
reveal_type(elmo.evaluate(texts).perplexity)  # float
reveal_type(ElmoEmbedding.from_pretrained(num_mixes=2, device="cpu"))  # ElmoEmbedding
"""
REFUSED = """\
from elmox import Elmo, ElmoEmbedding

elmo = Elmo.from_pretrained()
elmo.encode(3)
elmo.encode("a", pooling="median")
elmo.encode_tokens("a", bach_size=3)
elmo.stateful().encode_tokens([["a"]], layer="top")
ElmoEmbedding.from_pretrained(num_mixs=2)
"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Run mypy once on all scripts and return its lines about each."""
    folder = tmp_path_factory.mktemp("scripts")
    scripts = {"results.py": RESULTS, "refused.py": REFUSED}
    for name, script in scripts.items():
        (folder / name).write_text(script)
    options = ["--strict", "--follow-imports=silent", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--cache-dir", folder / "cache", *scripts],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"MYPYPATH": str(Path(elmox.__file__).parent.parent)},
        check=False,
    )
    lines = done.stdout.splitlines()
    return {name: [line for line in lines if line.startswith(name)] for name in scripts}


def plain(kind: str) -> str:
    """Shorten a revealed type: the names of its classes, arrays of float32 as `array`."""
    array = r"(numpy\.)?ndarray\[(builtins\.)?tuple\[.*?\], (numpy\.)?dtype\[.*?\[.*?\]\]\]"
    kind = re.sub(array, "array", kind)
    return re.sub(r"[\w.]+\.(\w+)", r"\1", kind)


def test_types_of_results(reported: dict[str, list[str]]) -> None:
    revealed = [re.search(r'Revealed type is "(.*)"', line) for line in reported["results.py"]]
    types = [plain(match[1]) for match in revealed if match]
    assert types == [line.split("  # ")[1] for line in RESULTS.splitlines() if "  # " in line]
    assert all(revealed), "there are other messages"


def test_wrong_arguments_are_type_errors(reported: dict[str, list[str]]) -> None:
    errors = [line for line in reported["refused.py"] if ": error:" in line]
    assert {int(line.split(":")[1]) for line in errors} == set(range(4, 9))
