"""The files of an export, and config.json, which describes them to any program.

| file | content |
|---|---|
| config.json | sizes, boundary words, spelling, files: `OnnxConfig` |
| tokenizer.json | the tokenizer's name, and its expression for JavaScript (see `javascript`) |
| golden.json | a sentence, its tokens and its vectors, to test a reader against |
| words.onnx | characters (U, S) and/or words (U,) -> vectors (U, P) |
| context.onnx | vectors (U, P), index (B, T), lengths (B,) -> layers (L+1, B, T, D) |
| elmo.onnx | in place of both: characters and/or words, index, lengths -> layers |
| softmax.onnx, vocab.txt | hidden (N, P) -> log_probs (N, V), and the V words |
| state.json | the warm start state: hidden (L, D, 1, P) and cell (L, D, 1, C) |
| characters.json, words.json | inventories of models that do not spell bytes |

Nothing here imports torch.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.io.files import read_json, read_json_value
from elmox.io.inputs import MAX_WORDS_BYTES
from elmox.text.vocab import Vocab
from elmox.text.words import WordIndexer

FORMAT = "elmox-onnx"
VERSION = 1

CONFIG_FILE = "config.json"
TOKENIZER_FILE = "tokenizer.json"
GOLDEN_FILE = "golden.json"
WORDS_GRAPH = "words.onnx"
CONTEXT_GRAPH = "context.onnx"
SINGLE_GRAPH = "elmo.onnx"
SOFTMAX_GRAPH = "softmax.onnx"
SOFTMAX_VOCAB_FILE = "vocab.txt"
STATE_FILE = "state.json"
CHARACTERS_FILE = "characters.json"
WORDS_FILE = "words.json"


@dataclass(frozen=True)
class OnnxSpelling:
    """Layout of a word in `characters`: begin_word, characters, end_word, padding...

    Attributes:
        inventory: "bytes" (UTF-8; byte b has id b + first_byte) or "unicode" (characters.json lists
            the code points in the order of their ids).
        max_characters: slots of a word, both word marks included; longer words are cut.
        widest_filter: rows need as many slots after the longest word of a batch, up to
            `max_characters`; more change nothing.
        begin_word, end_word, padding: ids.
        first_byte: id of byte 0; None for "unicode".
        unknown: id of code points outside the inventory; None for "bytes".
        specials: words that have one id between the word marks, in place of their letters.
    """

    inventory: str
    max_characters: int
    widest_filter: int
    begin_word: int
    end_word: int
    padding: int
    first_byte: int | None
    unknown: int | None
    specials: dict[str, int]


@dataclass(frozen=True)
class OnnxConfig:
    """config.json of an export.

    Attributes:
        description: the exported model, in words.
        weights: number format of the stored weights: "float16", "float32" or "int8".
        single: whether elmo.onnx replaces words.onnx and context.onnx.
        state: whether the graph takes a start state (hidden, cell) and returns the final one.
        warm_state: whether state.json holds a warm start state.
        softmax: whether there is a softmax.onnx.
        num_layers: L+1, the token layer included.
        dim: width of a vector, D*P: forward half, then backward half.
        num_directions: 2, or 1 for a forward language model.
        projection_dim: P.
        cell_dim: C.
        tokenizer: name of the tokenizer.
        begin, end: the words that bound every sentence.
        max_code_points: words are cut to so many code points first; None for no limit.
        spelling: None for models that know words only by id.
        unknown_word: the word of words.json that stands for all others; None if the model only
            spells.
        mixes: for each stored mix its weights, gamma, and coefficients gamma * softmax(weights).
    """

    description: str
    weights: str
    single: bool
    state: bool
    warm_state: bool
    softmax: bool
    num_layers: int
    dim: int
    num_directions: int
    projection_dim: int
    cell_dim: int
    tokenizer: str
    begin: str
    end: str
    max_code_points: int | None
    spelling: OnnxSpelling | None
    unknown_word: str | None
    mixes: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return what config.json holds."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}


def read_config(folder: Path) -> OnnxConfig:
    """Read the config.json of an export."""
    path = folder / CONFIG_FILE
    if not folder.is_dir():
        raise ElmoxError(f"{folder} is no directory: expected a folder that elmox export wrote")
    values = read_json(path)
    if values.pop("format", None) != FORMAT:
        raise ElmoxError(
            f"{path} describes no ONNX export: expected a folder that elmox export wrote"
        )
    version = values.pop("version", None)
    if version != VERSION:
        raise ElmoxError(
            f"{path} has version {version!r}, this elmox reads {VERSION}: export the model again"
        )
    try:
        spelling = values.pop("spelling")
        return OnnxConfig(**values, spelling=None if spelling is None else OnnxSpelling(**spelling))
    except (KeyError, TypeError) as error:
        raise ElmoxError(f"{path} is damaged: {error}; export the model again") from error


def build_word_indexer(folder: Path, config: OnnxConfig) -> WordIndexer:
    """Return the function that turns words into the ids that the graphs read."""
    characters = words = None
    if config.spelling is not None and config.spelling.inventory == "unicode":
        characters = {c: i for i, c in enumerate(_read_strings(folder / CHARACTERS_FILE))}
    if config.unknown_word is not None:
        path = folder / WORDS_FILE
        words = Vocab(_read_strings(path), config.unknown_word, str(path))
    return WordIndexer(
        max_characters=config.spelling.max_characters if config.spelling is not None else None,
        characters=characters,
        vocab=words,
        max_code_points=config.max_code_points,
        begin=config.begin,
        end=config.end,
    )


def graph_path(folder: Path, name: str) -> Path:
    """Return the path of a graph that must exist."""
    path = folder / name
    if not path.is_file():
        raise ElmoxError(f"{folder} lacks {name}: export the model again")
    return path


def mix_coefficients(config: OnnxConfig) -> Mapping[str, list[float]]:
    """Return gamma * softmax(weights) of every stored mix."""
    return {name: mix["coefficients"] for name, mix in config.mixes.items()}


def _read_strings(path: Path) -> list[str]:
    strings = read_json_value(path, MAX_WORDS_BYTES)
    if not isinstance(strings, list):
        raise ElmoxError(f"{path}: expected a list of strings")
    return strings
