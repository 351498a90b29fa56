"""How to read the golden fixtures: what went into the original programs, and what came out.

The two biLM fixtures hold three rows of ten sentences. The original program was called ten times,
each time with the rows' next sentences, and carried its state from call to call; only the top layer
was kept, as (2 directions, T, p).
"""

import json
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray
from shared_data import FIXTURES

Float32 = NDArray[np.float32]

BILM_FIXTURES = {
    "bilm-tf": (FIXTURES / "bilm-tf" / "model", "lm_embeddings_sentences.json"),
    "allennlp": (FIXTURES / "allennlp" / "elmo", "sentences.json"),
}
MANY_LANGS_FIXTURES = ("char_cnn", "word_char_cnn")
ALLENNLP_ARCHIVE = (
    FIXTURES / "allennlp" / "simple_tagger_with_elmo" / "serialization" / "model.tar.gz"
)


@dataclass(frozen=True)
class GoldenCalls:
    """Ten stateful calls of a biLM with three rows each."""

    weights: Path
    options: Path
    calls: list[list[list[str]]]  # [call][row] -> words
    top_layers: list[list[Float32]]  # [call][row] -> (T, 2p), without the boundaries


@dataclass(frozen=True)
class GoldenTokens:
    """Context-free vectors of a vocabulary, which is also a cached token file."""

    weights: Path
    options: Path
    vocabulary: Path
    token_file: Path
    words: list[str]
    vectors: Float32  # (V, p)


@dataclass(frozen=True)
class GoldenManyLangs:
    """One call of an ELMoForManyLangs model from a fresh state."""

    directory: Path
    sentences: list[list[str]]
    layers: list[Float32]  # per sentence (L+1, T, 2p)


def golden_calls(name: str) -> GoldenCalls:
    """Reads one of `BILM_FIXTURES`."""
    directory, sentences_name = BILM_FIXTURES[name]
    rows = json.loads((directory / sentences_name).read_text("utf-8"))
    num_calls = len(rows[0])
    top_layers: list[list[Float32]] = [[] for _ in range(num_calls)]
    for row in range(len(rows)):
        with h5py.File(directory / f"lm_embeddings_{row}.hdf5") as file:
            for call in range(num_calls):
                forward, backward = np.asarray(file[str(call)], np.float32)
                top_layers[call].append(np.concatenate([forward, backward], axis=-1))
    return GoldenCalls(
        weights=directory / "lm_weights.hdf5",
        options=directory / "options.json",
        calls=[[row[call].split() for row in rows] for call in range(num_calls)],
        top_layers=top_layers,
    )


def golden_tokens() -> GoldenTokens:
    """Reads the token vectors of the AllenNLP fixture."""
    directory, _ = BILM_FIXTURES["allennlp"]
    token_file = directory / "elmo_token_embeddings.hdf5"
    with h5py.File(token_file) as file:
        vectors = np.asarray(file["embedding"], np.float32)
    vocabulary = directory / "vocab_test.txt"
    return GoldenTokens(
        weights=directory / "lm_weights.hdf5",
        options=directory / "options.json",
        vocabulary=vocabulary,
        token_file=token_file,
        words=vocabulary.read_text("utf-8").split("\n"),
        vectors=vectors,
    )


def golden_many_langs(name: str) -> GoldenManyLangs:
    """Reads one of `MANY_LANGS_FIXTURES`."""
    directory = FIXTURES / "many_langs" / name
    sentences = json.loads((directory / "sentences.json").read_text("utf-8"))
    with np.load(directory / "expected.npz") as expected:
        arrays = [expected[f"s{index}"] for index in range(len(sentences))]
    return GoldenManyLangs(directory, sentences, arrays)
