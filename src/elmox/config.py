"""The whole biLM in one frozen dataclass, and the three published sizes.

The names are the paper's, the defaults are those of AI2's released models (Peters et al. 2018,
section 3.4). Nothing here imports torch: reading a configuration must stay cheap.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, get_args

from elmox.errors import ElmoxError, shortened

T = TypeVar("T")

Activation = Literal["relu", "tanh"]
Inventory = Literal["bytes", "unicode"]

BUNDLED = "english-small"  # the name of the model that comes with elmox
PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
LARGEST_FLOAT32 = 3.4028234663852886e38
NUM_BYTE_CHARACTERS = 262  # 256 bytes, 5 special marks, and row 0 for the padding token
# A file can declare any number. These bounds are far beyond any model, and still small enough to
# work with.
MAX_PARTS = 1000  # layers, highways, filter banks
MAX_CHARACTERS = 1000  # slots of a spelling
MAX_DIM = 2**48  # of any dimension; arrays of that size must exist as well


class Strict:
    """A dataclass that `validated` reads without fields that it does not have."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}


def _require(condition: bool, name: str, value: object, expected: str) -> None:
    if not condition:
        raise ElmoxError(f"{name} is {shortened(value)}, expected {expected}")


def _require_size(name: str, value: int, least: int = 1, most: int = MAX_DIM) -> None:
    _require(value >= least, name, value, "> 0" if least == 1 else f">= {least}")
    _require(value <= most, name, value, f"at most {most:,}")


@dataclass(frozen=True)
class CharCnnConfig(Strict):
    """The character CNN that reads a word's spelling: one (width, count) pair per filter bank."""

    filters: tuple[tuple[int, int], ...] = PUBLISHED_FILTERS
    embedding_dim: int = 16
    num_characters: int = NUM_BYTE_CHARACTERS
    max_characters: int = 50
    activation: Activation = "relu"
    num_highways: int = 2
    inventory: Inventory = "bytes"

    def __post_init__(self) -> None:
        _require(
            bool(self.filters), "char_cnn.filters", self.filters, "at least one (width, count)"
        )
        _require_size("the number of char_cnn.filters", len(self.filters), most=MAX_PARTS)
        for width, count in self.filters:
            _require(
                width > 0 and count > 0, "char_cnn.filters", (width, count), "positive numbers"
            )
            _require_size("char_cnn.filters", count)
            _require(
                width <= self.max_characters,
                "char_cnn.filters",
                (width, count),
                f"a width of at most max_characters = {self.max_characters}",
            )
        _require_size("char_cnn.embedding_dim", self.embedding_dim)
        _require_size("char_cnn.num_characters", self.num_characters)
        _require_size("char_cnn.max_characters", self.max_characters, 3, MAX_CHARACTERS)
        _require_size("char_cnn.num_highways", self.num_highways, 0, MAX_PARTS)
        _require(
            self.activation in get_args(Activation),
            "char_cnn.activation",
            self.activation,
            " or ".join(get_args(Activation)),
        )

    @property
    def num_filters(self) -> int:
        """Width of the concatenated filters, which is also the width of the highways."""
        return sum(count for _, count in self.filters)


@dataclass(frozen=True)
class WordConfig(Strict):
    """An embedding per known word, in place of the character CNN or next to it."""

    num_words: int
    dim: int

    def __post_init__(self) -> None:
        _require_size("words.num_words", self.num_words)
        _require_size("words.dim", self.dim)


@dataclass(frozen=True)
class LstmConfig(Strict):
    """The stacked LSTM language models; a clip of None means no clipping."""

    cell_dim: int = 4096
    projection_dim: int = 512
    num_layers: int = 2
    cell_clip: float | None = 3.0
    proj_clip: float | None = 3.0
    skip_connections: bool = True
    bidirectional: bool = True
    # Without a projection the cells are the output, and proj_clip has no effect.
    has_projection: bool = True
    # TensorFlow adds 1 to the forget gate outside the stored bias. Keeping it apart keeps the
    # stored bias bit for bit; it is 0 for checkpoints whose bias already contains it.
    forget_bias: float = 1.0

    def __post_init__(self) -> None:
        _require_size("lstm.cell_dim", self.cell_dim)
        _require_size("lstm.projection_dim", self.projection_dim)
        _require_size("lstm.num_layers", self.num_layers, most=MAX_PARTS)
        for name in ("cell_clip", "proj_clip"):
            clip = getattr(self, name)
            _require(
                clip is None or 0 < clip <= LARGEST_FLOAT32,
                f"lstm.{name}",
                clip,
                "a finite number > 0, or null for no clipping",
            )
        _require(
            abs(self.forget_bias) <= LARGEST_FLOAT32,
            "lstm.forget_bias",
            self.forget_bias,
            "a finite number of float32",
        )
        _require(
            self.has_projection or self.cell_dim == self.projection_dim,
            "lstm.has_projection",
            self.has_projection,
            f"true, because {self.cell_dim} cells must become {self.projection_dim} outputs",
        )

    @property
    def num_directions(self) -> int:
        """2 for a biLM (forward, backward), 1 for a forward language model."""
        return 2 if self.bidirectional else 1


@dataclass(frozen=True)
class TextConfig(Strict):
    """The tokenizer of the model's training text, and its special words."""

    tokenizer: str = "treebank"
    begin: str = "<S>"
    end: str = "</S>"
    unknown: str = "<UNK>"
    # ELMoForManyLangs cuts words to this many code points before anything else reads them.
    max_code_points: int | None = None


@dataclass(frozen=True)
class ElmoConfig(Strict):
    """The whole configuration: the network, and the text it reads."""

    lstm: LstmConfig = field(default_factory=LstmConfig)
    char_cnn: CharCnnConfig | None = field(default_factory=CharCnnConfig)
    words: WordConfig | None = None
    token_projection: bool = True
    text: TextConfig = field(default_factory=TextConfig)

    def __post_init__(self) -> None:
        _require(
            self.char_cnn is not None or self.words is not None,
            "char_cnn",
            None,
            "a character CNN, a word vocabulary, or both",
        )
        _require(
            self.token_projection or self.encoder_dim == self.lstm.projection_dim,
            "token_projection",
            self.token_projection,
            f"true, because the encoder is {self.encoder_dim} wide and the LSTMs read "
            f"{self.lstm.projection_dim}",
        )

    @property
    def encoder_dim(self) -> int:
        """Width of a token before the projection: word embedding and filters, concatenated."""
        words = self.words.dim if self.words else 0
        return words + (self.char_cnn.num_filters if self.char_cnn else 0)

    @property
    def num_layers(self) -> int:
        """Number of layers: the token layer and the LSTM layers (3 for AI2's models)."""
        return self.lstm.num_layers + 1

    @property
    def dim(self) -> int:
        """Width of a vector: forward and backward halves, concatenated (1024 for the original)."""
        return self.lstm.num_directions * self.lstm.projection_dim

    @property
    def num_parameters(self) -> int:
        """Number of parameters, computed without building the model."""
        lstm, cnn, words = self.lstm, self.char_cnn, self.words
        c, p = lstm.cell_dim, lstm.projection_dim
        cell = 8 * c * p + 4 * c + (c * p if lstm.has_projection else 0)
        total = lstm.num_layers * lstm.num_directions * cell
        if cnn is not None:
            f, e = cnn.num_filters, cnn.embedding_dim
            total += cnn.num_characters * e + cnn.num_highways * 2 * (f * f + f)
            total += sum(count * (width * e + 1) for width, count in cnn.filters)
        if words is not None:
            total += words.num_words * words.dim
        return total + (p * (self.encoder_dim + 1) if self.token_projection else 0)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dictionary; `config_from_dict` reads it back."""
        return asdict(self)


def _published(cell_dim: int, projection_dim: int, num_highways: int) -> ElmoConfig:
    return ElmoConfig(
        lstm=LstmConfig(cell_dim=cell_dim, projection_dim=projection_dim),
        char_cnn=CharCnnConfig(num_highways=num_highways),
    )


PRESETS: Mapping[str, ElmoConfig] = {
    "small": _published(1024, 128, 1),
    "medium": _published(2048, 256, 1),
    "original": _published(4096, 512, 2),
}


def config_from_dict(values: Mapping[str, Any], source: str) -> ElmoConfig:
    """Check untrusted values (parsed JSON or TOML) and return the configuration.

    Args:
        values: nested dictionaries with the field names above.
        source: the origin of the values, for error messages.
    """
    return validated(ElmoConfig, values, source)


def validated(kind: type[T], values: Mapping[str, Any], source: str) -> T:
    """Check untrusted values against a dataclass and return an instance of it.

    Args:
        kind: the dataclass.
        values: nested dictionaries with its field names.
        source: the origin of the values, for error messages.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the configuration"
        message = str(first["msg"]).removeprefix("Value error, ")
        raise ElmoxError(
            f"{source}: {where}: {message} (given: {shortened(first['input'])})"
        ) from error
