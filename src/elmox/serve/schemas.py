"""The bodies of requests and responses: checked on the way in, described in the OpenAPI schema."""

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from elmox.errors import shortened
from elmox.inference.language_model import Direction
from elmox.inference.outputs import Pooling
from elmox.serve.refusals import Refusal

Text: TypeAlias = str | list[str]
Encoding = Literal["float", "base64"]

MAX_PREDICTIONS = 1000
CODES = {"extra_forbidden": "unknown_field", "missing": "missing_field"}


def check_texts(value: Any) -> list[Text]:
    """Return the texts of a field: a string, or a list of strings and of lists of tokens."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise PydanticCustomError(
            "texts", "{given} is neither a string nor a list of texts", {"given": shortened(value)}
        )
    for index, text in enumerate(value):
        if not isinstance(text, str) and not is_tokens(text):
            raise PydanticCustomError(
                "texts",
                "text {index}, {given}, is neither a string nor a list of tokens (strings)",
                {"index": index, "given": shortened(text)},
            )
    return value


def is_tokens(value: Any) -> bool:
    """Return whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(token, str) for token in value)


def check_text(value: Any) -> Text:
    """Return one text: a string or a list of tokens."""
    if isinstance(value, str) or is_tokens(value):
        text: Text = value
        return text
    raise PydanticCustomError(
        "text", "{given} is neither a string nor a list of tokens", {"given": shortened(value)}
    )


_TOKENS_SCHEMA = {"type": "array", "items": {"type": "string"}}
_TEXT_SCHEMA = {"anyOf": [{"type": "string"}, _TOKENS_SCHEMA]}
_TEXTS_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": _TEXT_SCHEMA}]}

OneText = Annotated[Any, PlainValidator(check_text), WithJsonSchema(_TEXT_SCHEMA)]
Texts = Annotated[Any, PlainValidator(check_texts), WithJsonSchema(_TEXTS_SCHEMA)]
Layers = Annotated[
    str | int | list[int],
    Field(
        description='"average", "top", "all", "mix", "mix:NAME", a layer\'s index or a list of them'
    ),
]


class Body(BaseModel):
    """A request's body. Unknown fields are refused: a misspelled option must not be ignored."""

    model_config = ConfigDict(strict=True, extra="forbid")

    model: str | None = Field(None, description="A name from /v1/models; the first by default.")


class VectorBody(Body):
    """Options of the endpoints with one vector per text."""

    layers: Layers = "average"
    pooling: Pooling = "mean"
    normalize_embeddings: bool = False


class EmbeddingsBody(VectorBody):
    """The body of /v1/embeddings, with OpenAI's names."""

    input: Texts
    encoding_format: Encoding = "float"
    dimensions: int | None = Field(
        None, description="Accepted only if it is the dimension of the model: nothing is cut."
    )
    user: str | None = Field(None, description="Accepted for OpenAI's clients, without effect.")


class TokensBody(Body):
    """The body of /v1/tokens."""

    input: Texts
    layers: Layers = "average"
    normalize_embeddings: bool = False
    encoding_format: Encoding = "float"
    split: bool = Field(
        False, description="Strings are running text: each sentence is an item of its own."
    )


class ScoreBody(Body):
    """The body of /v1/score."""

    input: Texts


class PredictBody(Body):
    """The body of /v1/predict."""

    input: OneText
    position: Annotated[
        int | None, Field(ge=0, description="Index of the token; None: where ___ is.")
    ] = None
    k: Annotated[int, Field(ge=1, le=MAX_PREDICTIONS)] = 10
    direction: Direction = "both"


class TagBody(BaseModel):
    """The body of /v1/tag/{task}."""

    model_config = ConfigDict(strict=True, extra="forbid")

    input: str | list[Any] = Field(
        description="Texts, lists of tokens, or objects with the fields that the task reads."
    )


class SimilarityBody(VectorBody):
    """The body of /v1/similarity."""

    a: Texts
    b: Texts


class Usage(BaseModel):
    """The size of a request."""

    prompt_tokens: int
    total_tokens: int


class Embedding(BaseModel):
    """A vector of a text."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | list[list[float]] | str


class Embeddings(BaseModel):
    """The response of /v1/embeddings."""

    object: Literal["list"] = "list"
    model: str
    data: list[Embedding]
    shape: list[int] = Field(description="Of each vector; several layers are a matrix.")
    usage: Usage


class TokenVectors(BaseModel):
    """The vectors of the tokens of a text, or of a sentence of it."""

    index: int
    input: int = Field(description="Index of the text in the request.")
    tokens: list[str]
    offsets: list[tuple[int, int]] | None = Field(
        description="Start and end of each token in the text, in characters; null for tokens."
    )
    shape: list[int]
    embedding: list[Any] | str


class TokensList(BaseModel):
    """The response of /v1/tokens."""

    object: Literal["list"] = "list"
    model: str
    data: list[TokenVectors]
    usage: Usage


class TextScore(BaseModel):
    """Natural log-probabilities of a text and of its tokens."""

    index: int
    tokens: list[str]
    log_prob: float
    perplexity: float
    forward: list[float]
    backward: list[float] | None
    unknown: list[bool]


class Scores(BaseModel):
    """The response of /v1/score."""

    object: Literal["list"] = "list"
    model: str
    data: list[TextScore]
    usage: Usage


class PredictedWord(BaseModel):
    """A word and its probability."""

    word: str
    probability: float


class Predictions(BaseModel):
    """The response of /v1/predict."""

    object: Literal["list"] = "list"
    model: str
    data: list[PredictedWord]
    usage: Usage


class Tagged(BaseModel):
    """The predictions for one input; a text of several sentences has several."""

    index: int
    predictions: list[dict[str, Any]]


class TagList(BaseModel):
    """The response of /v1/tag/{task}."""

    object: Literal["list"] = "list"
    task: str
    data: list[Tagged]
    usage: Usage


class Similarities(BaseModel):
    """The response of /v1/similarity: the cosine of each text of `a` with each of `b`."""

    object: Literal["list"] = "list"
    model: str
    data: list[list[float]]
    usage: Usage


class Error(BaseModel):
    """The reason of a refusal."""

    message: str
    type: str
    param: str | None
    code: str
    limit: dict[str, Any] | None = None


class ErrorBody(BaseModel):
    """The body of every refusal."""

    error: Error


AnyBody = TypeVar("AnyBody", bound=BaseModel)


def checked(kind: type[AnyBody], values: dict[str, Any]) -> AnyBody:
    """Return a request's values as an object; refuse them with 422 naming the first wrong field."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        param = str(first["loc"][0])[:100] if first["loc"] else None
        code = CODES.get(first["type"], "invalid_value")
        raise Refusal(422, code, f"{param}: {first['msg']}", param=param) from None
